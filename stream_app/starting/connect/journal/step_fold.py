"""Counts of intervals become counts of steps, whole ones only; the same count again changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from stream_app.exceptions import InputError
from stream_app.starting.connect.journal.counter_totals import difference
from stream_app.starting.connect.payloads import SensorCount
from stream_app.wire import MAX_COUNT

RECENT_STEPS = 500
"""Steps for which a sensor's counts are known again; of older ones none is taken."""


class StepCount(NamedTuple):
    """A sensor's count of a whole step."""

    step: int
    sensor: str
    people: int


@dataclass(frozen=True)
class StepRules:
    """The engine's steps (unix seconds), and what a mapping declares of intervals that are not quite one."""

    origin_seconds: int
    step_seconds: int
    sums_shorter: bool = False
    tolerance_seconds: int = 0
    resets: Literal["not_counted", "from_zero"] = "not_counted"

    def since_origin(self, seconds: int) -> int:
        """Seconds since step 0, at the bound of a step where one is within the tolerance."""
        since = seconds - self.origin_seconds
        bound = (since + self.step_seconds // 2) // self.step_seconds * self.step_seconds
        return bound if abs(since - bound) <= self.tolerance_seconds else since


@dataclass
class _Sensor:
    """Recent counts of one sensor: parts by step and interval, totals by step and time, whole steps.

    ``contradicted`` are intervals, by step, for which another count was sent.
    """

    parts: dict[int, dict[tuple[int, int], int]] = field(default_factory=dict)
    totals: dict[int, dict[int, int]] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    contradicted: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    newest: int = -1
    forgotten: int = -1  # steps before this one


class ContradictionError(InputError):
    """An interval that overlaps with one that was counted already: the first one stands.

    Another count for the same interval is none: what a sender is answered must not depend on a count.
    """


class Folded(NamedTuple):
    """What some counts came to: steps that are whole now, and the counts that are new.

    ``known`` are the others, whatever they say; of those with another count than was sent before
    ``contradicting`` has the first of each interval.
    """

    whole: list[StepCount]
    new: list[SensorCount]
    known: list[SensorCount]
    contradicting: list[SensorCount]


class StepFold:
    """Adds up parts and subtracts totals until a step is whole."""

    def __init__(self, rules: StepRules) -> None:
        self.rules = rules
        self._sensors: dict[str, _Sensor] = {}
        self._undo: list[Callable[[], object]] = []

    def take(self, counts: Sequence[SensorCount]) -> Folded:
        """Take all that is new among the counts; for what is known the first count stands.

        :class:`InputError` for one that fits no step or is too old, :class:`ContradictionError` for one that
        overlaps with an earlier one; nothing has changed then. Neither depends on what was counted before.
        """
        self._undo = []
        folded = Folded([], [], [], [])
        try:
            for each in counts:
                sensor = self._sensors.setdefault(each.sensor, _Sensor())
                if each.start is None:
                    self._total(sensor, each, folded)
                else:
                    self._part(sensor, each, folded)
        except InputError:
            for undo in reversed(self._undo):
                undo()
            raise
        for name in {each.sensor for each in counts}:
            self._forget(self._sensors[name])
        return folded

    def _part(self, sensor: _Sensor, count: SensorCount, folded: Folded) -> None:
        start, end = self.rules.since_origin(count.start or 0), self.rules.since_origin(count.end)
        step = self._step_of(start, end)
        self._require_recent(sensor, step)
        # Its share of the limit, so that no sum can pass it: a refusal would tell what the other parts are.
        most = MAX_COUNT * (end - start) // self.rules.step_seconds
        if count.people > most:
            raise InputError(
                f"a count of {end - start:,} s must be at most {most}", "more", "see the counter"
            )
        parts = sensor.parts.get(step, {})
        if (start, end) in parts:
            self._again(sensor, step, (start, end), parts[start, end], count, folded)
            return
        if any(start < other_end and other_start < end for other_start, other_end in parts):
            raise ContradictionError(
                "intervals of a sensor must not overlap",
                "one that overlaps with an earlier one",
                "send each resolution to a connector of its own",
            )
        parts = sensor.parts.setdefault(step, {})
        parts[start, end] = count.people
        self._undo.append(lambda: parts.pop((start, end)))
        self._see(sensor, step)
        folded.new.append(count)
        if sum(after - before for before, after in parts) == self.rules.step_seconds:
            folded.whole.append(StepCount(step, count.sensor, sum(parts.values())))

    def _step_of(self, start: int, end: int) -> int:
        """The step that an interval lies in."""
        length = self.rules.step_seconds
        step = start // length
        fits = end - start == length and start % length == 0
        if start < 0:
            raise InputError(
                "counts must not be earlier than step 0",
                "one that is",
                "correct the counter's clock, or origin",
            )
        if fits:
            return step
        if end > (step + 1) * length or not self.rules.sums_shorter:
            raise InputError(
                f"an interval must be a step of {length:,} s, from a bound of steps to the next",
                f"{end - start:,} s that begin {start % length:,} s after one",
                "have the counter report at full intervals, allow tolerance_seconds, or add shorter ones up "
                'with shorter = "sum" in the mapping',
            )
        return step

    def _total(self, sensor: _Sensor, count: SensorCount, folded: Folded) -> None:
        at = self.rules.since_origin(count.end)
        if at < 0:
            raise InputError(
                "totals must not be earlier than step 0",
                "one that is",
                "correct the counter's clock, or origin",
            )
        length = self.rules.step_seconds
        self._require_recent(sensor, at // length)
        totals = sensor.totals.setdefault(at // length, {})
        if at in totals:
            self._again(sensor, at // length, (at, at), totals[at], count, folded)
            return
        totals[at] = count.people
        folded.new.append(count)
        self._undo.append(lambda: totals.pop(at))
        self._see(sensor, at // length)
        found = []
        for step in {(at - 1) // length, at // length}:
            if step < 0 or step in sensor.whole:
                continue
            end = (step + 1) * length
            last = {time: total for time, total in sensor.totals.get(step + 1, {}).items() if time == end}
            known = {**sensor.totals.get(step, {}), **last}
            counted = difference(known, step * length, end, self.rules.resets)
            if counted is not None and counted <= MAX_COUNT:  # more are the resets of a counter gone wrong
                sensor.whole.add(step)
                self._undo.append(lambda step=step: sensor.whole.discard(step))  # type: ignore[misc]
                found.append(StepCount(step, count.sensor, counted))
        folded.whole.extend(sorted(found))

    def _again(
        self,
        sensor: _Sensor,
        step: int,
        interval: tuple[int, int],
        known: int,
        count: SensorCount,
        folded: Folded,
    ) -> None:
        """An interval that is known: the first count stands, and who sends another is not told."""
        folded.known.append(count)
        contradicted = sensor.contradicted.setdefault(step, set())
        if known != count.people and interval not in contradicted:
            contradicted.add(interval)
            self._undo.append(lambda: contradicted.discard(interval))
            folded.contradicting.append(count)

    def _require_recent(self, sensor: _Sensor, step: int) -> None:
        if step < sensor.newest - RECENT_STEPS:
            raise InputError(
                f"a count must be at most {RECENT_STEPS} steps older than its sensor's newest",
                "an older one",
                "send what was missed oldest first; the engine has closed these steps",
            )

    def _see(self, sensor: _Sensor, step: int) -> None:
        before = sensor.newest
        if step > before:
            sensor.newest = step
            self._undo.append(lambda: setattr(sensor, "newest", before))

    def _forget(self, sensor: _Sensor) -> None:
        oldest = sensor.newest - RECENT_STEPS
        if oldest <= sensor.forgotten:
            return
        sensor.forgotten = oldest
        for known in (sensor.parts, sensor.totals, sensor.contradicted):
            while known and min(known) < oldest:
                del known[min(known)]
        sensor.whole = {step for step in sensor.whole if step >= oldest}
