"""The steps that are open: who was announced, who has reported, and when a step may close.

A step closes when every announced sensor has reported, when it lies behind the watermark by more than the
grace, when its tick by the clock has come, or when the input has ended. Steps close strictly in order. The
watermark is the step that most of the sensors heard last have reached, so neither a schedule announced for
tomorrow nor a sensor with a broken clock closes the steps in between.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stream_app.setup.settings import Settings

logger = logging.getLogger(__name__)


class Origin(NamedTuple):
    """Where a message came from, and its text as it came."""

    source: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class WaitingReading:
    """A reading that arrived before the activation of its step, and where it came from."""

    count: int
    source: str


class RevisedCount(NamedTuple):
    """A count of a closed step that is to be published: version 1 for a late one, else a correction."""

    step: int
    sensor: str
    version: int
    people: int


@dataclass(slots=True)
class OpenStep:
    """What is known of one step. ``sensors`` is None until the step is announced.

    ``counts`` are those of version 1, ``corrected`` the later ones of a sensor, in order.
    """

    sensors: tuple[str, ...] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, WaitingReading] = field(default_factory=dict)
    corrected: dict[str, list[int]] = field(default_factory=dict)
    active: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.active = frozenset(self.sensors or ())

    def announce(self, sensors: tuple[str, ...]) -> None:
        """Set which sensors count in this step."""
        self.sensors = sensors
        self.active = frozenset(sensors)

    def versions(self, sensor: str) -> list[int]:
        """A sensor's counts, first to last."""
        return [self.counts[sensor], *self.corrected.get(sensor, ())] if sensor in self.counts else []

    @property
    def is_complete(self) -> bool:
        """Whether the step is announced and every sensor of it has reported."""
        return self.sensors is not None and len(self.counts) == len(self.sensors)


class ClosedCounts(NamedTuple):
    """A step taken off the window. ``waiting`` holds readings whose activation never came.

    ``revised`` are counts of steps before it that came since the last one was closed.
    """

    step: int
    sensors: tuple[str, ...]
    counts: dict[str, int]
    waiting: dict[str, WaitingReading]
    revised: tuple[RevisedCount, ...] = ()


_HEARD_READINGS = 16
"""Accepted readings that the watermark looks back on; a sensor without one among them has no say."""


