"""Figures 3, 4, 6 and 8 of Koga, Meehan, Chaudhuri: bounds and attacks on real check-ins.

Attacks are shown twice: on traces from each person's fitted prior, which the bounds are about, and on the
real held-out traces, which the paper shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from accounting.audit import AttackSettings, Audit, audit_population
from accounting.audit.audit import audit_person
from experiments.drawing import LINES, Cloud, Panel, draw_clouds, draw_lines
from experiments.held_out import released_from
from experiments.measure import ATTACKS, BOUNDS, Point, mean_series, points, write_csv
from experiments.real_checkins import elsewhere, lucky_constant, random_schedules, replay
from models.fitting import FitResult
from models.mechanisms import Mechanism, parse
from models.priors.stationary import spectral_gap
from models.releases import Schedule

MISTAKES = 1
ADDED_COLOUR = "#009E73"
_SIGMA = "standard deviation of the noise, people"
_RIGHT = "steps the adversary must get right, T - s"
UNDER_PRIOR = "attacks on traces from the prior"
ON_REAL = "attacks on the real traces"


@dataclass(frozen=True)
class RealSweep:
    """What the figures are swept over; the defaults are what is published.

    Noised attacks are tried on ``draws`` trajectories a person from the prior, and on the real trace with
    ``noise_draws`` draws of the noise.
    """

    sigmas: Sequence[float] = (0.5, 1.0, 2.0, 5.0, 10.0)
    schedules: int = 2
    draws: int = 500
    noise_draws: int = 10


@dataclass(frozen=True)
class PersonPoint:
    """One person, without a name: ``x`` is what the figure compares the bounds with."""

    data_set: str
    x: float
    tight: float
    certified: float
    baseline: float


def figure_3(data_set: str, fit: FitResult) -> list[PersonPoint]:
    """``x``: share of training windows at the place visited most, whose sensor is on in every step."""
    place = 0  # places are ranked by check-ins
    schedule = released_from(fit, [place] * fit.held_out.shape[1], parse("raw", {}))
    frequency = (fit.training == place).mean(axis=1)
    return _people(data_set, fit, frequency, [schedule])


def figure_4(data_set: str, fit: FitResult, sweep: RealSweep) -> list[PersonPoint]:
    """``x``: spectral gap of the person's matrix; one random sensor a step, means over the schedules."""
    gaps = np.array([spectral_gap(fit.population.chain(person)) for person in range(len(fit.population))])
    return _people(data_set, fit, gaps, random_schedules(fit, sweep.schedules))


def _people(
    data_set: str, fit: FitResult, x: NDArray[np.float64], schedules: Sequence[Schedule]
) -> list[PersonPoint]:
    """Everybody's bounds, averaged over the schedules."""
    values = np.mean(
        [
            [(audit.bounds.tight, audit.certified, audit.baseline) for audit in _audits(fit, schedule)]
            for schedule in schedules
        ],
        axis=0,
    )
    return [PersonPoint(data_set, float(at), *map(float, row)) for at, row in zip(x, values, strict=True)]


def _audits(fit: FitResult, schedule: Schedule) -> list[Audit]:
    """Everybody's bounds under one schedule."""
    return list(audit_population(fit.population, schedule, MISTAKES))


def figure_6(data_set: str, fit: FitResult, sweep: RealSweep) -> list[Point]:
    """Raw counts; ``x`` is the number of steps the adversary must get right."""
    found: list[Point] = []
    steps = fit.held_out.shape[1]
    schedules = random_schedules(fit, sweep.schedules)
    for mistakes in range(steps):
        found += _measured(data_set, steps - mistakes, fit, schedules, mistakes, sweep)
    return found


def figure_8(data_set: str, fit: FitResult, sweep: RealSweep) -> list[Point]:
    """Noised counts; ``x`` is sigma; raw counts, for reference, are panels of their own at 0."""
    raw = random_schedules(fit, sweep.schedules)
    found = _measured(f"{data_set} raw", 0.0, fit, raw, MISTAKES, sweep)
    for sigma in sweep.sigmas:
        noise: Mechanism = parse("gaussian", {"sigma": sigma})
        schedules = random_schedules(fit, sweep.schedules, noise)
        found += _measured(data_set, sigma, fit, schedules, MISTAKES, sweep)
    return found


def _measured(
    data_set: str, x: float, fit: FitResult, schedules: Sequence[Schedule], mistakes: int, sweep: RealSweep
) -> list[Point]:
    """Both panels' points: the same bounds, and attacks under the prior and on the real traces."""
    modelled, real = [], []
    for number, schedule in enumerate(schedules):
        values = mean_series(_attacked(fit, schedule, mistakes, sweep.draws, number))
        bounds = {name: values[name] for name in BOUNDS}
        modelled.append(values)
        real.append({**bounds, **_on_real_traces(fit, schedule, mistakes, sweep.noise_draws)})
    return [*points(f"{data_set}, prior", x, modelled), *points(f"{data_set}, real", x, real)]


