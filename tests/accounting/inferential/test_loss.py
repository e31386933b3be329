"""The loss against the two laws themselves, against sampling and against the workshop paper's figure."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from accounting.exceptions import InferentialPrivacyError
from accounting.ledgers.inferential import (
    gaussian_renyi_divergence,
    per_value_loss,
    prior_posterior_gap,
    release_loss,
)
from models.gaussian_process import RBF, GaussianProcessPrior, Matern, condition_on, lift
from tests.shared_files import shared

POINTS = 6
priors = st.floats(0.4, 3.0).map(
    lambda scale: GaussianProcessPrior.at_steps(Matern(scale, 2.5), POINTS).covariance()
)
secrets = st.sets(st.integers(0, POINTS - 1), min_size=1, max_size=3).map(sorted)
orders = st.floats(1.1, 20.0)
seeds = st.integers(0, 2**32 - 1)


def drawn_noise(seed: int) -> np.ndarray:
    """Correlated noise of full rank."""
    root = np.random.default_rng(seed).standard_normal((POINTS, POINTS))
    return root @ root.T + 0.05 * np.eye(POINTS)


def release_divergence(
    prior: np.ndarray, noise: np.ndarray, secret: list[int], difference: np.ndarray, order: float
) -> float:
    """Rényi divergence (nats) of the whole release between two secrets that differ by ``difference`` (k,).

    Built from the two Gaussian laws themselves, not from the loss formula that it must never exceed.
    """
    split = condition_on(prior, secret)
    spread = lift(split.lifted_residual() + noise, split.rounding)
    return gaussian_renyi_divergence(split.lifted_effect() @ difference, spread, spread, order)


@pytest.mark.slow
@given(priors, seeds, secrets, orders, seeds)
@settings(max_examples=100)
def test_no_two_secrets_are_further_apart_than_the_loss(
    prior: np.ndarray, seed: int, secret: list[int], order: float, direction: int
) -> None:
    """Any two secrets within the radius at each time: the divergence of the two Gaussians stays below."""
    noise = drawn_noise(seed)
    difference = np.random.default_rng(direction).uniform(-0.7, 0.7, len(secret))
    divergence = release_divergence(prior, noise, secret, difference, order)
    exact = per_value_loss(prior, noise, secret, order, 0.7)
    assert divergence <= exact * (1.0 + 1e-9)
    assert exact <= release_loss(prior, noise, secret, order, 0.7).epsilon * (1.0 + 1e-9)


@pytest.mark.slow
@given(priors, seeds, secrets, orders)
@settings(max_examples=50)
def test_the_loss_is_reached(prior: np.ndarray, seed: int, secret: list[int], order: float) -> None:
    """The worst corner attains the exact loss, the worst direction of the ball the bound."""
    noise = drawn_noise(seed)
    loss = release_loss(prior, noise, secret, order, 1.0)
    worst = np.linalg.eigh(loss.information.matrix)[1][:, -1] * math.sqrt(len(secret))
    assert release_divergence(prior, noise, secret, worst, order) == pytest.approx(loss.epsilon, rel=1e-6)
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * len(secret))).reshape(len(secret), -1).T
    reached = max(release_divergence(prior, noise, secret, corner, order) for corner in corners)
    assert per_value_loss(prior, noise, secret, order, 1.0) == pytest.approx(reached, rel=1e-6)


@pytest.mark.parametrize("order", [1.5, 2.0, 5.0])
@pytest.mark.parametrize("deviations", [(1.0, 1.0), (1.3, 0.9), (0.8, 1.1)])
def test_the_divergence_of_two_normal_laws_is_its_integral(
    order: float, deviations: tuple[float, float]
) -> None:
    """`ln(E_q (p/q)^order) / (order - 1)` by quadrature; inf where it diverges."""
    left, right = norm(0.4, deviations[0]), norm(0.0, deviations[1])
    found = gaussian_renyi_divergence(
        np.array([0.4]), np.array([[deviations[0] ** 2]]), np.array([[deviations[1] ** 2]]), order
    )
    if order * deviations[1] ** 2 + (1.0 - order) * deviations[0] ** 2 <= 0.0:
        assert found == math.inf
        return
    integral = quad(
        lambda x: math.exp(order * left.logpdf(x) + (1.0 - order) * right.logpdf(x)), -60, 60, limit=400
    )[0]
    assert found == pytest.approx(math.log(integral) / (order - 1.0), rel=1e-6)


def test_sampled_releases_have_the_divergence_of_the_formula() -> None:
    """Monte Carlo over traces and noise of `E_q (p/q)^2` for two secrets, within five standard errors."""
    random = np.random.default_rng(7)
    prior = GaussianProcessPrior.at_steps(RBF(1.5), POINTS).covariance()
    noise, secret, difference = drawn_noise(3) + np.eye(POINTS), [2, 3], np.array([0.3, -0.2])
    split = condition_on(prior, secret)
    rest = random.multivariate_normal(np.zeros(split.rest.size), split.residual, size=200_000)
    traces = np.zeros((len(rest), POINTS))
    traces[:, split.rest] = rest
    released = traces + random.multivariate_normal(np.zeros(POINTS), noise, size=len(rest))
    spread = split.lifted_residual() + noise
    shifted = multivariate_normal(split.lifted_effect() @ difference, spread)
    ratios = np.exp(2.0 * (shifted.logpdf(released) - multivariate_normal(None, spread).logpdf(released)))
    expected = math.exp(release_divergence(prior, noise, secret, difference, 2.0))
    assert abs(ratios.mean() - expected) < 5.0 * ratios.std() / math.sqrt(len(ratios))


def test_the_gap_holds_with_its_probability() -> None:
    """Drawn releases move the log odds by more than the gap in at most delta of the cases."""
    random = np.random.default_rng(8)
    prior = GaussianProcessPrior.at_steps(RBF(1.5), POINTS).covariance()
    noise, secret, order, delta = drawn_noise(4) + np.eye(POINTS), [3], 5.0, 0.05
    split = condition_on(prior, secret)
    spread = split.lifted_residual() + noise
    shift = split.lifted_effect() @ np.array([1.0])
    released = random.multivariate_normal(shift, spread, size=50_000)
    moved = multivariate_normal(shift, spread).logpdf(released) - multivariate_normal(None, spread).logpdf(
        released
    )
    gap = prior_posterior_gap(release_loss(prior, noise, secret, order, 1.0).epsilon, order, delta)
    assert 0.0 < gap < moved.max() + 10.0
    assert np.mean(np.abs(moved) > gap) <= delta


def test_the_gap_is_the_papers() -> None:
    """Theorem 3.3: `epsilon + ln(1/delta) / (lambda - 1)`."""
    assert prior_posterior_gap(2.0, 5.0, 0.05) == pytest.approx(2.0 + math.log(20.0) / 4.0)


def test_the_workshop_papers_figure_is_reproduced() -> None:
    """Loss against noise variance for every length scale of figure 2(a), to 1e-4."""
    rows = json.loads(shared("reference/cip_fig2a.json").read_text())["rows"]
    assert len(rows) > 50
    for row in rows:
        kernel = RBF(1e-3 if row["l"] == "independent" else float(row["l"]))
        prior = GaussianProcessPrior.at_steps(kernel, 10).covariance()
        loss = release_loss(prior, row["sigma_z2"] * np.eye(10), row["S"], 5.0, 1.0)
        assert loss.epsilon == pytest.approx(row["Lpriv_lambda5_r1"], rel=1e-4), row
        assert loss.alpha == pytest.approx(row["alpha_star"], rel=1e-4, abs=1e-9), row


def test_the_mean_of_the_prior_does_not_matter() -> None:
    """A release is as telling for a trace with any mean: only the difference of secrets enters."""
    prior = GaussianProcessPrior.at_steps(RBF(2.0), POINTS).covariance()
    split, spread = condition_on(prior, [2]), condition_on(prior, [2]).lifted_residual() + drawn_noise(1)
    mean, lifted = np.arange(6.0), split.lifted_effect()[:, 0]
    first, second = mean + lifted * (0.3 - mean[2]), mean + lifted * (-0.7 - mean[2])
    expected = release_divergence(prior, drawn_noise(1), [2], np.array([1.0]), 3.0)
    assert gaussian_renyi_divergence(first - second, spread, spread, 3.0) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda prior: release_loss(prior, np.eye(6), [0], 1.0, 1.0), "order must be above 1"),
        (lambda prior: release_loss(prior, np.eye(6), [0], 2.0, 0.0), "radius must be positive"),
        (lambda prior: prior_posterior_gap(1.0, 2.0, 0.0), "delta must be between"),
        (lambda prior: per_value_loss(np.eye(20), np.eye(20), list(range(17)), 2.0, 1.0), "at most 16"),
    ],
)
def test_what_defines_no_loss_is_refused(attempt, words: str) -> None:
    """The message says what must hold."""
    with pytest.raises(InferentialPrivacyError, match=words):
        attempt(GaussianProcessPrior.at_steps(RBF(1.0), 6).covariance())
