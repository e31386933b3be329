"""Which totals of published values are made: of which times, and of which places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from models.calendar import Days


class Time(StrEnum):
    """How long a total is of, by the local clock; weeks begin on Monday."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


class Space(StrEnum):
    """Where a total is of; a district is a group of sensors."""

    SENSOR = "sensor"
    DISTRICT = "district"
    CITY = "city"


CITY = "all"
"""What totals of the city have for a place."""


@dataclass(frozen=True, slots=True)
class Level:
    """One kind of totals, ``day by district``."""

    time: Time
    space: Space

    @classmethod
    def of(cls, words: str) -> Level:
        """From its words; ``ValueError`` for others."""
        time, _, space = words.partition(" by ")
        try:
            return cls(Time(time.strip()), Space(space.strip()))
        except ValueError:
            raise ValueError(
                "a level of totals must be hour, day or week by sensor, district or city, "
                f'got {words!r}; write totals = ["day by sensor", "week by city"]'
            ) from None

    def __str__(self) -> str:
        return f"{self.time} by {self.space}"

    def period(self, days: Days, step: int) -> int:
        """A number for the hour, date or week in which a step begins; it never falls."""
        if self.time is Time.HOUR:
            return (days.origin + step * days.step_seconds) // 3600
        of_day = days.of(step)
        return of_day if self.time is Time.DAY else (of_day - 1) // 7

    def place(self, sensor: str, groups: Mapping[str, str]) -> str:
        """The place that a sensor's counts belong to."""
        if self.space is Space.CITY:
            return CITY
        return sensor if self.space is Space.SENSOR else groups.get(sensor, "default")
