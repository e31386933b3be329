"""What connectors took, durably, and the messages the engine reads of it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from itertools import chain, pairwise
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from models.exceptions import TallyguardError
from models.releases import CountingWindow, SensorRegistry
from models.text import parse_json
from stream_app.exceptions import InputError, OutputError, RunChangedError, SettingsError, restoring
from stream_app.setup.declared import require_most_counts
from stream_app.setup.given_priors import declared_sensors
from stream_app.setup.run_folder.durable import (
    SECRET_FOLDER_MODE,
    SECRET_MODE,
    AppendFile,
    FolderLock,
    LineCount,
    make_folder,
    sync_folder,
)
from stream_app.setup.sections import PayloadSettings
from stream_app.setup.settings import Settings
from stream_app.starting.connect.payloads import SensorCount
from stream_app.wire import MAX_COUNT, Activation, Reading, Reason, Rejected, reject

# What was counted between two totals of a counter that may have begun again in between.
#
# A counter that was reset shows less than before. It may also be reset and count past its old total before
# it is read again: nobody can see that unless it says when it began, so have it read several times a step.


class ShownTotal(NamedTuple):
    """People counted since the counter ``began`` (unix seconds, None where it does not say)."""

    people: int
    began: int | None = None


def difference(
    totals: Mapping[int, ShownTotal],
    start: int,
    end: int,
    resets: Literal["not_counted", "from_zero"],
    tolerance_seconds: int = 0,
) -> int | None:
    """People counted from ``start`` to ``end``, by the totals at both times and all in between.

    None where one of the two totals is not known, or where the counter began again in between, by what it
    shows or by what it says to within ``tolerance_seconds``, and ``resets`` does not say that it then began
    at 0. With ``from_zero`` the result is a lower bound: what was counted between the last total and the
    reset is missing.
    """
    if start not in totals or end not in totals:
        return None
    counted = 0
    between = sorted(at for at in totals if start <= at <= end)
    for before, after in pairwise(between):
        (had, first), (has, last) = totals[before], totals[after]
        is_reset = has < had or (
            first is not None and last is not None and abs(last - first) > tolerance_seconds
        )
        if is_reset and resets == "not_counted":
            return None
        counted += has if is_reset else has - had
    return counted


# Counts of intervals become counts of steps, whole ones only; the same count again changes nothing.
#
# Many feeds end an interval one second, or one millisecond, before the next one begins: 08:00:00 to
# 08:59:59. One count does not decide that: the first such interval waits for a second one, of another time
# or sensor. From then on all ends of the feed count as inclusive, those before included, and an interval
# that ends otherwise is refused.

RECENT_STEPS = 500
"""How far behind a sensor's newest step a repeated count is recognised; older counts are refused."""


class StepCount(NamedTuple):
    """A sensor's count of a whole step; ``version`` is 2 or more for a corrected one."""

    step: int
    sensor: str
    people: int
    version: int = 1


