"""Counts of moves, and over windows, in a crowd: what is told of the others, and ceilings by enumeration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from accounting.audit import audit_population
from accounting.exposure.crowd import CrowdAdversary, Others, crowds_by_sensor
from accounting.exposure.crowd.variance_kernel import COINS, UNITS, VARIANCE
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population
from models.releases import (
    CountingWindow,
    MoveEnd,
    Schedule,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
    in_single_steps,
)
from tests.accounting.combinations.deployments import Shown, noise_of, optimum_of
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.enumeration import Floats
from tests.volume import randoms

Counted = frozenset[tuple[object, ...]]


def name_of(each: Sensor | MoveEnd, step: int) -> tuple[object, ...]:
    """One end of moves, or a count of presence."""
    own = (each.leaves, each.beyond) if isinstance(each, MoveEnd) else ()
    return each.name, step, each.locations, *own


def random_sensors(rng: np.random.Generator, places: int) -> list[Sensor]:
    """One to three counters of moves, now and then of presence; some count the same."""
    found = []
    pairs = [pair for pair in product(range(places), repeat=2) if pair[0] != pair[1] or rng.random() < 0.3]
    for number in range(int(rng.integers(1, 4))):
        chosen = [pairs[k] for k in rng.permutation(len(pairs))[: int(rng.integers(1, 3))]]
        steps = int(rng.integers(1, 3))
        window = CountingWindow(steps, tuple(sorted((a, b, 1) for a, b in chosen)))
        where = tuple(sorted({place for pair in chosen for place in pair}))
        found.append(Sensor(f"s{number}", where, most_counts=steps, window=window))
    if rng.random() < 0.5:
        found.append(Sensor("room", (int(rng.integers(places)),)))
    return found


class Told:
    """What is told of one person, path by path: written anew, from the rule in words."""

    def __init__(self, start: Floats, matrix: Floats, steps: Sequence[StepSchedule], waits: bool) -> None:
        self.start, self.matrix, self.steps, self.waits = start, matrix, steps, waits
        self.places = range(start.size)

    def counted(self, t: int, x: int | None, z: int, y: int) -> Counted | None:
        """What counts somebody at ``z`` in step ``t`` who comes from ``x`` and goes to ``y``.

        None where it is not one count of each kind, or not known.
        """
        sides: list[list[tuple[object, ...]]] = [[], [], []]
        for each in self.steps[t].counting:
            if isinstance(each, MoveEnd):
                beyond = y if each.leaves else x
                is_there = z in each.locations
                if is_there and beyond is None and set(each.beyond) & set(self.places):
                    return None
                if is_there and beyond in each.beyond:
                    sides[1 + each.leaves].append(name_of(each, t))
            elif z in each.locations:
                sides[0].append(name_of(each, t))
        if max(map(len, sides)) > 1:
            return None
        return frozenset(own for side in sides for own in side)

    def pairs(self, t: int, x: int | None, y: int) -> dict[int, tuple[frozenset[int], tuple[object, ...]]]:
        """Of each place at ``t`` its pair's places, and the count that is left open between them."""
        mass: dict[Counted, float] = defaultdict(float)
        own: dict[Counted, list[int]] = defaultdict(list)
        for z in self.places:
            chance = (self.law(t)[z] if x is None else self.matrix[x, z]) * self.matrix[z, y]
            counted = self.counted(t, x, z, y)
            if chance > 0.0 and counted is not None:
                mass[counted] += chance
                own[counted].append(z)
        found = {}
        while True:
            options = [
                (mass[more] * mass[less] / (mass[more] + mass[less]), more, less)
                for more, less in product(mass, repeat=2)
                if less < more and len(more - less) == 1
            ]
            if not options:
                return found
            _, more, less = max(options, key=lambda each: each[0])
            (count,) = more - less
            for z in (*own[more], *own[less]):
                found[z] = frozenset((*own[more], *own[less])), count
            del mass[more], mass[less]

    def law(self, t: int) -> Floats:
        return self.start @ np.linalg.matrix_power(self.matrix, t)

    def of_path(self, path: tuple[int, ...]) -> tuple[tuple[object, ...], dict[object, int]]:
        """The answers about this path, and the bits that stay open in it."""
        answers: list[object] = []
        bits: dict[object, int] = {}
        is_told, waits, was_free = False, self.waits, False
        for t in range(len(path) - 1):
            x = path[t - 1] if is_told and not was_free else None
            if not is_told and not self.is_seen(t):
                answers.append("nothing is asked")
                continue
            is_open = not (was_free or waits) and self.may_be_open(t, x)
            waits = False
            if not is_open:
                answers.append(path[t])
                is_told, was_free = True, False
                continue
            y = path[t + 1]
            own = self.pairs(t, x, y).get(path[t])
            answers.append(path[t] if own is None else own[0])
            if own is not None:
                counted = self.counted(t, x, path[t], y)
                assert counted is not None
                bits[own[1]] = int(own[1] in counted)
            is_told, was_free = True, True
        return (*answers, path[-1]), bits

    def is_seen(self, t: int) -> bool:
        """Whether anything can count the person in this step."""
        own = set(self.places)
        return any(
            own & set(each.locations) and (isinstance(each, Sensor) or bool(own & set(each.beyond)))
            for each in self.steps[t].counting
        )

    def may_be_open(self, t: int, x: int | None) -> bool:
        """Whether anything may stay open in this step, wherever the person was before."""
        before = [None] if x is None else list(self.places)
        return any(self.pairs(t, each, y) for each in before for y in self.places)


