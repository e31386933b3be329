"""Gaussian-process priors of real count series: how periodic and how smooth hourly counts are.

The stand-in for the traces and temperatures of Meehan and Chaudhuri (appendix 7.4): hourly pedestrians of
Melbourne (every sensor with a long record) and bicycles over the Fremont Bridge. As there, each series is cut
into pieces of mean 0 and variance 1; here of two days, of square roots of counts. For the fitted daily cycle
it also says what noise of a given size would be worth.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.ledgers import release_loss
from experiments.drawing import grid, save
from experiments.held_out import find_data
from experiments.measure import write_csv
from experiments.papers import Claim
from experiments.real_checkins import MissingDataError
from models.gaussian_process import (
    RBF,
    GaussianProcessPrior,
    Kernel,
    Periodic,
    White,
    fit_kernel,
)
from models.noise_design import DesignProblem, design_noise

Floats = NDArray[np.float64]

DAY, WEEK, WINDOW = 24, 168, 48
FIRST_HOUR, FITTED_WEEKS = 1000, 4
LONG_RECORD = FIRST_HOUR + (FITTED_WEEKS + 1) * WEEK
SECRET, ORDER, RADIUS, NOISE_PER_HOUR = (24,), 5.0, 1.0, 0.5  # in standard deviations of the series


@dataclass(frozen=True)
class Series:
    """Hourly counts of one sensor."""

    data_set: str
    sensor: str
    counts: Floats


@dataclass(frozen=True)
class Fit:
    """What was fitted to one sensor: smoothness alone, a daily cycle alone, both."""

    data_set: str
    sensor: str
    smooth_length_scale_hours: float
    effective_length_scale: float  # of the smooth fit, in sampling periods
    cycle_length_scale: float
    smooth_log_likelihood_nats: float
    cycle_log_likelihood_nats: float
    both_log_likelihood_nats: float
    epsilon_uniform_nats: float
    epsilon_exact_nats: float
    epsilon_unrestricted_nats: float


def melbourne(folder: Path) -> Iterator[Series]:
    """Every sensor with a long record, in the order of its number."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "melbourne_pedestrian_hourly.parquet")
    sensor, time, count = (table[name].to_numpy() for name in ("sensor", "time", "count"))
    for number in np.unique(sensor):
        own = sensor == number
        counts = count[own][np.argsort(time[own])].astype(np.float64)
        if len(counts) >= LONG_RECORD:
            yield Series("Melbourne", str(number), counts)


def fremont(folder: Path) -> Iterator[Series]:
    """Both directions of the bridge together."""
    with gzip.open(folder / "fremont_bridge_hourly.csv.gz", "rt") as file:
        rows = [line.rstrip("\n").split(",") for line in file][1:]
    yield Series("Fremont Bridge", "both", np.array([float(nb or 0) + float(sb or 0) for _, nb, sb in rows]))


def prepared(counts: Floats, hours: int) -> Floats:
    """The fitted weeks as series [series, hour] of mean 0 and variance 1."""
    series = np.sqrt(counts[FIRST_HOUR : FIRST_HOUR + FITTED_WEEKS * WEEK]).reshape(-1, hours)
    centred = series - series.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-9), np.float64)


def fit(series: Series) -> Fit:
    """The three fits, and the loss of one hour of a window under the daily cycle."""
    hours, values = np.arange(float(WINDOW)), prepared(series.counts, WINDOW)
    scale_and_noise = ["left.length_scale", "right.variance"]
    smooth = fit_kernel(RBF(3.0) + White(0.1), hours, values, scale_and_noise)
    cycle = fit_kernel(Periodic(1.0, DAY) + White(0.2), hours, values, scale_and_noise)
    both = fit_kernel(
        Periodic(1.0, DAY) + smooth.kernel,
        hours,
        values,
        ["left.length_scale", "left.variance", "right.left.variance", "right.right.variance"],
    )
    epsilon = designed_losses(cycle.kernel)
    return Fit(
        series.data_set,
        series.sensor,
        smooth.fitted["left.length_scale"],
        smooth.fitted["left.length_scale"] / float(np.median(np.diff(hours))),  # Meehan, Chaudhuri, 7.4
        cycle.fitted["left.length_scale"],
        smooth.log_likelihood_nats,
        cycle.log_likelihood_nats,
        both.log_likelihood_nats,
        *(epsilon[method] for method in ("uniform", "exact", "unrestricted")),
    )


