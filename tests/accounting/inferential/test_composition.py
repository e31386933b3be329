"""Several releases, several coordinates, and a prior that is not the assumed one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from accounting.ledgers.inferential import (
    ReleasedSeries,
    Window,
    conditional_divergence,
    gaussian_renyi_divergence,
    misspecified_loss,
    misspecified_release_loss,
    release_loss,
)
from models.gaussian_process import (
    RBF,
    GaussianProcessPrior,
    Kernel,
    Matern,
    Periodic,
    condition_on,
)
from models.noise_design import DesignProblem, design_noise


def exact_window(kernel: Kernel, start: int, points: int, secret: int) -> Window:
    """A window of the exact design for one time, trace 1 per ten times."""
    times = np.arange(start, start + points, dtype=np.float64)
    problem = DesignProblem(kernel.covariance(times), (secret - start,), points / 10.0)
    return Window(times, design_noise(problem, "exact").covariance)


def test_one_window_is_the_loss_of_one_release() -> None:
    """The joint accounting of a single release is the single release's."""
    window = exact_window(RBF(3.0), 0, 12, 6)
    expected = release_loss(RBF(3.0).covariance(window.times), window.noise, [6], 5.0, 1.0).epsilon
    assert ReleasedSeries(RBF(3.0), (window,)).loss_nats([6.0], 5.0, 1.0) == pytest.approx(expected, rel=1e-6)


def test_adjacent_windows_are_the_loss_of_one_block_diagonal_release() -> None:
    """Corollary 3.4.1: one joint prior, block-diagonal noise, whatever the order of the windows."""
    kernel = RBF(3.0)
    windows = (exact_window(kernel, 0, 10, 9), exact_window(kernel, 10, 10, 10))
    noise = np.zeros((20, 20))
    noise[:10, :10], noise[10:, 10:] = windows[0].noise, windows[1].noise
    expected = release_loss(kernel.covariance(np.arange(20.0)), noise, [9], 5.0, 1.0).epsilon
    for order in (windows, windows[::-1]):
        assert ReleasedSeries(kernel, order).loss_nats([9.0], 5.0, 1.0) == pytest.approx(expected, rel=1e-4)


def test_adjacent_windows_tell_more_than_either_and_more_than_expected_of_one() -> None:
    """The second window raises the loss of the first's last time well above what it had alone."""
    kernel = RBF(4.0)
    windows = (exact_window(kernel, 0, 20, 19), exact_window(kernel, 20, 20, 20))
    alone = ReleasedSeries(kernel, windows[:1]).loss_nats([19.0], 5.0, 1.0)
    joint = ReleasedSeries(kernel, windows).loss_nats([19.0], 5.0, 1.0)
    assert joint > 1.5 * alone


def test_prior_shaped_noise_that_runs_on_across_windows_costs_nothing_more() -> None:
    """Drawn anew per window the loss at the border doubles; as one process it stays, however long."""
    kernel, times = RBF(4.0), np.arange(40.0)
    shaped = 0.25 * kernel.covariance(times)
    first, second = Window(times[:20], shaped[:20, :20]), Window(times[20:], shaped[20:, 20:])
    alone = ReleasedSeries(kernel, (first,)).loss_nats([19.0], 5.0, 1.0)
    assert alone == pytest.approx(2.5 / 0.25, rel=1e-6)
    assert ReleasedSeries(kernel, (first, second)).loss_nats([19.0], 5.0, 1.0) > 1.9 * alone
    assert ReleasedSeries(kernel, (Window(times, shaped),)).loss_nats([19.0], 5.0, 1.0) == pytest.approx(
        alone, rel=1e-6
    )


def test_far_windows_of_a_decaying_kernel_do_not_matter_and_periodic_ones_do() -> None:
    """The paper's remark below corollary 3.4.1."""
    growth = {}
    for kernel in (RBF(3.0), Periodic(1.0, 24.0)):
        near, far = exact_window(kernel, 0, 10, 5), exact_window(kernel, 240, 10, 245)
        alone = ReleasedSeries(kernel, (near,)).loss_nats([5.0], 5.0, 1.0)
        growth[type(kernel)] = ReleasedSeries(kernel, (near, far)).loss_nats([5.0], 5.0, 1.0) / alone
    assert growth[RBF] == pytest.approx(1.0, abs=1e-6)
    assert growth[Periodic] > 1.5


def test_the_same_value_released_twice_has_the_precision_of_both() -> None:
    """Independent noise of variance 1 twice is noise of variance 1/2 once."""
    kernel, times = Matern(2.0), np.arange(5.0)
    twice = ReleasedSeries(kernel, (Window(times, np.eye(5)), Window(times, np.eye(5))))
    once = ReleasedSeries(kernel, (Window(times, 0.5 * np.eye(5)),))
    assert twice.loss_nats([2.0, 3.0], 5.0, 1.0) == pytest.approx(once.loss_nats([2.0, 3.0], 5.0, 1.0))


