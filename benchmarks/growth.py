"""How the work grows in people N, locations M, own places K, steps T and mistakes s: one log-log figure.

Decoding a population, the exact law of an attack and the certified bound, each varied around one base case.
``python -m benchmarks.growth`` prints seconds and slopes and draws ``docs/results/tables/growth.png``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accounting import hmm
from accounting.attacks import ATTACKS, Target
from accounting.audit import audit_exposure
from accounting.bounds import Effort
from accounting.exposure import Exposure
from benchmarks.harness import show
from models.priors import MovementPrior, Population
from models.releases import Schedule

FIGURE = Path("docs/results/tables/growth.png")
REPEATS = 7


class Case(NamedTuple):
    """One size of everything."""

    people: int = 1_000
    locations: int = 100
    places: int = 20
    steps: int = 12
    mistakes: int = 4


BASE = Case()
SIZES: dict[str, tuple[int, ...]] = {
    "people": (250, 1_000, 4_000, 16_000),
    "locations": (100, 400, 1_600, 6_400),
    "places": (5, 10, 20, 40, 80),
    "steps": (6, 12, 24, 48),
    "mistakes": (1, 2, 4, 8),
}


def chain_matrix(places: int, rng: np.random.Generator) -> np.ndarray:
    """Stay, or go on to one of three other places."""
    matrix = 0.5 * np.eye(places)
    for x in range(places):
        matrix[x, rng.choice(places, 3, replace=False)] += rng.dirichlet(np.ones(3)) / 2
    matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix


def population_of(case: Case, people: int) -> Population:
    rng = np.random.default_rng(0)
    names = [str(m) for m in range(case.locations)]
    start = np.full(case.places, 1 / case.places)
    return Population.pack(
        (
            MovementPrior.from_dense(
                f"p{i}",
                chain_matrix(case.places, rng),
                np.sort(rng.choice(case.locations, case.places, replace=False)),
                start,
            )
            for i in range(people)
        ),
        names,
    )


def exposure_of(case: Case) -> Exposure:
    """One person, one raw sensor a step at a place of theirs."""
    population = population_of(case, 1)
    sensors = np.random.default_rng(1).choice(population.chain(0).places, case.steps)
    schedule = Schedule.raw([[place] for place in sensors.tolist()])
    return Exposure.of(population.chain(0), schedule, case.locations, population.initial(0))


def decode(case: Case) -> Callable[[], object]:
    population = population_of(case, case.people)
    labels = np.zeros((case.steps, case.locations), np.int32)
    labels[:, 0] = 1
    likelihood = np.tile([0.7, 0.3], (case.people, case.steps, 1))
    return lambda: hmm.decode(population, labels, likelihood)


def law(case: Case) -> Callable[[], object]:
    exposure = exposure_of(case)

    def run() -> object:
        target = Target(exposure, case.mistakes)
        return [ATTACKS[name].success(target) for name in ("map", "marginal", "either")]

    return run


def bound(case: Case) -> Callable[[], object]:
    exposure = exposure_of(case)
    return lambda: audit_exposure(exposure, case.mistakes, effort=Effort(order=2, patterns=0))


WORK: dict[str, tuple[Callable[[Case], Callable[[], object]], tuple[str, ...]]] = {
    "decode a population": (decode, ("people", "locations", "places", "steps")),
    "exact law of both attacks": (law, ("locations", "places", "steps", "mistakes")),
    "audit of one person": (bound, ("locations", "places", "steps", "mistakes")),
}


def seconds(run: Callable[[], object]) -> float:
    """The least disturbed of some calls after a warm-up: this is about the work, not the load."""
    run()
    measured = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        run()
        measured.append(time.perf_counter() - began)
    return min(measured)


def slope(sizes: tuple[int, ...], measured: list[float]) -> float:
    """Exponent of the power law through the larger half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half - 1 :]), np.log(measured[half - 1 :]), 1)[0])


def draw(found: dict[tuple[str, str], list[float]]) -> None:
    """One panel per size, all on the same log-log scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullLocator

    colours = dict(zip(WORK, ("#0072B2", "#D55E00", "#009E73"), strict=True))  # Okabe and Ito's
    figure, panels = pyplot.subplots(1, len(SIZES), figsize=(15, 3.6), sharey=True, layout="constrained")
    for panel, (what, sizes) in zip(panels, SIZES.items(), strict=True):
        for (name, varied), measured in found.items():
            if varied == what:
                label = f"{name}: {slope(sizes, measured):.1f}"
                panel.loglog(sizes, measured, "o-", color=colours[name], label=label)
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xlabel(what)
        panel.legend(fontsize=7, title="exponent", title_fontsize=7)
        panel.grid(alpha=0.3, which="both")
    panels[0].set_ylabel("seconds")
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=120)


def main() -> None:
    """Measure, print, draw."""
    found = {
        (name, what): [seconds(make(BASE._replace(**{what: size}))) for size in SIZES[what]]
        for name, (make, varied) in WORK.items()
        for what in varied
    }
    rows = [
        [
            name,
            what,
            *(f"{size}: {1e3 * took:.3g} ms" for size, took in zip(SIZES[what], measured, strict=True)),
            *[""] * (5 - len(measured)),
            f"{slope(SIZES[what], measured):.2f}",
        ]
        for (name, what), measured in found.items()
    ]
    note = f"around {BASE}; drawn in {FIGURE}"
    show("Growth", ["", "in", *[""] * 5, "exponent"], rows, note)
    draw(found)


if __name__ == "__main__":
    main()