def accounted(sensors: list[Sensor], steps: int, mechanism: Mechanism, places: int) -> list[StepSchedule]:
    """The steps of a run whose sensors publish whatever they can."""
    names = tuple(str(place) for place in range(places))
    registry = SensorRegistry(names, tuple(sensors))
    registry = registry.with_windows({each.name: mechanism for each in sensors if each.window})
    found = []
    for t in range(steps):
        ending = [each for each in sensors if each.window is None or each.window.ends_with(t)]
        releases = tuple(SensorRelease(each, mechanism) for each in ending)
        found.append(in_single_steps(StepSchedule(t, releases), registry))
    return found


@pytest.mark.slow
def test_what_is_told_of_a_person_leaves_independent_bits_and_nothing_else_in_the_counts() -> None:
    """Every path of a person: the kernel's sums are those of the rule in words.

    Given the answers all counts are known but for the bits, which are independent of each other.
    """
    seen = 0
    for rng in randoms(60, 200):
        places, steps = int(rng.integers(2, 4)), 5
        matrix = rng.dirichlet(np.full(places, 1.0), size=places)
        if rng.random() < 0.5:
            matrix = np.where(matrix < 0.15, 0.0, matrix)
            matrix = matrix / matrix.sum(axis=1, keepdims=True)
        start = rng.dirichlet(np.ones(places))
        schedule = accounted(random_sensors(rng, places), steps, Raw(), places)
        prior = MovementPrior.from_dense(f"p{rng.integers(9)}", matrix, initial=start)
        population = Population.pack([prior], [str(place) for place in range(places)])
        others = Others(population)
        waits = bool(others.saved()["revealed"][0] == 121)
        told = Told(start, matrix, schedule, waits)
        variance: dict[object, float] = defaultdict(float)
        coins: dict[object, float] = defaultdict(float)
        groups: dict[object, list[tuple[float, tuple[int, ...], dict[object, int]]]] = defaultdict(list)
        for path in product(range(places), repeat=steps):
            chance = start[path[0]] * np.prod(matrix[list(path[:-1]), list(path[1:])])
            if chance > 0.0:
                answers, bits = told.of_path(path)
                groups[answers].append((float(chance), path, bits))
        for members in groups.values():
            total = sum(chance for chance, *_ in members)
            names = sorted(members[0][2], key=repr)
            assert all(sorted(bits, key=repr) == names for *_, bits in members)
            ones = {n: sum(c for c, _, bits in members if bits[n]) / total for n in names}
            for name, q in ones.items():
                variance[name] += total * q * (1.0 - q)
                coins[name] += total * 2.0 * min(q, 1.0 - q)
            joint: dict[tuple[int, ...], float] = defaultdict(float)
            for chance, path, bits in members:
                joint[tuple(bits[n] for n in names)] += chance / total
                assert rest_of(schedule, path, bits) == rest_of(schedule, *members[0][1:])
            for values, chance in joint.items():
                alone = np.prod([ones[n] if v else 1.0 - ones[n] for n, v in zip(names, values, strict=True)])
                assert chance == pytest.approx(alone, abs=1e-12)
        for t in range(steps - 1):
            for each, crowd in zip(schedule[t].counting, others.apply(schedule[t]), strict=True):
                name = name_of(each, t)
                own = np.array(crowd.units)[[VARIANCE, COINS]] / UNITS
                assert own == pytest.approx([variance[name], coins[name]], abs=1e-8)
                seen += variance[name] > 0.0
    assert seen > 50