def designed_losses(kernel: Kernel) -> dict[str, float]:
    """Epsilon of each design for the middle hour of two days, one prior standard deviation apart."""
    prior = GaussianProcessPrior.at_steps(kernel, WINDOW).covariance()
    problem = DesignProblem(prior, SECRET, NOISE_PER_HOUR * WINDOW)
    return {
        method: release_loss(prior, design_noise(problem, method).covariance, SECRET, ORDER, RADIUS).epsilon
        for method in ("uniform", "exact", "unrestricted")
    }


def draw(chosen: list[Series], path: Path) -> None:
    """A week of each, predicted from the weeks before by a cycle of days that changes within the week."""
    figure, axes_of = grid(len(chosen), 1, 9.0, 2.6)
    for axes, series in zip(axes_of, chosen, strict=True):
        draw_week(axes, series)
    axes_of[0].legend(frameon=False, loc="upper right", ncols=3)
    axes_of[-1].set_xlabel("hour of the week that was not fitted")
    save(figure, path)


def draw_week(axes: Any, series: Series) -> None:
    """The prediction with two standard deviations, and what was counted."""
    start, fitted = FIRST_HOUR, FITTED_WEEKS * WEEK
    roots = np.sqrt(series.counts[start : start + fitted + WEEK])
    mean, deviation = roots[:fitted].mean(), roots[:fitted].std()
    kernel = Periodic(1.0, WEEK) * Periodic(1.0, DAY) + White(0.1)
    weeks = prepared(series.counts, 2 * WEEK)
    free = ["left.left.length_scale", "left.right.length_scale", "right.variance"]
    found = fit_kernel(kernel, np.arange(2.0 * WEEK), weeks, free).kernel
    past, future = np.arange(float(fitted)), np.arange(float(fitted), float(fitted + WEEK))
    weights = np.linalg.solve(found.covariance(past), found.between(past, future)).T
    predicted = weights @ ((roots[:fitted] - mean) / deviation)
    variance = np.diag(found.covariance(future) - weights @ found.between(past, future))
    band = 2.0 * np.sqrt(np.maximum(variance, 0.0))
    low, middle, high = (
        np.maximum(mean + deviation * (predicted + side * band), 0.0) ** 2 for side in (-1, 0, 1)
    )
    hours = np.arange(WEEK)
    axes.fill_between(hours, low, high, color="#1f6f8b", alpha=0.2, linewidth=0, label="2 sigma")
    axes.plot(hours, middle, color="#1f6f8b", label="predicted")
    axes.plot(hours, series.counts[start + fitted : start + fitted + WEEK], "k.", ms=3, label="counted")
    axes.set(ylabel="people an hour", xlim=(0, WEEK - 1), xticks=range(0, WEEK, DAY))
    axes.set_title(f"{series.data_set}, sensor {series.sensor}", loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def fits(figures: Path, data: Path | None) -> list[Claim]:
    """``cip-fits``: every series fitted, and as a picture a week predicted from the four before."""
    folder = find_data(data)
    if not (folder / "melbourne_pedestrian_hourly.parquet").exists():
        raise MissingDataError(
            f"no melbourne_pedestrian_hourly.parquet in {folder}: name its folder with --data"
        )
    every = [*melbourne(folder), *fremont(folder)]
    found = [fit(series) for series in every]
    write_csv(found, figures / "cip-fits.csv")
    busiest = max(every[:-1], key=lambda series: series.counts.mean())
    draw([busiest, every[-1]], figures / "cip-fits.png")
    smooth, cycle = (
        np.quantile([getattr(each, name) for each in found], [0.25, 0.75])
        for name in ("effective_length_scale", "cycle_length_scale")
    )
    return [
        Claim("7.4", "effective length scale, smooth (there location, here counts)", "median about 6",
              f"middle half {smooth[0]:.1f} to {smooth[1]:.1f}", "other data"),
        Claim("7.4", "effective length scale, periodic (there temperature, here counts)", "median about 1.1",
              f"middle half {cycle[0]:.2f} to {cycle[1]:.2f}", "other data"),
    ]  # fmt: skip
