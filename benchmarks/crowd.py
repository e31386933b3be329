"""Claim: what a crowd of a million hides is added up within two seconds, and looked up in milliseconds.

The simulated city, habits averaged over the day, 32 sensors: each of them raw in every step, or eight by
turns. A step with the sensors and states of an earlier one is looked up. ``python -m benchmarks.crowd``
"""

from __future__ import annotations

import os
import statistics
import time

import numpy as np

from accounting.exposure.crowd import Others
from benchmarks.harness import rate, show
from models.mechanisms import Raw
from models.releases import SensorRelease, StepSchedule
from stream_app.city import City, CityOptions, build_city

PEOPLE = int(os.environ.get("PEOPLE", "1000000"))
STEPS, DAYS = 8, 4


def steps_of(city: City, active: int, days: int) -> list[StepSchedule]:
    """Days of so many steps, the same sensors in each day."""
    rng, sensors = np.random.default_rng(3), city.registry.sensors
    day = [np.sort(rng.permutation(len(sensors))[:active]) for _ in range(STEPS)]
    made = (tuple(SensorRelease(sensors[k], Raw()) for k in day[t % STEPS]) for t in range(days * STEPS))
    return [StepSchedule(t, releases) for t, releases in enumerate(made)]


def seconds(city: City, active: int) -> tuple[float, float]:
    """The dearest step of the first day, and one that is known, the median of the last day."""
    others, taken = Others(city.population), []
    for step in steps_of(city, active, DAYS):
        began = time.perf_counter()
        others.apply(step)
        taken.append(time.perf_counter() - began)
    return max(taken[:STEPS]), statistics.median(taken[-STEPS:])


def main() -> None:
    """Print the table."""
    seconds(build_city(CityOptions(people=100, slots=1)), 8)  # compiles
    city = build_city(CityOptions(people=PEOPLE, slots=1))
    rows = []
    for active in (8, 32):
        new, known = seconds(city, active)
        rows.append(
            [
                f"{active} of 32",
                f"{new:.2f} s",
                rate(PEOPLE / new),
                f"{1e3 * known:.1f} ms",
                f"{new / known:.0f} x",
            ]
        )
    show(
        f"A crowd of {PEOPLE:,}, one step",
        ["sensors", "new", "people/s", "known", "new / known"],
        rows,
        "New: computed, the dearest of eight. Known: sensors, slot and states as in an earlier step.",
    )


if __name__ == "__main__":
    main()
