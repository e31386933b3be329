"""Claim: the fast continuous bound keeps up with millions of people-steps a second on two cores.

Everybody's horizon of ten steps is moved on by one step: terms, memory of what came before, certified bound.
Then the refined bound of everybody after a history of 40 raw steps, and the constants it starts from.
``python -m benchmarks.continuous``
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.hmm.frontier.search_kernel import new_memory
from accounting.settings import OPERATIONS, HorizonSettings
from benchmarks.forward_viterbi import LOCATIONS, random_population
from benchmarks.harness import Contestant, measure, rate, show
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import Population, chain_view
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.city import City, CityOptions, build_city
from stream_app.steps.policy.people_shards import people_shares

HORIZON, MISTAKES, STEPS = 10, 5, 20
HISTORY_STEPS = 40


def steps_with(seed: int, sensors: int, mechanism: Mechanism, *, come_again: bool) -> list[StepSchedule]:
    """Steps of so many sensors at random locations: others in each step, or the same."""
    rng = np.random.default_rng(3 if come_again else seed)
    releases: list[tuple[SensorRelease, ...]] = []
    for _ in range(1 if come_again else STEPS):
        chosen = rng.choice(LOCATIONS, sensors, replace=False)
        releases.append(tuple(SensorRelease(Sensor(f"s{c}", (int(c),)), mechanism) for c in chosen))
    return [StepSchedule(t, releases[t % len(releases)]) for t in range(STEPS)]


def stationary(population: Population) -> Population:
    """The same people, everybody from the stationary start."""
    nobody = np.zeros(len(population) + 1, dtype=np.int64)
    return replace(population, arrays=population.arrays._replace(initial_start=nobody, initial=np.zeros(0)))


def walk(
    population: Population, sensors: int, mechanism: Mechanism, *, come_again: bool = False
) -> Callable[[], float]:
    """Account all steps from the beginning; only the steps are timed.

    Every call has steps of its own, as what a step tells is looked up when it comes again.
    """
    seeds = count(4)
    settings = HorizonSettings(HORIZON, MISTAKES, sharpen=False)
    accountant = ContinuousAccountant(population, settings)
    fresh = accountant.snapshot()

    def run() -> float:
        accountant.restore(fresh)
        steps = steps_with(next(seeds), sensors, mechanism, come_again=come_again)
        began = time.perf_counter()
        accountant.apply_all(steps)
        return time.perf_counter() - began

    return run


def refined(
    population: Population, sensors: int, mistakes: int, vectors: int, horizon: int = HORIZON
) -> Callable[[], float]:
    """One step more after a history, everybody refined; the fast bound takes next to nothing of it."""
    settings = HorizonSettings(horizon, mistakes, sharpen_above=0.0, vectors=vectors)
    accountant = ContinuousAccountant(population, replace(settings, sharpen=False))
    before = [
        replace(step, step=number)
        for number, step in enumerate(
            s for seed in range(3) for s in steps_with(seed, sensors, Raw(), come_again=False)
        )
    ]
    accountant.apply_all(before[:HISTORY_STEPS])
    accountant.settings = settings
    here = accountant.snapshot()

    def run() -> float:
        accountant.restore(here)
        began = time.perf_counter()
        accountant.apply(before[HISTORY_STEPS])
        return time.perf_counter() - began

    return run


def refined_table() -> None:
    """People a second, by mistakes allowed and vectors; and the constants of a person and slot."""
    people = stationary(random_population(1_000, 10, 3))
    size = float(len(people))
    contestants = {
        f"refined, s = {mistakes}, {vectors} vectors": Contestant(
            refined(people, 20, mistakes, vectors), size
        )
        for mistakes in (0, 1, 2)
        for vectors in (4, 16)
    }
    for mistakes in (1, 2):
        settings = HorizonSettings(HORIZON, mistakes)
        name = f"guess and baseline of a slot, s = {mistakes}"
        contestants[name] = Contestant(partial(_start, people, settings), size)
    found = measure(contestants)
    note = f"T = {HORIZON}, {HISTORY_STEPS} steps before, 10 places, 3 exits, 20 raw of {LOCATIONS} locations"
    show("Refined bound", ["what", "people/s"], [[name, rate(value)] for name, value in found.items()], note)


def growth_table(people: int = 200) -> None:
    """How the refined bound of a person grows with each size alone, and the memory of a thread's search."""
    base = {"places": 10, "steps": HORIZON, "mistakes": 1, "raw sensors": 20, "vectors": 16}
    sizes = {
        "places": (5, 10, 20, 40),
        "steps": (5, 10, 20),
        "mistakes": (0, 1, 2, 3),
        "raw sensors": (5, 10, 20, 40),
        "vectors": (1, 4, 16, 64),
    }
    rows = []
    for name, values in sizes.items():
        for value in values:
            places, steps, mistakes, sensors, vectors = (base | {name: value}).values()
            population = stationary(random_population(people, places, 3))
            run = refined(population, sensors, mistakes, vectors, steps)
            seconds = statistics.median(run() for _ in range(3))
            search_memory = new_memory(chain_view(population.arrays, 0), steps * vectors, mistakes)
            parts = ((part,) if isinstance(part, np.ndarray) else part for part in search_memory)
            memory = sum(array.nbytes for part in parts for array in part)
            rows.append([name, str(value), f"{1e3 * seconds / people:.3f}", f"{memory / 1024:,.0f}"])
    note = (
        "base: " + ", ".join(f"{value} {name}" for name, value in base.items()) + f", {LOCATIONS} locations"
    )
    show("Refined bound as it grows", ["what grows", "to", "ms a person", "kB a thread"], rows, note)


