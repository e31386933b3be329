"""Covariance functions and priors at irregular times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gamma, kv

from models.exceptions import GaussianProcessError
from models.gaussian_process import (
    RBF,
    GaussianProcessPrior,
    Kernel,
    Matern,
    Periodic,
    White,
)

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
        (lambda: Periodic(1.0, math.nan), "period of Periodic must be positive"),
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
