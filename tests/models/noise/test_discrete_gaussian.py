"""The discrete Gaussian's table is the law it claims to be, and the sampler realises exactly the table."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from models.exceptions import MechanismError
from models.mechanisms import Gaussian
from models.noise import TOTAL, discrete_gaussian_table
from models.noise.integer_chain import MAX_SIGMA, MIN_SIGMA
from tests.shared_files import shared

SIGMAS = [0.05, 0.1, 0.3, 0.48, 1.0, 2.5, 10.0, 123.456]
ALPHA = 1e-3  # the samples below are seeded: a test that passes once passes always


def words_of(numbers: list[int]) -> NDArray[np.uint64]:
    """128-bit numbers as the sampler takes them: high word first."""
    return np.array([(number >> 64, number & (2**64 - 1)) for number in numbers], dtype=np.uint64)


def random_words(draws: int, seed: int) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, size=(draws, 2), dtype=np.uint64)


def ideal_law(sigma: float) -> list[Fraction]:
    """Probabilities of 0..K from the definition alone, each exponential on its own, 80 digits."""
    with localcontext() as context:
        context.prec = 80
        exponent = Fraction(-1, 2) / Fraction(sigma) ** 2
        rate = Decimal(exponent.numerator) / Decimal(exponent.denominator)
        weights = [Fraction((rate * k * k).exp()) for k in range(int(18 * sigma) + 3)]
    total = 2 * sum(weights) - weights[0]
    return [weight / total for weight in weights]


def pooled(expected: NDArray[np.float64], at_least: float = 10.0) -> NDArray[np.int64]:
    """For each cell the number of its pool, neighbours joined until each pool expects enough draws."""
    pools, mass, pool = np.zeros(expected.size, dtype=np.int64), 0.0, 0
    for cell, value in enumerate(expected):
        pools[cell], mass = pool, mass + value
        if mass >= at_least and expected[cell + 1 :].sum() >= at_least:
            pool, mass = pool + 1, 0.0
    return pools


def goodness_of_fit(noise: NDArray[np.int64], sigma: float) -> float:
    """p-value of Pearson's test of drawn noise against the table's own probabilities."""
    table = discrete_gaussian_table(sigma)
    expected = table.probabilities * noise.size
    observed = np.bincount(noise + table.last, minlength=expected.size)
    pools = pooled(expected)
    return float(stats.chisquare(np.bincount(pools, observed), np.bincount(pools, expected)).pvalue)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_table_is_the_ideal_law_up_to_the_truncated_mass_it_reports(sigma: float) -> None:
    """Total variation to the definition, in exact fractions, is at most the reported mass, below 2^-100."""
    table, ideal = discrete_gaussian_table(sigma), ideal_law(sigma)
    units = [*table.units, *[0] * (len(ideal) - len(table.units))]
    gaps = [abs(Fraction(unit, TOTAL) - p) for unit, p in zip(units, ideal, strict=True)]
    variation = (2 * sum(gaps) - gaps[0]) / 2
    assert 0 < variation <= Fraction(table.truncated_mass)
    assert table.truncated_mass < 2.0**-100


@given(st.floats(MIN_SIGMA, 40.0))
@settings(max_examples=50)
def test_every_table_has_all_the_mass_and_falls_from_zero(sigma: float) -> None:
    """Units total 2^128 exactly, never rise away from 0, and thresholds rise."""
    table = discrete_gaussian_table(sigma)
    assert table.units[0] + 2 * sum(table.units[1:]) == TOTAL
    assert all(near >= far > 0 for near, far in zip(table.units, table.units[1:], strict=False))
    thresholds = [
        int(high) << 64 | int(low)
        for high, low in zip(table.threshold_high, table.threshold_low, strict=True)
    ]
    assert thresholds == sorted(set(thresholds))
    assert len(thresholds) == 2 * table.last


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_sampler_maps_to_each_value_exactly_its_units_of_words(sigma: float) -> None:
    """The first and the last 128-bit word of each value map to it: the inverse distribution, enumerated."""
    table = discrete_gaussian_table(sigma)
    units = [*table.units[:0:-1], *table.units]
    ends = np.cumsum(np.array(units, dtype=object))
    first, last = [0, *map(int, ends[:-1])], [int(end) - 1 for end in ends]
    values = np.arange(-table.last, table.last + 1)
    assert last[-1] == TOTAL - 1
    assert np.array_equal(table.sample(words_of(first)), values)
    assert np.array_equal(table.sample(words_of(last)), values)


def test_the_largest_table_is_within_its_promise() -> None:
    """At sigma 10 000: mass cut below 2^-100, units complete, variance sigma^2."""
    table = discrete_gaussian_table(MAX_SIGMA)
    assert table.truncated_mass < 2.0**-100
    assert table.units[0] + 2 * sum(table.units[1:]) == TOTAL
    variance = float(np.arange(-table.last, table.last + 1) ** 2.0 @ table.probabilities)
    assert variance == pytest.approx(MAX_SIGMA**2, rel=1e-9)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 7.5, 300.0])
def test_drawn_noise_fits_the_exact_probabilities(sigma: float) -> None:
    """Pearson's test on 400 000 draws."""
    noise = discrete_gaussian_table(sigma).sample(random_words(400_000, seed=11))
    assert goodness_of_fit(noise, sigma) > ALPHA


