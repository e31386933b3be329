"""Work against tightness: what more vectors take off running ceilings of noised counts, in the demo's city.

``python -m experiments.noised_work``

As ``experiments.ceilings``, of a city of 80 people: what the running ceiling says was added, over what the
best attack adds, and the time of one core that refining one person takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from statistics import mean, median
from time import thread_time

import numpy as np

from accounting.bounds import Effort, mean_added
from accounting.continuous import ContinuousAccountant
from accounting.continuous.accounts_kernel import HISTORY
from accounting.continuous.refine_kernel import KEPT, refine
from accounting.exposure.step_information import followed_by, nothing_seen_for, seen_release
from accounting.settings import HORIZON, HorizonSettings
from experiments.ceilings import CONFIDENCE, HOURS, MISTAKES, schedule_of
from experiments.measure import write_csv
from models.mechanisms import parse
from models.priors import Population
from models.releases import Schedule
from stream_app.city import CityOptions, build_city

CITY, DRAWS = CityOptions(people=80), 20_000
SIGMAS = (1.0, 3.0)
VECTORS = (4, 16, 64)


@dataclass(frozen=True)
class Row:
    """Means over people of what is added to the guess, and milliseconds a person."""

    sigma: float
    mistakes: int
    vectors: int
    attack: float
    ceiling: float
    median_ms: float
    mean_ms: float

    @property
    def ratio(self) -> float:
        """What the ceiling says was added, over what the attack adds."""
        return self.ceiling / self.attack


def measure_row(
    population: Population, schedule: Schedule, mistakes: int, vectors: int
) -> tuple[float, list[float]]:
    """What the ceilings say was added, on average, and the seconds that each person's took."""
    settings = HorizonSettings(HORIZON, mistakes, sharpen=False, sharpen_above=0.0, vectors=vectors)
    accountant = ContinuousAccountant(population, settings)
    accountant.apply_all(schedule.steps)
    accounts = accountant.view().accounts
    nothing = nothing_seen_for(HISTORY + HORIZON, population.location_count)
    steps = (seen_release(step.releases, population.location_count) for step in schedule.steps)
    seen = reduce(followed_by, steps, nothing)
    refine(accounts, np.arange(0), HOURS - 1, seen, np.empty((0, KEPT)))  # compiled
    seconds = []
    for chain in range(accounts.state.risk.size):
        begun = thread_time()
        refine(accounts, np.array([chain]), HOURS - 1, seen, np.empty((0, KEPT)))
        seconds.append(thread_time() - begun)
    return float((accounts.state.risk - accounts.state.baseline).mean()), seconds


def measure_all(sigmas: Sequence[float], draws: int) -> list[Row]:
    """The whole table."""
    city = build_city(CITY)
    rows = []
    for sigma in sigmas:
        schedule = schedule_of(city, parse("gaussian", {"sigma": sigma}))
        for mistakes in MISTAKES:
            effort = Effort(draws=draws, confidence=CONFIDENCE, seed=1)
            attack = mean_added(
                city.population, schedule, (HOURS - HORIZON, HOURS - 1), mistakes, effort
            ).attack
            for vectors in VECTORS:
                ceiling, seconds = measure_row(city.population, schedule, mistakes, vectors)
                times = median(seconds) * 1e3, mean(seconds) * 1e3
                rows.append(Row(sigma, mistakes, vectors, attack, ceiling, *times))
    return rows


def table(rows: Sequence[Row]) -> str:
    """The page."""
    lines = [
        f"| {row.sigma:g} | {row.mistakes} | {row.vectors} | {row.attack:.4f} | {row.ceiling:.4f} "
        f"| {row.ratio:.2f} | {row.median_ms:.2f} | {row.mean_ms:.2f} |"
        for row in rows
    ]
    return "\n".join(
        [
            "# Work against tightness of noised counts",
            "",
            "Made by `python -m experiments.noised_work`; the figures are in "
            f"[noised-work.csv](noised-work.csv). {CITY.people} people of the demo's city after {HOURS} "
            f"hours of counts from 8 of 32 sensors; the last {HORIZON} hours are to be named, so many of "
            "them wrong. Means over people of what the best attack and the running ceiling add to the guess "
            "without counts, and the time of one core that a person's ceiling takes.",
            "",
            "| sigma | wrong | vectors | added by the attack | added by the ceiling | ratio | ms, median "
            "| ms, mean |",
            "|---|---:|---:|---:|---:|---:|---:|---:|",
            *lines,
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write page and figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("docs/results/tables"))
    parser.add_argument("--sigmas", type=float, nargs="+", default=list(SIGMAS))
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args(arguments)
    rows = measure_all(options.sigmas, options.draws)
    write_csv(rows, options.results / "noised-work.csv")
    (options.results / "noised-work.md").write_text(table(rows))


if __name__ == "__main__":
    main()
