"""Bounds on means by betting hold what they promise, and are shorter than the inequalities they replace."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom

from accounting.numerics import clopper_pearson, mean_interval, upper_mean


def log_capital(mean: float, values: NDArray[np.float64], failure: float) -> float:
    """The largest logarithm of the gambler's capital, with sums over the draws before instead of a loop."""
    count = values.size
    seen = np.arange(1, count + 1)
    average = (0.5 + np.cumsum(values)) / (seen + 1)
    variance = np.concatenate([[0.25], (0.25 + np.cumsum((values - average) ** 2))[:-1] / seen[1:]])
    stake = np.minimum(np.sqrt(2 * log(1 / failure) / (count * variance)), 0.95 / (1 - mean))
    return float(np.cumsum(np.log1p(stake * (mean - values))).max())


@pytest.mark.parametrize("count", [5, 300])
@pytest.mark.parametrize("failure", [0.001, 0.05])
def test_it_is_the_root_of_the_capital(count: int, failure: float) -> None:
    """A second way to the same number, and never below it."""
    values = np.random.default_rng(count).beta(0.3, 3.0, count)
    root = brentq(lambda mean: log_capital(mean, values, failure) + log(failure), 1e-9, 1 - 1e-9, xtol=1e-15)
    assert upper_mean(values, failure) == pytest.approx(root, abs=1e-12)
    assert log_capital(upper_mean(values, failure), values, failure) >= -log(failure)


def test_one_draw_of_nothing_refutes_what_its_stake_can() -> None:
    """By hand: ``1 + 0.95 m / (1 - m) = 1 / delta``, as the stake is cut."""
    assert upper_mean(np.zeros(1), 0.5) == pytest.approx(1 / 1.95, rel=1e-12)
    assert upper_mean(np.zeros(1), 0.05) == upper_mean(np.ones(9), 0.05) == 1.0
    assert upper_mean(np.empty(0), 0.05) == upper_mean(np.zeros(9), 0.0) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("truth", [0.02, 0.1, 0.5, 0.93])
def test_it_fails_no_oftener_than_stated(truth: float) -> None:
    """All 2^12 sequences of a coin, each with its probability."""
    coins = (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    probability = binom.pmf(coins.sum(1), 12, truth) / binom.pmf(coins.sum(1), 12, 0.5) * 2.0**-12
    bounds = np.array([upper_mean(row.astype(float), 0.2) for row in coins])
    assert probability.sum() == pytest.approx(1.0)
    assert probability[bounds < truth].sum() <= 0.2
    intervals = [mean_interval(row.astype(float), 0.4) for row in coins]
    missed = [not found.low <= truth <= found.high for found in intervals]
    assert probability[missed].sum() <= 0.4


def test_it_covers_a_skewed_mean_as_often_as_it_promises() -> None:
    """2 000 repetitions of 200 draws, mostly near nothing; at most 10 % may fail, and some do."""
    rng = np.random.default_rng(8)
    fails = sum(upper_mean(rng.beta(0.1, 0.9, 200), 0.1) < 0.1 for _ in range(2000))
    assert 10 < fails <= 200


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40), st.floats(1e-6, 0.5))
def test_the_draws_own_mean_is_inside(drawn: list[float], failure: float) -> None:
    values = np.array(drawn)
    interval = mean_interval(values, failure)
    assert interval.low <= values.mean() + 1e-12
    assert values.mean() - 1e-12 <= interval.high
    assert upper_mean(values, 0.5 * failure) == interval.high


def test_a_run_of_small_draws_refutes_no_more_than_all_of_them_say() -> None:
    """Early draws alone may refute the mean of all; half of them 0, half 1."""
    values = np.repeat([0.0, 1.0], 20)
    assert log_capital(0.5, values, 0.25) > -log(0.25)
    assert upper_mean(values, 0.25) == 0.5


@pytest.mark.parametrize("count", [50, 500, 2000])
@pytest.mark.parametrize("failure", [0.001, 0.05])
def test_it_is_shorter_than_empirical_bernstein(count: int, failure: float) -> None:
    """Maurer and Pontil 2009, theorem 4, on what it is used for: small values, now and then larger."""
    rng = np.random.default_rng(3)
    for values in (np.full(count, 0.01), rng.beta(0.1, 3.0, count), 0.3 * (rng.random(count) < 0.03)):
        charge = log(2 / failure)
        spread = np.sqrt(2 * values.var(ddof=1) * charge / count) + 7 * charge / (3 * (count - 1))
        assert upper_mean(values, failure) - values.mean() < 0.75 * spread


def test_it_is_nearly_as_short_as_the_exact_interval_of_a_share() -> None:
    """Of all draws that may be counted, Clopper and Pearson's is the shortest."""
    values = (np.random.default_rng(4).random(2000) < 0.1).astype(float)
    exact = clopper_pearson(int(values.sum()), 2000, 0.95)
    found = mean_interval(values, 0.05)
    assert found.high - found.low < 1.5 * (exact.high - exact.low)
