"""Which totals of published values are made: of which times and places, and of what is inside one; and
which sensors count over a window what others count in its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from models.calendar import Days
from models.releases import Sensor
from stream_app.exceptions import SettingsError


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


@dataclass(frozen=True, slots=True)
class Whole:
    """A sensor with a window, ``place``, that counts in it what its ``parts`` count in shorter steps."""

    place: str
    parts: tuple[str, ...]

    def counted_by_parts(self, sensors: Mapping[str, Sensor]) -> int:
        """How often the parts can count one person in a window of the whole.

        :class:`SettingsError` unless whole and parts are two readings of one count.
        """
        unknown = next((name for name in (self.place, *self.parts) if name not in sensors), None)
        if unknown is not None:
            raise _refusal(self, "must name sensors", repr(unknown), "correct the name, or add the sensor")
        whole, parts = sensors[self.place], [sensors[name] for name in self.parts]
        steps = 1 if whole.window is None else whole.window.steps
        lengths = {1 if each.window is None else each.window.steps for each in parts}
        if self.place in self.parts or len(lengths) > 1 or steps % max(lengths) or steps == max(lengths):
            raise _refusal(
                self,
                "must be parts of one shorter window that fills the window of the whole",
                f"{steps} steps of the whole, {', '.join(map(str, sorted(lengths)))} of its parts",
                "declare a window for the whole, such as the hours of a day",
            )
        kinds = {each.counts for each in (whole, *parts) if each.counts is not None}
        if len(kinds) > 1 or self._seen([whole]) != self._seen(parts):
            raise _refusal(
                self,
                "must count the same at the same places as the whole, each place or move once",
                " and ".join(sorted(kinds)) if len(kinds) > 1 else "other places or moves",
                "name all sensors of the whole's places, and leave out what lies elsewhere",
            )
        devices = {each.part_of or each.name: each for each in parts}.values()
        often = [each.most_counts for each in devices]
        most = (
            steps // max(lengths) * (sum(often) if parts[0].window and parts[0].window.moves else max(often))
        )
        bounds = [each.per_day.own for each in devices if each.per_day is not None and each.per_day.own]
        if whole.most_counts < (min(most, sum(bounds)) if len(bounds) == len(devices) else most):
            raise _refusal(
                self,
                f"can count one person {most} times in a window, so the whole must, too",
                f"most_counts {whole.most_counts}",
                "raise it, or declare most_counts_per_day of the parts where devices count nobody more often",
            )
        return most

    def _seen(self, sensors: Sequence[Sensor]) -> Counter[tuple[int, ...]]:
        """The places, or moves, of which people are counted, with how often."""
        found: Counter[tuple[int, ...]] = Counter()
        for each in {each.part_of or each.name: each for each in sensors}.values():
            if each.window is None or not each.window.moves:
                found.update((place,) for place in each.locations)
            for start, end, times in () if each.window is None else each.window.moves:
                found[start, end] += times
        return found


def _refusal(whole: Whole, must: str, got: str, remedy: str) -> SettingsError:
    return SettingsError(f"what total_of names for {whole.place!r} {must}", got, remedy)
