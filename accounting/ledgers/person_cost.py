"""What one person can change in a log, and the most that a step or a day charges for it.

Adding or removing a person changes, at each step, the counts of one place and of some windows that end with
it. Who is counted at most so often in a day changes no more of that day: :class:`DayCost` is the least of
what all its steps cost and of what the declared bounds (:class:`~models.releases.PerDay`) leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import zip_longest
from operator import add
from typing import Any, Generic, Protocol, TypeVar

from models.calendar import Days
from models.mechanisms import Mechanism
from models.releases import Sensor, SensorRelease


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
    """An exact amount, or infinity."""

    amount: Fraction = Fraction()
    is_infinite: bool = False

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, value: float) -> Cost:
        """The amount of a floating-point number, exactly."""
        return cls(is_infinite=True) if math.isinf(value) else cls(Fraction(value))

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.amount + other.amount, self.is_infinite or other.is_infinite)

    def __lt__(self, other: Cost) -> bool:
        return (self.is_infinite, self.amount) < (other.is_infinite, other.amount)

    def __float__(self) -> float:
        return math.inf if self.is_infinite else float(self.amount)

    def times(self, share: Fraction) -> Cost:
        """This part of the amount."""
        return Cost(self.amount * share, self.is_infinite)


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


Amount = TypeVar("Amount", bound=_Ordered)


class WindowCosts(Generic[Amount]):
    """What the windows that end with one step cost the people they count.

    Of the windows that cover the same steps, at most ``most_sensors`` count the same person; all of them do
    if nothing is declared. Windows of different lengths are charged separately and added.
    """

    def __init__(self, releases: Sequence[SensorRelease], costs: Sequence[Amount]) -> None:
        """``costs`` are those of the releases; releases without a window are left out."""
        self._devices: dict[int, list[str]] = {}
        self._costs: dict[int, list[Amount]] = {}
        self._most: dict[int, int | None] = {}
        for release, cost in zip(releases, costs, strict=True):
            window = release.sensor.window
            if window is not None:
                self._costs.setdefault(window.steps, []).append(cost)
                self._devices.setdefault(window.steps, []).append(device_of(release.sensor))
                self._most[window.steps] = window.most_sensors

    def largest(self, people: int = 1) -> list[Amount]:
        """The largest costs that this many people together can change; a person who moves counts as two.

        Of the parts of a device each of them is in one.
        """
        found: list[Amount] = []
        for (costs, most), devices in zip(self.by_length(people), self._devices.values(), strict=True):
            of_device: dict[str, list[Amount]] = {}
            for device, cost in zip(devices, costs, strict=True):
                of_device.setdefault(device, []).append(cost)
            dearest = [own for each in of_device.values() for own in sorted(each, reverse=True)[:people]]
            found += sorted(dearest, reverse=True)[:most]
        return found

    def by_length(self, people: int = 1) -> Iterator[tuple[list[Amount], int]]:
        """Costs of the windows of each length, and how many of them this many people can change at most."""
        for steps, costs in self._costs.items():
            most = self._most[steps]
            yield costs, len(costs) if most is None else people * most


def device_of(sensor: Sensor) -> str:
    """The device that a sensor is, or is a part of."""
    return sensor.name if sensor.part_of is None else f"\0{sensor.part_of}"


def costs_of_person(releases: Sequence[SensorRelease], costs: Sequence[Amount]) -> list[Amount]:
    """The same where a person is in one part of a device: the dearest part is charged.

    A place with several parts comes twice, as somebody can be moved from one part to another there.
    """
    if all(release.sensor.part_of is None for release in releases):
        return costs_at_places(releases, costs)
    at_place: dict[int, dict[str, list[Amount]]] = {}
    for release, cost in zip(releases, costs, strict=True):
        for location in release.sensor.locations if release.sensor.window is None else ():
            devices = at_place.setdefault(location, {})
            devices.setdefault(device_of(release.sensor), []).append(cost)
    found: list[Amount] = []
    for devices in at_place.values():
        cost = reduce(add, (max(parts) for parts in devices.values()))
        found += [cost] * (2 if any(len(parts) > 1 for parts in devices.values()) else 1)
    return found


def costs_at_places(releases: Sequence[SensorRelease], costs: Sequence[Amount]) -> list[Amount]:
    """The sum of the ``costs`` of the releases that count each place.

    Places that the same releases count have one sum together. Releases of windows are left out, because a
    person can be counted in them at any place.
    """
    counted_by: dict[int, tuple[int, ...]] = {}
    for index, release in enumerate(releases):
        if release.sensor.window is None:
            for location in release.sensor.locations:
                counted_by[location] = (*counted_by.get(location, ()), index)
    return [reduce(add, (costs[index] for index in indices)) for indices in set(counted_by.values())]


def step_cost(
    releases: Iterable[SensorRelease], cost: Callable[[Mechanism], Cost], neighbours: Neighbours
) -> Cost:
    """The most that one step costs a person, where ``cost`` is that of one count changed by one.

    A person is at one location and is counted by every sensor there. Adding or removing the person costs the
    dearest location. Moving the person costs the two dearest locations that different sensors count: exact if
    these share no sensor, an upper bound otherwise. Windows that end with the step are added.
    """
    released = tuple(releases)
    costs = [cost(release.charged) for release in released]
    people = neighbours.places
    places = sorted(costs_of_person(released, costs), reverse=True)[:people]
    return sum([*places, *WindowCosts(released, costs).largest(people)], Cost())


# The cost of a day in which a person is counted at most so often.
#
# With n counts of a release that charges C for L of them a person costs (n / L)^2 C in zCDP, n / L C in pure
# epsilon. Sums of such convex functions under bounds on the sums of n are largest at corners:
#
# - one sensor, J a day: the floor(J / L) dearest steps in full, and what is left of J in the next one;
# - K a day by all sensors: each count costs at most min(L, K) / L^2 C, and the K dearest are charged;
# - by q sensors: the q dearest sensors, each at most the sum of its steps.


@dataclass
class _SensorDay:
    """What one sensor charged in a day: the sum, and the dearest steps that its own bound lets count."""

    total: Cost = field(default_factory=Cost)
    most: int | None = None
    again: int = 0  # how often it counts a person in a step; 0 before the first
    dearest: list[Cost] = field(default_factory=list)

    def add(self, cost: Cost, most: int | None, again: int) -> None:
        """One more step; a bound that is raised during the day no longer holds for it."""
        if not self.again:
            self.most, self.again = most, again
        elif self.most is None or most is None or most > self.most or again != self.again:
            self.most = None
        self.total += cost
        kept = 0 if self.most is None else -(-self.most // self.again)
        self.dearest = sorted([*self.dearest, cost], reverse=True)[:kept]

    def cost(self, power: int) -> Cost:
        if self.most is None:
            return self.total
        whole, rest = divmod(self.most, self.again)
        found = sum(self.dearest[:whole], Cost())
        if rest and len(self.dearest) > whole:
            found += self.dearest[whole].times(Fraction(rest, self.again) ** power)
        return min(found, self.total)


@dataclass
class DayCost:
    """The most that the steps of one day cost a person; what is declared of the day may change during it.

    ``power`` is 2 where the cost of several counts grows with their square (zCDP), 1 where with their number.
    Windows that began on an earlier day are charged in full: their counts need not be of this day.
    """

    day: int
    power: int = 2
    _steps: Cost = field(default_factory=Cost)  # of a person who is counted at every one
    _beyond: Cost = field(default_factory=Cost)  # of windows that began before
    _most_counts: int | None = 0  # as declared, 0 before the first step; None where it does not hold all day
    _most_sensors: int | None = 0
    _dearest: list[Cost] = field(default_factory=list)  # single counts
    _sensors: dict[str, _SensorDay] | None = field(default_factory=dict)  # None where they were not kept
    _bounds_sensors: bool = False

    def add(self, step: int, releases: Sequence[SensorRelease], costs: Sequence[Cost], days: Days) -> None:
        """One more step of the day, with the cost of each release."""
        self._steps += max(costs_of_person(releases, costs), default=Cost())
        self._steps += sum(WindowCosts(releases, costs).largest(), Cost())
        own: list[tuple[SensorRelease, Cost]] = []
        beyond: list[tuple[SensorRelease, Cost]] = []
        for release, cost in zip(releases, costs, strict=True):
            window = release.sensor.window
            began = step if window is None else window.first_of(step)
            (own if days.of(began) == self.day else beyond).append((release, cost))
        late = WindowCosts([release for release, _ in beyond], [cost for _, cost in beyond])
        self._beyond += sum(late.largest(), Cost())
        for release, _ in own:
            bound = release.sensor.per_day
            self._most_counts = self._larger(self._most_counts, None if bound is None else bound.counts)
            self._most_sensors = self._larger(self._most_sensors, None if bound is None else bound.sensors)
        self._dearest += self._counts_of(own)
        self._dearest = sorted(self._dearest, reverse=True)[: self._most_counts or 0]
        if self._sensors is not None:
            own_step: dict[str, tuple[Cost, int | None, int]] = {}  # the dearest part of each device
            for release, cost in own:
                sensor, bound = release.sensor, release.sensor.per_day
                self._bounds_sensors |= bound is not None and (bound.own or bound.sensors) is not None
                device = device_of(sensor)
                own_step.setdefault(device, (cost, None if bound is None else bound.own, sensor.most_counts))
                if own_step[device][0] < cost:
                    own_step[device] = (cost, *own_step[device][1:])
            for device, charged in own_step.items():
                self._sensors.setdefault(device, _SensorDay()).add(*charged)

    def _larger(self, known: int | None, declared: int | None) -> int | None:
        """A bound that is raised during a day no longer holds for it: what was dropped may count now."""
        if known is None or declared is None or 0 < known < declared:
            return None
        return max(known, declared)

    def _counts_of(self, released: Sequence[tuple[SensorRelease, Cost]]) -> list[Cost]:
        """The dearest counts that a person can have in one step: at one place, and of windows."""
        most = self._most_counts
        if most is None:
            return []
        windows: list[Cost] = []
        at_place: dict[int, list[Cost]] = {}
        dearest_part: dict[str, tuple[SensorRelease, Cost]] = {}
        for release, cost in released:
            device = device_of(release.sensor)
            if device not in dearest_part or dearest_part[device][1] < cost:
                dearest_part[device] = release, cost
        for release, cost in dearest_part.values():
            again = release.sensor.most_counts
            each = cost.times(Fraction(min(again, most), again) ** (self.power - 1) / again)
            if release.sensor.window is not None:
                windows += [each] * again
                continue
            for location in release.sensor.locations:
                at_place.setdefault(location, []).extend([each] * again)
        places = {tuple(sorted(each, reverse=True)) for each in at_place.values()}
        dearest = [max(each) for each in zip_longest(*places, fillvalue=Cost())]
        return dearest + windows

    def cost(self) -> Cost:
        """The least of what is proved."""
        found = [self._steps]
        if self._most_counts is not None:
            found.append(sum(self._dearest, self._beyond))
        if self._sensors is not None:
            costs = sorted((each.cost(self.power) for each in self._sensors.values()), reverse=True)
            found.append(sum(costs[: self._most_sensors], self._beyond))
        return min(found)

    def save(self) -> list[Any]:
        """The day as JSON values, of finite costs."""
        sensors = self._sensors if self._bounds_sensors and self._sensors is not None else None
        return [
            self.day,
            str(self._steps.amount),
            str(self._beyond.amount),
            self._most_counts,
            self._most_sensors,
            [str(each.amount) for each in self._dearest],
            None
            if sensors is None
            else {
                name: [str(own.total.amount), own.most, own.again, [str(each.amount) for each in own.dearest]]
                for name, own in sensors.items()
            },
        ]

    @classmethod
    def load(cls, saved: Sequence[Any]) -> DayCost:
        """The day that :meth:`save` gave; it goes on as if it had never been saved."""
        day, steps, beyond, counts, most_sensors, dearest, sensors = saved
        found = cls(
            int(day), 2, _saved(steps), _saved(beyond), _number(counts), _number(most_sensors), _all(dearest)
        )
        found._sensors = None
        if sensors is not None:
            found._sensors, found._bounds_sensors = {}, True
            for name, (total, most, again, own) in sensors.items():
                found._sensors[str(name)] = _SensorDay(_saved(total), _number(most), int(again), _all(own))
        return found


def _saved(amount: str) -> Cost:
    # Not Fraction(amount): of "1e999999999" it would compute the integer.
    found = Fraction(*map(int, amount.split("/")))
    if found < 0:
        raise TypeError("an amount below 0")
    return Cost(found)


def _all(amounts: Iterable[str]) -> list[Cost]:
    return [_saved(each) for each in amounts]


def _number(value: object) -> int | None:
    if value is not None and type(value) is not int:
        raise TypeError("no whole number")
    return value
