"""The local clock of a deployment: which slot of the priors' cycle each step is in, and how people move on.

Slots of daily and weekly priors are hours of a clock on the wall. Where clocks are changed, days have 23 or
25 hours, and a slot counted in steps would be an hour off from then on. Here *hours* are hours of the local
clock, as long as a step each, counted from step 0:

- a step is in the hour that the clock shows when the step begins;
- in spring an hour is skipped: people move by ``P_1 P_2``, the skipped hour's move included;
- in autumn an hour comes twice: people stay where they are from the first to the second.

Both keep the (cyclo-)stationary law. On a declared holiday a weekly cycle takes the hours of its Sunday;
this does not keep the law, so with holidays a chain's law must be carried on from step to step.

Everything here is a public function of time: it depends on nobody's places and on no count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cached_property, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import ArrayLike

from models.arguments import checked
from models.exceptions import CalendarError
from models.numerics.arrays import Integers, Integers32

DAY = 86_400
_WEEK = 7 * DAY
_EPOCH_WEEKDAY = 3  # 1 January 1970 was a Thursday; Monday is 0
_UNTIL = 4_102_444_800  # 2100: clocks are looked up until then, and for 60 years in any case
_LONG = 60 * 366 * DAY


def slots_by_the_clock(first_slot: int, step: int, calendar: Calendar | None) -> tuple[int, tuple[int, int]]:
    """The slot of a step, and those of the steps before and after it, counted on from that of step 0.

    They follow the clock where that is changed: one comes twice, another is skipped. No holiday is seen.
    """
    if calendar is None:
        return first_slot + step, (first_slot + step - 1, first_slot + step + 1)
    step += first_slot - calendar.first_slot
    hours = calendar.hours([step, step - 1, step + 1]) - calendar.hours(0)
    slot, before, after = (calendar.first_slot + hours).tolist()
    return slot, (before, after)


def slot_of_cycle(first_slot: int, step: int, cycle: int, calendar: Calendar | None) -> int:
    """The slot of a step in a cycle, by the clock; on a holiday the Sunday's in a cycle of whole weeks."""
    if calendar is None:
        return (first_slot + step) % cycle
    return int(calendar.slots(cycle, calendar.hours(step)))


@dataclass(frozen=True, slots=True)
class Days:
    """The dates on which steps begin by a local clock, UTC without a zone; step 0 at ``origin`` (Unix)."""

    origin: int
    step_seconds: int
    zone: str | None = None

    def of(self, step: int, from_minute: int = 0) -> int:
        """The date on which a step begins, in days since the year 1; a date begins at this minute."""
        return (self._local(step) - timedelta(minutes=from_minute)).toordinal()

    def fill_days(self, steps: int) -> bool:
        """Whether each of the first ``steps`` steps lies within one date."""
        return all(
            self.of(step) == (self._local(step + 1) - timedelta(seconds=1)).toordinal()
            for step in range(steps)
        )

    def _local(self, step: int) -> datetime:
        zone = UTC if self.zone is None else ZoneInfo(self.zone)
        return datetime.fromtimestamp(self.origin + step * self.step_seconds, zone)


class StepMoves(NamedTuple):
    """How people with one cycle move during consecutive steps.

    ``slot[t]`` is the slot of step ``t``. They move on to step ``t + 1`` by the product of the matrices of
    the slots ``by[start[t] : start[t + 1]]``: mostly that of ``slot[t]`` alone; of none where they stay.
    """

    slot: Integers32  # (n,)
    start: Integers  # (n + 1,)
    by: Integers32


