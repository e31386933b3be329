"""Releases as retained messages: whoever subscribes gets the last one of each sensor at once."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stream_app.starting.connect.mqtt.broker_address import topic_level
from stream_app.starting.connect.mqtt.broker_session import BrokerSession, Sent
from stream_app.starting.connect.released import PublishedLog, StepTimes
from stream_app.wire import SensorValue, StepRelease

logger = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class _Message(NamedTuple):
    """One to be sent; ``reached`` is the place behind its step, of the last message of one."""

    topic: str
    payload: bytes
    reached: Mapping[str, Mapping[str, int]] | None
    is_late: bool


class RetainedReleases:
    """Publishes each step of a run's releases, each sensor's value under a topic of its own, then the step.

    Late and corrected values stand under topics of their own, so that none hides a sensor's last value.
    What waits, waits in the run's log: no more is read of it than the broker takes at a time. ``place`` is
    the file that says how far the broker has acknowledged them; a restart goes on there. What was sent and
    not acknowledged is sent again, so a reader may see a step twice, and by its number.
    """

    def __init__(self, session: BrokerSession, under: str, run: Path, place: Path) -> None:
        self._session, self._under = session, under
        self._log = PublishedLog(run, place)
        self._unsent: deque[_Message] = deque()
        self._sent: deque[tuple[_Message, Sent | None]] = deque()
        self._again_at = self._pause = 0.0
        self.steps = 0

    def advance(self) -> None:
        """Note what the broker has; send what is released and not sent yet, as much of it as it takes."""
        self._note()
        if time.monotonic() < self._again_at:
            return
        for _ in range(self._session.room):  # and no more at once: counts are taken in between
            if not self._unsent:
                release = self._log.next()
                if release is None:
                    return
                self._unsent.extend(self._messages(release))
            message = self._unsent.popleft()
            self._sent.append((message, self._session.publish(message.topic, message.payload)))

    @property
    def is_acknowledged(self) -> bool:
        """Whether the broker has all that was sent."""
        return not self._sent and not self._unsent

    def _note(self) -> None:
        """Forget what is at the broker, in order; what a lost connection or a refusal left goes again."""
        reached = None
        while self._sent:
            message, sent = self._sent[0]
            if sent is not None and self._session.is_lost(sent):
                self._take_back()
                break
            if sent is not None and not self._session.is_there(sent):
                break
            refusal = None if sent is None else self._session.refusal(sent)
            if refusal is not None:
                logger.warning(
                    'the broker does not take releases now ("%s"); trying again in %g s', refusal, self._pause
                )
                self._take_back()
                break
            self._sent.popleft()
            self._pause = 0.0
            if message.reached is not None:
                reached = message.reached
                self.steps += not message.is_late
        if reached is not None:
            self._log.keep(reached)

    def _take_back(self) -> None:
        """Send again what is not known to be there, in its order: a topic's last value must come last.

        The longer the oldest of it has been in vain, the more rarely: a broker that hangs up at it has time
        to give counts in between.
        """
        self._again_at = time.monotonic() + self._pause
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._unsent.extendleft(message for message, _ in reversed(self._sent))
        self._sent.clear()

    def _messages(self, release: StepRelease) -> Iterator[_Message]:
        is_late = self._log.is_late
        under = f"{self._under}/{'revised' if is_late else 'releases'}"
        for entry in release.releases:
            payload = one_value(self._log.times, release.step, entry)
            yield _Message(f"{under}/{topic_level(entry.sensor)}", payload, None, is_late)
        yield _Message(under, release.line().rstrip(), self._log.reached, is_late)


def one_value(times: StepTimes, step: int, entry: SensorValue) -> bytes:
    """What one sensor publishes of a step, by itself: with the interval that it is of."""
    start, end = times.start(entry.first_step(step)), times.end(step)
    document: dict[str, Any] = {"v": 1, "step": step, "start": start, "end": end}
    return json.dumps(document | entry.model_dump(mode="json", exclude_none=True)).encode()
