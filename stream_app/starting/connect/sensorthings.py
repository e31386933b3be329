"""A service of OGC SensorThings 1.1: counts from its datastreams, and releases to datastreams of our own."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from email.utils import parsedate_to_datetime
from math import inf, isfinite
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.request import getproxies, proxy_bypass
from zoneinfo import ZoneInfo

import aiohttp
from yarl import URL

from models.text import DocumentError, parse_json
from stream_app.exceptions import InputError, PeerError, SettingsError
from stream_app.setup.run_folder.durable import load_document, replace_file
from stream_app.setup.run_folder.run_settings import RunTimes
from stream_app.setup.sections import PayloadSettings, SensorThingsSettings
from stream_app.setup.settings import Settings
from stream_app.setup.this_process import StopRequest
from stream_app.starting.connect import resolved_map
from stream_app.starting.connect.intake import UNTRUSTED, Pauses, Payload, client_tls
from stream_app.starting.connect.payloads import ABSENT, FirstOf, Versions, iso_duration
from stream_app.starting.connect.released import PublishedLog, interval_in
from stream_app.steps import Intervals, Total, TotalsWithReleases
from stream_app.wire import SensorValue, StepRelease

# ``phenomenonTime``: an instant or interval of ISO 8601 (OGC 18-088, table 12), as text and in seconds.


class PhenomenonTime(NamedTuple):
    """Unix seconds; ``end`` is exclusive, and None for an instant, even one written as an interval."""

    start: float
    end: float | None

    @classmethod
    def parse(cls, text: object, zone: tzinfo | None = None) -> PhenomenonTime:
        """``ValueError`` where it is none, ends before it starts, or lacks an offset and there is no zone.

        One of the two ends may be a duration (``PT1H``).
        """
        if not isinstance(text, str):
            raise ValueError("must be a text")
        first, slash, last = text.partition("/")
        lasts, lasted = iso_duration(last), iso_duration(first)
        if lasted is not None:
            end = _seconds(last, zone)
            found = cls(end - lasted, end)
        else:
            start = _seconds(first, zone)
            end_or_none = start + lasts if lasts is not None else _seconds(last, zone) if slash else None
            found = cls(start, end_or_none)
        if found.end is not None and found.end < found.start:
            raise ValueError("must end after it starts")
        return cls(found.start, None) if found.end == found.start else found


def in_words(seconds: float) -> str:
    """An instant as services take it in a filter: UTC, with a Z, so that no + needs escaping."""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def _seconds(text: str, zone: tzinfo | None) -> float:
    at = datetime.fromisoformat(text.strip())
    if at.tzinfo is None:
        if zone is None:
            raise ValueError("must have an offset from UTC")
        at = at.replace(tzinfo=zone)
    return at.timestamp()


# Requests to a SensorThings service: bounded, and repeated where service or network fail for a while.
#
# Source: OGC SensorThings API Part 1: Sensing, version 1.1 (OGC 18-088), sections 9 (requests) and 10
# (create).

logger = logging.getLogger(__name__)

_MOST_BYTES = 64 << 20  # of an answer: some hundred bytes an observation
_TRIES = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_MOST_WAIT_SECONDS = 300.0
_NOT_THERE = frozenset({404, 410})
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class UnknownOutcomeError(PeerError):
    """Nobody knows whether the service did what it was asked for: the answer did not come.

    ``wait_seconds`` are those that the service asks us to wait (``Retry-After``).
    """

    wait_seconds = 0.0


class NotThereError(PeerError):
    """The service knows nothing by this address."""


class SensorThings:
    """A service, open while the block runs. :class:`PeerError` says what went wrong, and quotes no count."""

    def __init__(self, settings: SensorThingsSettings) -> None:
        self._root, self._links_here = _root(settings.url), settings.links == "here"
        self._headers = {"Accept": "application/json"}
        if settings.token is not None:
            self._headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        if settings.username is not None and settings.password is not None:
            login = f"{settings.username}:{settings.password.get_secret_value()}"
            coded = login.encode("latin1" if max(map(ord, login)) < 256 else "utf-8")
            # A header is left behind where a redirect leads elsewhere; a session's `auth` goes along.
            self._headers["Authorization"] = f"Basic {base64.b64encode(coded).decode()}"
        is_encrypted = self._root.scheme == "https"
        self._tls = client_tls("connect.sensorthings", settings.ca_file) if is_encrypted else None
        self._proxy = proxy_of(self._root)
        self._timeout = aiohttp.ClientTimeout(total=settings.answer_seconds)
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._tls) if self._tls is not None else None
        self._session = aiohttp.ClientSession(
            connector=connector, headers=self._headers, timeout=self._timeout
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def address(self, path: str, query: Mapping[str, str] | None = None) -> URL:
        """The URL of a path below the service root."""
        return URL(f"{self._root}/{path}").with_query(query)

    def next_link(self, document: Mapping[str, Any]) -> URL | None:
        """The next page of the answer; :class:`PeerError` for a link that leads to another host.

        By ``links = "here"`` its path below the service root and its query are asked for at our own root.
        """
        link = document.get("@iot.nextLink")
        if link is None:
            return None
        try:
            url = self._root.join(URL(str(link), encoded=True))
            origin = url.origin()
        except ValueError:
            raise PeerError(
                f"pages of {self._root} must be linked by addresses of HTTP",
                "another link",
                "look at the service's own log",
            ) from None
        if origin != self._root.origin() and self._links_here:
            found = re.search(r"/v1\.\d(/.*)$", url.raw_path_qs)
            if found is not None:
                return URL(f"{self._root}{found[1]}", encoded=True)
        if origin != self._root.origin():  # it would be given our login
            raise PeerError(
                f"pages of {self._root} must be of the same scheme, host and port as the service root",
                f"a link to {origin}",
                "set connect.sensorthings.url as the service names itself (FROST: serviceRootUrl), or "
                'links = "here" where it stands behind a proxy',
            )
        return url

    async def get(self, url: URL) -> dict[str, Any]:
        """A document, in as many attempts as it takes: reading may be repeated."""
        pauses = Pauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        for attempt in range(_TRIES):
            try:
                text = await self._once("GET", url)
                break
            except UnknownOutcomeError as error:
                if attempt == _TRIES - 1:
                    raise
                wait = max(pauses.take(), error.wait_seconds)
                logger.warning("%s; trying again in %.1f s", error, wait)
                await asyncio.sleep(wait)
        try:
            document = parse_json(text)
        except DocumentError:
            document = None
        if not isinstance(document, dict):
            raise PeerError(
                f"{url.path} must be an object in JSON", "something else", "check connect.sensorthings.url"
            )
        return document

    async def create(self, url: URL, document: Mapping[str, Any]) -> None:
        """Create an entity, in one attempt; :class:`UnknownOutcomeError` where no answer came."""
        await self._once("POST", url, document)

    async def _once(self, method: str, url: URL, document: Mapping[str, Any] | None = None) -> bytes:
        try:
            async with self._session.request(
                method, url, json=document, allow_redirects=method == "GET", proxy=self._proxy
            ) as answer:
                text = await _bounded(answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._no_answer(error) from None
        if answer.status in _PASSING:
            passing = UnknownOutcomeError(
                f"{self._root} must answer", f"status {answer.status}", "look at the service's own log"
            )
            passing.wait_seconds = _asked_to_wait(answer.headers.get("Retry-After", ""))
            raise passing
        if not 200 <= answer.status < 300:
            kind = NotThereError if answer.status in _NOT_THERE else PeerError
            raise kind(
                f"{self._root} must accept {method} {url.path}",
                f"status {answer.status}",
                _remedy(answer.status),
            )
        return text

    def _no_answer(self, error: Exception) -> PeerError:
        """What went wrong; aiohttp's own words may quote what came, with counts."""
        must, remedy = f"{self._root} must answer", "check connect.sensorthings.url and network"
        match error:
            case aiohttp.TooManyRedirects() | aiohttp.RedirectClientError():
                return PeerError(must, "redirects that lead to no answer", remedy)
            case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
                got = f"none through the proxy {self._proxy and self._proxy.with_user(None)}"
                remedy = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY in the environment"
            case aiohttp.ClientConnectorCertificateError():
                got, remedy = str(error), UNTRUSTED
            case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
                got = "an answer that breaks off or cannot be unpacked"
            case aiohttp.ClientResponseError():
                got = "something that is not HTTP"
            case _:
                got = str(error) or "nothing in time"
        return UnknownOutcomeError(must, got, remedy)


