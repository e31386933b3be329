"""How close the running ceiling is to what an adversary achieves, and what that costs, in the demo's city.

``python -m experiments.ceilings`` (or ``make ceilings``)

After 40 hours of counts: the guess from the prior alone, the best attack on the last ten hours that sees the
whole log (drawn trajectories and noise; its success given the outputs is exact), the fast bound of everybody,
and the running ceiling. Through noise a ceiling depends on the work: it comes with a person's part of the
default work limit of runs of so many people, and with so many vectors for everybody.

Then counts over windows and of moves, several at once: the ceiling of an audit beside the best attack. And
counts at every place in every step: certain ceilings through noise are far above it, those by draws are not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from statistics import mean, median
from time import process_time, thread_time

import numpy as np

from accounting.attacks import attack_person
from accounting.audit import audit_population
from accounting.bounds import Effort, mean_added
from accounting.continuous import ContinuousAccountant
from accounting.continuous.accounts_kernel import HISTORY
from accounting.continuous.refine_kernel import KEPT, refine
from accounting.exposure import Exposure
from accounting.exposure.step_information import followed_by, nothing_seen_for, seen_release
from accounting.settings import HORIZON, OPERATIONS, HorizonSettings
from experiments.measure import write_csv
from models.mechanisms import Mechanism, parse
from models.priors import MovementPrior, Population
from models.releases import CountingWindow, Schedule, Sensor, SensorRelease, StepSchedule
from stream_app.city import City, CityOptions, build_city

CITY, HOURS, DRAWS, CONFIDENCE = CityOptions(people=80), 40, 400_000, 0.99
SIGMAS = (None, 0.5, 1.0, 2.0, 3.0)
MISTAKES = (0, 1, 2, 3)
VECTORS = (6, 16, 64)
RUNS = (5_000, 20_000, 100_000)
"""Of so many people, in whose work limit these have their part."""


WINDOW, WINDOWS, WINDOW_DRAWS = CountingWindow(4), 2, 20_000
COUNTERS = (
    Sensor("square", (0,), most_counts=WINDOW.steps, window=WINDOW),
    Sensor("station", (1, 2), most_counts=WINDOW.steps, window=WINDOW),
    Sensor("bridge", (3, 4), most_counts=2, window=CountingWindow(WINDOW.steps, ((3, 4, 1), (4, 3, 1)))),
    Sensor(
        "gate",
        (5, 6, 7),
        most_counts=WINDOW.steps,
        window=CountingWindow(WINDOW.steps, ((5, 6, 1), (6, 7, 1))),
    ),
)
"""Two that add up presence, two that count moves, at eight places: hours of four steps, say."""


@dataclass(frozen=True)
class Row:
    """Means over people; attack, fast and ceiling are added to the guess. Times: a person on one core."""

    sigma: str
    mistakes: int
    guess: float
    attack: float
    half_width: float  # of the attack's interval
    fast: float
    work: str
    ceiling: float
    median_ms: float  # not a number where not measured person by person
    mean_ms: float

    @property
    def ratio(self) -> float:
        """What the ceiling says was added, over what the attack adds."""
        return self.ceiling / self.attack if self.attack > 0.0 else float("inf")


def schedule_of(city: City, mechanism: Mechanism, hours: int = HOURS) -> Schedule:
    """The city's sensors of each hour, all released alike."""
    steps = (
        StepSchedule(step.step, tuple(SensorRelease(sensor, mechanism) for sensor in step.active))
        for step in city.steps(hours)
    )
    return Schedule(tuple(steps))


def last_but_one(population: Population, settings: HorizonSettings, schedule: Schedule) -> bytes:
    """The state before the last step, for which nobody had to be refined."""
    quick = ContinuousAccountant(population, replace(settings, sharpen=False))
    quick.apply_all(schedule.steps[:-1])
    quick.settings = settings
    return quick.snapshot()


def limited(
    population: Population, settings: HorizonSettings, schedule: Schedule
) -> tuple[float, float, float]:
    """Mean added by the ceiling after the last step, as a run computes it; and that step's milliseconds."""
    refined = ContinuousAccountant(population, settings)
    refined.restore(last_but_one(population, settings, schedule))
    begun = process_time()  # of all threads
    refined.apply(schedule.steps[-1])
    spent = (process_time() - begun) * 1e3 / len(population)
    return float((refined.risk() - refined.baseline()).mean()), float("nan"), spent


def everybody(
    population: Population, settings: HorizonSettings, schedule: Schedule
) -> tuple[float, float, float]:
    """Mean added by the ceiling with all vectors for all; median and mean of each one's milliseconds."""
    accountant = ContinuousAccountant(population, replace(settings, sharpen=False))
    accountant.apply_all(schedule.steps)
    accounts = accountant.view().accounts
    nothing = nothing_seen_for(HISTORY + HORIZON, population.location_count)
    steps = (seen_release(step.releases, population.location_count) for step in schedule.steps)
    seen = reduce(followed_by, steps, nothing)
    refine(accounts, np.arange(0), HOURS - 1, seen, False, np.empty((0, KEPT)), np.empty(0))  # compiled
    milliseconds = []
    for chain in range(accounts.state.risk.size):
        begun = thread_time()
        refine(accounts, np.array([chain]), HOURS - 1, seen, False, np.empty((0, KEPT)), np.empty(1))
        milliseconds.append((thread_time() - begun) * 1e3)
    added = float((accounts.state.risk - accounts.state.baseline).mean())
    return added, median(milliseconds), mean(milliseconds)


