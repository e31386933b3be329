"""Conditioning, and what an adversary believes after a noised release."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import cho_factor, cho_solve

from models.gaussian_process import (
    RBF,
    GaussianProcessPrior,
    Matern,
    Periodic,
    condition_on,
    lift,
)
from models.noise_design import posterior_half_width, secret_information

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