def proxy_of(url: URL) -> URL | None:
    """The proxy that the environment names for an address, as the standard library reads it.

    :class:`SettingsError` for one that is not spoken to by HTTP.
    """
    named = getproxies().get(url.scheme)
    if not named or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    try:
        proxy = URL(named if "://" in named else f"http://{named}")
    except ValueError:
        proxy = URL()
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise SettingsError(
            f"the proxy for {url.scheme} that the environment names must be like http://host:port",
            "another one",
            f"correct {url.scheme.upper()}_PROXY, or name {url.host} in NO_PROXY",
        )
    return proxy


def _root(url: str) -> URL:
    """The service root, without a slash at its end."""
    try:
        root = URL(url.rstrip("/"))
    except ValueError:
        root = URL("")
    if root.scheme not in ("http", "https") or not root.host or root.user or root.query_string:
        raise SettingsError(
            "connect.sensorthings.url must be the service root, like https://host/FROST-Server/v1.1",
            "nothing" if not url else "something else",
            "set it in [connect.sensorthings]; user, password and token have keys of their own",
        )
    return root


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    """The body; :class:`PeerError` where it is larger than anything we asked for."""
    parts, size = [], 0
    async for part in answer.content.iter_chunked(1 << 16):
        size += len(part)
        if size > _MOST_BYTES:
            raise PeerError(
                f"an answer must have at most {_MOST_BYTES >> 20} MiB",
                "a larger one",
                "set a smaller page in [connect.sensorthings]",
            )
        parts.append(part)
    return b"".join(parts)


