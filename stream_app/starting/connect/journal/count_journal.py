"""A durable journal of counts: what is taken is on disk, and taking the same again changes nothing.

In the connector's own folder, for its owner only:

- ``counts.jsonl``: what was taken, a line for all counts of a payload, and the rules and sensors that hold
  from there on. It is synced to disk before anybody is answered; a torn last line was never acknowledged,
  and is cut
- ``messages.jsonl``: activations and readings as ``tallyguard run --follow`` reads them, made of the first
  file alone. After a kill, or a loss of power, what is missing of it is written again, byte for byte
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from models.text import parse_json
from stream_app.exceptions import InputError, OutputError, RunChangedError, restoring
from stream_app.setup.run_folder.durable import (
    SECRET_FOLDER_MODE,
    SECRET_MODE,
    AppendFile,
    FolderLock,
    make_folder,
    sync_folder,
)
from stream_app.starting.connect.journal.step_fold import RECENT_STEPS, StepCount, StepFold, StepRules
from stream_app.starting.connect.payloads import SensorCount
from stream_app.wire import Activation, Reading, Reason, Rejected, reject

logger = logging.getLogger(__name__)

MESSAGES = "messages.jsonl"
ENDS_IN_WORDS = {
    "inclusive": "Intervals end just before the next one begins: their ends are taken as inclusive, and each "
    "interval as lasting until the next one's start.",
    "exclusive": "Intervals end where the next one begins: the one before that ended a second earlier is not "
    "counted.",
}
_COUNTS = "counts.jsonl"
_MOST_SILENT_STEPS = 100_000  # that are announced at once; more are a clock gone wrong
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Taken:
    """How many counts of a payload were new, and how many were known already, whatever they say.

    ``letters`` are dead letters of those with another count, for the owner: no answer depends on them.
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
        self._unwritten: list[bytes] = []
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder back; what was not committed is dropped."""
        self._counts.close()
        self._messages.close()
        self._lock.release()

    def take(self, counts: Sequence[SensorCount]) -> Taken:
        """Take what is new of a payload; durable after :meth:`commit`, also what was known already.

        :class:`InputError` says what is wrong with one of its counts, and quotes nothing of it; nothing is
        taken then. :class:`NotOverError` for one that came too early. :class:`OutputError`, that nothing can
        be said while this machine's clock is wrong.
        """
        self._check_clock()
        self._check(counts)
        has_waited = self._fold.has_withheld
        folded = self._fold.take(counts)
        if has_waited and self._fold.ends is not None:
            logger.info("%s", ENDS_IN_WORDS[self._fold.ends])
        if folded.new:
            self._counts.append(json.dumps([list(each) for each in folded.new]).encode() + b"\n")
            for each in folded.whole:
                self._unwritten += self._lines(each)
        return Taken(len(folded.new), len(folded.known), tuple(map(_letter, folded.contradicting)))

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
        self._hand_over()

    def _hand_over(self) -> None:
        for line in self._unwritten:
            self._messages.append(line)
        self._unwritten = []
        self._messages.flush()

    def _check_clock(self) -> None:
        """A machine that comes up in 1970 would refuse every count as one of the future, for good."""
        if self._now_seconds() < self._fold.rules.origin_seconds:
            raise OutputError(
                "this machine's clock must be right",
                "a time before step 0",
                "set it, or wait until it is set; what came meanwhile is not acknowledged, and comes again",
            )

    def _check(self, counts: Sequence[SensorCount]) -> None:
        """What does not depend on earlier counts, and is not asked again at a restart."""
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
        for step in steps:
            yield Activation(v=1, step=step, sensors=self._sensors).line()
        self._last = max(self._last, count.step)
        yield Reading(v=1, step=count.step, sensor=count.sensor, count=count.people).line()

    def _restore(self) -> None:
        """Take again what is on disk, and write what is missing of the messages."""
        self._counts.truncate(self._whole_bytes())
        with self._counts.path.open("rb") as counts, self._messages.path.open("rb") as messages:
            kept = 0
            for number, line in enumerate(counts, start=1):
                for each in self._again(line, number):
                    for made in self._lines(each):
                        if self._unwritten or messages.read(len(made)) != made:
                            self._unwritten.append(made)
                        else:
                            kept += len(made)
            if not self._unwritten and messages.read(1):
                raise OutputError(
                    f"{self._messages.path} must be made of {self._counts.path.name}",
                    "messages of counts that are not there",
                    restoring(self._counts.path.name),
                )
        self._messages.truncate(kept)
        self._hand_over()

    def _again(self, line: bytes, number: int) -> list[StepCount]:
        """What a line gave when it was written."""
        try:
            found = parse_json(line)
            if isinstance(found, dict):
                self._hold_again(line, StepRules(**found["rules"]), tuple(found["sensors"]))
                return []
            return self._fold.take([SensorCount(*each) for each in found]).whole
        except (TypeError, ValueError, KeyError, InputError):
            raise OutputError(
                f"each line of {self._counts.path} must be as it was written",
                f"another one in line {number}",
                restoring(self._counts.path.name),
            ) from None

    def _hold(self, rules: StepRules, sensors: tuple[str, ...]) -> None:
        """Go on with these; what they were before holds for what was taken before."""
        head = json.dumps({"rules": asdict(rules), "sensors": list(sensors)}).encode() + b"\n"
        before = self._fold.rules
        if self._head and (rules.origin_seconds, rules.step_seconds) != (
            before.origin_seconds,
            before.step_seconds,
        ):
            raise RunChangedError(
                f"{self._counts.path.parent} must go on with the steps it began with",
                "another origin or step_seconds",
                "put them back, or name a folder of its own for the new deployment",
            )
        if head != self._head:
            self._counts.append(head)
            self._hold_again(head, rules, sensors)

    def _hold_again(self, head: bytes, rules: StepRules, sensors: tuple[str, ...]) -> None:
        self._head, self._fold.rules = head, rules
        self._sensors, self._known_sensors = sensors, frozenset(sensors)

    def _whole_bytes(self) -> int:
        """The length of the file up to its last whole line."""
        with self._counts.path.open("rb") as file:
            end = file.seek(0, 2)
            while end:
                begin = max(end - _PIECE_BYTES, 0)
                file.seek(begin)
                found = file.read(end - begin).rfind(b"\n")
                if found >= 0:
                    return begin + found + 1
                end = begin
        return 0


def _letter(count: SensorCount) -> Rejected:
    """The dead letter of another count than was sent before: it names sensor and interval, and no count."""
    times = [datetime.fromtimestamp(each, UTC) for each in (count.start, count.end) if each is not None]
    interval = " to ".join(f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in times)
    hint = f"sensor {count.sensor!r} was sent another count for {interval}; the first one stands"
    return reject(count.sensor, b"", Reason.CONTRADICTING_READING, f"{hint}; look for a second sender")