@checked(CalendarError)
@dataclass(frozen=True)
class Calendar:
    """The clock and the holidays of a deployment whose step 0 begins at ``origin`` (Unix seconds).

    ``zone`` is a name of the IANA database. ``first_slot`` is the slot of step 0; a *position* is a slot
    counted on and on, ``first_slot + step``. ``holidays`` are local dates, for cycles of whole weeks; steps
    must then divide a day.
    """

    zone: str
    origin: int
    step_seconds: int
    first_slot: int = 0
    holidays: tuple[date, ...] = ()
    _weekly: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """:class:`~models.exceptions.CalendarError` for an unknown zone, or holidays that fit no step."""
        try:
            known_zone(self.zone)
        except ValueError:
            raise CalendarError(
                "timezone must be a name of the IANA database", repr(self.zone), "write Europe/Vienna"
            ) from None
        if self.step_seconds < 1:
            raise CalendarError("a step must last 1 second or more", self.step_seconds, "use 3600")
        if self.holidays and DAY % self.step_seconds:
            raise CalendarError(
                "with holidays steps must divide a day of 86400 seconds",
                f"{self.step_seconds} seconds",
                "take steps of 1 hour, or leave the holidays out",
            )
        days = frozenset((each - date(1970, 1, 1)).days for each in self.holidays)
        object.__setattr__(self, "_weekly", days)

    def in_words(self) -> list[str | int]:
        """Everything that it follows from, as JSON values."""
        days = [each.isoformat() for each in self.holidays]
        return [self.zone, self.origin, self.step_seconds, self.first_slot, *days]

    @cached_property
    def is_regular(self) -> bool:
        """Whether slots only count on: a clock that is never changed, and no holiday."""
        return not self.holidays and len(self._offsets[1]) == 1

    @cached_property
    def _offsets(self) -> tuple[Integers, Integers]:
        """The instants at which the clock's offset from UTC changes, and the offset from each on.

        The first offset holds from before all steps that are asked about.
        """
        return _offsets_between(self.zone, self.origin - 366 * DAY, self._until)

    @cached_property
    def changes(self) -> tuple[int, ...]:
        """The steps from 1 on that are the first to begin after each change of the clock."""
        at = self._offsets[0][1:]
        return tuple((-((self.origin - at[at > self.origin]) // self.step_seconds)).tolist())

    @property
    def most_repeated(self) -> int:
        """In how many steps at most people stay where they are because the clock is put back once."""
        back = -np.diff(self._offsets[1])
        return -(-int(back.max(initial=0)) // self.step_seconds)

    @property
    def _until(self) -> int:
        return max(_UNTIL, self.origin + _LONG)

    @property
    def last_step(self) -> int:
        """The last step whose clock is known here."""
        return (self._until - self.origin) // self.step_seconds - 2

    def _clock(self, steps: Integers) -> Integers:
        """Seconds that the clock shows at the beginning of steps, from 1 January 1970 on."""
        at, offset = self._offsets
        instant = self.origin + steps * self.step_seconds
        return np.asarray(instant + offset[np.maximum(np.searchsorted(at, instant, "right") - 1, 0)])

    @cached_property
    def _shown_at_origin(self) -> int:
        return int(self._clock(np.zeros(1, dtype=np.int64))[0])

    @property
    def since_monday(self) -> int:
        """Whole steps between midnight of a Monday, by the clock, and the beginning of step 0."""
        shown = self._shown_at_origin + _EPOCH_WEEKDAY * DAY
        return shown % _WEEK // self.step_seconds

    def from_monday(self, cycle: int) -> Calendar:
        """This clock with step 0 in its slot of a cycle that begins at midnight, a week's at Monday's."""
        return replace(self, first_slot=self.since_monday % cycle)

    @property
    def midnight(self) -> int:
        """When the clock began the day of step 0, Unix seconds."""
        day = datetime.fromtimestamp(self.origin, ZoneInfo(self.zone)).date()
        return int(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(self.zone)).timestamp())

    @cached_property
    def _first_hour(self) -> int:
        return int(self.hours(0))

    @cached_property
    def _latest(self) -> tuple[Integers, Integers]:
        """The first steps after each time that the clock was put back, and the highest hour until then."""
        at, offset = self._offsets
        back = 1 + np.flatnonzero(np.diff(offset) < 0)
        after = -((self.origin - at[back]) // self.step_seconds)
        highest = (self._clock(after - 1) - self._shown_at_origin) // self.step_seconds
        return after, np.maximum.accumulate(highest) if highest.size else highest

    def hours(self, steps: ArrayLike) -> Integers:
        """The hour of each step; it never falls. Step 0 is in hour 0, or later where an hour is repeated."""
        asked = np.asarray(steps, dtype=np.int64)
        if asked.size and asked.max() > self.last_step:
            raise CalendarError(
                f"steps must not lie beyond {self.last_step}, until when clocks are known",
                int(asked.max()),
                "begin a new deployment",
            )
        found = (self._clock(asked) - self._shown_at_origin) // self.step_seconds
        after, highest = self._latest
        passed = np.searchsorted(after, asked, "right") - 1
        if not highest.size:
            return np.asarray(found)
        return np.where(passed >= 0, np.maximum(found, highest[np.maximum(passed, 0)]), found)

    def has_holidays(self, cycle: int) -> bool:
        """Whether holidays take people with such a cycle out of it, and its law with them."""
        return bool(self._weekly) and (cycle * self.step_seconds) % _WEEK == 0

    def slots(self, cycle: int, hours: ArrayLike) -> Integers:
        """The slot of each hour in a cycle; of a holiday's in a cycle of whole weeks the Sunday's."""
        asked = np.asarray(hours, dtype=np.int64)
        if self.has_holidays(cycle):
            day = (self._shown_at_origin + asked * self.step_seconds) // DAY
            is_holiday = np.isin(day, np.fromiter(self._weekly, dtype=np.int64))
            until_sunday = (6 - (day + _EPOCH_WEEKDAY)) % 7
            asked = asked + np.where(is_holiday, until_sunday * (DAY // self.step_seconds), 0)
        return np.asarray((self.first_slot + asked - self._first_hour) % cycle)

    def moves(self, cycle: int, position: int, steps: int) -> StepMoves:
        """How people with this cycle move during the ``steps`` from a position on.

        Cycles of one slot know no clock: their chain moves once in each step.
        """
        if cycle == 1:
            nothing = np.zeros(steps, dtype=np.int32)
            return StepMoves(nothing, np.arange(steps + 1, dtype=np.int64), nothing)
        hours = self.hours(position - self.first_slot + np.arange(steps + 1))
        passed = self.slots(cycle, np.arange(hours[0], max(hours[-1], hours[0] + 1)))
        start = hours - hours[0]
        return StepMoves(
            self.slots(cycle, hours[:-1]).astype(np.int32), start, passed[: start[-1]].astype(np.int32)
        )

    def regular_position(self, position: int, steps: int) -> int | None:
        """A position from which slots that only count on are the right ones for this many steps.

        None if the clock is changed or a holiday begins or ends between these steps. The same for all cycles.
        """
        hours = self.hours(position - self.first_slot + np.arange(steps))
        if hours[-1] - hours[0] != steps - 1 or (np.diff(hours) != 1).any():
            return None
        if self._weekly:
            day = (self._shown_at_origin + np.array([hours[0], hours[-1]]) * self.step_seconds) // DAY
            if any(day[0] <= each <= day[1] for each in self._weekly):
                return None
        return int(self.first_slot + hours[0] - self._first_hour)


@lru_cache  # a command makes the calendar of its settings several times
def _offsets_between(name: str, begin: int, until: int) -> tuple[Integers, Integers]:
    zone = ZoneInfo(name)
    at, offset = [begin], [_offset(zone, begin)]
    for late in range(begin + DAY, until, DAY):  # no clock is changed twice in a day
        if (found := _offset(zone, late)) != offset[-1]:
            at.append(_change(zone, late - DAY, late, offset[-1]))
            offset.append(found)
    return np.array(at), np.array(offset)


def _offset(zone: ZoneInfo, instant: int) -> int:
    """Seconds that a clock is ahead of UTC at an instant."""
    return int((datetime.fromtimestamp(instant, zone).utcoffset() or timedelta()).total_seconds())


def _change(zone: ZoneInfo, early: int, late: int, before: int) -> int:
    """The first instant after ``early`` at which the clock's offset is no longer ``before``."""
    return early + bisect_right(range(early, late), 0, key=lambda each: int(_offset(zone, each) != before))


_OF_A_MACHINE = frozenset({"localtime", "posixrules"})  # files beside the zones, elsewhere of another zone
_WITH_LEAP_SECONDS = "right/"  # whose clock is half a minute behind ours, which counts none


def known_zone(name: str) -> ZoneInfo:
    """The time zone of a name that means the same everywhere; ``ValueError`` for any other."""
    try:
        zone = ZoneInfo(name)
    except (OSError, KeyError) as error:  # of folders, and of unknown names; of paths it is a ValueError
        raise ValueError(name) from error
    if name in _OF_A_MACHINE or name.startswith(_WITH_LEAP_SECONDS):
        raise ValueError(name)
    return zone


def zone_of(clock: str | None) -> tzinfo:
    """The time zone of a name, or of an offset such as "+01:00"; UTC where there is none."""
    if clock is None or clock[0] in "+-":
        return datetime.fromisoformat(f"2000-01-01T00:00{clock or '+00:00'}").tzinfo or UTC
    return ZoneInfo(clock)


def dates_of(written: Sequence[str]) -> tuple[date, ...]:
    """Holidays from dates like ``2026-12-25``, in order, each once."""
    found = set()
    for each in written:
        try:
            found.add(date.fromisoformat(each.strip()))
        except ValueError:
            raise CalendarError("a holiday must be a date", repr(each), "write 2026-12-25") from None
    return tuple(sorted(found))