def measure_rows(
    population: Population, schedule: Schedule, sigma: float | None, mistakes: int
) -> Iterator[Row]:
    """The lines of a mechanism and a number of mistakes."""
    settings = HorizonSettings(HORIZON, mistakes, sharpen_above=0.0)
    fast = ContinuousAccountant(population, replace(settings, sharpen=False))
    fast.apply_all(schedule.steps)
    effort = Effort(draws=DRAWS, confidence=CONFIDENCE, seed=1)
    added = mean_added(population, schedule, (HOURS - HORIZON, HOURS - 1), mistakes, effort)
    guess = float(fast.baseline().mean())
    work = {
        f"{vectors} vectors": everybody(population, replace(settings, vectors=vectors), schedule)
        for vectors in VECTORS
    }
    for people in RUNS:
        part = replace(settings, operations=OPERATIONS * len(population) // people)
        work[f"a run of {people:,}"] = limited(population, part, schedule)
    for name, (ceiling, at_median, at_mean) in work.items():
        yield Row(
            sigma="raw" if sigma is None else f"{sigma:g}",
            mistakes=mistakes,
            guess=guess,
            attack=added.attack,
            half_width=added.attack - added.low,
            fast=float(fast.risk().mean()) - guess,
            work=name,
            ceiling=ceiling,
            median_ms=at_median,
            mean_ms=at_mean,
        )


def measure_all() -> list[Row]:
    """The whole table."""
    city = build_city(CITY)
    rows: list[Row] = []
    noised = schedule_of(city, parse("gaussian", {"sigma": 1.0}))
    limited(city.population, HorizonSettings(HORIZON, 0, sharpen_above=0.0, operations=1), noised)  # compiled
    for sigma in SIGMAS:
        mechanism = parse("raw", {}) if sigma is None else parse("gaussian", {"sigma": sigma})
        schedule = schedule_of(city, mechanism)
        for mistakes in MISTAKES:
            rows += measure_rows(city.population, schedule, sigma, mistakes)
    return rows


@dataclass(frozen=True)
class WindowRow:
    """Means over people of an audit of counts over windows; attack and ceiling are added to the guess."""

    sigma: str
    mistakes: int
    guess: float
    attack: float
    ceiling: float
    seconds: float  # of the ceiling, a person


def ending(step: int) -> Iterator[Sensor]:
    """The counters whose window ends with a step: those of moves once there was a step before the window."""
    return (each for each in COUNTERS if each.window is not None and each.window.ends_with(step))


def measure_windows() -> list[WindowRow]:
    """Six people, who stay where they are three times in five, and all counters together."""
    places, rng = tuple("abcdefgh"), np.random.default_rng(3)
    moves = [0.6 * np.eye(8) + 0.4 * rng.dirichlet(np.full(8, 0.5), 8) for _ in range(6)]
    people = Population.pack([MovementPrior.from_dense(f"{n}", each) for n, each in enumerate(moves)], places)
    rows = []
    for sigma in (None, 0.3, *SIGMAS[1:]):
        mechanism = parse("raw", {}) if sigma is None else parse("gaussian", {"sigma": sigma})
        steps = (
            StepSchedule(step, tuple(SensorRelease(each, mechanism) for each in ending(step)))
            for step in range(WINDOW.steps * WINDOWS)
        )
        schedule = Schedule(tuple(steps))
        for mistakes in MISTAKES[:3]:
            begun = process_time()
            audits = list(audit_population(people, schedule, mistakes))
            spent = (process_time() - begun) / len(audits)
            won = [
                attack_person(Exposure.of(people.chain(n), schedule, 8), mistakes, draws=WINDOW_DRAWS)
                for n in range(len(audits))
            ]
            best = mean(max(each.success for each in of.values()) for of in won)
            guess, ceiling = (
                mean(audit.baseline for audit in audits),
                mean(audit.certified for audit in audits),
            )
            name = "raw" if sigma is None else f"{sigma:g}"
            rows.append(WindowRow(name, mistakes, guess, best - guess, ceiling - guess, spent))
    return rows


def window_table(rows: Sequence[WindowRow]) -> str:
    """The part of the page about windows."""
    pooled = sum(row.ceiling for row in rows) / sum(row.attack for row in rows)
    lines = [
        f"| {row.sigma} | {row.mistakes} | {row.guess:.3f} | {row.attack:.4f} | {row.ceiling:.4f} "
        f"| {row.ceiling / row.attack:.2f} | {row.seconds:.2f} |"
        for row in rows
    ]
    return "\n".join(
        [
            "## Counts over windows and of moves",
            "",
            f"Six people at eight places, {WINDOWS} windows of {WINDOW.steps} steps, in each four counters: "
            "two that add up presence, two that count moves. All steps are to be named. The ceiling is an "
            "audit's, the attack the best of ours (the likeliest path and the likeliest places, by a filter "
            f"over places and own counts; {WINDOW_DRAWS:,} draws a person), which need not be the best there "
            f"is. All rows together: {pooled:.2f}.",
            "",
            "| sigma | wrong | guess | added by the attack | by the ceiling | over attack | s a person |",
            "|---|---:|---:|---:|---:|---:|---:|",
            *lines,
            "",
        ]
    )


EVERYWHERE, SAMPLED = ((6, 1.0), (10, 0.3)), Effort(draws=2000, confidence=0.95, seed=1)
"""So many places, and how even the moves between them are; draws of a ceiling that holds with confidence."""


def everywhere_table() -> str:
    """The part of the page about counters at every place: four people, ten steps."""
    rng, lines = np.random.default_rng(5), []
    for places, even in EVERYWHERE:
        moves = [rng.dirichlet(np.full(places, even), places) for _ in range(4)]
        priors = [MovementPrior.from_dense(f"{n}", each) for n, each in enumerate(moves)]
        people = Population.pack(priors, tuple(map(str, range(places))))
        for sigma in SIGMAS[2:]:
            counted = tuple(
                SensorRelease(Sensor(f"{place}", (place,)), parse("gaussian", {"sigma": sigma}))
                for place in range(places)
            )
            schedule = Schedule(tuple(StepSchedule(step, counted) for step in range(HORIZON)))
            for mistakes in MISTAKES[:3]:
                drawn = Effort(draws=20_000, confidence=CONFIDENCE, seed=1)
                attack = mean_added(people, schedule, (0, HORIZON - 1), mistakes, drawn).attack
                certain, sampled = (
                    mean(
                        audit.certified - audit.baseline
                        for audit in audit_population(people, schedule, mistakes, effort=effort)
                    )
                    for effort in (Effort(), SAMPLED)
                )
                lines.append(
                    f"| {places} | {sigma:g} | {mistakes} | {attack:.4f} | {certain:.4f} "
                    f"| {certain / attack:.1f} | {sampled:.4f} | {sampled / attack:.1f} |"
                )
    return "\n".join(
        [
            "## Counts at every place",
            "",
            f"Four people, a counter with noise at each of their places in each of {HORIZON} steps, as rooms "
            "have them. *By draws* is the ceiling of an audit with "
            f"`--draws {SAMPLED.draws}`, which holds with {SAMPLED.confidence:.0%} confidence.",
            "",
            "| places | sigma | wrong | added by the attack | by the certain ceiling | over attack "
            "| by draws | over attack |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|",
            *lines,
            "",
        ]
    )


def table(rows: Sequence[Row]) -> str:
    """The page."""
    lines = [
        f"| {row.sigma} | {row.mistakes} | {row.guess:.3f} | {row.attack:.4f} ± {row.half_width:.4f} "
        f"| {row.fast:.4f} | {row.work} | {row.ceiling:.4f} | {row.ratio:.2f} "
        f"| {'' if np.isnan(row.median_ms) else f'{row.median_ms:.2f}'} | {row.mean_ms:.2f} |"
        for row in rows
    ]
    return "\n".join(
        [
            "# Guess, attack and ceiling on the demo's city",
            "",
            "Made by `make ceilings`; the figures are in [ceilings.csv](ceilings.csv). "
            f"{CITY.people} people after {HOURS} hours of counts from 8 of 32 sensors; the last {HORIZON} "
            "hours are to be named, with so many of them wrong. Means over people: the chance of a guess "
            "without counts, and what the best attack, the fast bound alone and the running ceiling add to "
            "it. The attack sees the whole log and makes the best of the guesses that the frontier search "
            f"finds; its interval has {CONFIDENCE:.0%} confidence. The ceiling is certain. With *a run of* "
            "so many people as far as these people's part of its work limit goes, by default about a minute "
            "of one core a step; else with so many vectors for everybody, however long it takes. Times are a "
            "person's, on one core.",
            "",
            "| sigma | wrong | guess | added by the attack | by the fast bound | work | by the ceiling "
            "| ceiling over attack | ms, median | ms, mean |",
            "|---|---:|---:|---:|---:|---|---:|---:|---:|---:|",
            *lines,
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write page and figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("docs/results/tables"))
    options = parser.parse_args(arguments)
    others = f"{window_table(measure_windows())}\n{everywhere_table()}"
    rows = measure_all()
    write_csv(rows, options.results / "ceilings.csv")
    (options.results / "ceilings.md").write_text(f"{table(rows)}\n{others}")


if __name__ == "__main__":
    main()
