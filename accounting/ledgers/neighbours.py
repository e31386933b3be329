"""What one person can change, and the most that a step charges for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar

from models.mechanisms import Mechanism
from models.releases import CountingWindow, SensorRelease


class Neighbours(StrEnum):
    """Which two data sets must look alike."""

    ADD_REMOVE = "add or remove one person"
    MOVE = "move one person"

    @property
    def places(self) -> int:
        """At how many places counts differ."""
        return 2 if self is Neighbours.MOVE else 1


@dataclass(frozen=True, slots=True)
class Cost:
    """An exact amount, or infinitely much."""

    amount: Fraction = Fraction()
    is_infinite: bool = False

    @classmethod
    def of(cls, value: float) -> Cost:
        """The amount of a floating-point number, exactly."""
        return cls(is_infinite=True) if math.isinf(value) else cls(Fraction(value))

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.amount + other.amount, self.is_infinite or other.is_infinite)

    def __lt__(self, other: Cost) -> bool:
        return (self.is_infinite, self.amount) < (other.is_infinite, other.amount)

    def __float__(self) -> float:
        return math.inf if self.is_infinite else float(self.amount)


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


Amount = TypeVar("Amount", bound=_Ordered)


class WindowCosts(Generic[Amount]):
    """What the windows that end with one step cost whoever they count.

    One person is counted by at most ``most_sensors`` of those that cover the same steps, by all of them where
    nothing is declared. Windows of another length are charged besides.
    """

    def __init__(self) -> None:
        self._costs: dict[int, list[Amount]] = {}
        self._most: dict[int, int | None] = {}

    def add(self, window: CountingWindow, cost: Amount) -> None:
        """One more release."""
        self._costs.setdefault(window.steps, []).append(cost)
        self._most[window.steps] = window.most_sensors

    def dearest(self, people: int = 1) -> list[Amount]:
        """Those that so many people together can change at most; who moves is as two."""
        found: list[Amount] = []
        for costs, most in self.by_length(people):
            found += sorted(costs, reverse=True)[:most]
        return found

    def by_length(self, people: int = 1) -> Iterator[tuple[list[Amount], int]]:
        """Costs of the windows of each length, and how many of them so many people can change at most."""
        for steps, costs in self._costs.items():
            most = self._most[steps]
            yield costs, len(costs) if most is None else people * most


def seen_together(releases: Iterable[SensorRelease]) -> set[tuple[int, ...]]:
    """The sets of releases, by their number, that one place has in common; those of windows have none."""
    seen_by: dict[int, tuple[int, ...]] = {}
    for index, release in enumerate(releases):
        if release.sensor.window is None:
            for location in release.sensor.locations:
                seen_by[location] = (*seen_by.get(location, ()), index)
    return set(seen_by.values())


def step_cost(
    releases: Iterable[SensorRelease], cost: Callable[[Mechanism], Cost], neighbours: Neighbours
) -> Cost:
    """The most that one step costs anybody, ``cost`` being that of one count changed by one.

    A person is at one location and counted by every sensor there. To add or remove them costs the dearest
    location; to move them costs two locations that different sensors see: exact when these share no sensor,
    an upper bound otherwise. Windows that end with the step are charged besides.
    """
    released = tuple(releases)
    costs = [cost(release.charged) for release in released]
    windows = WindowCosts[Cost]()
    for release, own in zip(released, costs, strict=True):
        if release.sensor.window is not None:
            windows.add(release.sensor.window, own)
    places = sorted((sum((costs[i] for i in seen), Cost()) for seen in seen_together(released)), reverse=True)
    people = neighbours.places
    return sum([*places[:people], *windows.dearest(people)], Cost())
