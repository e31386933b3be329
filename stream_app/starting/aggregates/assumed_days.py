"""Days that are assumed where no survey says what people do: what they are, hour by hour.

Weights of what one wants to do in each hour; who does not linger draws from those of the next hour.
"""

from __future__ import annotations

import numpy as np

from models.fitting.personas import HOME, WORK, Activity, DayType
from stream_app.exceptions import InputError

HOURS = 24
WEEK = (5, 2)
"""Weekdays and days of a weekend."""
MEAL, OUT = "meal", "out"
#: Where one goes for them, and how far: a meal near work, everything else near home.
ASSUMED_ACTIVITIES = {MEAL: Activity(MEAL, WORK, 0.6), OUT: Activity(OUT, HOME, 2.0)}
LINGER = 0.7
_WORKS = (HOME, WORK, MEAL, OUT)
_WORK_DAY = (
    (0, (0.99, 0.0, 0.0, 0.01)),
    (7, (0.5, 0.45, 0.0, 0.05)),
    (9, (0.08, 0.87, 0.02, 0.03)),
    (12, (0.06, 0.54, 0.35, 0.05)),
    (14, (0.08, 0.87, 0.02, 0.03)),
    (17, (0.45, 0.3, 0.0, 0.25)),
    (19, (0.72, 0.03, 0.0, 0.25)),
    (22, (0.93, 0.0, 0.0, 0.07)),
)
_FREE_DAY = ((0, (0.99, 0.01)), (9, (0.65, 0.35)), (18, (0.75, 0.25)), (22, (0.93, 0.07)))


def assumed_days(slots: int, week: bool = False) -> tuple[DayType, ...]:
    """A day with work and one without; of a week the work is on five days of seven."""
    free = _day("at home", (HOME, OUT), _FREE_DAY, slots)
    works = _day("works", _WORKS, _WORK_DAY, slots)
    if not week:
        return works, free
    return works.then(free, WEEK), free.then(free, WEEK)


def _day(
    name: str, activities: tuple[str, ...], blocks: tuple[tuple[int, tuple[float, ...]], ...], slots: int
) -> DayType:
    if slots < 1 or (slots % HOURS and HOURS % slots):
        raise InputError(
            "slots of assumed days must be hours, or parts or groups of hours", slots, "24 a day is usual"
        )
    hour = np.arange(slots) * HOURS / slots
    block = np.searchsorted([begin for begin, _ in blocks], hour, side="right") - 1
    weights = np.array([weights for _, weights in blocks])[block]
    return DayType.of_weights(name, activities, weights, LINGER ** (HOURS / slots))