@dataclass(frozen=True)
class StepRules:
    """The engine's steps (unix seconds), and what a mapping declares of intervals that are not quite one.

    The counts of sensors with ``windows`` are of these instead, and placed in their last steps.
    """

    origin_seconds: int
    step_seconds: int
    sums_shorter: bool = False
    tolerance_seconds: int = 0
    resets: Literal["not_counted", "from_zero"] = "not_counted"
    ends: Literal["recognise", "exclusive", "inclusive"] = "exclusive"
    windows: Mapping[str, CountingWindow] = field(default_factory=dict)

    @classmethod
    def read(cls, document: dict[str, Any]) -> StepRules:
        """The rules that :meth:`document` wrote."""
        windows = {
            name: CountingWindow(steps, first_step=first_end + 1 - steps)
            for name, (steps, first_end) in document.pop("windows", {}).items()
        }
        return cls(**document, windows=windows)

    def document(self) -> dict[str, Any]:
        """The rules as JSON values; windows are named only where there are any."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "windows"}
        windows = {name: (each.steps, each.first_end) for name, each in self.windows.items()}
        return {**found, "windows": windows} if windows else found

    def steps_of(self, sensor: str) -> int:
        """How many steps a count of this sensor covers."""
        return self.windows[sensor].steps if sensor in self.windows else 1

    def since_origin(self, seconds: int) -> int:
        """Seconds since step 0, at the bound of a step where one is within the tolerance."""
        since = seconds - self.origin_seconds
        bound = (since + self.step_seconds // 2) // self.step_seconds * self.step_seconds
        return bound if abs(since - bound) <= self.tolerance_seconds else since


@dataclass
class _Sensor:
    """Recent counts of a sensor and version: parts by step and interval, totals by step and time.

    What is a step here has ``seconds``: of a sensor with windows it is a whole one. ``contradicted`` are
    intervals, by step, for which another count was sent.
    """

    seconds: int
    parts: dict[int, dict[tuple[int, int], int]] = field(default_factory=dict)
    totals: dict[int, dict[int, ShownTotal]] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    contradicted: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    newest: int = -1
    forgotten: int = -1  # steps before this one


class ContradictionError(InputError):
    """An interval that overlaps with one that was counted already: the first one stands.

    Another count for exactly the same interval does not raise this: the answer to a sender must not depend on
    what was counted before.
    """


class Folded(NamedTuple):
    """The steps that some counts completed (``whole``), and which of the counts were ``new``.

    ``known`` are counts of intervals that were counted before, whatever they say; ``contradicting`` are those
    among them that differ from the first count, one for each interval.
    """

    whole: list[StepCount]
    new: list[SensorCount]
    known: list[SensorCount]
    contradicting: list[SensorCount]


class StepFold:
    """Adds up parts and subtracts totals until a step is whole.

    A corrected step is whole once each of its parts was corrected, none before the count that it corrects.
    """

    def __init__(self, rules: StepRules) -> None:
        self.rules = rules
        self.ends: Literal["exclusive", "inclusive"] | None = None
        """What was recognised of the feed; None while nothing is known."""
        self._sensors: dict[tuple[str, int], _Sensor] = {}  # by name and version
        self.withheld: list[tuple[_Sensor, tuple[int, int], StepCount]] = []
        """The count that waits until it is known how the feed's intervals end."""
        self._undo: list[Callable[[], object]] = []

    def take(self, counts: Sequence[SensorCount]) -> Folded:
        """Take the counts of intervals that are new; of an interval that is known the first count stands.

        :class:`InputError` for one that fits no step or is too old, :class:`ContradictionError` for one that
        overlaps with an earlier one; nothing has changed then. Neither depends on what was counted before.
        """
        self._undo = []
        folded = Folded([], [], [], [])
        try:
            for each in counts:
                key = each.sensor, each.version
                sensor = self._sensors.get(key)
                if sensor is None:
                    seconds = self.rules.step_seconds * self.rules.steps_of(each.sensor)
                    sensor = self._sensors[key] = _Sensor(seconds)
                if each.start is None:
                    self._total(sensor, each, folded)
                else:
                    self._part(sensor, each, folded)
        except InputError:
            for undo in reversed(self._undo):
                undo()
            raise
        for key in {(each.sensor, each.version) for each in counts}:
            self._forget(self._sensors[key])
        folded.whole[:] = self._placed(folded.whole)
        return folded

    def _placed(self, whole: Sequence[StepCount]) -> list[StepCount]:
        """Counts of windows in their last steps; what no window publishes is left out."""
        windows, found = self.rules.windows, []
        for each in whole:
            own = windows.get(each.sensor)
            last = each.step if own is None else (each.step + 1) * own.steps - 1
            if own is None or own.ends_with(last):
                found.append(each._replace(step=last))
        return found if len(windows) == 0 else sorted(found, key=lambda each: each.step)

    def _part(self, sensor: _Sensor, count: SensorCount, folded: Folded) -> None:
        start, end = self.rules.since_origin(count.start or 0), self.rules.since_origin(count.end)
        is_short = self._is_short(sensor, start, end)
        end += is_short
        step = self._step_of(sensor, start, end)
        self._require_recent(sensor, step)
        if count.version > 1:
            self._require_first(count, step, (start, end))
        # Its share of the limit, so that no sum can pass it: a refusal would tell what the other parts are.
        most = MAX_COUNT * (end - start) // sensor.seconds
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
        self._undo.append(partial(parts.pop, (start, end)))
        self._see(sensor, step)
        folded.new.append(count)
        made = StepCount(step, count.sensor, sum(parts.values()), count.version)
        is_whole = sum(after - before for before, after in parts) == sensor.seconds
        if is_short:
            folded.whole.extend(self._given(sensor, (start, end), made, is_whole=is_whole))
        elif is_whole:
            folded.whole.append(made)

    def _require_first(self, count: SensorCount, step: int, interval: tuple[int, int]) -> None:
        """A correction comes after what it corrects; the engine would refuse it before."""
        before = self._sensors.get((count.sensor, count.version - 1))
        if before is None or self._known_ends is None or interval not in before.parts.get(step, {}):
            raise InputError(
                f"version {count.version} of a count must come after version {count.version - 1}",
                "one whose interval has none",
                "send it first; if the first count is not sent at all, give the final one the number 1 in "
                "`versions` of the mapping",
            )

    @property
    def _known_ends(self) -> Literal["exclusive", "inclusive"] | None:
        """How the feed's intervals end: declared, recognised, or not known yet."""
        return self.ends if self.rules.ends == "recognise" else self.rules.ends

    def _fits(self, sensor: _Sensor, start: int, end: int) -> bool:
        """Whether an interval is a step, or one of the equal parts of it that are added up."""
        length, step = end - start, sensor.seconds
        fits_one = length == step or (self.rules.sums_shorter and length > 0 and step % length == 0)
        return fits_one and start % length == 0

    def _is_short(self, sensor: _Sensor, start: int, end: int) -> bool:
        """Whether the end is the interval's last second, and not the next one's start."""
        known, is_exact = self._known_ends, self._fits(sensor, start, end)
        is_one_short = self._fits(sensor, start, end + 1)
        if is_exact and known == "inclusive":
            raise _other_ends("exclusive")
        if is_one_short and not is_exact and self.rules.ends == "recognise" and known == "exclusive":
            raise _other_ends("inclusive")
        if is_exact and known is None:
            self._know("exclusive")
        return known == "inclusive" or (known is None and is_one_short and not is_exact)

    def _know(self, ends: Literal["exclusive", "inclusive"]) -> None:
        """Note how the feed's intervals end; the one that waited is dropped if they turn out exclusive."""
        before = self.withheld
        self.ends, self.withheld = ends, []
        self._undo += [partial(setattr, self, "ends", None), partial(setattr, self, "withheld", before)]
        for sensor, interval, count in before if ends == "exclusive" else ():
            parts = sensor.parts.get(count.step, {})
            people = parts.pop(interval, None)
            if people is not None:
                self._undo.append(partial(parts.__setitem__, interval, people))

    def _given(
        self, sensor: _Sensor, interval: tuple[int, int], count: StepCount, *, is_whole: bool
    ) -> list[StepCount]:
        """The steps to hand on after a short interval: none after the first, which waits for a second one."""
        found = [count] if is_whole else []
        if self._known_ends is not None:
            return found
        if not self.withheld:
            self.withheld = [(sensor, interval, count)]
            self._undo.append(self.withheld.clear)
            return []
        before, first, earlier = self.withheld[0]
        self._know("inclusive")
        is_step = first[1] - first[0] == before.seconds
        return sorted([earlier, *found] if is_step else found)

    def _step_of(self, sensor: _Sensor, start: int, end: int) -> int:
        """The step that an interval lies in."""
        length = sensor.seconds
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
            what = "step" if length == self.rules.step_seconds else "window"
            raise InputError(
                f"an interval must be a {what} of {length:,} s, from a bound of {what}s to the next",
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
        length = sensor.seconds
        self._require_recent(sensor, at // length)
        totals = sensor.totals.setdefault(at // length, {})
        if at in totals:
            self._again(sensor, at // length, (at, at), totals[at].people, count, folded)
            return
        totals[at] = ShownTotal(count.people, count.began)
        folded.new.append(count)
        self._undo.append(partial(totals.pop, at))
        self._see(sensor, at // length)
        found = []
        for step in {(at - 1) // length, at // length}:
            if step < 0 or step in sensor.whole:
                continue
            end = (step + 1) * length
            last = {time: total for time, total in sensor.totals.get(step + 1, {}).items() if time == end}
            known = {**sensor.totals.get(step, {}), **last}
            rules = self.rules
            counted = difference(known, step * length, end, rules.resets, rules.tolerance_seconds)
            if counted is not None and counted <= MAX_COUNT:  # more comes of a broken counter's resets
                sensor.whole.add(step)
                self._undo.append(partial(sensor.whole.discard, step))
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
        """An interval that is known: the first count stands, and the sender does not learn if it differs."""
        folded.known.append(count)
        contradicted = sensor.contradicted.setdefault(step, set())
        if known != count.people and interval not in contradicted:
            contradicted.add(interval)
            self._undo.append(partial(contradicted.discard, interval))
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
            self._undo.append(partial(setattr, sensor, "newest", before))

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


# A durable journal of counts: what is taken is on disk, and taking the same again changes nothing.
#
# In the connector's own folder, for its owner only:
#
# - ``counts.jsonl``: what was taken, a line for all counts of a payload, and the rules and sensors that
#   hold from there on. It is synced to disk before anybody is answered; a torn last line was never
#   acknowledged, and is cut
# - ``messages.jsonl``: activations and readings as ``tallyguard run --follow`` reads them, made of the
#   first file alone. After a kill, or a loss of power, what is missing of it is written again, byte for
#   byte

logger = logging.getLogger(__name__)

MESSAGES = "messages.jsonl"
ENDS_IN_WORDS = {
    "inclusive": "Intervals end just before the next one begins: their ends are taken as inclusive, and each "
    "interval as lasting until the next one's start.",
    "exclusive": "Intervals end where the next one begins: the one before that ended a second earlier is not "
    "counted.",
}
_COUNTS = "counts.jsonl"
_MOST_SILENT_STEPS = 100_000  # announced at once after a pause; a longer one means a wrong clock


@dataclass(frozen=True)
class TakenCounts:
    """How many counts of a payload were new, and how many were of intervals counted before.

    ``letters`` are dead letters about those that differ from the first count; they are for the owner of the
    folder, and no answer to a sender depends on them.
    """

    new: int
    known: int
    letters: tuple[Rejected, ...] = ()


class NotOverError(InputError):
    """An interval that is not over yet: the same count may be sent again in ``again_seconds``."""

    def __init__(self, again_seconds: float, must: str, got: str, remedy: str) -> None:
        super().__init__(must, got, remedy)
        self.again_seconds = again_seconds


class CountJournal:
    """Takes counts while the block runs, one process at a time.

    A step is announced for all ``sensors``, whichever of them count in it, with every step before it since
    the first: an announcement reveals no count. ``now_seconds`` is the clock by which an interval must be
    over; its end may be ``ahead_seconds`` ahead of it.
    """

    def __init__(
        self,
        folder: Path,
        rules: StepRules,
        sensors: Sequence[str],
        now_seconds: Callable[[], float],
        ahead_seconds: float = 0.0,
    ) -> None:
        make_folder(folder, SECRET_FOLDER_MODE)  # lengths of files grow with the digits of counts
        self._lock = FolderLock(folder)
        self._now_seconds = now_seconds
        self._ahead_seconds = ahead_seconds
        self._sensors: tuple[str, ...] = ()
        self._known_sensors: frozenset[str] = frozenset()
        self._fold = StepFold(rules)
        self._first, self._last = 0, -1  # announced steps
        self._counts = AppendFile(folder / _COUNTS, SECRET_MODE)
        self._messages = AppendFile(folder / MESSAGES, SECRET_MODE)
        self._messages.most_pending = inf  # none is handed on before the counts it is made of are durable
        sync_folder(folder)
        self._head = b""
        try:
            self._restore()
            self._hold(rules, tuple(dict.fromkeys(sensors)))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder back; what was not committed is dropped."""
        self._counts.close()
        self._messages.close()
        self._lock.close()

    def take(self, counts: Sequence[SensorCount]) -> TakenCounts:
        """Take what is new of a payload; after :meth:`commit` all of it is durable, new or known.

        :class:`InputError` says what is wrong with one of its counts, without quoting it; nothing is taken
        then. :class:`NotOverError` for a count that came too early. :class:`OutputError` while this machine's
        clock is wrong, as no count can be judged then.
        """
        self._check_clock()
        self._check(counts)
        has_waited = bool(self._fold.withheld)
        folded = self._fold.take(counts)
        if has_waited and self._fold.ends is not None:
            logger.info("%s", ENDS_IN_WORDS[self._fold.ends])
        if folded.new:
            self._counts.append(json.dumps([each.saved() for each in folded.new]).encode() + b"\n")
            for line in chain.from_iterable(map(self._lines, folded.whole)):
                self._messages.append(line)
        return TakenCounts(len(folded.new), len(folded.known), tuple(map(_letter, folded.contradicting)))

    @property
    def ends(self) -> str | None:
        """How this feed's intervals end, in a sentence, where other than usual ends were recognised."""
        is_recognised = self._fold.rules.ends == "recognise" and self._fold.ends == "inclusive"
        return ENDS_IN_WORDS["inclusive"] if is_recognised else None

    def commit(self) -> None:
        """Wait until all that was taken is on disk; then hand it to the engine.

        :class:`OutputError` where the disk is full: nothing may be acknowledged then, and a later call goes
        on from there.
        """
        self._counts.sync()
        self._messages.flush()

    def _check_clock(self) -> None:
        """A machine that starts with its clock in 1970 would refuse every count as one of the future."""
        if self._now_seconds() < self._fold.rules.origin_seconds:
            raise OutputError(
                "this machine's clock must be right",
                "a time before step 0",
                "set it, or wait until it is set; what came meanwhile is not acknowledged, and comes again",
            )

    def _check(self, counts: Sequence[SensorCount]) -> None:
        """The checks that depend on the clock, not on earlier counts; a restart does not repeat them."""
        latest = self._now_seconds() + self._ahead_seconds
        for each in counts:
            if each.sensor not in self._known_sensors:
                raise InputError(
                    "each sensor of a payload must be one of the deployment",
                    f"{each.sensor!r}",
                    "give the deployment's name for it in `names` of the mapping, or add it to the sensors",
                )
            if latest < each.end <= latest + self._fold.rules.step_seconds:
                raise NotOverError(
                    each.end - latest,
                    "the interval of a count must be over",
                    "one that is not",
                    "send a count once it is final, or set the counter's clock",
                )
            if each.end > latest:
                raise InputError(
                    "a count must not be of the future",
                    "an interval that ends later than a step from now",
                    "set the counter's clock, or the time zone in the mapping",
                )
            step = self._fold.rules.since_origin(each.end) // self._fold.rules.step_seconds
            last = step if self._last < 0 else self._last
            if not self._first - RECENT_STEPS <= step <= last + _MOST_SILENT_STEPS:
                raise InputError(
                    f"a count must be at most {RECENT_STEPS:,} steps before the first one that came, and "
                    f"{_MOST_SILENT_STEPS:,} after the last",
                    "another time",
                    "look at the counter's clock; bring in an archive with `tallyguard connect files`",
                )

    def _lines(self, count: StepCount) -> Iterator[bytes]:
        """A reading, after the activations it needs."""
        if self._last < 0:
            self._first, self._last = count.step, count.step - 1
        steps = range(self._last + 1, count.step + 1)
        if count.step < self._first:
            steps = range(count.step, self._first)
            self._first = count.step
        windows = self._fold.rules.windows
        for step in steps:
            counting = tuple(
                name for name in self._sensors if name not in windows or windows[name].ends_with(step)
            )
            yield Activation(v=1, step=step, sensors=counting).line()
        self._last = max(self._last, count.step)
        version = None if count.version == 1 else count.version
        yield Reading(v=1, step=count.step, sensor=count.sensor, count=count.people, version=version).line()

    def _restore(self) -> None:
        """Take again what is on disk, and write what is missing of the messages."""
        self._counts.truncate(LineCount.of(self._counts.path).bytes)
        with self._counts.path.open("rb") as counts, self._messages.path.open("rb") as messages:
            kept, is_all = 0, True
            for number, line in enumerate(counts, start=1):
                for made in chain.from_iterable(map(self._lines, self._again(line, number))):
                    is_all = is_all and messages.read(len(made)) == made
                    if is_all:
                        kept += len(made)
                    else:
                        self._messages.append(made)
            if is_all and messages.read(1):
                raise OutputError(
                    f"{self._messages.path} must be made of {self._counts.path.name}",
                    "messages of counts that are not there",
                    restoring(self._counts.path.name),
                )
        self._messages.truncate(kept)

    def _again(self, line: bytes, number: int) -> list[StepCount]:
        """What a line gave when it was written."""
        try:
            found = parse_json(line)
            if isinstance(found, dict):
                self._hold_again(line, StepRules.read(found["rules"]), tuple(found["sensors"]))
                return []
            return self._fold.take([SensorCount(*each) for each in found]).whole
        except (TypeError, ValueError, KeyError, TallyguardError):
            raise OutputError(
                f"each line of {self._counts.path} must be as it was written",
                f"another one in line {number}",
                restoring(self._counts.path.name),
            ) from None

    def _hold(self, rules: StepRules, sensors: tuple[str, ...]) -> None:
        """Go on with these; what they were before holds for what was taken before."""
        head = json.dumps({"rules": rules.document(), "sensors": list(sensors)}).encode() + b"\n"
        was, now = self._fold.rules.document(), rules.document()
        is_same_steps = all(was[key] == now[key] for key in ("origin_seconds", "step_seconds"))
        if self._head and not (is_same_steps and was.get("windows") == now.get("windows")):
            raise RunChangedError(
                f"{self._counts.path.parent} must go on with the steps it began with",
                "other windows of sensors" if is_same_steps else "another origin or step_seconds",
                "put them back, or name a folder of its own for the new deployment",
            )
        if head != self._head:
            self._counts.append(head)
            self._hold_again(head, rules, sensors)

    def _hold_again(self, head: bytes, rules: StepRules, sensors: tuple[str, ...]) -> None:
        self._head, self._fold.rules = head, rules
        self._sensors, self._known_sensors = sensors, frozenset(sensors)


def _letter(count: SensorCount) -> Rejected:
    """The dead letter of another count than was sent before: it names sensor and interval, and no count."""
    times = [datetime.fromtimestamp(each, UTC) for each in (count.start, count.end) if each is not None]
    interval = " to ".join(f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in times)
    hint = f"sensor {count.sensor!r} was sent another count for {interval}; the first one stands"
    return reject(count.sensor, b"", Reason.CONTRADICTING_READING, f"{hint}; look for a second sender")


# The journal of a deployment's connector: its steps, its sensors, and what its mapping declares.


def journal_of(
    folder: Path, settings: Settings, mapping: PayloadSettings, sensors: Sequence[str]
) -> CountJournal:
    """The journal in a connector's folder, which announces these sensors."""
    rules = StepRules(
        settings.origin_seconds,
        settings.step_seconds,
        sums_shorter=mapping.shorter == "sum",
        tolerance_seconds=mapping.tolerance_seconds,
        resets=mapping.resets,
        ends=mapping.ends,
        windows=windows_of(settings),
    )
    return CountJournal(folder, rules, sensors, time.time, settings.max_ahead_seconds)


def windows_of(settings: Settings) -> dict[str, CountingWindow]:
    """The windows that the deployment's sensors publish, where its sensors are known."""
    registry = declared_sensors(settings)
    sensors = () if registry is None else registry.windowed
    return {each.name: each.window for each in sensors if each.window is not None}


def announced_sensors(settings: Settings, mapping: PayloadSettings, table: str) -> tuple[str, ...]:
    """The deployment's sensors, or those that the mapping names; :class:`SettingsError` where neither is.

    ``table`` is where the mapping stands, as ``connect.http.map``.
    """
    registry = declared_sensors(settings)
    require_most_counts(registry, [mapping])
    if registry is not None:
        _require_corrections(settings, registry, mapping, table)
        return tuple(sensor.name for sensor in registry.sensors)
    named = tuple(dict.fromkeys(mapping.names.values()))
    if not named:
        raise SettingsError(
            "the sensors must be known before their counts",
            f"neither locations nor {table}.names",
            f"set locations (and sensors) in the settings, or name each sensor in [{table}.names]",
        )
    return named


def _require_corrections(
    settings: Settings, registry: SensorRegistry, mapping: PayloadSettings, table: str
) -> None:
    """Corrected counts can be published, where the mapping lets any come in."""
    can_come = mapping.version and (not mapping.versions or max(mapping.versions.values()) > 1)
    corrections = max((each.corrections for each in registry.sensors), default=0)
    if can_come and not (settings.late and corrections):
        raise SettingsError(
            f"corrected counts, as `version` of [{table}] lets them come in, must be declared",
            f"late = {settings.late} and {corrections} corrections of a sensor",
            "set late, and corrections in the sensors file; or leave provisional counts out, with versions = "
            "{provisional = 0, final = 1} in the words of the feed",
        )
