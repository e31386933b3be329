"""Claim: a step of twenty sensors is decided for 100 000 people within a fraction of a second.

What a step may tell is found for everybody, then some dozens of candidates are looked at; the time to account
one raw step stands beside it. A run of ten decided steps, medians. ``python -m benchmarks.decisions``
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.decisions import SensorChoice, StepDecider, decide
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.settings import OPERATIONS, HorizonSettings, RiskBudget
from benchmarks.continuous import stationary
from benchmarks.forward_viterbi import LOCATIONS, random_population
from benchmarks.harness import show
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule

HORIZON, MISTAKES, STEPS = 10, 5, 10
SIGMAS = (0.5, 1.0, 2.0, 4.0, 8.0)
LIMIT = RiskBudget(share=0.01, added=0.2, habits_apart=True)


@dataclass(frozen=True)
class Timed:
    """Medians, milliseconds."""

    decided: float
    accounted: float
    rounds: float


def choices(rng: np.random.Generator, sensors: int) -> list[SensorChoice]:
    """So many sensors at random locations, each raw, with five noises, or silent."""
    at = rng.choice(LOCATIONS, sensors, replace=False)
    silence = Gaussian(SIGMAS[-1]).expected_absolute_error()
    options: list[Mechanism] = [Raw(), *map(Gaussian, SIGMAS)]
    return [
        SensorChoice.of(Sensor(f"s{c}", (int(c),)), options, weight=1.0, cost_of_silence=silence) for c in at
    ]


def run(population: Population, sensors: int, operations: int) -> Timed:
    """Decide and account some steps; the first pays for what is kept between steps and is left out."""
    settings = HorizonSettings(HORIZON, MISTAKES, operations=operations, decided=LIMIT)
    accountant = ContinuousAccountant(population, settings)
    what_if = WhatIf(accountant, LIMIT)
    rng = np.random.default_rng(5)
    decided, accounted, rounds = [], [], []
    for step in range(STEPS + 1):
        offered = choices(rng, sensors)
        began = time.perf_counter()
        next_step = what_if.next_step(AnnouncedStep([choice.sensor for choice in offered]))
        found = decide(StepDecider(step, offered, LIMIT, people=len(population)), next_step.count_over)
        decided.append(time.perf_counter() - began)
        began = time.perf_counter()
        accountant.apply(found.schedule)
        accounted.append(time.perf_counter() - began)
        rounds.append(found.rounds)
    decided_ms, accounted_ms = (1e3 * statistics.median(times[1:]) for times in (decided, accounted))
    return Timed(decided_ms, accounted_ms, float(np.median(rounds)))


def account_raw(population: Population, sensors: int) -> float:
    """Milliseconds to account one raw step of everybody."""
    accountant = ContinuousAccountant(population, HorizonSettings(HORIZON, MISTAKES, sharpen=False))
    rng = np.random.default_rng(5)
    times = []
    for step in range(STEPS):
        releases = tuple(SensorRelease(c.sensor, Raw()) for c in choices(rng, sensors))
        began = time.perf_counter()
        accountant.apply(StepSchedule(step, releases))
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times)


def main() -> None:
    """Print the table."""
    people = {count: stationary(random_population(count, 10, 3)) for count in (10_000, 100_000)}
    rows = []
    for count, sensors, operations in (
        (10_000, 20, 0),
        (100_000, 1, 0),
        (100_000, 5, 0),
        (100_000, 20, 0),
        (100_000, 20, OPERATIONS),
    ):
        timed, beside = run(people[count], sensors, operations), account_raw(people[count], sensors)
        name = f"{count:,} people, {sensors} sensors" + (", tighter bounds" if operations else "")
        ratio = timed.decided / beside
        cells = [f"{timed.decided:.0f} ms", f"{timed.rounds:.0f}", f"{beside:.0f} ms", f"{ratio:.1f} x"]
        rows.append([name, *cells])
    columns = ["sparse, 10 places each", "decide a step", "rounds", "account it raw", "ratio"]
    note = (
        f"T = {HORIZON}, s = {MISTAKES}, {LOCATIONS} locations; 1 % of people may gain {LIMIT.added} or more"
    )
    show("Release decisions under a risk budget", columns, rows, note)


if __name__ == "__main__":
    main()
