"""Which totals of published values are made: of which times and places, and of what is inside one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from models.calendar import Days
from models.releases import Sensor


class Time(StrEnum):
    """How long a total is of, by the local clock; weeks begin on Monday."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


class Space(StrEnum):
    """Where a total is of; a district is a group of sensors, a device may have several as its parts."""

    SENSOR = "sensor"
    DEVICE = "device"
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
                "a level of totals must be hour, day or week by sensor, device, district or city, "
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

    def place(self, name: str, sensors: Mapping[str, Sensor]) -> str:
        """The place that the counts of the sensor of this name belong to."""
        sensor = sensors.get(name)
        if self.space is Space.CITY:
            return CITY
        if self.space is Space.SENSOR or sensor is None:
            return name
        return sensor.group if self.space is Space.DISTRICT else sensor.part_of or name


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many are inside a place: who ``entered`` less who ``left``, by these sensors, since it was empty.

    Nobody is inside at ``empty_minute`` of the local clock. Of the passages a share of up to ``drift`` is
    missed, or counted twice.
    """

    place: str
    entered: tuple[str, ...]
    left: tuple[str, ...]
    empty_minute: int
    drift: float = 0.0

    def period(self, days: Days, step: int) -> int:
        """A number for the time between two resets in which a step begins."""
        return days.of(step, self.empty_minute)
