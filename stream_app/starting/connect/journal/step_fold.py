"""Counts of intervals become counts of steps, whole ones only; the same count again changes nothing.

Many feeds end an interval one second, or one millisecond, before the next one begins: 08:00:00 to 08:59:59.
That is not guessed of a single count: the first such interval waits for a second one, of another time or
sensor. Then the ends of the whole feed are inclusive from its beginning on, and one that is not is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
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
    ends: Literal["recognise", "exclusive", "inclusive"] = "exclusive"

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
        self.ends: Literal["exclusive", "inclusive"] | None = None
        """What was recognised of the feed; None while nothing is known."""
        self._sensors: dict[str, _Sensor] = {}
        self._withheld: list[tuple[_Sensor, tuple[int, int], StepCount]] = []
        self._undo: list[Callable[[], object]] = []

    @property
    def has_withheld(self) -> bool:
        """Whether a count waits until it is known how the feed's intervals end."""
        return bool(self._withheld)

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
        is_short = self._is_short(start, end)
        end += is_short
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
        made = StepCount(step, count.sensor, sum(parts.values()))
        is_whole = sum(after - before for before, after in parts) == self.rules.step_seconds
        if is_short:
            folded.whole.extend(self._given(sensor, (start, end), made, is_whole=is_whole))
        elif is_whole:
            folded.whole.append(made)

    @property
    def _known_ends(self) -> Literal["exclusive", "inclusive"] | None:
        """How the feed's intervals end: declared, recognised, or not known yet."""
        return self.ends if self.rules.ends == "recognise" else self.rules.ends

    def _fits(self, start: int, end: int) -> bool:
        """Whether an interval is a step, or one of the equal parts of it that are added up."""
        length, step = end - start, self.rules.step_seconds
        fits_one = length == step or (self.rules.sums_shorter and length > 0 and step % length == 0)
        return fits_one and start % length == 0

    def _is_short(self, start: int, end: int) -> bool:
        """Whether the end is the interval's last second, and not the next one's start."""
        known, is_exact, is_one_short = self._known_ends, self._fits(start, end), self._fits(start, end + 1)
        if is_exact and known == "inclusive":
            raise _other_ends("exclusive")
        if is_one_short and not is_exact and self.rules.ends == "recognise" and known == "exclusive":
            raise _other_ends("inclusive")
        if is_exact and known is None:
            self._know("exclusive")
        return known == "inclusive" or (known is None and is_one_short and not is_exact)

    def _know(self, ends: Literal["exclusive", "inclusive"]) -> None:
        """It is recognised; what had waited as if its end were inclusive is not counted where it is not."""
        before = self._withheld
        self.ends, self._withheld = ends, []
        self._undo += [partial(setattr, self, "ends", None), partial(setattr, self, "_withheld", before)]
        for sensor, interval, count in before if ends == "exclusive" else ():
            parts = sensor.parts.get(count.step, {})
            people = parts.pop(interval, None)
            if people is not None:
                self._undo.append(partial(parts.__setitem__, interval, people))

    def _given(
        self, sensor: _Sensor, interval: tuple[int, int], count: StepCount, *, is_whole: bool
    ) -> list[StepCount]:
        """The step that an interval made whole, or with the second short one what had waited for it, too."""
        found = [count] if is_whole else []
        if self._known_ends is not None:
            return found
        if not self._withheld:
            self._withheld = [(sensor, interval, count)]
            self._undo.append(self._withheld.clear)
            return []
        _, first, earlier = self._withheld[0]
        self._know("inclusive")
        is_step = first[1] - first[0] == self.rules.step_seconds
        return sorted([earlier, *found] if is_step else found)

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


def _other_ends(found: str) -> InputError:
    other = "inclusive" if found == "exclusive" else "exclusive"
    return InputError(
        f"the ends of a feed's intervals must all be {other}, as those before were or `ends` says",
        f"one that is {found}",
        'give feeds that differ a connector each, with ends = "inclusive" or "exclusive"',
    )