def as_a_run(
    population: Population, steps: list[StepSchedule], mistakes: int, operations: int | None
) -> tuple[Callable[[], float], ContinuousAccountant]:
    """The last step as a run accounts it: fast bound for everybody, refined as far as the work goes."""
    settings = HorizonSettings(HORIZON, mistakes, operations=operations)
    shares = people_shares(population.people, 4)
    accountant = ContinuousAccountant(population, settings, shares=shares)
    accountant.settings = replace(settings, sharpen=False)
    accountant.apply_all(steps[:-1])
    accountant.settings = settings
    here = accountant.snapshot()

    def run() -> float:
        accountant.restore(here)
        began = time.perf_counter()
        accountant.apply(steps[-1])
        return time.perf_counter() - began

    return run, accountant


def city_steps(city: City, sensors: int) -> list[StepSchedule]:
    """So many random sensors of the city's in each step, raw."""
    rng = np.random.default_rng(3)
    known = city.registry.sensors
    return [
        StepSchedule(
            t,
            tuple(SensorRelease(known[k], Raw()) for k in rng.choice(len(known), sensors, replace=False)),
        )
        for t in range(HISTORY_STEPS + 1)
    ]


def cascade_table(people: int = 2_000) -> None:
    """People a second with the work that a run gives to their part of 100 000 people, and with less."""
    given = OPERATIONS * people // 100_000
    city = build_city(CityOptions(people=people))
    sparse = stationary(random_population(people, 10, 3))
    shapes = {}
    for mechanism, said in ((Raw(), "raw"), (Gaussian(2.0), "of sigma 2")):
        drawn = [s for seed in range(3) for s in steps_with(seed, 20, mechanism, come_again=False)]
        steps = [replace(s, step=t) for t, s in enumerate(drawn[:41])]
        shapes[f"10 places, 3 exits, 20 {said} of 100"] = sparse, steps
    shapes |= {
        "city, 8 raw sensors": (city.population, city_steps(city, 8)),
    }
    rows = []
    for name, (population, steps) in shapes.items():
        for mistakes in (1, 2):
            for part in (0.0, 0.1, 0.3, 1.0, None):
                work = None if part is None else int(given * part)
                run, accountant = as_a_run(population, steps, mistakes, work)
                seconds = statistics.median(run() for _ in range(3))
                said = "no limit" if part is None else f"{part:g} x"
                cells = [rate(people / seconds), f"{accountant.not_reached / people:.0%}"]
                added = f"{accountant.summary().mean_added:.3f}"
                rows.append([f"{name}, s = {mistakes}, {said}", *cells, added])
    note = f"T = {HORIZON}, {HISTORY_STEPS} steps before; work in parts of the default's for 100 000 people"
    show("Cascade", ["what", "people/s", "not reached", "added"], rows, note)


def _start(population: Population, settings: HorizonSettings) -> None:
    ContinuousAccountant(population, settings)


def main() -> None:
    """Print all tables."""
    sparse = stationary(random_population(100_000, 10, 3))
    dense = stationary(random_population(2_000, 100, 100))
    cases: dict[str, tuple[Population, int, Mechanism]] = {
        "sparse, 10 places, 1 raw sensor": (sparse, 1, Raw()),
        "sparse, 10 places, 20 raw sensors": (sparse, 20, Raw()),
        "sparse, 10 places, 20 sensors of sigma 1": (sparse, 20, Gaussian(1.0)),
        "full, 100 places, 1 raw sensor": (dense, 1, Raw()),
        "full, 100 places, 20 raw sensors": (dense, 20, Raw()),
    }
    contestants = {
        name: Contestant(walk(people, sensors, mechanism), float(len(people) * STEPS))
        for name, (people, sensors, mechanism) in cases.items()
    }
    again = "sparse, 10 places, the same 20 sensors of sigma 1 again"
    looked_up = walk(sparse, 20, Gaussian(1.0), come_again=True)
    contestants[again] = Contestant(looked_up, float(len(sparse) * STEPS))
    found = measure(contestants)
    note = f"T = {HORIZON}, s = {MISTAKES}, {LOCATIONS} locations, own matrix each, fast bound for everybody"
    rows = [[name, rate(value)] for name, value in found.items()]
    show("Continuous accounting", ["people and step", "person-steps/s"], rows, note)
    refined_table()
    growth_table()
    cascade_table()


if __name__ == "__main__":
    main()
