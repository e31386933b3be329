"""Observations of datastreams, page by page and look by look, from where an earlier process stopped.

They go the way of messages on a broker: an Observation of datastream 7 is a payload on the topic
``v1.1/Datastreams(7)/Observations`` (OGC 18-088, section 14), so one mapping serves both.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from yarl import URL

from stream_app.exceptions import PeerError, SettingsError
from stream_app.setup.run_folder.durable import replace_file
from stream_app.setup.run_folder.manifest import load_document
from stream_app.setup.sections.payload_settings import PayloadSettings
from stream_app.setup.sections.sensorthings_settings import SensorThingsSettings
from stream_app.setup.settings import Settings
from stream_app.starting.connect import resolved_map
from stream_app.starting.connect.sensorthings.phenomenon_time import Interval, in_words
from stream_app.starting.connect.sensorthings.service import NotThereError, SensorThings, entity

logger = logging.getLogger(__name__)

_TOPIC = "v1.1/{}/Observations"
_FIELDS = "phenomenonTime,result"  # nothing else enters: parameters may name people


class Observed(NamedTuple):
    """An Observation as if it had come on a topic."""

    topic: str
    payload: bytes


Take = Callable[[Sequence[Observed]], object]


def observation_map(settings: SensorThingsSettings) -> PayloadSettings:
    """How Observations are read, each datastream's sensor by its id."""
    names = {entity("", identity)[1:-1]: sensor for identity, sensor in settings.datastreams.items()}
    shared = (
        "decimals",
        "ends",
        "tolerance_seconds",
        "shorter",
        "timezone",
        "ambiguous",
        "interval_seconds",
        "largest_factor",
    )
    own = {"names": names, **{name: getattr(settings, name) for name in shared}}
    return resolved_map(PayloadSettings.model_validate({"preset": "sensorthings", **own}))


class ObservationReader:
    """Looks for new Observations of all datastreams; ``place`` is the file that says how far it came.

    ``take`` makes payloads durable; it may be given the same one again. Each look begins a little before the
    last interval (``look_back_seconds``), for what came late. Observations of several datastreams are taken
    in the order of their intervals: a run that reads an archive closes its steps one after the other.
    An Observation of the future, by ``now_seconds``, moves no place: those of today come after it.
    """

    def __init__(
        self,
        service: SensorThings,
        settings: Settings,
        take: Take,
        place: Path,
        now_seconds: Callable[[], float] = time.time,
    ) -> None:
        chosen = settings.connect.sensorthings
        if not chosen.datastreams:
            raise SettingsError(
                "connect.sensorthings.datastreams must name what is read",
                "none",
                'set [connect.sensorthings.datastreams]: "id" = "sensor"',
            )
        back = chosen.look_back_seconds
        self._back = (settings.grace + 1) * settings.step_seconds if back is None else back
        since = chosen.since or settings.origin
        self._service, self._take, self._place = service, take, place
        self._settings, self._now_seconds = chosen, now_seconds
        self._since = since.timestamp()
        self._has_looked = False
        self._ids = tuple(chosen.datastreams)
        self._reached: dict[str, float] = load_document(place) if place.is_file() else {}

    async def look(self) -> int:
        """Take what each datastream has that was not read, and a little before it; how many those were."""
        streams = [self._stream(identity) for identity in self._ids]
        taken = 0
        while True:
            for stream in tuple(streams):
                try:
                    await stream.fill()
                except NotThereError as error:
                    if not self._has_looked:  # a wrong id; later it is one that was deleted: others go on
                        raise
                    logger.warning("%s; looking again in %g s", error, self._settings.poll_seconds)
                    streams.remove(stream)
            if not any(stream.waiting for stream in streams):
                self._has_looked = True
                return taken
            # What a datastream has beyond its page is not known: the others wait for it.
            until = min((stream.last for stream in streams if not stream.is_over), default=inf)
            now = self._now_seconds()
            found = sorted((each for stream in streams for each in stream.taken(until, now)), key=_by_start)
            counted = [each for each in found if each.is_counted]
            if counted:
                self._take([Observed(each.topic, each.payload) for each in counted])
            taken += len(counted)
            self._keep(streams)

    def _stream(self, identity: str) -> _Stream:
        begin = max(self._since, self._reached.get(identity, self._since) - self._back)
        query = {
            "$filter": f"phenomenonTime ge {in_words(begin)}",
            "$orderby": "phenomenonTime asc",
            "$top": str(self._settings.page),
            "$select": _FIELDS,
        }
        return _Stream(self._service, identity, query, self._settings)

    def _keep(self, streams: Sequence[_Stream]) -> None:
        """Keep the place behind what is durable; of an order that is not ours, once all of it is."""
        before = dict(self._reached)
        for stream in streams:
            is_sure = stream.is_in_order or stream.is_over
            if is_sure and stream.reached > self._reached.get(stream.identity, -inf):
                self._reached[stream.identity] = stream.reached
        if self._reached != before:
            replace_file(self._place, json.dumps(self._reached).encode())


