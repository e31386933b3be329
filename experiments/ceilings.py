"""How close the running ceiling is to what an adversary achieves, on the demo's city.

``python -m experiments.ceilings`` (or ``make ceilings``)

After 40 hours of counts: the guess from the prior alone, the best attack on the last ten hours that sees the
whole log (drawn trajectories and noise; its success given the outputs is exact), the bound by sampling, the
running accountant's ceiling and its fast bound alone. Noised rows come twice: with all work, and with their
part of the default work limit of a run of 100,000 people.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accounting.bounds import Effort, mean_added
from accounting.continuous import ContinuousAccountant
from accounting.settings import HORIZON, OPERATIONS, HorizonSettings
from experiments.measure import write_csv
from models.mechanisms import Mechanism, parse
from models.priors import Population
from models.releases import Schedule, SensorRelease, StepSchedule
from stream_app.city import City, CityOptions, build_city

PEOPLE, HOURS, DRAWS, CONFIDENCE = 500, 40, 20_000, 0.99
SIGMAS = (None, 1.0, 3.0, 10.0)
MISTAKES = (0, 1, 2, 3)


@dataclass(frozen=True)
class Row:
    """Means over people; ``sigma`` is "raw" or the noise's, and says where work is limited.

    Attack and sampled are added to the guess.
    """

    sigma: str
    mistakes: int
    guess: float
    attack: float
    sampled: float
    half_width: float  # of the interval of both
    ceiling: float
    fast: float

    @property
    def ratio(self) -> float:
        """What the ceiling says was added, over what the attack adds."""
        return (self.ceiling - self.guess) / self.attack if self.attack > 0.0 else float("inf")


def schedule_of(city: City, mechanism: Mechanism) -> Schedule:
    """The city's sensors of each hour, all released alike."""
    steps = (
        StepSchedule(step.step, tuple(SensorRelease(sensor, mechanism) for sensor in step.active))
        for step in city.steps(HOURS)
    )
    return Schedule(tuple(steps))


def ceiling_of(population: Population, settings: HorizonSettings, schedule: Schedule) -> float:
    """The mean running ceiling after the last step."""
    refined = ContinuousAccountant(population, settings)
    refined.restore(last_but_one(population, settings, schedule))
    refined.apply(schedule.steps[-1])
    return float(refined.risk().mean())


def measure_rows(population: Population, schedule: Schedule, sigma: float | None, mistakes: int) -> list[Row]:
    """A line of the table; where counts are noised, another one with the default work limit."""
    settings = HorizonSettings(HORIZON, mistakes, sharpen_above=0.0)
    fast = ContinuousAccountant(population, replace(settings, sharpen=False))
    fast.apply_all(schedule.steps)
    effort = Effort(draws=DRAWS, confidence=CONFIDENCE, seed=1)
    added = mean_added(population, schedule, (HOURS - HORIZON, HOURS - 1), mistakes, effort)
    row = Row(
        sigma="raw" if sigma is None else f"{sigma:g}",
        mistakes=mistakes,
        guess=float(fast.baseline().mean()),
        attack=added.attack,
        sampled=added.bound,
        half_width=max(added.high - added.bound, added.attack - added.low),
        ceiling=ceiling_of(population, settings, schedule),
        fast=float(fast.risk().mean()),
    )
    if sigma is None:
        return [row]
    limited = replace(settings, operations=OPERATIONS * len(population) // 100_000)
    ceiling = ceiling_of(population, limited, schedule)
    return [row, replace(row, sigma=f"{row.sigma}, default work", ceiling=ceiling)]


def last_but_one(population: Population, settings: HorizonSettings, schedule: Schedule) -> bytes:
    """The state before the last step, for which nobody had to be refined."""
    quick = ContinuousAccountant(population, replace(settings, sharpen=False))
    quick.apply_all(schedule.steps[:-1])
    quick.settings = settings
    return quick.snapshot()


def measure_all(people: int = PEOPLE) -> list[Row]:
    """The whole table."""
    city = build_city(CityOptions(people=people))
    rows = []
    for sigma in SIGMAS:
        mechanism = parse("raw", {}) if sigma is None else parse("gaussian", {"sigma": sigma})
        schedule = schedule_of(city, mechanism)
        for mistakes in MISTAKES:
            rows += measure_rows(city.population, schedule, sigma, mistakes)
    return rows


def table(rows: Sequence[Row]) -> str:
    """The page."""
    lines = [
        f"| {row.sigma} | {row.mistakes} | {row.guess:.3f} | {row.guess + row.attack:.3f} "
        f"| {row.guess + row.sampled:.3f} | {row.ceiling:.3f} | {row.fast:.3f} "
        f"| {row.attack:.4f} | {row.ceiling - row.guess:.4f} | {row.ratio:.2f} |"
        for row in rows
    ]
    widest = max(row.half_width for row in rows)
    return "\n".join(
        [
            "# Guess, attack and ceiling on the demo's city",
            "",
            "Made by `make ceilings`; the figures are in [ceilings.csv](ceilings.csv). "
            f"{PEOPLE} people after {HOURS} hours of counts from 8 of 32 sensors; the last {HORIZON} hours "
            "are to be named, with so many of them wrong. Means over people. The attack sees the whole log "
            "and makes the best of the guesses that the frontier search finds; the bound by sampling holds "
            "for anybody. Both are estimated: their intervals are at most "
            f"{widest:.3f} wide to each side, with {CONFIDENCE:.0%} confidence each. The running ceiling is "
            "certain: no draws, with 16 vectors for everybody; with *default work* as far as these people's "
            "part of the work limit of a run of 100,000 goes.",
            "",
            "| sigma | wrong | guess | best attack | by sampling | running ceiling | fast bound alone "
            "| added by the attack | added by the ceiling | ratio |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            *lines,
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write page and figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("docs/results/tables"))
    options = parser.parse_args(arguments)
    rows = measure_all()
    write_csv(rows, options.results / "ceilings.csv")
    (options.results / "ceilings.md").write_text(table(rows))


if __name__ == "__main__":
    main()