def _asked_to_wait(retry_after: str) -> float:
    """Seconds of a header ``Retry-After``, a number or date (RFC 9110, 10.2.3); at most five minutes."""
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), _MOST_WAIT_SECONDS) if isfinite(seconds) else 0.0


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "check username and password_file, or token_file, and what that user may do"
    if status == 404:
        return "check connect.sensorthings.url and the ids of the datastreams"
    if 300 <= status < 400:
        return "set connect.sensorthings.url to the address that it leads to; a login goes nowhere else"
    return "look at the service's own log"


def entity(kind: str, identity: str) -> str:
    """An entity of a collection by its id: a number as it stands, any other text in quotes.

    A text that looks like a number is given in quotes of its own: ``'7'``.
    """
    if identity.isdecimal() or (len(identity) > 2 and identity[0] == identity[-1] == "'"):
        return f"{kind}({identity})"
    return "{}('{}')".format(kind, identity.replace("'", "''"))


# Observations of datastreams, page by page and look by look, from where an earlier process stopped.
#
# They go the way of messages on a broker: an Observation of datastream 7 is a payload on the topic
# ``v1.1/Datastreams(7)/Observations`` (OGC 18-088, section 14), so one mapping serves both.

_TOPIC = "v1.1/{}/Observations"
_FIELDS = "phenomenonTime", "result"  # nothing else enters but the version: parameters may name people
_VERSION = "version"  # where it stands in what is handed on


Take = Callable[[Sequence[Payload]], object]
"""Takes Observations as if each had come on a topic."""


def observation_map(settings: SensorThingsSettings) -> PayloadSettings:
    """How Observations are read, each datastream's sensor by its id."""
    names = {entity("", identity)[1:-1]: sensor for identity, sensor in settings.datastreams.items()}
    shared = (
        *("decimals", "largest_factor", "ends", "tolerance_seconds", "shorter", "interval_seconds"),
        *("timezone", "ambiguous"),
    )
    own = {"names": names, **{name: getattr(settings, name) for name in shared}}
    if settings.version:
        own |= {"version": [_VERSION], "versions": settings.versions}
    return resolved_map(PayloadSettings.model_validate({"preset": "sensorthings", **own}))


