"""How long personas of a large city take, and how much memory: ``python -m benchmarks.personas``.

A hundred thousand classes (home, work), 24 slots, at most 8 places each, calibrated to the hourly trips of
other personas. Run by name: minutes, and some gigabytes. ``--results FOLDER`` writes ``personas-speed.md``.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import show
from experiments.measure import markdown
from models.fitting.calibration import Flows, calibrate, expected_flows
from models.fitting.personas import (
    HOME,
    WORK,
    Activity,
    DayType,
    HomeWork,
    Surroundings,
    Zones,
    classes_of,
    personas,
)
from models.priors import Population

ZONES, SLOTS = 350, 24
ACTIVITIES = (HOME, WORK, "shop", "meal", "leisure")


def city() -> Surroundings:
    """Zones at random on 20 x 20 km, each a location."""
    random = np.random.default_rng(0)
    at = random.uniform(0.0, 20.0, size=(ZONES, 2))
    names = [f"zone {z}" for z in range(ZONES)]
    activities = {
        "shop": Activity("shop", reach_km=2.0),
        "meal": Activity("meal", WORK, 0.6),
        "leisure": Activity("leisure", reach_km=4.0),
    }
    pull = {name: random.gamma(1.0, size=ZONES) for name in activities}
    plane = Zones.on_plane(names, at[:, 0].tolist(), at[:, 1].tolist())
    return Surroundings(plane, activities, pull, np.arange(ZONES), tuple(names))


def day(seed: int) -> DayType:
    """A survey of 2 000 days: night at home, work or not, something else in between."""
    random = np.random.default_rng(seed)
    weights = np.full((SLOTS, len(ACTIVITIES)), 0.05)
    weights[:7, 0] = weights[21:, 0] = 5.0
    weights[8:17, 1], weights[12:14, 3], weights[17:21, 4] = 3.0, 2.0, 1.5
    weights *= np.exp(random.normal(0.0, 0.2, size=weights.shape))
    return DayType.of_weights(f"day {seed}", ACTIVITIES, weights, 0.6)


def classes(people: int, seed: int) -> HomeWork:
    """So many pairs of home and work, with a few people each."""
    random = np.random.default_rng(seed)
    pair = random.choice(ZONES * ZONES, size=people, replace=False)
    return HomeWork(pair // ZONES, pair % ZONES, random.gamma(2.0, 4.0, size=people))


def world(around: Surroundings, table: HomeWork) -> Flows:
    """Hourly trips of the same people on other days."""
    made = personas(classes_of(table, [day(2)]), [day(2)], around)
    flows = expected_flows(made, SLOTS)
    flows[:, np.arange(ZONES), np.arange(ZONES)] = 0.0
    slot, origin, destination = np.nonzero(flows)
    return Flows(slot, origin, destination, flows[slot, origin, destination])


def main() -> None:
    """Measure each stage once; sizes grow to a hundred thousand classes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    around, rows = city(), []
    warm = classes(64, 3)
    calibrate(personas(classes_of(warm, [day(1)]), [day(1)], around), [world(around, warm)], most_sweeps=2)
    for count in options.classes:
        rows.append(_measured(around, count))
    columns = [
        "classes",
        "places",
        "make, s",
        "calibrate, s",
        "sweeps",
        "s a sweep",
        "off, people",
        "priors",
        "peak",
    ]
    show("Personas: 24 slots, trips between 350 zones", columns, rows)
    if options.results:
        _write(options.results / "personas-speed.md", columns, rows)


def _measured(around: Surroundings, count: int) -> list[str]:
    table = classes(count, 1)
    flows = world(around, table)
    began = time.perf_counter()
    made: Population = personas(classes_of(table, [day(1)]), [day(1)], around)
    made_seconds = time.perf_counter() - began
    began = time.perf_counter()
    found = calibrate(made, [flows], tolerance=1e-4, most_sweeps=200)
    seconds = time.perf_counter() - began
    assert made.weights is not None
    places = float(np.diff(made.arrays.places_start).mean())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        f"{count:,}",
        f"{places:.1f}",
        f"{made_seconds:.1f}",
        f"{seconds:.1f}",
        f"{found.sweeps}",
        f"{seconds / found.sweeps:.2f}",
        f"{found.missed_people:.3g} of {float(made.weights.sum()):,.0f}",
        f"{made.bytes_per_person * count / 2**30:.2f} GB",
        f"{peak:.1f} GB",
    ]


def _write(path: Path, columns: list[str], rows: list[list[str]]) -> None:
    lines = [
        "# Speed of personas",
        "",
        "`python -m benchmarks.personas`, two cores: personas of a made-up city of",
        "350 zones, 24 slots, home, work and two places for each of three other activities, calibrated to",
        "the hourly trips of the same people on other days (24 tables of 350 x 350), until less than one in",
        "10,000 of all people is off. *Peak* is the memory of the whole process so far, *priors* what packed",
        "personas take of it. The machine was shared with other work: rates are below what they are alone.",
        "",
        markdown(columns, rows, words=0),
        "",
    ]
    path.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