class _Observation(NamedTuple):
    """One of them; ``start`` of its interval in unix seconds, or of the one before where it says none."""

    start: float
    topic: str
    payload: bytes
    is_counted: bool


_by_start = attrgetter("start")


class _Stream:
    """The Observations of one datastream in the order of their intervals, a page at a time."""

    def __init__(
        self, service: SensorThings, identity: str, query: Mapping[str, str], settings: SensorThingsSettings
    ) -> None:
        self.identity, self._service, self._settings = identity, service, settings
        self._zone = None if settings.timezone is None else ZoneInfo(settings.timezone)
        self._name = entity("Datastreams", identity)
        self._next: URL | None = service.address(f"{self._name}/Observations", query)
        self._query, self._read, self._has_links = query, 0, False
        self._visited: set[URL] = set()
        self.waiting: list[_Observation] = []
        self.last = self.reached = -inf
        self.is_in_order = True

    @property
    def is_over(self) -> bool:
        """Whether all pages were read."""
        return self._next is None

    async def fill(self) -> None:
        """Read on where nothing is waiting."""
        while not self.waiting and self._next is not None:
            if self._next in self._visited:
                raise PeerError(
                    f"each page of {self._name} must lead to another one",
                    "a link back to an earlier page",
                    "look at the service's own log",
                )
            self._visited.add(self._next)
            document = await self._service.get(self._next)
            found = document.get("value")
            if not isinstance(found, list):
                raise PeerError(
                    f"{self._name}/Observations must be a list of Observations",
                    "something else",
                    "check connect.sensorthings.url",
                )
            self.waiting = [self._observation(each) for each in found]
            self._next = self._service.next_link(document)
            self._read += len(found)
            self._has_links |= self._next is not None
            if not self._has_links and len(found) >= self._settings.page:  # not every service gives links
                more = {**self._query, "$skip": str(self._read)}
                self._next = self._service.address(f"{self._name}/Observations", more)

    def taken(self, until: float, now: float) -> list[_Observation]:
        """Those that wait, up to a start; what is later than ``now`` moves no place."""
        found = [each for each in self.waiting if each.start <= until]
        self.waiting = self.waiting[len(found) :]
        self.reached = max([self.reached, *(each.start for each in found if each.start <= now)])
        return found

    def _observation(self, document: object) -> _Observation:
        """An Observation as JSON; the end of its interval added where the settings say how long one is."""
        at = _interval(document, self._zone)
        lasting = self._settings.interval_seconds
        if isinstance(document, dict) and at is not None and at.end is None and lasting is not None:
            start = at.start - lasting if self._settings.instant == "end" else at.start
            at = Interval(start, start + lasting)
            document = document | {"phenomenonTime": f"{in_words(start)}/{in_words(start + lasting)}"}
        if at is not None:
            self.is_in_order &= at.start >= self.last
            self.last = max(self.last, at.start)
        is_counted = not isinstance(document, dict) or document.get("result") is not None
        return _Observation(self.last, _TOPIC.format(self._name), json.dumps(document).encode(), is_counted)


def _interval(document: object, zone: ZoneInfo | None) -> Interval | None:
    """When it was counted; None where it does not say it as it must."""
    if not isinstance(document, dict):
        return None
    try:
        return Interval.parse(document.get("phenomenonTime"), zone)
    except (ValueError, OverflowError):
        return None
