"""Gaussian processes: kernels and priors, posteriors after a release, and maximum likelihood fits."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gamma, kv
from scipy.stats import multivariate_normal

from models.exceptions import GaussianProcessError
from models.gaussian_process import (
    RBF,
    GaussianProcessPrior,
    Kernel,
    Matern,
    Periodic,
    White,
    condition_on,
    fit_kernel,
    lift,
    log_likelihood_nats,
)
from models.noise_design import posterior_half_width, secret_information
from tests.shared_files import shared

# Covariance functions and priors at irregular times.

positive = st.floats(0.1, 10.0)
leaves = st.one_of(
    st.builds(RBF, positive, positive),
    st.builds(Periodic, positive, positive, positive),
    st.builds(Matern, positive, st.sampled_from([0.5, 1.5, 2.5]), positive),
    st.builds(White, positive),
)
kernels = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner), st.builds(lambda a, b: a * b, inner, inner)
    ),
    max_leaves=4,
)
irregular_times = st.lists(st.floats(0.0, 20.0), min_size=1, max_size=12, unique=True).map(
    lambda times: np.array(sorted(times))
)


@given(kernels, irregular_times)
def test_every_kernel_is_a_covariance_at_irregular_times(kernel: Kernel, times: np.ndarray) -> None:
    """Sums and products included: symmetric, no eigenvalue below rounding, variances on the diagonal."""
    matrix = kernel.covariance(times)
    assert np.array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-12 * np.trace(matrix)
    assert np.allclose(np.diag(matrix), kernel.between(times[:1], times[:1])[0, 0])


@given(kernels, irregular_times, st.floats(-50.0, 50.0))
def test_a_kernel_depends_on_time_differences_only(kernel: Kernel, times: np.ndarray, shift: float) -> None:
    """Moving all times together changes nothing."""
    distinct = times[np.concatenate(([True], np.diff(times) > 1e-9))]
    moved = distinct + shift
    if (np.diff(moved) > 0).all():
        assert np.allclose(kernel.covariance(moved), kernel.covariance(distinct), atol=1e-6)


def test_the_formulas_are_those_of_the_paper() -> None:
    """RBF and periodic as in Meehan and Chaudhuri, equation (6)."""
    at, other = np.array([1.0]), np.array([4.0])
    assert RBF(2.0, 3.0).between(at, other)[0, 0] == pytest.approx(3.0 * math.exp(-9.0 / 8.0))
    expected = 2.0 * math.exp(-2.0 * math.sin(math.pi * 3.0 / 24.0) ** 2 / 1.1**2)
    assert Periodic(1.1, 24.0, 2.0).between(at, other)[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_the_matern_closed_forms_equal_the_bessel_function(smoothness: float) -> None:
    """Rasmussen and Williams, equation 4.14, with the modified Bessel function of scipy."""
    apart = np.array([0.3, 1.0, 2.7, 6.0])
    scaled = math.sqrt(2.0 * smoothness) * apart / 1.7
    expected = 2.0 ** (1.0 - smoothness) / gamma(smoothness) * scaled**smoothness * kv(smoothness, scaled)
    found = Matern(1.7, smoothness).between(np.zeros(1), apart)[0]
    assert np.allclose(found, expected, rtol=1e-12)


def test_white_noise_is_shared_by_equal_times_only() -> None:
    """Zero covariance however close two different times are."""
    assert np.array_equal(White(2.0).between(np.array([1.0]), np.array([1.0, 1.0 + 1e-9])), [[2.0, 0.0]])


def test_numbers_of_a_combined_kernel_are_named_and_replaced_by_side() -> None:
    """`left.` and `right.` address the parts; what is not named stays."""
    kernel = RBF(2.0) * Periodic(1.0, 24.0) + White(0.1)
    changed = kernel.with_hyperparameters({"left.right.period": 12.0, "right.variance": 0.5})
    names = changed.hyperparameters()
    assert names["left.right.period"] == 12.0
    assert names["right.variance"] == 0.5
    assert names["left.left.length_scale"] == 2.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RBF(0.0), "length_scale of RBF must be positive"),
        (lambda: Periodic(1.0, math.nan), "period must be a finite number, got nan"),
        (lambda: Matern(1.0, 2.0), "smoothness must be 0.5, 1.5 or 2.5"),
        (lambda: GaussianProcessPrior(RBF(1.0), np.array([0.0, 0.0])), "times must increase"),
        (lambda: GaussianProcessPrior(RBF(1.0), np.array([0.0, np.inf])), "finite numbers"),
        (lambda: GaussianProcessPrior.at_steps(RBF(1.0), 3).condition_on([3]), "positions 0..2"),
        (lambda: GaussianProcessPrior.at_steps(RBF(1.0), 3).condition_on([1, 1]), "distinct"),
    ],
)
def test_what_is_no_prior_is_refused_with_a_remedy(make, words: str) -> None:
    """The message says what must hold."""
    with pytest.raises(GaussianProcessError, match=words):
        make()


# Conditioning, and what an adversary believes after a noised release.

rough = st.floats(0.3, 2.0).map(lambda scale: GaussianProcessPrior.at_steps(Matern(scale), 6).covariance())


def posterior_covariance(prior: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """``Sigma - Sigma (Sigma + G)^-1 Sigma`` (n, n) (Meehan, Chaudhuri, appendix 7.4)."""
    return prior - prior @ cho_solve(cho_factor(lift(prior + noise)), prior)


def posterior_mean(prior: np.ndarray, noise: np.ndarray, released: np.ndarray) -> np.ndarray:
    """``Sigma (Sigma + G)^-1 z`` for releases ``z`` (..., n) of a prior of mean zero."""
    return released @ cho_solve(cho_factor(lift(prior + noise)), prior)


def posterior_interval(prior: np.ndarray, noise: np.ndarray, secret: list[int]) -> float:
    """Half-width ``2 sqrt(smallest eigenvalue of the posterior's block)`` of the belief about the secret."""
    posterior = posterior_covariance(prior, noise)[np.ix_(secret, secret)]
    return 2.0 * float(np.sqrt(max(np.linalg.eigvalsh(posterior)[0], 0.0)))


def drawn_noise(seed: int) -> np.ndarray:
    """A well-conditioned covariance with correlations of either sign."""
    root = np.random.default_rng(seed).standard_normal((6, 6))
    return root @ root.T + 0.05 * np.eye(6)


noises = st.integers(0, 2**32 - 1).map(drawn_noise)


@given(rough, noises)
def test_the_posterior_is_the_inverse_of_the_summed_precisions(prior: np.ndarray, noise: np.ndarray) -> None:
    """Where inverting is safe, the textbook formula gives the same."""
    expected = np.linalg.inv(np.linalg.inv(prior) + np.linalg.inv(noise))
    assert np.allclose(posterior_covariance(prior, noise), expected, atol=1e-9)


@pytest.mark.slow
@given(rough, noises, st.sets(st.integers(0, 5), min_size=1, max_size=3).map(sorted))
def test_the_release_adds_its_information_to_the_precision_of_the_secret(
    prior: np.ndarray, noise: np.ndarray, secret: list[int]
) -> None:
    """`Post_SS^-1 = Sigma_SS^-1 + J`: Bayes' rule for the secret alone agrees with the whole posterior."""
    block = np.ix_(secret, secret)
    posterior = posterior_covariance(prior, noise)[block]
    information = secret_information(prior, noise, secret)
    expected = np.linalg.inv(posterior) - np.linalg.inv(prior[block])
    assert np.allclose(information.matrix, expected, rtol=1e-6, atol=1e-6)
    width = posterior_half_width(condition_on(prior, secret), information)
    assert width == pytest.approx(posterior_interval(prior, noise, secret), rel=1e-7)


def test_simulated_errors_have_the_posterior_covariance() -> None:
    """Monte Carlo: draw traces and noise, guess the posterior mean, compare the errors' covariance."""
    random = np.random.default_rng(1)
    prior = GaussianProcessPrior.at_steps(RBF(2.0), 8)
    root = random.standard_normal((8, 8)) / 3.0
    noise = root @ root.T + 0.1 * np.eye(8)
    traces = prior.sample(100_000, random)
    released = traces + random.multivariate_normal(np.zeros(8), noise, size=len(traces))
    errors = traces - posterior_mean(prior.covariance(), noise, released)
    expected = posterior_covariance(prior.covariance(), noise)
    deviation = np.sqrt(
        (expected**2 + np.outer(np.diag(expected), np.diag(expected))) / len(traces)
    )  # of a sample covariance
    assert (np.abs(errors.T @ errors / len(traces) - expected) < 5.0 * deviation).all()


def test_conditioning_agrees_with_regression_on_samples() -> None:
    """The effect of the secret is the regression of the rest on it."""
    prior = GaussianProcessPrior(Matern(2.0, 2.5), np.array([0.0, 0.7, 2.0, 2.5, 5.0]))
    traces = prior.sample(200_000, np.random.default_rng(2))
    split = prior.condition_on([1, 3])
    fitted = np.linalg.lstsq(traces[:, split.secret], traces[:, split.rest], rcond=None)[0].T
    assert np.allclose(split.effect, fitted, atol=0.02)
    rests = traces[:, split.rest] - traces[:, split.secret] @ split.effect.T
    assert np.allclose(np.cov(rests.T), split.residual, atol=0.02)


def test_two_times_one_period_apart_are_one_value() -> None:
    """A purely periodic prior makes the secret block singular; conditioning still holds."""
    prior = GaussianProcessPrior.at_steps(Periodic(1.1, 4.0), 8).covariance()
    split = condition_on(prior, [1, 5])
    assert np.allclose(split.effect @ prior[np.ix_([1, 5], [1, 5])], prior[np.ix_(split.rest, [1, 5])])
    twin = condition_on(prior, [1])
    assert twin.effect[list(twin.rest).index(5), 0] == pytest.approx(1.0)
    assert twin.residual[list(twin.rest).index(5)] == pytest.approx(np.zeros(7), abs=1e-12)


def test_no_noise_at_all_leaves_no_uncertainty() -> None:
    """What is released as it is, is known."""
    prior = GaussianProcessPrior.at_steps(Matern(1.0), 5).covariance()
    assert posterior_interval(prior, np.zeros((5, 5)), [2]) < 1e-5


def test_much_noise_leaves_the_prior() -> None:
    """The posterior tends to the prior."""
    prior = GaussianProcessPrior.at_steps(Matern(1.0), 5).covariance()
    assert posterior_interval(prior, 1e9 * np.eye(5), [2]) == pytest.approx(2.0, rel=1e-6)


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
