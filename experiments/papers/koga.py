"""Koga, Meehan, Chaudhuri, "Measuring Privacy Loss in Distributed Spatio-Temporal Data": its examples
in numbers, and figures 3 to 8 of section 4: its bounds and attacks, ours beside them.

Figures 5 and 7 are synthetic; 3, 4, 6 and 8 need the real check-ins, where attacks are shown twice: on traces
from each person's fitted prior, which the bounds are about, and on the real held-out traces, which the paper
shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from accounting.audit import AttackSettings, Audit, audit_exposure, audit_population
from accounting.audit.audit import audit_person
from accounting.exposure import Exposure
from experiments.drawing import LINES, Cloud, Panel, draw_clouds, draw_lines
from experiments.held_out import DATA_SETS, released_from
from experiments.measure import ATTACKS, BOUNDS, Point, mean_series, points, write_csv
from experiments.papers import Claim
from experiments.real_checkins import elsewhere, load, lucky_constant, random_schedules, replay
from models.fitting import FitResult
from models.mechanisms import Mechanism, parse
from models.priors import MovementPrior
from models.priors.stationary import spectral_gap
from models.releases import Schedule, SensorRegistry, SensorRelease, StepSchedule

Fits = Mapping[str, FitResult]
RAW = parse("raw", {})
PLACES = 100
STEPS = 10
TAU = 0.1


@lru_cache(maxsize=16)
def koga_prior(places: int, tau: float = TAU) -> MovementPrior:
    """``P[x, y]`` proportional to ``exp(-|x - y| / (tau M))``, stationary start."""
    distance = np.abs(np.arange(places)[:, np.newaxis] - np.arange(places))
    weight = np.exp(-distance / (tau * places))
    return MovementPrior.from_dense("synthetic", weight / weight.sum(axis=1, keepdims=True))


def random_sensors(places: int, steps: int, seed: int) -> list[int]:
    """One place a step, uniformly.

    The same seed gives the same relative positions for any number of places, and a longer schedule begins
    with the shorter one: a curve then changes because of its parameter alone.
    """
    positions = np.random.default_rng(seed).random(steps)
    return [int(position * places) for position in positions]


def koga_exposure(
    places: int = PLACES, steps: int = STEPS, *, seed: int = 0, mechanism: Mechanism = RAW, tau: float = TAU
) -> Exposure:
    """One synthetic person under one random schedule."""
    registry = SensorRegistry.one_per_location([str(place) for place in range(places)])
    released = tuple(
        StepSchedule(step, (SensorRelease(registry.sensors[sensor], mechanism),))
        for step, sensor in enumerate(random_sensors(places, steps, seed))
    )
    return Exposure.of(koga_prior(places, tau).chain(), Schedule(released), places)


NEAR = [0.495, 0.495, 0.005, 0.005]
"""Places 0 and 1 are in New York, 2 and 3 in Paris; where somebody of New York is, whatever was before."""
STAYS = 0.96


def examples(results: Path, data: Path | None) -> list[Claim]:
    """What the paper's figures 1 and 2 draw: who is counted, and who then stays."""
    habits = {"New York": np.tile(NEAR, (4, 1)), "Paris": np.tile(NEAR[::-1], (4, 1))}
    stays = np.full((5, 5), (1 - STAYS) / 4) + np.eye(5) * (STAYS - (1 - STAYS) / 4)
    moves = {"stays": stays, "moves anywhere": np.full((5, 5), 0.2)}
    return [
        _example("1", "higher in New York", habits, Schedule.raw([[0]])),
        _example("2", "higher for who stays", moves, Schedule.raw([[0], []])),
    ]


def _example(number: str, said: str, people: Mapping[str, NDArray[np.float64]], schedule: Schedule) -> Claim:
    """The first of two people loses more by the same counts."""
    found = {
        name: audit_exposure(
            Exposure.of(MovementPrior.from_dense(name, rows).chain(), schedule, len(rows)), 0
        )
        for name, rows in people.items()
    }
    losses = ", ".join(f"{name} {each.baseline:.2f} to {each.certified:.2f}" for name, each in found.items())
    first, second = (each.certified - each.baseline for each in found.values())
    return Claim(f"example {number}", "loss without and with the count of place 0", said, losses,
                 "yes" if first > second else "no")  # fmt: skip


