"""Releases as retained messages: whoever subscribes gets the last one of each sensor at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_app.setup.run_folder.durable import replace_file
from stream_app.setup.run_folder.manifest import load_document
from stream_app.starting.connect.mqtt.broker_address import topic_level
from stream_app.starting.connect.mqtt.broker_session import BrokerSession
from stream_app.starting.connect.released import ReleaseLog, StepTimes
from stream_app.wire import SensorValue

if TYPE_CHECKING:
    from paho.mqtt.client import MQTTMessageInfo

_STEPS_AT_ONCE = 50


class RetainedReleases:
    """Publishes each step of a run's releases, each sensor's value under a topic of its own, then the step.

    ``place`` is the file that says how far the broker has acknowledged them; a restart goes on there. What
    was sent and not acknowledged before is sent again, so a reader may see a step twice, and by its number.
    """

    def __init__(self, session: BrokerSession, under: str, run: Path, place: Path) -> None:
        self._session, self._under, self._place = session, f"{under}/releases", place
        saved = load_document(place) if place.is_file() else None
        self._log = ReleaseLog(run, saved)
        self._sent: list[MQTTMessageInfo] = []
        self.steps = 0

    def advance(self) -> None:
        """Send what is released and not sent yet, once what was sent before is acknowledged."""
        if self._sent:
            if not all(each.is_published() for each in self._sent):
                return
            self._sent.clear()
            replace_file(self._place, json.dumps(self._log.reached).encode())
        for release in self._log.some(_STEPS_AT_ONCE):
            for entry in release.releases:
                topic = f"{self._under}/{topic_level(entry.sensor)}"
                self._sent.append(
                    self._session.publish(topic, one_value(self._log.times, release.step, entry))
                )
            self._sent.append(self._session.publish(self._under, release.line().rstrip()))
            self.steps += 1

    @property
    def is_acknowledged(self) -> bool:
        """Whether the broker has all that was sent."""
        return not self._sent


def one_value(times: StepTimes, step: int, entry: SensorValue) -> bytes:
    """What one sensor publishes of a step, by itself: with the interval that it is of."""
    start, end = times.start(entry.first_step(step)), times.end(step)
    document: dict[str, Any] = {"v": 1, "step": step, "start": start, "end": end}
    return json.dumps(document | entry.model_dump(mode="json", exclude_none=True)).encode()