class StepWindow:
    """All open steps, and the last closed ones so that repetitions are recognised.

    ``announced`` maps steps to sensors where a schedule file announces them. A step stays known for
    ``grace + 1`` steps after it closed, or ``late + 1`` where later counts of it are taken.
    ``watermark_share`` of the sensors heard last may be ahead without moving the watermark: with 0.5 more
    than half of them must report a step to move it, with 0 a single one.

    With ``by_clock`` no step closes before its tick, so that the moment of publication does not reveal when
    any sensor reported. The caller says when ticks have come. Where closed steps are published later, they
    stay known until then (:meth:`hold_from`).
    """

    def __init__(
        self,
        grace: int,
        announced: Mapping[int, tuple[str, ...]] | None = None,
        *,
        watermark_share: float = 0.5,
        by_clock: bool = False,
        late: int = 0,
    ) -> None:
        self.grace = grace
        self.late = late
        self.revised: list[RevisedCount] = []  # to be published with the next step
        self.announced = announced or {}
        self.next_step = 0
        self.close_through = -1  # steps up to here close whatever is missing
        self.open_through = -1 if by_clock else math.inf  # steps up to here close when all is there
        self.watermark = -1  # the step that most of the sensors heard last have reached
        self._watermark_share = watermark_share
        self._heard: deque[tuple[str, int]] = deque(maxlen=_HEARD_READINGS)
        self._known: dict[int, OpenStep] = {}
        self._changed: set[int] = set()
        self._held_from: float = math.inf  # closed steps from here on are not published yet
        self._oldest = 0  # no step before it is known

    @classmethod
    def of(
        cls,
        settings: Settings,
        announced: Mapping[int, tuple[str, ...]] | None = None,
        saved: Mapping[str, Any] | None = None,
    ) -> StepWindow:
        """The window of a deployment before its first message, or as it was ``saved`` in a position."""
        window = cls(
            settings.grace,
            announced,
            watermark_share=settings.watermark_share,
            by_clock=settings.grace_seconds is not None,
            late=settings.late,
        )
        if saved:
            window.load(saved)
        return window

    @property
    def waiting_count(self) -> int:
        """How many readings wait for the activation of their step."""
        return sum(len(known.waiting) for known in self._known.values())

    @property
    def first_revisable(self) -> int:
        """The first step whose decision is still needed: more values of it may come, or wait already."""
        return max(0, min([self.next_step - self.late, *(count.step for count in self.revised)]))

    def at(self, step: int) -> OpenStep:
        """The step's state to be changed, made on first use; for steps not yet closed."""
        self._changed.add(step)
        found = self._known.get(step)
        if found is None:
            found = self._known[step] = OpenStep(self.announced.get(step))
        return found

    def closed(self, step: int) -> OpenStep | None:
        """A closed step, if it is still known."""
        return self._known.get(step)

    def accept(self, step: int, counts: Mapping[str, int]) -> None:
        """Enter readings of announced sensors; moves the watermark."""
        self._known[step].counts.update(counts)
        self._hear([(sensor, step) for sensor in counts])

    def revise(self, step: int, sensor: str, count: int) -> None:
        """Enter one more count of a sensor; it does not move the watermark.

        One of an open step waits there, and is to be published with the step that closes next after it.
        """
        known = self.at(step)
        if sensor in known.counts:
            known.corrected.setdefault(sensor, []).append(count)
        else:
            known.counts[sensor] = count
        if step < self.next_step:
            self.revised.append(RevisedCount(step, sensor, len(known.versions(sensor)), count))

    def take_revised(self) -> tuple[RevisedCount, ...]:
        """The revised counts that are to be published, in the order of their steps."""
        revised, self.revised = tuple(sorted(self.revised)), []
        return revised

    def _hear(self, readings: Iterable[tuple[str, int]]) -> None:
        """Each sensor's watermark is the step it reported last; the window's is a quantile of theirs.

        While few readings were heard, one more sensor at step -1 is assumed, as it may still report.
        """
        self._heard.extend(readings)
        unheard = [] if len(self._heard) == _HEARD_READINGS else [-1]
        reached = sorted([*dict(self._heard).values(), *unheard], reverse=True)
        self.watermark = reached[int(self._watermark_share * len(reached))]

    def is_due(self) -> bool:
        """Whether the next step may close."""
        step = self.next_step
        if step <= self.close_through:
            return True
        if step > self.open_through:  # before its tick not even a complete step closes: see ``by_clock``
            return False
        if step < self.watermark - self.grace:
            return True
        found = self._known.get(step)
        return found.is_complete if found is not None else self.announced.get(step) == ()

    def closing(self) -> ClosedCounts:
        """What :meth:`close` would take off the window."""
        known = self._known.get(self.next_step) or OpenStep(self.announced.get(self.next_step))
        revised = tuple(sorted(self.revised))
        return ClosedCounts(self.next_step, known.sensors or (), known.counts, known.waiting, revised)

    def close(self) -> ClosedCounts:
        """Take the next step off the window."""
        closed, taken = self.closing(), self.at(self.next_step)
        taken.waiting = {}
        self.revised = [
            RevisedCount(closed.step, sensor, version, count)
            for sensor, counts in taken.corrected.items()
            for version, count in enumerate(counts, start=2)
        ]
        self.next_step += 1
        self._forget()
        return closed

    def finish(self) -> None:
        """The input has ended: every step that a message announced or reported may close."""
        announced = (
            step
            for step, known in self._known.items()
            if known.sensors is not None and step not in self.announced
        )
        self.close_through = max(self.close_through, self._last_reported(), *announced, -1)

    def _last_reported(self) -> int:
        """The last step with a reading; one that is many announced steps ahead of all others is ignored."""
        last = max(self.next_step - 1, self.watermark)
        for step in sorted(step for step, known in self._known.items() if known.counts):
            left_out = sum(1 for between in range(last + 1, step) if self._expects(between))
            if left_out <= _HEARD_READINGS:
                last = max(last, step)
        return last

    def _expects(self, step: int) -> bool:
        """Whether readings are announced for a step."""
        known = self._known.get(step)
        return bool(self.announced.get(step) if known is None else known.sensors)

    def hold_from(self, step: int) -> None:
        """The closed steps before this one are published, those from it on are not."""
        self._held_from = step
        self._forget()

    def _forget(self) -> None:
        """Drop steps that closed long ago and are published; repetitions in them become late readings."""
        kept = min(self.next_step - 1 - max(self.grace, self.late), self._held_from)
        while self._oldest < kept:  # each step once, however many are announced ahead
            if self._known.pop(self._oldest, None) is not None:
                self._changed.add(self._oldest)
            self._oldest += 1

    def drain(self) -> list[tuple[int, str, WaitingReading]]:
        """Take out every reading that still waits for an activation, in order of step."""
        drained = []
        for step in sorted(self._known):
            known = self._known[step]
            drained += [(step, sensor, reading) for sensor, reading in known.waiting.items()]
            known.waiting = {}
        self._changed |= self._known.keys()
        return drained

    def save_position(self) -> dict[str, Any]:
        """The window without its steps, as JSON values: its size does not depend on what is open.

        It includes counts of closed steps that are to be published with the next one, so it is secret.
        """
        revised = {"revised": self.revised} if self.revised else {}
        return {
            "next_step": self.next_step,
            "heard": list(self._heard),
            "close_through": self.close_through,
            **revised,
        }

    def take_changed(self) -> dict[int, dict[str, Any] | None]:
        """The steps that changed since the last call as JSON values, None for a forgotten one; secret."""
        changed, self._changed = sorted(self._changed), set()
        return {
            step: _save_step(step, self._known[step]) if step in self._known else None for step in changed
        }

    def drop(self, sensors: Container[str]) -> None:
        """Forget what open steps know of sensors that are no longer there, and warn of their counts."""
        dropped = set()
        for step, known in self._known.items():
            if step < self.next_step:
                continue  # its decision names them, and late values of it may still be published
            for gone in [name for name in known.waiting if name in sensors]:
                del known.waiting[gone]
                dropped.add(gone)
            for gone in [name for name in known.counts if name in sensors]:
                del known.counts[gone]
                known.corrected.pop(gone, None)
                dropped.add(gone)
            if known.sensors is not None:
                known.announce(tuple(name for name in known.sensors if name not in sensors))
        if dropped:
            logger.warning(
                "what was received of removed sensors (%s) for steps from %d on is not published",
                *(", ".join(sorted(dropped)), self.next_step),
            )

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from a saved position with its ``steps``; every step counts as changed.

        ``ValueError`` for anything else, which changes nothing.
        """
        try:
            next_step, close_through = index(saved["next_step"]), index(saved["close_through"])
            heard = [(str(sensor), index(step)) for sensor, step in saved.get("heard", ())]
            known = dict(_load_step(entry) for entry in saved["steps"])
            revised = [RevisedCount(*entry) for entry in saved.get("revised", ())]
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("a window must have next_step, close_through and steps") from error
        self.next_step, self.close_through = next_step, close_through
        self._hear(heard)
        self._known, self._changed = known, set(known)
        self._oldest = min(known, default=next_step)
        self.revised = revised


def first_free_step(saved: Mapping[str, Any]) -> int:
    """The first step of which a saved window knows nothing: none from it on is announced or has a count."""
    free: int = saved.get("next_step", 0)
    for entry in saved.get("steps", ()):
        if entry["sensors"] is not None or entry["counts"] or entry["waiting"]:
            free = max(free, entry["step"] + 1)
    return free


def _save_step(step: int, known: OpenStep) -> dict[str, Any]:
    """One step as JSON values, which stay as they are."""
    waiting = {sensor: [reading.count, reading.source] for sensor, reading in known.waiting.items()}
    corrected = {sensor: list(counts) for sensor, counts in known.corrected.items()}
    saved = {"step": step, "sensors": known.sensors, "counts": dict(known.counts), "waiting": waiting}
    return {**saved, "corrected": corrected} if corrected else saved


def _load_step(entry: Mapping[str, Any]) -> tuple[int, OpenStep]:
    """One step from JSON values."""
    waiting = {
        sensor: WaitingReading(count, source) for sensor, (count, source, *_) in entry["waiting"].items()
    }
    sensors = entry["sensors"]
    return entry["step"], OpenStep(
        None if sensors is None else tuple(sensors),
        dict(entry["counts"]),
        waiting,
        {sensor: list(counts) for sensor, counts in entry.get("corrected", {}).items()},
    )