_STEPS = "number of steps T"
_SIGMA = "standard deviation of the noise, people"


@dataclass(frozen=True)
class Sweep:
    """What figures 5 and 7 are swept over; the defaults are what is published.

    Every point is a mean over ``schedules`` draws of the sensors; noised attacks are tried on ``draws``
    trajectories a schedule, raw ones are exact.
    """

    locations: Sequence[int] = (10, 20, 30, 50, 100, 200, 300)
    places: int = PLACES
    steps: int = STEPS
    horizons: Sequence[int] = (2, 4, 6, 8, 10, 12, 16, 20)
    sigmas: Sequence[float] = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
    noised_mistakes: Sequence[int] = (5, 8)
    schedules: int = 5
    draws: int = 50_000

    def figure_5_panels(self) -> list[Panel]:
        """The paper's four panels; logarithmic, as the quantities differ by orders of magnitude."""
        m, t = self.places, self.steps
        right = range(1, t + 1)
        return [
            Panel("locations", f"T = {t}, s = {t // 2}", "number of locations M", x_log=True,
                  x_ticks=self.locations, floor=1e-7),
            Panel("right", f"M = {m}, T = {t}", "steps the adversary must get right, T - s",
                  x_ticks=right, floor=1e-12),
            Panel("half", f"M = {m}, s = T / 2", _STEPS, x_ticks=self.horizons, floor=1e-9),
            Panel("two right", f"M = {m}, s = T - 2", _STEPS, x_ticks=self.horizons, floor=1e-4),
        ]  # fmt: skip

    def figure_7_panels(self) -> list[Panel]:
        """One panel a number of mistakes; the first is the paper's."""
        return [
            Panel(f"sigma, s={s}", f"M = {self.places}, T = {self.steps}, s = {s}", _SIGMA, x_log=True,
                  x_ticks=self.sigmas, floor=floor, levels=f"raw, s={s}")
            for s, floor in zip(self.noised_mistakes, (3e-6, 3e-3), strict=False)
        ]  # fmt: skip