class ObservationReader:
    """Looks for new Observations of all datastreams; ``place`` is the file that says how far it came.

    ``take`` makes payloads durable; it may be given the same one again. Each look begins a little before the
    last interval (``look_back_seconds``), for what came late. Observations of several datastreams are taken
    in the order of their intervals, because a run that reads an archive closes its steps one after the other.
    An Observation of the future does not move the place: those of today come after it.
    """

    def __init__(self, service: SensorThings, settings: Settings, take: Take, place: Path) -> None:
        chosen = settings.connect.sensorthings
        if not chosen.datastreams:
            raise SettingsError(
                "connect.sensorthings.datastreams must name what is read",
                "none",
                'set [connect.sensorthings.datastreams]: "id" = "sensor"',
            )
        back = chosen.look_back_seconds
        later = max(settings.grace, settings.late) if chosen.version else settings.grace
        self._back = (later + 1) * settings.step_seconds if back is None else back
        since = chosen.since or settings.origin
        self._service, self._take, self._place = service, take, place
        self._settings, self._since = chosen, since.timestamp()
        self._has_looked = False
        self._reached: dict[str, float] = load_document(place) if place.is_file() else {}

    async def look(self) -> int:
        """Take what each datastream has that was not read, and a little before it; how many those were."""
        streams, taken = [self._stream(identity) for identity in self._settings.datastreams], 0
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
            now = time.time()
            found = sorted((each for stream in streams for each in stream.taken(until, now)), key=_by_start)
            counted = [each.payload for each in found if each.payload is not None]
            if counted:
                self._take(counted)
            taken += len(counted)
            self._keep(streams)

    def _stream(self, identity: str) -> _Stream:
        begin = max(self._since, self._reached.get(identity, self._since) - self._back)
        return _Stream(self._service, self._settings, identity, begin)

    def _keep(self, streams: Sequence[_Stream]) -> None:
        """Keep the place behind what is durable; for answers that are not in order, once all are durable."""
        before = dict(self._reached)
        for stream in streams:
            is_sure = stream.is_in_order or stream.is_over
            if is_sure and stream.reached > self._reached.get(stream.identity, -inf):
                self._reached[stream.identity] = stream.reached
        if self._reached != before:
            replace_file(self._place, json.dumps(self._reached).encode())


class _Observation(NamedTuple):
    """One of them; ``start`` of its interval in unix seconds, or of the one before where it says none.

    ``version`` is its number, by which corrected counts come after the first; no ``payload`` is not counted.
    """

    start: float
    version: int
    payload: Payload | None


_by_start = attrgetter("start", "version")


_MOST_IN_VAIN = 100


class _Pages:
    """The Observations of a datastream (``Datastreams(7)``) from a time on, a page at a time."""

    def __init__(self, service: SensorThings, name: str, since: float, page: int, fields: str) -> None:
        query = {
            "$filter": f"phenomenonTime ge {in_words(since)}",
            "$orderby": "phenomenonTime asc",
            "$top": str(page),
            "$select": fields,
        }
        self._service, self._name, self._query = service, name, query
        self._next: URL | None = service.address(f"{name}/Observations", query)
        self._visited: set[URL] = set()
        self._read, self._has_links = 0, False
        self._last: list[Any] = []
        self._in_vain = 0  # pages since one that brought anything

    @property
    def is_over(self) -> bool:
        """Whether all were read."""
        return self._next is None

    async def read(self) -> list[Any]:
        """The next page, unless they are over."""
        if self._next is None:
            return []
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
        self._in_vain = self._in_vain + 1 if found in ([], self._last) else 0
        if self._in_vain > _MOST_IN_VAIN:
            raise PeerError(
                f"the pages of {self._name} must come to an end",
                f"{_MOST_IN_VAIN} in a row without a new Observation, each with a link to the next",
                "look at the service's own log",
            )
        self._last = found
        self._next = self._service.next_link(document)
        self._read += len(found)
        self._has_links |= self._next is not None
        if not self._has_links and len(found) >= int(self._query["$top"]):  # not every service gives links
            more = {**self._query, "$skip": str(self._read)}
            self._next = self._service.address(f"{self._name}/Observations", more)
        return found


