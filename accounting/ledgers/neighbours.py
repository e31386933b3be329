"""What one person can change, and the most that a step charges for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from models.mechanisms import Mechanism
from models.releases import SensorRelease


class Neighbours(StrEnum):
    """Which two data sets must look alike."""

    ADD_REMOVE = "add or remove one person"
    MOVE = "move one person"


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


def step_cost(
    releases: Iterable[SensorRelease], cost: Callable[[Mechanism], Cost], neighbours: Neighbours
) -> Cost:
    """The most that one step costs anybody, ``cost`` being that of one count changed by one.

    A person is at one location and counted by every sensor there. To add or remove them costs the dearest
    location; to move them costs two locations that different sensors see: exact when these share no sensor,
    an upper bound otherwise.
    """
    seen_by: dict[int, tuple[int, ...]] = {}
    costs: list[Cost] = []
    for index, release in enumerate(releases):
        costs.append(cost(release.accounted))
        for location in release.sensor.locations:
            seen_by[location] = (*seen_by.get(location, ()), index)
    places = sorted((sum((costs[i] for i in seen), Cost()) for seen in set(seen_by.values())), reverse=True)
    counted = places[: 2 if neighbours is Neighbours.MOVE else 1]
    return sum(counted, Cost())
