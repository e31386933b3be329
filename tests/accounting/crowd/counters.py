"""The cases of ``counters.json`` as deployments: people, sensors over windows, a horizon that is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.audit import Audit, audit_population
from accounting.exposure.crowd import CrowdAdversary
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population, Question
from models.releases import (
    CountingWindow,
    Schedule,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
    in_single_steps,
)
from tests.accounting.combinations.deployments import Shown, optimum_of
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.enumeration import Floats


def cases_of(*kinds: str) -> list[dict[str, Any]]:
    """The reference cases of these kinds."""
    everything = json.loads((Path(__file__).parent / "counters.json").read_text())["cases"]
    return [case for case in everything if case["kind"] in kinds]


@dataclass(frozen=True)
class Counters:
    """A case; person 0 is the target, or ``target`` says whose persona the target has.

    Windows begin with multiples of their length, so as many steps as that takes come first, in which nobody
    moves.
    """

    case: dict[str, Any]

    @cached_property
    def people(self) -> list[dict[str, Any]]:
        case = self.case
        return list(case["personas"] if "personas" in case else [case["target"], *case.get("others", ())])

    @property
    def target(self) -> int:
        return int(self.case.get("target_is_one_of", 0))

    @property
    def releases(self) -> list[dict[str, Any]]:
        return list(self.case.get("releases") or self.case["windows"])

    @cached_property
    def before(self) -> int:
        """How many steps come first."""
        return next(
            steps
            for steps in count()
            if all((own["last"] + 1 + steps) % length(own) == 0 for own in self.releases)
        )

    @property
    def steps(self) -> int:
        return self.before + len(self.people[0]["transitions"]) + 1

    @cached_property
    def population(self) -> Population:
        places = len(self.people[0]["initial"])
        priors = [
            MovementPrior.from_dense(f"p{number}", matrices, initial=start)
            for number, (start, matrices) in enumerate(self.chains)
        ]
        population = Population.pack(priors, [str(place) for place in range(places)])
        weights = self.case.get("weights")
        if weights is not None:
            population = replace(population, weights=np.array(weights, dtype=np.float64))
        if "horizon" not in self.case:
            return population
        first, last = self.case["horizon"]
        asked = [int(first <= step - self.before <= last) for step in range(self.steps)]
        return Question("asked", {}, asked).asked_of(population)

    @cached_property
    def chains(self) -> list[tuple[Floats, Floats]]:
        """Of each of the ``people`` where they start and how they move, for enumeration."""
        still = np.eye(len(self.people[0]["initial"]))
        return [
            (np.array(each["initial"]), np.array([*[still] * self.before, *each["transitions"], still]))
            for each in self.people
        ]

    @cached_property
    def sensors(self) -> list[Sensor]:
        return [self._sensor(f"s{number}", own) for number, own in enumerate(self.releases)]

    def _sensor(self, name: str, own: dict[str, Any]) -> Sensor:
        steps, begins = length(own), self.before + own["first"]
        if own["counts"] in ("presence", "dedup"):
            most = 1 if own["counts"] == "dedup" else steps
            window = CountingWindow(steps, first_step=begins)
            return Sensor(name, tuple(sorted(own["places"])), most_counts=most, window=window)
        times = np.array(own["times_counted"])
        moves = tuple((int(x), int(y), int(times[x, y])) for x, y in np.argwhere(times))
        places = tuple(sorted({place for start, end, _ in moves for place in (start, end)}))
        window = CountingWindow(steps, moves, first_step=begins - 1)
        most = min(own.get("most", 99), most_moves(times, steps))
        return Sensor(name, places, most_counts=most, window=window)

    @cached_property
    def schedule(self) -> list[StepSchedule]:
        """Each count is published once, with the last step of its window."""
        published: list[list[SensorRelease]] = [[] for _ in range(self.steps)]
        for own, sensor in zip(self.releases, self.sensors, strict=True):
            published[self.before + own["last"]].append(SensorRelease(sensor, mechanism_of(own)))
        return [StepSchedule(step, tuple(own)) for step, own in enumerate(published)]

    def optimum(self, *, among: bool) -> float:
        """Of the best adversary, who knows where everybody else is, or ``among`` them, where nobody is."""
        others = self.chains[1:]
        if self.case["kind"] == "personas":
            weights = np.array(self.case["weights"]) - np.eye(len(self.chains), dtype=int)[self.target]
            others = [
                chain for chain, number in zip(self.chains, weights, strict=True) for _ in range(number)
            ]
        shown = [
            Shown(sensor, self.before + own["last"], sensor.most_counts, noise_of(own))
            for own, sensor in zip(self.releases, self.sensors, strict=True)
        ]
        first, last = (self.before + step for step in self.case["horizon"])
        people = [self.chains[self.target], *(others if among else ())]
        found = optimum_of(people, shown, self.steps, (first, last), self.case["mistakes"])
        assert found is not None
        return found

    def audit(self, adversary: CrowdAdversary | None = None) -> Audit:
        """Of the target."""
        schedule, mistakes = Schedule(tuple(self.schedule)), self.case["mistakes"]
        (found,) = audit_population(
            self.population, schedule, mistakes, people=[self.target], adversary=adversary
        )
        return found

    def running(self, settings: HorizonSettings) -> Iterator[tuple[int, BothAccounts]]:
        """The accounts after each step (of the case's own); each sensor is there for its one window."""
        accounts = BothAccounts(self.population, CrowdAdversary(), settings)
        for step in self.schedule:
            there = [
                (sensor, mechanism_of(own))
                for own, sensor in zip(self.releases, self.sensors, strict=True)
                if step.step <= self.before + own["last"]
            ]
            registry = SensorRegistry(self.population.location_names, tuple(sensor for sensor, _ in there))
            registry = registry.with_windows({sensor.name: mechanism for sensor, mechanism in there})
            accounts.apply(in_single_steps(step, registry))
            yield step.step - self.before, accounts

    def accounts(self) -> BothAccounts:
        """After the last step, of the horizon that is the whole log."""
        settings = HorizonSettings(self.steps, self.case["mistakes"], sharpen_above=0.0)
        *_, (_, accounts) = self.running(settings)
        return accounts


def length(own: dict[str, Any]) -> int:
    """Steps of a release's window."""
    return int(own["last"] - own["first"] + 1)


def most_moves(times: NDArray[np.int64], steps: int) -> int:
    """What one person who makes so many moves adds at most."""
    added = np.zeros(len(times), dtype=np.int64)
    for _ in range(steps):
        added = (added[:, None] + times).max(axis=0)
    return int(added.max())


def noise_of(own: dict[str, Any]) -> Floats:
    """The masses of a release's noise."""
    if own["sigma"] is None:
        return np.ones(1)
    values = np.arange(-own["noise_half_width"], own["noise_half_width"] + 1)
    masses = np.exp(-(values**2) / (2.0 * own["sigma"] ** 2))
    return np.asarray(masses / masses.sum())


def mechanism_of(own: dict[str, Any]) -> Mechanism:
    """The mechanism whose noise a release has, but for its tails."""
    return Raw() if own["sigma"] is None else Gaussian(own["sigma"])