class _Stream(_Pages):
    """They themselves, in the order of their intervals, as payloads that wait to be taken."""

    def __init__(
        self, service: SensorThings, settings: SensorThingsSettings, identity: str, since: float
    ) -> None:
        self.identity, self._settings, self._versions = identity, settings, FirstOf(*settings.version)
        fields = ",".join(dict.fromkeys([*_FIELDS, *self._versions.beginnings]))
        super().__init__(service, entity("Datastreams", identity), since, settings.page, fields)
        self._zone = None if settings.timezone is None else ZoneInfo(settings.timezone)
        self.waiting: list[_Observation] = []
        self.last = self.reached = -inf
        self.is_in_order = True

    async def fill(self) -> None:
        """Read on where nothing is waiting."""
        while not (self.waiting or self.is_over):
            self.waiting = [self._observation(each) for each in await self.read()]

    def taken(self, until: float, now: float) -> list[_Observation]:
        """Those that wait, up to a start; what is later than ``now`` moves no place."""
        found = [each for each in self.waiting if each.start <= until]
        self.waiting = self.waiting[len(found) :]
        self.reached = max([self.reached, *(each.start for each in found if each.start <= now)])
        return found

    def _observation(self, document: object) -> _Observation:
        """An Observation as JSON; the end of its interval added where the settings say how long one is."""
        topic, lasting, version = _TOPIC.format(self._name), self._settings.interval_seconds, 1
        if not isinstance(document, dict):  # which the mapping refuses
            return _Observation(self.last, version, Payload(topic, json.dumps(document).encode()))
        at = None
        with suppress(ValueError, OverflowError):
            at = PhenomenonTime.parse(document.get("phenomenonTime"), self._zone)
        if at is not None and at.end is None and lasting is not None:
            start = at.start - lasting if self._settings.instant == "end" else at.start
            at = PhenomenonTime(start, start + lasting)
            document = document | {"phenomenonTime": f"{in_words(start)}/{in_words(start + lasting)}"}
        if at is not None:
            self.is_in_order &= at.start >= self.last
            self.last = max(self.last, at.start)
        if self._versions:
            said = self._versions.at(document, document)
            document = {name: document[name] for name in _FIELDS if name in document}
            if said is not ABSENT:
                document[_VERSION] = said
            with suppress(InputError):  # which the mapping says of it, too
                version = Versions([_VERSION], self._settings.versions).of(document, document)
        is_counted = document.get("result") is not None
        payload = Payload(topic, json.dumps(document).encode()) if is_counted else None
        return _Observation(self.last, version, payload)


# Releases as Observations of datastreams of our own; the service itself knows which of them are there.
#
# An Observation that somebody has read cannot be taken back. So wherever one may be there already (after a
# restart, after an answer that never came, and for late values, whose intervals lie before others) the
# datastream is asked for its intervals and values first. What others wrote there does not count as ours,
# whatever its time.

_PAUSE_SECONDS, _POST_TRIES = 2.0, 30
_OF_ALL = frozenset({"sensor", "value", "tiers", "version"})
_Key = tuple[float, float, int | None]  # the start of an interval, the value, and its version


def observation(times: RunTimes, step: int, entry: SensorValue, intervals: Intervals) -> dict[str, Any]:
    """One published value: how it was noised, and how far off it may be, stands in ``resultQuality``."""
    quality = entry.model_dump(mode="json", exclude_none=True, exclude=set(_OF_ALL))
    quality |= interval_in(entry, intervals)
    version = {} if entry.version is None else {"version": entry.version}
    return {
        "phenomenonTime": f"{times.text(entry.first_step(step))}/{times.text(step + 1)}",
        "result": entry.value,
        "resultQuality": quality,
        "parameters": {"deployment": times.deployment, "step": step, **version},
    }


def _key(document: Mapping[str, Any]) -> _Key:
    """What tells an Observation from others of its datastream."""
    version = (document.get("parameters") or {}).get("version")
    return PhenomenonTime.parse(document["phenomenonTime"]).start, float(document["result"]), version


_TOTAL = "total "  # before the name of one, which a sensor could have, too


def observation_of_total(times: RunTimes, total: Total, level: float) -> dict[str, Any]:
    """One total: of how many counts it is, and how far off it may be, stands in ``resultQuality``."""
    quality = {"cells": total.cells, "of": total.of, "sigma": total.sigma, "people": total.people}
    quality["estimate"] = total.estimate
    if total.high is not None:
        quality |= {"low": total.low, "high": total.high, "confidence": level}
    return {
        "phenomenonTime": f"{total.start}/{total.end}",
        "result": total.value,
        "resultQuality": {name: value for name, value in quality.items() if value is not None},
        "parameters": {"deployment": times.deployment, "level": total.level, "place": total.place},
    }