def rest_of(
    schedule: list[StepSchedule], path: tuple[int, ...], bits: dict[object, int]
) -> dict[object, int]:
    """What this path adds to every count, without what is left open: a move is one count at both its ends."""
    found: dict[object, int] = defaultdict(int)
    for t, step in enumerate(schedule):
        for each in step.counting:
            if not isinstance(each, MoveEnd):
                found[each.name, each.locations, t] += int(path[t] in each.locations)
            elif not each.leaves and t > 0:
                is_counted = path[t] in each.locations and path[t - 1] in each.beyond
                found[each.name, each.beyond, each.locations, t] += int(is_counted)
            count: tuple[object, ...] = each.name, each.locations, t
            if isinstance(each, MoveEnd):
                ends = (each.locations, each.beyond) if each.leaves else (each.beyond, each.locations)
                count = each.name, *ends, t + each.leaves
            found[count] -= bits.get(name_of(each, t), 0)
    return {name: number for name, number in found.items() if number}


WINDOWS = {
    "moves": (1, CountingWindow(1, ((0, 1, 1),))),
    "both ways": (1, CountingWindow(1, ((0, 1, 1), (1, 0, 1)))),
    "moves of two steps": (2, CountingWindow(2, ((0, 1, 1),))),
    "sum": (2, CountingWindow(2)),
    "at most once": (1, CountingWindow(2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WINDOWS)
def test_ceilings_of_few_counts_over_windows_in_a_crowd_are_the_best_adversarys(kind: str) -> None:
    """Among 20 to 60 alike an audit's is the optimum; a run's, which is bound by less, is never below it."""
    best_added = informed_added = 0.0
    for rng in randoms(61, 24):
        places = int(rng.integers(2, 4))
        steps, people, mistakes = 6 - places, int(rng.integers(20, 61)), int(rng.integers(2))
        matrix = rng.dirichlet(np.full(places, 2.0), size=places)
        names = [str(place) for place in range(places)]
        priors = [MovementPrior.from_dense(f"p{number}", matrix) for number in range(people)]
        population = Population.pack(priors, names)
        most, window = WINDOWS[kind]
        sensor = Sensor("s", (0, 1) if window.moves else (0,), most_counts=most, window=window)
        mechanism: Mechanism = Raw() if rng.random() < 0.6 else Gaussian(0.7)
        ending = [t for t in range(steps) if window.ends_with(t)][-2:]
        schedule = [
            StepSchedule(t, (SensorRelease(sensor, mechanism),) if t in ending else ()) for t in range(steps)
        ]
        shown = [Shown(sensor, t, most, noise_of(mechanism)) for t in ending]
        everybody = [(population.chain(0).start[0], matrix[np.newaxis])] * people
        best = optimum_of(everybody, shown, steps, (0, steps - 1), mistakes)
        if best is None:
            continue
        (audit,) = audit_population(
            population, Schedule(tuple(schedule)), mistakes, people=[0], adversary=CrowdAdversary()
        )
        assert best - 1e-9 <= audit.certified <= best + 1e-4 + 0.02 * (best - audit.baseline)
        best_added += best - audit.baseline
        informed_added += audit.certified_informed - audit.baseline
        settings = HorizonSettings(steps, mistakes, sharpen_above=0.0)
        accounts = BothAccounts(population, CrowdAdversary(), settings)
        registry = SensorRegistry(population.location_names, (sensor,)).with_windows({"s": mechanism})
        for step in schedule:
            accounts.apply(in_single_steps(step, registry))
        assert best - 1e-9 <= accounts.risk()[0] <= accounts.informed.risk()[0] + 1e-12
    assert 0.0 < best_added < 0.3 * informed_added


@pytest.mark.parametrize("kind", ["moves", "both ways", "moves of two steps", "sum"])
def test_a_crowd_of_thousands_hides_what_is_summed_over_windows(kind: str) -> None:
    """Exact counts of 20,000 alike add a twentieth of what they add for who knows where everybody is."""
    most, window = WINDOWS[kind]
    sensor = Sensor("s", (0, 1) if window.moves else (0,), most_counts=most, window=window)
    matrix = np.array([[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]])
    persona = Population.pack([MovementPrior.from_dense("p", matrix)], ["0", "1", "2"])
    population = Population(
        persona.people, persona.location_names, persona.arrays, weights=np.array([20_000.0])
    )
    schedule = accounted([sensor], 10, Raw(), 3)
    accounts = BothAccounts(population, CrowdAdversary(), HorizonSettings(4, 0, sharpen_above=0.0))
    accounts.apply_all(schedule)
    added = accounts.added()[0]
    assert 0.0 <= added < 0.05 * (accounts.informed.risk()[0] - accounts.baseline()[0])
    again = BothAccounts(population, CrowdAdversary(), HorizonSettings(4, 0, sharpen_above=0.0))
    again.apply_all(schedule[:7])
    restored = BothAccounts(population, CrowdAdversary(), HorizonSettings(4, 0, sharpen_above=0.0))
    restored.restore(again.snapshot())
    restored.apply_all(schedule[7:])
    assert restored.snapshot() == accounts.snapshot()


def test_what_is_said_of_a_crowd_is_nobody_where_one_person_may_be_counted_twice() -> None:
    """Such a count, and one that is corrected, is accounted as if the others were known."""
    prior = MovementPrior.from_dense("p", np.full((2, 2), 0.5))
    others = Others(Population.pack([prior], ["0", "1"]), weights=np.array([100.0]))
    for sensor in (Sensor("s", (0,)), Sensor("s", (0,), most_counts=2), Sensor("s", (0,), corrections=1)):
        step = StepSchedule(0, (SensorRelease(sensor, Raw()),))
        found = crowds_by_sensor(step, others.ask(step), CrowdAdversary())
        hides = sensor.most_counts == 1 and not sensor.corrections
        assert (found["s"].sigma > 0.0) == hides


def test_what_exact_moves_reveal_by_the_fast_bound_is_no_less_than_any_adversary_wins() -> None:
    """Of any horizon of a log, among 2 to 50 alike; often less than if others were known."""
    compared = lowered = 0
    for rng in randoms(62, 60):
        window_of = WINDOWS[str(rng.choice(["moves", "both ways", "moves of two steps"]))]
        places, people = int(rng.integers(2, 4)), int(rng.integers(2, 51))
        last = int(rng.integers(1, 6 - places))
        horizon = int(rng.integers(1, last + 2))
        mistakes = int(rng.integers(min(2, horizon)))
        matrix = rng.dirichlet(np.full(places, float(rng.choice([0.5, 2.0]))), size=places)
        priors = [MovementPrior.from_dense(f"p{number}", matrix) for number in range(people)]
        population = Population.pack(priors, [str(place) for place in range(places)])
        sensor = Sensor("s", (0, 1), most_counts=window_of[0], window=window_of[1])
        schedule = accounted([sensor], last + 1, Raw(), places)
        ending = [t for t in range(last + 1) if window_of[1].ends_with(t)]
        shown = [Shown(sensor, t, window_of[0], np.ones(1)) for t in ending]
        everybody = [(population.chain(0).start[0], matrix[np.newaxis])] * people
        best = optimum_of(everybody, shown, last + 1, (last - horizon + 1, last), mistakes)
        if best is None:
            continue
        accounts = BothAccounts(
            population, CrowdAdversary(), HorizonSettings(horizon, mistakes, sharpen=False)
        )
        accounts.apply_all(schedule)
        assert best - 1e-9 <= accounts.fast.risk()[0]
        compared += 1
        lowered += accounts.fast.risk()[0] < accounts.informed.risk()[0] - 1e-6
    assert lowered > compared / 4 > 0