def test_a_time_between_releases_is_accounted_too() -> None:
    """What was never released still follows from its neighbours, less than they from themselves."""
    series = ReleasedSeries(RBF(3.0), (Window(np.arange(0.0, 20.0, 2.0), 0.1 * np.eye(10)),))
    between, released = series.loss_nats([9.0], 5.0, 1.0), series.loss_nats([10.0], 5.0, 1.0)
    assert 0.0 < between < released


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_coordinates_add_up_as_their_radius_says(seed: int) -> None:
    """Euclidean: the joint release of both coordinates; the paper's corollary is never below it."""
    random = np.random.default_rng(seed)
    priors = [
        GaussianProcessPrior.at_steps(RBF(scale), 5).covariance() for scale in random.uniform(0.5, 3.0, 2)
    ]
    noises = [np.diag(np.r_[random.uniform(0.1, 1.0, 2), 0.4, random.uniform(0.1, 1.0, 2)]) for _ in "xy"]
    losses = [release_loss(prior, noise, [2], 5.0, 1.0) for prior, noise in zip(priors, noises, strict=True)]
    joint = release_loss(block_diag(*priors), block_diag(*noises), [2, 7], 5.0, 1.0)
    # The loss of the worst coordinate, that of the paper's corollary 7.2.1, and the sum over coordinates.
    euclidean, coordinatewise = max(loss.epsilon for loss in losses), sum(loss.epsilon for loss in losses)
    corollary = 0.5 * 5.0 * (1.0 / 0.4 + sum(loss.alpha for loss in losses))
    # the joint secret has two values, the time one: the loss formula counts values
    assert joint.epsilon == pytest.approx(2.0 * euclidean, rel=1e-6)
    assert euclidean <= corollary * (1.0 + 1e-9)
    assert corollary <= coordinatewise * (1.0 + 1e-9)


def test_the_misspecification_formula_is_the_theorems() -> None:
    """At order 2 with D(l) = l / 100 and eps(l) = l: worked by hand."""
    found = misspecified_loss(2.0, lambda order: order / 100.0, lambda order: order)
    assert found == pytest.approx(1.5 * 0.04 + 0.05 + 1.25 * 6.0)


@pytest.mark.slow
@given(
    st.floats(1.0, 2.0),
    st.floats(0.97, 1.03),
    st.floats(1.1, 3.0),
    st.sampled_from([(2,), (2, 3)]),
    st.floats(0.2, 2.0),
)
@settings(max_examples=60)
def test_a_wrong_prior_stays_below_the_theorems_bound(
    scale: float, factor: float, order: float, secret: tuple[int, ...], sigma2: float
) -> None:
    """The loss under the true prior, evaluated directly, is never above the bound from the assumed one."""
    assumed = GaussianProcessPrior.at_steps(Matern(scale), 6).covariance()
    true = GaussianProcessPrior.at_steps(Matern(scale * factor), 6).covariance()
    noise = sigma2 * np.eye(6)
    bound = misspecified_release_loss(assumed, true, noise, secret, secret_norm=2.0, order=order, radius=1.0)
    assert math.isfinite(bound)
    assert release_loss(true, noise, secret, order, 1.0).epsilon <= bound


def test_the_divergence_of_priors_is_the_worst_over_secrets() -> None:
    """No secret of that norm, in either direction, has a larger divergence; one attains it."""
    assumed = GaussianProcessPrior.at_steps(Matern(2.0), 6).covariance()
    true = GaussianProcessPrior.at_steps(Matern(2.3), 6).covariance()
    noise, secret, order = 0.5 * np.eye(6), [2, 3], 3.0
    bound = conditional_divergence(assumed, true, noise, secret, 2.0, order)
    left, right = condition_on(assumed, secret), condition_on(true, secret)
    laws = [split.residual + noise[:4, :4] for split in (left, right)]
    found = [
        gaussian_renyi_divergence(
            2.0 * (left.effect - right.effect) @ [math.cos(angle), math.sin(angle)], first, second, order
        )
        for angle in np.linspace(0.0, math.pi, 400)
        for first, second in (laws, laws[::-1])
    ]
    assert max(found) <= bound * (1.0 + 1e-9)
    assert max(found) == pytest.approx(bound, rel=1e-3)


def test_priors_too_far_apart_have_no_bound() -> None:
    """An unbounded divergence is infinite, not a number that means nothing."""
    rough, smooth = (GaussianProcessPrior.at_steps(RBF(scale), 6).covariance() for scale in (0.5, 5.0))
    bound = misspecified_release_loss(
        smooth, rough, 1e-3 * np.eye(6), [2], secret_norm=1.0, order=5.0, radius=1.0
    )
    assert bound == math.inf