class ObservationWriter:
    """Writes what is released of each sensor to its datastream, once, in the order of the steps.

    ``datastreams`` maps sensors to ids; a sensor without one is not written. A corrected value is one more
    Observation of its interval. ``place`` is the file that says how far an earlier process came: what comes
    after it is asked for at the service before it is written; without it, all that is released.
    """

    def __init__(
        self, service: SensorThings, settings: SensorThingsSettings, run: Path, place: Path | None = None
    ) -> None:
        if not settings.releases:
            raise SettingsError(
                "releases must have datastreams to be written to",
                "none",
                'set them in [connect.sensorthings.releases]: "sensor" = "id"',
            )
        self._service, self._page = service, settings.page
        self._log, self._totals = PublishedLog(run, place), TotalsWithReleases(run)
        totals = {f"{_TOTAL}{name}": identity for name, identity in settings.totals.items()}
        self._names = {
            name: entity("Datastreams", identity)
            for name, identity in {**settings.releases, **totals}.items()
        }
        self._last: dict[str, float] = {}  # start of the last interval that each datastream has
        # What it has from a start on, where that was asked.
        self._there: dict[str, tuple[float, set[_Key]]] = {}
        self._pending: list[tuple[str, dict[str, Any]]] | None = None  # by sensor or total, of one step
        self.silent = set(settings.releases)
        """Sensors with a datastream, of which this process has seen no release."""
        self.steps = self.values = self.sent = 0
        """Steps gone through, values that are there, and those of them sent by this process."""

    async def write(self, most: int) -> int:
        """Write the releases of at most so many steps that wait; how many those were.

        At first each datastream is asked how far an earlier process came. Where it raises, what was not
        written waits for the next call.
        """
        for sensor in [name for name in self._names if name not in self._last]:
            self._last[sensor] = await self._last_start(sensor)
        for number in range(most):
            if self._pending is None:
                was_late = self._log.is_late
                release = self._log.next()
                if release is None or self._log.is_late != was_late:
                    self._there.clear()
                if release is None:
                    return number
                self._pending = list(self._observations(release))
            for name, document in self._pending:
                key = _key(document)
                if not await self._is_there(name, key):
                    await self._write_one(name, key, document)
                    self.sent += 1
            self._log.keep()
            self.values += len(self._pending)
            self.steps += not self._log.is_late
            self._pending = None
        return most

    def _observations(self, release: StepRelease) -> Iterator[tuple[str, dict[str, Any]]]:
        """What is to be there of a step, by the name of its sensor or total."""
        log = self._log
        for entry in release.releases:
            if entry.sensor in self._names:
                self.silent.discard(entry.sensor)
                if entry.value is not None:
                    yield entry.sensor, observation(log.times, release.step, entry, log.intervals)
        for total in () if log.is_late else self._totals.with_step(release.step):
            name = f"{_TOTAL}{total.level}/{total.place}"
            if name in self._names and total.value is not None:
                yield name, observation_of_total(log.times, total, log.intervals.level)

    async def _is_there(self, sensor: str, key: _Key) -> bool:
        """Whether the datastream has an Observation of this interval with this value (and version)."""
        start = key[0]
        if start > self._last[sensor]:
            return False
        since, known = self._there.get(sensor, (float("inf"), set()))
        if start < since:
            known = await self._observed(sensor, start)
            self._there[sensor] = start, known
        return key in known

    async def _write_one(self, sensor: str, key: _Key, document: Mapping[str, Any]) -> None:
        url, start = self._service.address(f"{self._names[sensor]}/Observations"), key[0]
        for attempt in range(_POST_TRIES):
            self._last[sensor] = max(self._last[sensor], start)  # it may be there from now on
            try:
                await self._service.create(url, document)
            except UnknownOutcomeError as error:
                self._there.pop(sensor, None)
                if attempt == _POST_TRIES - 1:
                    raise
                wait = max(_PAUSE_SECONDS, error.wait_seconds)
                logger.warning("%s; asking in %.1f s whether it is there", error, wait)
                await asyncio.sleep(wait)
                if await self._is_there(sensor, key):
                    return
            else:
                if sensor in self._there:
                    self._there[sensor][1].add(key)
                return

    async def _observed(self, sensor: str, since: float) -> set[_Key]:
        """The intervals, values and versions that the datastream has from a start on."""
        fields = "phenomenonTime,result,parameters" if self._log.is_late else "phenomenonTime,result"
        found: set[_Key] = set()
        pages = _Pages(self._service, self._names[sensor], since, self._page, fields)
        while not pages.is_over:
            for each in await pages.read():
                with suppress(AttributeError, TypeError, KeyError, ValueError, OverflowError):  # none of ours
                    key = _key(each)
                    found |= {key, (*key[:2], None)}
        return found

    async def _last_start(self, sensor: str) -> float:
        """The start of the last interval that the datastream has; minus infinity for an empty one."""
        query = {"$orderby": "phenomenonTime desc", "$top": "1", "$select": "phenomenonTime"}
        url = self._service.address(f"{self._names[sensor]}/Observations", query)
        document = await self._service.get(url)
        values = document.get("value")
        if values == []:
            return float("-inf")
        try:
            return PhenomenonTime.parse(values[0]["phenomenonTime"]).start  # type: ignore[index]
        except (TypeError, KeyError, IndexError, ValueError):
            raise PeerError(
                f"the datastream of {sensor!r} must hold Observations with a phenomenonTime",
                "something else",
                "check the id in [connect.sensorthings.releases]",
            ) from None