def _attacked(fit: FitResult, schedule: Schedule, mistakes: int, draws: int, number: int) -> Iterator[Audit]:
    """Everybody's audit; each with a seed of its own, or the errors of sampling would not average out."""
    people = len(fit.population)
    for person in range(people):
        attacks = AttackSettings(draws, seed=number * people + person)
        yield audit_person(fit.population, person, schedule, mistakes, attacks=attacks)


def _on_real_traces(fit: FitResult, schedule: Schedule, mistakes: int, draws: int) -> Mapping[str, float]:
    """Share of people whose real trace each attack gets right."""
    results = replay(fit, schedule, mistakes, draws)
    shares = {name: float(np.mean([result[name].success for result in results])) for name in ATTACKS}
    return {**shares, "lucky constant": lucky_constant(fit, mistakes, elsewhere(fit))}


Fits = Mapping[str, FitResult]


def draw_figure_3(fits: Fits, results: Path) -> None:
    """``figure-3.csv`` and ``figure-3.png``."""
    title = "Figure 3: the sensor at the place visited most is on in every step, raw counts"
    x_label = "share of training windows there"
    _draw_people([figure_3(name, fit) for name, fit in fits.items()], 3, title, x_label, results)


def draw_figure_4(fits: Fits, sweep: RealSweep, results: Path) -> None:
    """``figure-4.csv`` and ``figure-4.png``."""
    title = "Figure 4: one random sensor a step, raw counts"
    x_label = "spectral gap (1: forgets at once)"
    _draw_people([figure_4(name, fit, sweep) for name, fit in fits.items()], 4, title, x_label, results)


def _draw_people(
    by_set: Sequence[Sequence[PersonPoint]], number: int, title: str, x_label: str, results: Path
) -> None:
    """A row of panels a data set: the paper's bound, the certified one, and what the latter is above the
    best guess from the prior alone.
    """
    write_csv([person for people in by_set for person in people], results / f"figure-{number}.csv")
    kinds: tuple[tuple[str, Callable[[PersonPoint], float], str], ...] = (
        ("tight (paper)", lambda person: person.tight, LINES["tight"].colour),
        ("certified", lambda person: person.certified, LINES["certified"].colour),
        ("added by the counts", lambda person: person.certified - person.baseline, ADDED_COLOUR),
    )
    clouds = [
        _cloud(people, label, [value(person) for person in people], x_label, colour)
        for people in by_set
        for label, value, colour in kinds
    ]
    draw_clouds(clouds, title, results / f"figure-{number}.png")


def _cloud(people: Sequence[PersonPoint], label: str, y: Sequence[float], x_label: str, colour: str) -> Cloud:
    """One panel, with the rank correlation in its title."""
    x = [person.x for person in people]
    title = f"{people[0].data_set}: {label}, rank correlation {rank_correlation(x, y):.2f}"
    return Cloud(title, x_label, "probability of success", x, y, colour)


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's, 0 where one of the two does not vary."""
    if len(set(x)) < 2 or len(set(y)) < 2:
        return 0.0
    return float(spearmanr(x, y).statistic)


def draw_figure_6(fits: Fits, sweep: RealSweep, results: Path) -> None:
    """``figure-6.csv`` and ``figure-6.png``."""
    found = [point for name, fit in fits.items() for point in figure_6(name, fit, sweep)]
    write_csv(found, results / "figure-6.csv")
    ticks = sorted({point.x for point in found})
    panels = [
        Panel(f"{name}, {key}", f"{name}: {attacks}", _RIGHT, x_ticks=ticks)
        for name in fits
        for key, attacks in (("prior", UNDER_PRIOR), ("real", ON_REAL))
    ]
    draw_lines(panels, found, "Figure 6: real check-ins, T = 5, raw counts", results / "figure-6.png")


def draw_figure_8(fits: Fits, sweep: RealSweep, results: Path) -> None:
    """``figure-8.csv`` and ``figure-8.png``."""
    found = [point for name, fit in fits.items() for point in figure_8(name, fit, sweep)]
    write_csv(found, results / "figure-8.csv")
    panels = [
        Panel(
            f"{name}, {key}",
            f"{name}: {attacks}",
            _SIGMA,
            x_log=True,
            x_ticks=sweep.sigmas,
            levels=f"{name} raw, {key}",
        )
        for name in fits
        for key, attacks in (("prior", UNDER_PRIOR), ("real", ON_REAL))
    ]
    title = "Figure 8: real check-ins, T = 5, s = 1, noised counts (dotted: raw counts)"
    draw_lines(panels, found, title, results / "figure-8.png")
