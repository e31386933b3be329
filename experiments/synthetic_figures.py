"""Figures 5 and 7 of Koga, Meehan, Chaudhuri: bounds and attacks on the synthetic chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accounting.audit import AttackSettings, audit_exposure
from experiments.drawing import Panel, draw_lines
from experiments.measure import Point, mean_series, points, write_csv
from experiments.synthetic import PLACES, RAW, STEPS, koga_exposure
from models.mechanisms import Mechanism, parse

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
    return points(panel, x, values)


def draw_figure_5(sweep: Sweep, results: Path) -> None:
    """``figure-5.csv`` and ``figure-5.png``."""
    found = figure_5(sweep)
    write_csv(found, results / "figure-5.csv")
    draw_lines(
        sweep.figure_5_panels(), found, "Figure 5: synthetic chains, raw counts", results / "figure-5.png"
    )


def draw_figure_7(sweep: Sweep, results: Path) -> None:
    """``figure-7.csv`` and ``figure-7.png``."""
    found = figure_7(sweep)
    write_csv(found, results / "figure-7.csv")
    title = "Figure 7: synthetic chains, noised counts (dotted: raw counts)"
    draw_lines(sweep.figure_7_panels(), found, title, results / "figure-7.png")
