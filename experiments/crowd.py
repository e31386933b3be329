"""What a crowd hides on the demo's city: both ceilings, and an attack by somebody who follows the crowd.

``python -m experiments.crowd --results docs/results`` (or ``make crowd``)

Ten hours of the day, every sensor raw, nothing released before, no step wrong. Targets are drawn people of
the city; the attack is tried on many simulated days with the same sensors in the same hours.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from accounting.audit import audit_exposure, seen_among
from accounting.bounds import Effort, SeenInCrowd
from accounting.exposure import Exposure, horizon_information
from accounting.exposure.crowd import CrowdAdversary, equivalent_sigma
from experiments.collective_filter import CollectiveFilter, Watched
from experiments.measure import write_csv
from models.mechanisms import Raw
from models.releases import Schedule, SensorRelease, StepSchedule
from stream_app.city import City, CityOptions, build_city

SETUPS = ((2_000, 8), (2_000, 32), (20_000, 8), (20_000, 32))
FIRST_HOUR, STEPS, TARGETS, DAYS = 8, 10, 60, 50
_ADVERSARY = CrowdAdversary()
_CRUDE = Effort(patterns=256, vectors=16)


@dataclass(frozen=True)
class Row:
    """Means over the targets; the attack's interval is two standard errors over targets and days."""

    people: int
    active: int
    guess: float
    attack: float
    attack_error: float
    crowd: float
    informed: float
    crowd_nats: float
    informed_nats: float
    median_sigma: float
    least_p: float  # smallest, over the targets, of Pr[so many hits or more] if the ceiling were attained
    seconds: float  # to add up everybody once, a step

    @property
    def removed(self) -> float:
        """Share of what the counts add to the guess that the crowd takes away again."""
        return (self.informed - self.crowd) / max(self.informed - self.guess, 1e-9)


def schedule_of(city: City, steps: int, seed: int = 0) -> Schedule:
    """Sensors switched on by turns, raw, from the first hour on."""
    rng, sensors = np.random.default_rng(seed), city.registry.sensors
    chosen = [np.sort(rng.permutation(len(sensors))[: city.options.active]) for _ in range(steps)]
    made = (tuple(SensorRelease(sensors[k], Raw()) for k in each) for each in chosen)
    return Schedule(tuple(StepSchedule(t, releases) for t, releases in enumerate(made)), FIRST_HOUR)


def windows(city: City, steps: int, days: int) -> NDArray[np.int32]:
    """Where everybody really is, (days, steps, N), in the same hours of simulated days."""
    found = np.empty((days, steps, city.options.people), np.int32)
    for step in city.steps(24 * days):
        day, hour = divmod(step.step, 24)
        if FIRST_HOUR <= hour < FIRST_HOUR + steps:
            found[day, hour - FIRST_HOUR] = step.locations
    return found