def test_the_goodness_of_fit_would_notice_one_percent_in_sigma() -> None:
    """The test above has power: noise of sigma 1.01 is not taken for sigma 1."""
    noise = discrete_gaussian_table(1.01).sample(random_words(400_000, seed=11))
    assert goodness_of_fit(noise, 1.0) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.4, 1.0, 6.0])
def test_noise_is_distributed_like_the_one_of_opendp(sigma: float) -> None:
    """Two-sample chi-square against OpenDP's exact sampler, which draws from the ideal law."""
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is the second implementation to compare with")
    dp.enable_features("contrib")
    draws = 60_000
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, sigma)([0] * draws))
    ours = discrete_gaussian_table(sigma).sample(random_words(draws, seed=5))
    low = min(theirs.min(), ours.min())
    width = int(max(theirs.max(), ours.max()) - low) + 1
    counts = np.array([np.bincount(sample - low, minlength=width) for sample in (ours, theirs)])
    pools = pooled(counts.sum(axis=0) / 2.0)
    table = np.array([np.bincount(pools, row) for row in counts])
    # OpenDP cannot be seeded: one false alarm in 10^7 runs.
    assert stats.chi2_contingency(table).pvalue > 1e-7


def test_reveal_probabilities_are_the_published_reference_numbers() -> None:
    """The noise's probability of zero, for every sigma of the reference file, to 1e-12."""
    cases = json.loads(shared("reference/gaussian_erasure.json").read_text())["cases"]
    compared = 0
    for case in cases:
        for step, reveal in zip(case["steps"], case["reveal"], strict=True):
            if step["sensors"] and step.get("mechanism") == "gaussian":
                assert Gaussian(step["sigma"]).reveal_probability() == pytest.approx(reveal, rel=1e-12)
                compared += 1
    assert compared > 20


@pytest.mark.parametrize(("sigma", "best"), [(0.48, 0.9092), (0.62, 0.9147)])
def test_more_discrete_noise_may_protect_less(sigma: float, best: float) -> None:
    """One step, two places, p = 0.1: the best guess is right with 0.9092 at sigma 0.48, 0.9147 at 0.62."""
    noise = discrete_gaussian_table(sigma).probabilities
    absent, counted = np.append(noise, 0.0), np.insert(noise, 0, 0.0)
    assert np.maximum(0.9 * absent, 0.1 * counted).sum() == pytest.approx(best, abs=5e-5)


@pytest.mark.parametrize(
    ("sigma", "remedy"),
    [
        (0.0, "raw"),
        (0.049, "raw"),
        (10_001.0, "suppressed"),
        (float("inf"), "suppressed"),
        (float("nan"), "give"),
        (-1.0, "give"),
    ],
)
def test_a_sigma_without_a_table_is_refused_with_a_remedy(sigma: float, remedy: str) -> None:
    with pytest.raises(MechanismError, match=r"sigma must lie in 0\.05\.\.10000") as refused:
        discrete_gaussian_table(sigma)
    assert remedy in refused.value.remedy
