"""Maximum likelihood, on drawn and on real series."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import multivariate_normal

from models.exceptions import GaussianProcessError
from models.gaussian_process import (
    RBF,
    GaussianProcessPrior,
    Matern,
    Periodic,
    White,
    fit_kernel,
    log_likelihood_nats,
)
from tests.shared_files import shared

DAY = 24


def test_the_likelihood_is_that_of_the_normal_law() -> None:
    """Against scipy, several series at once."""
    prior = GaussianProcessPrior.at_steps(Matern(2.0), 10)
    values = prior.sample(4, np.random.default_rng(0))
    expected = multivariate_normal(np.zeros(10), prior.covariance()).logpdf(values).sum()
    assert log_likelihood_nats(prior.covariance(), values) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("start", [0.5, 20.0])
def test_a_length_scale_is_found_again_from_far_away(start: float) -> None:
    """Forty drawn series at irregular times give their length scale to a few per cent."""
    times = np.sort(np.random.default_rng(3).uniform(0.0, 60.0, 40))
    values = GaussianProcessPrior(RBF(4.0), times).sample(40, np.random.default_rng(4))
    values += 0.1 * np.random.default_rng(5).standard_normal(values.shape)
    fit = fit_kernel(RBF(start) + White(0.01), times, values, ["left.length_scale"])
    assert fit.fitted["left.length_scale"] == pytest.approx(4.0, rel=0.1)


def test_the_fit_is_no_worse_than_the_truth() -> None:
    """Maximum likelihood: at least the likelihood of the kernel that made the series."""
    times = np.arange(30.0)
    truth = Matern(3.0, 1.5, 2.0) + White(0.2)
    values = GaussianProcessPrior(truth, times).sample(3, np.random.default_rng(6))
    centred = values - values.mean(axis=1, keepdims=True)
    fit = fit_kernel(
        Matern(1.0, 1.5) + White(1.0), times, values, ["left.length_scale", "left.variance", "right.variance"]
    )
    assert fit.log_likelihood_nats >= log_likelihood_nats(truth.covariance(times), centred)


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda: fit_kernel(RBF(1.0), np.arange(3.0), np.zeros(4), ["length_scale"]), "3 per series"),
        (lambda: fit_kernel(RBF(1.0), np.arange(3.0), np.zeros(3), ["scale"]), "free must be among"),
    ],
)
def test_what_cannot_be_fitted_is_refused(fit, words: str) -> None:
    """The message says what must hold."""
    with pytest.raises(GaussianProcessError, match=words):
        fit()


def melbourne_counts() -> np.ndarray:
    """Hourly counts of the busiest sensor with a long record, without its gaps."""
    table = pq.read_table(shared("data/melbourne_pedestrian_hourly.parquet"))
    sensor, time, count = (table[name].to_numpy() for name in ("sensor", "time", "count"))
    busiest = int(np.argmax(np.bincount(sensor, weights=count)))
    return count[sensor == busiest][np.argsort(time[sensor == busiest])].astype(np.float64)


def fremont_counts() -> np.ndarray:
    """Hourly bicycles over the Fremont Bridge, both ways."""
    with gzip.open(shared("data/fremont_bridge_hourly.csv.gz"), "rt") as file:
        rows = [line.rstrip("\n").split(",") for line in file][1:]
    return np.array([float(north or 0) + float(south or 0) for _, north, south in rows])


def standardised(counts: np.ndarray, days: int) -> np.ndarray:
    """Four weeks as series of some days, mean 0 and variance 1 (the paper's preparation); roots of counts."""
    series = np.sqrt(counts[1000 : 1000 + 28 * DAY]).reshape(-1, days * DAY)
    centred = series - series.mean(axis=1, keepdims=True)
    return centred / centred.std(axis=1, keepdims=True)


@pytest.mark.data
@pytest.mark.parametrize("counts", [melbourne_counts, fremont_counts])
def test_real_counts_have_a_daily_cycle(counts: Callable[[], np.ndarray]) -> None:
    """A periodic part of 24 hours explains four weeks of counts better than smoothness alone."""
    series, hours = standardised(counts(), days=2), np.arange(48.0)
    smooth = fit_kernel(RBF(3.0) + White(0.1), hours, series, ["left.length_scale", "right.variance"])
    cycle = fit_kernel(
        Periodic(1.0, 24.0) + smooth.kernel,
        hours,
        series,
        ["left.length_scale", "left.variance", "right.left.variance", "right.right.variance"],
    )
    assert cycle.log_likelihood_nats > smooth.log_likelihood_nats + 50.0
    assert 0.3 < cycle.fitted["left.length_scale"] < 3.0


@pytest.mark.data
@pytest.mark.parametrize("counts", [melbourne_counts, fremont_counts])
def test_the_period_of_real_counts_is_a_day(counts: Callable[[], np.ndarray]) -> None:
    """Left free, the period is found from four one-week series."""
    series = standardised(counts(), days=7)
    fit = fit_kernel(
        Periodic(0.7, 23.5) + White(0.3), np.arange(168.0), series, ["left.period", "right.variance"]
    )
    assert fit.fitted["left.period"] == pytest.approx(24.0, rel=0.01)
