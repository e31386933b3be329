"""The slot of each step by the local clock, and how people move on between steps."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from models.calendar import Calendar, dates_of
from models.exceptions import CalendarError

HOUR = 3600


def unix(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp())


def shown(calendar: Calendar, step: int) -> datetime:
    """What a clock on the wall shows when a step begins."""
    instant = calendar.origin + step * calendar.step_seconds
    return datetime.fromtimestamp(instant, ZoneInfo(calendar.zone)).replace(tzinfo=None)


def moved_by(calendar: Calendar, cycle: int, step: int, steps: int) -> list[list[int]]:
    """The slots whose matrices each step is left by."""
    moves = calendar.moves(cycle, calendar.first_slot + step, steps)
    return [part.tolist() for part in np.split(moves.by, moves.start[1:-1])]


SPRING = unix(2026, 3, 28, 23)  # midnight in Vienna; at 02:00 clocks show 03:00
AUTUMN = unix(2026, 10, 24, 22)  # midnight in Vienna; at 03:00 clocks show 02:00


def test_in_spring_the_skipped_hours_move_is_made_as_well():
    calendar = Calendar("Europe/Vienna", SPRING, HOUR)
    assert calendar.moves(24, 0, 5).slot.tolist() == [0, 1, 3, 4, 5]
    assert moved_by(calendar, 24, 0, 4) == [[0], [1, 2], [3], [4]]


def test_in_autumn_people_stay_where_they_are_in_the_second_hour():
    calendar = Calendar("Europe/Vienna", AUTUMN, HOUR)
    assert calendar.moves(24, 0, 6).slot.tolist() == [0, 1, 2, 2, 3, 4]
    assert moved_by(calendar, 24, 0, 6) == [[0], [1], [], [2], [3], [4]]


def test_short_steps_stay_for_as_long_as_the_clock_was_put_back():
    calendar = Calendar("Europe/Vienna", AUTUMN, HOUR // 2)
    assert calendar.moves(48, 4, 0).slot.size == 0
    assert moved_by(calendar, 48, 4, 5) == [[4], [], [], [5], [6]]
    assert calendar.moves(48, 4, 5).slot.tolist() == [4, 5, 5, 5, 6]


def test_a_clock_changed_by_half_an_hour():
    lord_howe = Calendar("Australia/Lord_Howe", unix(2026, 4, 4, 13), HOUR // 2)  # 00:00; 02:00 is 01:30
    assert moved_by(lord_howe, 48, 0, 6) == [[0], [1], [2], [], [3], [4]]
    spring = Calendar("Australia/Lord_Howe", unix(2026, 10, 3, 13, 30), HOUR // 2)  # 00:00; 02:00 is 02:30
    assert moved_by(spring, 48, 0, 5) == [[0], [1], [2], [3, 4], [5]]


def test_steps_longer_than_the_change_are_in_the_slot_in_which_they_begin():
    spring = Calendar("Europe/Vienna", SPRING, 2 * HOUR)
    assert spring.moves(12, 0, 4).slot.tolist() == [0, 1, 2, 3]  # at 00:00, 03:00, 05:00, 07:00
    autumn = Calendar("Europe/Vienna", AUTUMN, 2 * HOUR)
    assert autumn.moves(12, 0, 5).slot.tolist() == [0, 1, 1, 2, 3]  # at 00:00, 02:00, 03:00, 05:00
    assert moved_by(autumn, 12, 0, 4) == [[0], [], [1], [2]]


@pytest.mark.parametrize(
    "zone", ["Europe/Vienna", "America/New_York", "Australia/Adelaide", "Asia/Kathmandu"]
)
@pytest.mark.parametrize("cycle", [24, 168])
def test_over_two_years_every_slot_is_the_local_hour(zone: str, cycle: int):
    """Except in the repeated hour, which is that hour too: from a local Monday midnight on, hour by hour."""
    midnight = datetime(2026, 1, 5, tzinfo=ZoneInfo(zone))
    calendar = Calendar(zone, int(midnight.timestamp()), HOUR)
    slots = calendar.moves(cycle, 0, 2 * 8760).slot
    for step in range(0, 2 * 8760, 7):
        clock = shown(calendar, step)
        assert slots[step] == (clock.weekday() * 24 + clock.hour) % cycle


def test_slots_follow_the_clock_whatever_the_first_slot_and_the_cycle():
    """A cycle that is no day or week is counted in local hours from step 0 on."""
    calendar = Calendar("Europe/Vienna", SPRING, HOUR, first_slot=3)
    assert calendar.moves(5, 3, 4).slot.tolist() == [3, 4, 1, 2]
    assert moved_by(calendar, 1, 0, 3) == [[0], [0], [0]]  # one slot knows no clock


def test_positions_before_step_0_and_of_the_year_2099_are_known():
    calendar = Calendar("Europe/Vienna", 0, HOUR, first_slot=1)
    assert calendar.moves(24, 1 - 30, 1).slot.tolist() == [(1 - 30) % 24]
    step = unix(2099, 7, 1, 10) // HOUR
    assert calendar.moves(24, 1 + step, 1).slot.tolist() == [12]
    with pytest.raises(CalendarError, match="steps must not lie beyond"):
        calendar.hours(calendar.last_step + 1)


def test_the_second_of_two_equal_hours_may_be_step_0():
    late = Calendar("Europe/Vienna", unix(2026, 10, 25, 1), HOUR // 2, first_slot=4)
    assert late.moves(48, 4, 4).slot.tolist()[0] == 4


def test_a_holiday_takes_the_slots_of_its_sunday():
    """1 May 2026 is a Friday; the days around it are themselves."""
    origin = int(datetime(2026, 4, 27, tzinfo=ZoneInfo("Europe/Vienna")).timestamp())  # a Monday
    calendar = Calendar("Europe/Vienna", origin, HOUR, holidays=(date(2026, 5, 1),))
    days = calendar.moves(168, 0, 14 * 24).slot.reshape(14, 24)
    assert (days[:, 0] // 24).tolist() == [0, 1, 2, 3, 6, 5, 6, 0, 1, 2, 3, 4, 5, 6]
    assert (days % 24 == np.arange(24)).all()
    assert moved_by(calendar, 168, 95, 3) == [[95], [144], [145]]  # Thursday 23 h leads to Sunday 0 h
    assert (calendar.moves(24, 0, 14 * 24).slot == np.arange(14 * 24) % 24).all()  # days know no weekday


def test_where_nothing_happens_slots_count_on_from_another_position():
    calendar = Calendar("Europe/Vienna", SPRING, HOUR)
    assert calendar.regular_position(2, 1000) == 3
    assert calendar.regular_position(0, 2) == 0
    assert calendar.regular_position(0, 3) is None
    holiday = Calendar("UTC", 4 * 86400, HOUR, holidays=(date(1970, 1, 8),))
    assert holiday.regular_position(0, 72) == 0
    assert holiday.regular_position(0, 73) is None
    assert holiday.regular_position(96, 100) == 96


def test_a_clock_that_is_never_changed_is_regular_unless_there_are_holidays():
    assert Calendar("UTC", 0, HOUR).is_regular
    assert not Calendar("UTC", 0, HOUR, holidays=(date(2026, 5, 1),)).is_regular
    assert not Calendar("Europe/Vienna", 0, HOUR).is_regular


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Calendar("Europe/Wien", 0, HOUR), "IANA database"),
        (lambda: Calendar("/etc/passwd", 0, HOUR), "IANA database"),
        (lambda: Calendar("Europe", 0, HOUR), "IANA database"),
        (lambda: Calendar("localtime", 0, HOUR), "IANA database"),  # another one on another machine
        (lambda: Calendar("posixrules", 0, HOUR), "IANA database"),
        (lambda: Calendar("right/Europe/Vienna", 0, HOUR), "IANA database"),  # counts leap seconds
        (lambda: Calendar("UTC", 0, 7 * HOUR, holidays=(date(2026, 5, 1),)), "must divide a day"),
        (lambda: Calendar("UTC", 0, 0), "1 second or more"),
        (lambda: dates_of(["1.5.2026"]), "a holiday must be a date"),
    ],
)
def test_what_cannot_be_is_refused(make, what):
    with pytest.raises(CalendarError, match=what):
        make()


def test_holidays_are_kept_in_order_each_once():
    found = dates_of(["2026-12-25", " 2026-05-01", "2026-12-25"])
    assert found == (date(2026, 5, 1), date(2026, 12, 25))
    assert found[1] - found[0] == timedelta(days=238)