# Looks at a service's datastreams and writes releases to it, until asked to stop.

_WAIT_SECONDS = 0.2
_STEPS_AT_ONCE = 50


def exchange(
    settings: Settings, take: Take | None, run: Path | None, folder: Path, stop: StopRequest, *, once: bool
) -> ObservationWriter | None:
    """``take`` counts and write the releases of ``run`` until ``stop`` is set, or all that is there ``once``.

    Either may be None. ``folder`` is the connector's own, where it keeps how far it came with both. Without
    ``once`` a service that does not answer is asked again after ``poll_seconds``, and what fails in one
    direction does not hold up the other. The writer says what it has written.
    """
    return asyncio.run(_exchange(settings, take, run, folder, stop, once))


async def _exchange(
    settings: Settings, take: Take | None, run: Path | None, folder: Path, stop: StopRequest, once: bool
) -> ObservationWriter | None:
    chosen = settings.connect.sensorthings
    async with SensorThings(chosen) as service:
        reader = writer = None
        if take is not None:
            reader = ObservationReader(service, settings, take, folder / "read.json")
        if run is not None:
            writer = ObservationWriter(service, chosen, run, folder / "written.json")
        reading, writing = (_Attempts(chosen.poll_seconds, stop, once=once) for _ in range(2))
        look_at = 0.0
        while not stop.is_set:
            if reader is not None and time.monotonic() >= look_at:
                await reading.made(reader.look())
                look_at = time.monotonic() + chosen.poll_seconds
            written = 0
            if writer is not None and writing.may_begin:
                written = await writing.made(writer.write(_STEPS_AT_ONCE))
            if once and not written:
                break
            if not written:
                await asyncio.sleep(_WAIT_SECONDS)
    return writer


class _Attempts:
    """One of the two directions: an error in it ends the process at its first attempt only, or ``once``.

    A service that does not answer ends the process ``once`` only. When somebody asks to stop, no answer is
    waited for: the next process finds out what became of what was begun.
    """

    def __init__(self, pause_seconds: float, stop: StopRequest, *, once: bool) -> None:
        self._pause, self._stop, self._once = pause_seconds, stop, once
        self._again_at = 0.0
        self._has_worked = False

    @property
    def may_begin(self) -> bool:
        """Whether it is not too early after one that failed."""
        return time.monotonic() >= self._again_at

    async def made(self, work: Coroutine[None, None, int]) -> int:
        """What the work returns; 0 where it failed and is to be done again."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_WAIT_SECONDS)
                if self._stop.is_set and not task.done():
                    return 0
        finally:  # nothing goes on behind whoever asks to stop or cancels, and no error is left unread
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        try:
            done = task.result()
        except PeerError as error:
            if self._once or not (self._has_worked or isinstance(error, UnknownOutcomeError)):
                raise
            logger.warning("%s; trying again in %g s", error, self._pause)
            self._again_at = time.monotonic() + self._pause
            return 0
        self._has_worked = True
        return done