def successes(
    city: City, schedule: Schedule, targets: Sequence[int], places: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Whether the collective filter is right in every step, (targets, days)."""
    watched = Watched.of(schedule.steps, FIRST_HOUR, city.population.location_count)
    everybody = watched.moments(city.population)
    counts = np.zeros((len(places), watched.steps_of.size))
    for day, walked in enumerate(places):
        for t, here in enumerate(walked):
            number = watched.count_at[t, here]
            np.add.at(counts[day], number[number >= 0], 1.0)
    found = np.zeros((len(targets), len(places)))
    for row, target in enumerate(targets):
        chain = city.population.chain(target)
        attacker = CollectiveFilter(watched, chain, everybody.without(watched.moments_of(chain)))
        for day, seen in enumerate(counts):
            found[row, day] = np.array_equal(chain.places[attacker.guess(seen)], places[day, :, target])
    return found


def ceilings(
    city: City, schedule: Schedule, seen: SeenInCrowd, targets: Iterable[int]
) -> NDArray[np.float64]:
    """Guess, crowd and informed ceiling, crowd and informed nats of each target, (n, 5)."""
    found = []
    for target in targets:
        chain = city.population.chain(target)
        exposure = Exposure.of(chain, schedule, city.population.location_count)
        audit = audit_exposure(exposure, 0, effort=_CRUDE, seen=seen)
        last = (0, exposure.steps - 1)
        nats = [
            horizon_information(each, *last).at_the_moment
            for each in (seen.for_information(exposure), exposure)
        ]
        found.append([audit.baseline, audit.certified, audit.certified_informed, *nats])
    return np.array(found)


def measure(people: int, active: int, targets: int = TARGETS, days: int = DAYS, steps: int = STEPS) -> Row:
    """One row of the table."""
    city = build_city(CityOptions(people=people, active=active))
    schedule = schedule_of(city, steps)
    chosen = np.random.default_rng(1).permutation(people)[:targets].tolist()
    seen_among(city.population, schedule, _ADVERSARY)  # compiles
    begin = perf_counter()
    seen = seen_among(city.population, schedule, _ADVERSARY)
    seconds = (perf_counter() - begin) / steps
    bounds = ceilings(city, schedule, seen, chosen)
    right = successes(city, schedule, chosen, windows(city, steps, days))
    each, mean = right.mean(axis=1), bounds.mean(axis=0)
    sigmas = [equivalent_sigma(crowd, _ADVERSARY) for step in seen.crowds for crowd in step]
    return Row(
        people=people,
        active=active,
        guess=float(mean[0]),
        attack=float(each.mean()),
        attack_error=2.0 * sqrt(float((each * (1.0 - each)).mean()) / right.size),
        crowd=float(mean[1]),
        informed=float(mean[2]),
        crowd_nats=float(mean[3]),
        informed_nats=float(mean[4]),
        median_sigma=float(np.median(sigmas)),
        least_p=float(binom.sf(right.sum(axis=1) - 1, days, bounds[:, 1]).min()),
        seconds=seconds,
    )


def page(rows: Sequence[Row]) -> str:
    """The table as a page."""
    lines = [
        f"| {row.people:,} | {row.active} | {row.guess:.3f} | {row.attack:.3f} ± {row.attack_error:.3f} | "
        f"{row.crowd:.3f} | {row.informed:.3f} | {row.removed:.0%} | {row.informed_nats:.2f} | "
        f"{row.crowd_nats:.2f} | {row.median_sigma:.1f} |"
        for row in rows
    ]
    least, tried = min(row.least_p for row in rows), TARGETS * len(rows)
    return "\n".join(
        [
            "# What a crowd hides, on the demo's city",
            "",
            f"Made by `make crowd`; the figures are in [crowd.csv](crowd.csv). {STEPS} hours from"
            f" {FIRST_HOUR} o'clock, raw counts of some of the 32 sensors by turns, nothing released before,"
            f" every step to be told right. Means over {TARGETS} people. *Guess*: habits alone, exact."
            f" *Attack*: somebody who knows everybody's habits and follows the whole crowd through the counts"
            f" (a normal approximation of all others' joint places), tried on {DAYS} simulated days, with two"
            " standard errors. *In the crowd*: the ceiling for any adversary who does not know where the"
            " others are, if they move independently, as their priors say. *Informed*: the ceiling for one"
            " who does. *Removed*: of what counts add to the guess by the informed ceiling. *Sigma*: Gaussian"
            " noise that would hide as much as the crowd, median over sensors and steps."
            " [A crowd to hide in](../explanation/crowd.md)",
            "",
            "| people | sensors on | guess | attack | in the crowd | informed | removed | nats, informed "
            "| nats, in the crowd | sigma |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            *lines,
            "",
            f"Person by person: if each of the {tried} ceilings were attained, the luckiest attack of all"
            f" would have had so many hits or more with probability {least:.2g}"
            f" ({min(1.0, tried * least):.2g} after that many trials).",
            "",
        ]
    )


def main() -> None:
    """Measure all rows and write page and figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    folder = parser.parse_args().results
    rows = []
    for people, active in SETUPS:
        rows.append(measure(people, active))
        print(rows[-1], flush=True)
    write_csv(rows, folder / "crowd.csv")
    (folder / "crowd.md").write_text(page(rows))


if __name__ == "__main__":
    main()
