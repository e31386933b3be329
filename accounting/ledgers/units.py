"""Differential privacy by unit: what neighbouring data sets may differ in, from one visit to the whole log.

Neighbours differ by one person being counted, or not, within one unit; outside of it all counts are equal. A
release whose window reaches into a unit belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise

from accounting.ledgers.differential_privacy import (
    DpStatement,
    days_of,
    log_distance,
    pure_cost,
    read_differential_privacy,
    statement_of,
    zcdp_cost,
)
from accounting.ledgers.person_cost import Cost, Neighbours, WindowCosts, device_of
from accounting.ledgers.release_log import ReleaseLog
from models.calendar import Days
from models.releases import SensorRelease


class Unit(StrEnum):
    """What of a person is protected at once."""

    LOG = "whole log"
    DAY = "day"
    STEPS = "consecutive steps"
    VISIT = "visit"


@dataclass(frozen=True, slots=True)
class UnitStatement:
    """What is guaranteed of one unit; ``steps`` are those of consecutive steps, or of a visit."""

    unit: Unit
    steps: int
    statement: DpStatement


def read_units(
    log: ReleaseLog, delta: float, days: Days, any_steps: int, visit_steps: int
) -> tuple[UnitStatement, ...]:
    """The guarantee of each unit, for adding or removing what a person did in it.

    A visit is at one place, in ``visit_steps`` consecutive steps at most. The samplers' distance from ideal
    noise is that of the whole log, which is no less.
    """
    whole = read_differential_privacy(log, delta, days=days)
    distance = log_distance(log, Neighbours.ADD_REMOVE)
    rho, pure = _Units(log, days, 2), _Units(log, days, 1)

    def of(unit: Unit, steps: int, costs: Mapping[int, Cost]) -> UnitStatement:
        found = statement_of(log, delta, Neighbours.ADD_REMOVE, costs[2], costs[1], distance)
        return UnitStatement(unit, steps, found)

    return (
        UnitStatement(Unit.LOG, len(log.steps), whole),
        of(Unit.DAY, 0, {2: min(rho.day(), whole.rho), 1: min(pure.day(), whole.pure_epsilon)}),
        of(Unit.STEPS, any_steps, {2: rho.any_steps(any_steps), 1: pure.any_steps(any_steps)}),
        of(Unit.VISIT, visit_steps, {2: rho.visit(visit_steps), 1: pure.visit(visit_steps)}),
    )


class _Units:
    """The largest cost of each unit, by zCDP (``power`` 2) or pure epsilon (1)."""

    def __init__(self, log: ReleaseLog, days: Days, power: int) -> None:
        self._steps, self._days, self._power = log.steps, days, power
        self._cost = zcdp_cost if power == 2 else pure_cost
        # Equal releases are one kind, so that logs with few kinds of days are read once for each kind.
        kinds: dict[tuple[SensorRelease, ...], int] = {}
        self._kind = [kinds.setdefault(step.releases, len(kinds)) for step in log.steps]
        self._kinds = tuple(kinds)
        self._longest = max(
            (
                release.sensor.window.steps + bool(release.sensor.window.moves) - 1
                for step in log.steps
                for release in step.releases
                if release.sensor.window is not None
            ),
            default=0,
        )
        self._known: dict[object, Cost] = {}
        self._at_places = cache(self._places_of)

    def day(self) -> Cost:
        """A person's day: of one date."""
        dates = [self._days.of(step.step) for step in self._steps]
        begins = [index for index, date in enumerate(dates) if index == 0 or date != dates[index - 1]]
        return max((self._between(*each) for each in pairwise([*begins, len(dates)])), default=Cost())

    def any_steps(self, width: int) -> Cost:
        """Any so many consecutive steps."""
        return max((self._between(*each) for each in self._stretches(width)), default=Cost())

    def visit(self, width: int) -> Cost:
        """So many consecutive steps at one place."""
        found = (
            self._at_one_place(*each) + self._windows(*each, inside=True) for each in self._stretches(width)
        )
        return max(found, default=Cost())

    def _stretches(self, width: int) -> Iterator[tuple[int, int]]:
        for begin in range(max(1, len(self._steps) - width + 1) if self._steps else 0):
            yield begin, min(begin + width, len(self._steps))

    def _between(self, begin: int, end: int) -> Cost:
        """What the steps cost, with what bounds over their days leave, and windows that end later in full."""
        return self._of_days(begin, end) + self._windows(begin, end, inside=False)

    def _of_days(self, begin: int, end: int) -> Cost:
        steps = self._steps[begin:end]
        dates = tuple(self._days.of(step.step) for step in steps)
        phase = tuple(each - dates[0] for each in dates)
        began = begin if self._longest else None  # where there are windows, it matters when they began
        key = (began, tuple(self._kind[begin:end]), phase)
        if key not in self._known:
            found = days_of(steps, self._cost, self._days, self._power)
            self._known[key] = sum((each.cost() for each in found), Cost())
        return self._known[key]

    def _windows(self, begin: int, end: int, *, inside: bool) -> Cost:
        """Windows that end after the steps and began in them; also those that end ``inside``."""
        found = Cost()
        for step in self._steps[begin if inside else end : end + self._longest] if self._longest else ():
            until = self._steps[0].step + end
            reaching = [each for each in step.releases if _began(each, step.step) < until]
            costs = [self._cost(each.charged) for each in reaching]
            found += sum(WindowCosts(reaching, costs).largest(), Cost())
        return found

    def _at_one_place(self, begin: int, end: int) -> Cost:
        kinds = tuple(self._kind[begin:end])
        if kinds not in self._known:
            total: dict[int, Cost] = {}
            for kind in kinds:
                for location, cost in self._at_places(kind).items():
                    total[location] = total.get(location, Cost()) + cost
            self._known[kinds] = max(total.values(), default=Cost())
        return self._known[kinds]

    def _places_of(self, kind: int) -> Mapping[int, Cost]:
        """What the sensors at each place cost together in a step of this kind."""
        at_place: dict[int, dict[str, Cost]] = {}
        for release in self._kinds[kind]:
            cost, device = self._cost(release.charged), device_of(release.sensor)
            for location in release.sensor.locations if release.sensor.window is None else ():
                devices = at_place.setdefault(location, {})
                devices[device] = max(devices.get(device, Cost()), cost)
        return {location: sum(devices.values(), Cost()) for location, devices in at_place.items()}


def _began(release: SensorRelease, step: int) -> int:
    """The first step about which a release with this one tells; a count of moves tells of the one before."""
    window = release.sensor.window
    return step if window is None else window.first_of(step) - bool(window.moves)