def figure_5(sweep: Sweep) -> list[Point]:
    """Panels over M, T - s, T with s = T/2, and T with s = T - 2."""
    found: list[Point] = []
    for places in sweep.locations:
        found += _point("locations", places, sweep, places, sweep.steps, sweep.steps // 2)
    for right in range(1, sweep.steps + 1):
        found += _point("right", right, sweep, sweep.places, sweep.steps, sweep.steps - right)
    for steps in sweep.horizons:
        found += _point("half", steps, sweep, sweep.places, steps, steps // 2)
        found += _point("two right", steps, sweep, sweep.places, steps, steps - 2)
    return found


def figure_7(sweep: Sweep) -> list[Point]:
    """Panels over sigma, and the raw release (at sigma 0) for reference."""
    found: list[Point] = []
    for mistakes in sweep.noised_mistakes:
        found += _point(f"raw, s={mistakes}", 0.0, sweep, sweep.places, sweep.steps, mistakes)
        for sigma in sweep.sigmas:
            noise = parse("gaussian", {"sigma": sigma})
            panel = f"sigma, s={mistakes}"
            found += _point(panel, sigma, sweep, sweep.places, sweep.steps, mistakes, noise)
    return found


def _point(
    panel: str,
    x: float,
    sweep: Sweep,
    places: int,
    steps: int,
    mistakes: int,
    mechanism: Mechanism = RAW,
) -> list[Point]:
    """Every bound and attack at one value of the parameter that is swept."""
    values = [
        mean_series(
            [
                audit_exposure(
                    koga_exposure(places, steps, seed=seed, mechanism=mechanism),
                    mistakes,
                    attacks=AttackSettings(sweep.draws, seed),
                )
            ]
        )
        for seed in range(sweep.schedules)
    ]
    _say_one_more()
    return points(panel, x, values)


def _say_one_more() -> None:
    """A dot for each point of a figure: some take minutes."""
    print(".", end="", file=sys.stderr, flush=True)


def mean_at(found: Sequence[Point], panel: str, x: float, series: str) -> float:
    """One point's mean."""
    return next(p.mean for p in found if (p.panel, p.x, p.series) == (panel, x, series))


def draw_figure_5(sweep: Sweep, results: Path) -> list[Claim]:
    """``koga-5.csv`` and ``koga-5.png``."""
    found = figure_5(sweep)
    write_csv(found, results / "koga-5.csv")
    draw_lines(
        sweep.figure_5_panels(), found, "Figure 5: synthetic chains, raw counts", results / "koga-5.png"
    )
    few, many = min(sweep.locations), max(sweep.locations)
    early, late = min(sweep.horizons), max(sweep.horizons)

    def over(panel: str, x: float, above: str, below: str = "map") -> float:
        return mean_at(found, panel, x, above) / mean_at(found, panel, x, below)

    def moved(panel: str, series: str) -> str:
        return f"{mean_at(found, panel, early, series):.2g} to {mean_at(found, panel, late, series):.2g}"

    return [
        Claim("5", f"MAP at M = {few}", "about 30 %",
              f"{mean_at(found, 'locations', few, 'map'):.0%}", "yes"),
        Claim("5", f"tight bound over MAP, M = {few} and {many}", "gets tight as M grows",
              f"{over('locations', few, 'tight'):.3g} and {over('locations', many, 'tight'):.2g}; ceiling "
              f"{over('locations', few, 'certified'):.2g} and {over('locations', many, 'certified'):.2g}",
              "no: the ratio grows"),
        Claim("5", "constant attack, one step to get right", "10 %",
              f"{mean_at(found, 'right', 1.0, 'constant'):.0%}; marginal attack "
              f"{mean_at(found, 'right', 1.0, 'marginal'):.0%}", "yes"),
        Claim("5", f"tight bound over MAP, all of T = {sweep.steps} right", "nearly matches",
              f"{over('right', sweep.steps, 'tight'):.2g}; ceiling "
              f"{over('right', sweep.steps, 'certified'):.3g}", "no"),
        Claim("5", f"s = T/2, T from {early} to {late}", "loss stays constant",
              f"tight {moved('half', 'tight')}, MAP {moved('half', 'map')}", "of its bounds only"),
        Claim("5", f"s = T - 2, T from {early} to {late}", "loss grows",
              f"tight {moved('two right', 'tight')}, MAP {moved('two right', 'map')}",
              "yes"),
    ]  # fmt: skip


def draw_figure_7(sweep: Sweep, results: Path) -> list[Claim]:
    """``koga-7.csv`` and ``koga-7.png``."""
    found = figure_7(sweep)
    write_csv(found, results / "koga-7.csv")
    title = "Figure 7: synthetic chains, noised counts (dotted: raw counts)"
    draw_lines(sweep.figure_7_panels(), found, title, results / "koga-7.png")
    most = max(sweep.sigmas)
    return [
        Claim("7", f"s = {s}, raw counts to sigma {most:g}", "bounds fall, the attacks do not",
              ", ".join(f"{series} {mean_at(found, f'raw, s={s}', 0.0, series):.2g} to "
                        f"{mean_at(found, f'sigma, s={s}', most, series):.2g}"
                        for series in ("tight", "certified", "map")),
              "bounds yes; attacks fall, too")
        for s in sweep.noised_mistakes
    ]  # fmt: skip


MISTAKES = 1
ADDED_COLOUR = "#009E73"
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
        _say_one_more()
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


def draw_figure_3(fits: Fits, results: Path) -> list[Claim]:
    """``koga-3.csv`` and ``koga-3.png``."""
    title = "Figure 3: the sensor at the place visited most is on in every step, raw counts"
    x_label = "share of training windows there"
    people = [figure_3(name, fit) for name, fit in fits.items()]
    return _draw_people(people, 3, title, x_label, "who is often there loses more", results)


def draw_figure_4(fits: Fits, sweep: RealSweep, results: Path) -> list[Claim]:
    """``koga-4.csv`` and ``koga-4.png``."""
    title = "Figure 4: one random sensor a step, raw counts"
    x_label = "spectral gap (1: forgets at once)"
    people = [figure_4(name, fit, sweep) for name, fit in fits.items()]
    return _draw_people(people, 4, title, x_label, "fast movers lose less", results)


def _draw_people(
    by_set: Sequence[Sequence[PersonPoint]], number: int, title: str, x_label: str, said: str, results: Path
) -> list[Claim]:
    """A row of panels a data set: the paper's bound, the certified one, and what the latter is above the
    best guess from the prior alone.
    """
    write_csv([person for people in by_set for person in people], results / f"koga-{number}.csv")
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
    draw_clouds(clouds, title, results / f"koga-{number}.png")
    found = [
        [rank_correlation(cloud.x, cloud.y) for cloud in clouds[len(kinds) * place :][: len(kinds)]]
        for place in range(len(by_set))
    ]
    return [
        Claim(str(number), f"rank correlation of loss and {x_label}, {people[0].data_set}", said,
              ", ".join(f"{label} {value:.2f}" for (label, _, _), value in zip(kinds, values, strict=True)),
              "of what the counts add" if abs(values[-1]) > 0.5 else "weakly")
        for people, values in zip(by_set, found, strict=True)
    ]  # fmt: skip


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


def draw_figure_6(fits: Fits, sweep: RealSweep, results: Path) -> list[Claim]:
    """``koga-6.csv`` and ``koga-6.png``."""
    found = [point for name, fit in fits.items() for point in figure_6(name, fit, sweep)]
    write_csv(found, results / "koga-6.csv")
    ticks = sorted({point.x for point in found})
    panels = [
        Panel(f"{name}, {key}", f"{name}: {attacks}", _RIGHT, x_ticks=ticks)
        for name in fits
        for key, attacks in (("prior", UNDER_PRIOR), ("real", ON_REAL))
    ]
    draw_lines(panels, found, "Figure 6: real check-ins, T = 5, raw counts", results / "koga-6.png")
    fewest, most = ticks[0], ticks[-1]
    return [
        claim
        for name in fits
        for claim in (
            Claim("6", f"MAP if the prior is right, {fewest:g} to {most:g} steps right, {name}",
                  "loss falls",
                  f"{mean_at(found, f'{name}, prior', fewest, 'map'):.2f} to "
                  f"{mean_at(found, f'{name}, prior', most, 'map'):.2f}", "yes"),
            Claim("6", f"marginal attack, all but one step right, {name}",
                  "attacks succeed more than on synthetic chains",
                  f"{mean_at(found, f'{name}, real', most - 1, 'marginal'):.2f} on real traces, ceiling "
                  f"{mean_at(found, f'{name}, real', most - 1, 'certified'):.2f}, tight bound "
                  f"{mean_at(found, f'{name}, real', most - 1, 'tight'):.2f}", "yes"),
        )
    ]  # fmt: skip


def draw_figure_8(fits: Fits, sweep: RealSweep, results: Path) -> list[Claim]:
    """``koga-8.csv`` and ``koga-8.png``."""
    found = [point for name, fit in fits.items() for point in figure_8(name, fit, sweep)]
    write_csv(found, results / "koga-8.csv")
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
    draw_lines(panels, found, title, results / "koga-8.png")
    most = max(sweep.sigmas)
    return [
        Claim("8", f"raw counts to sigma {most:g}, {name}", "bounds fall, the attacks do not",
              ", ".join(f"{series} {mean_at(found, f'{name} raw, prior', 0.0, series):.3f} to "
                        f"{mean_at(found, f'{name}, prior', most, series):.3f}"
                        for series in ("tight", "certified", "map")), "yes")
        for name in fits
    ]  # fmt: skip


def _on_check_ins(draw: Callable[[Fits, Path], list[Claim]]) -> Callable[[Path, Path | None], list[Claim]]:
    """A figure of everybody's fitted prior."""
    return lambda figures, data: draw({name: _fitted(name, data) for name in DATA_SETS}, figures)


_fitted = lru_cache(load)
PARTS: Mapping[str, Callable[[Path, Path | None], list[Claim]]] = {
    "examples": examples,
    "3": _on_check_ins(draw_figure_3),
    "4": _on_check_ins(lambda fits, figures: draw_figure_4(fits, RealSweep(), figures)),
    "5": lambda figures, _: draw_figure_5(Sweep(), figures),
    "6": _on_check_ins(lambda fits, figures: draw_figure_6(fits, RealSweep(), figures)),
    "7": lambda figures, _: draw_figure_7(Sweep(), figures),
    "8": _on_check_ins(lambda fits, figures: draw_figure_8(fits, RealSweep(), figures)),
}
