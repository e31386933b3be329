"""Every design is a covariance within the budget, and the optimal ones cannot be improved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.exceptions import GaussianProcessError, NoiseDesignError
from models.gaussian_process import RBF, GaussianProcessPrior, Kernel, Matern, Periodic, White
from models.noise_design import (
    METHODS,
    DesignProblem,
    design_noise,
    indirect_information,
    secret_information,
    worst_information,
)
from models.noise_design.design import sdp_b, surrogate_optimum
from models.noise_design.problem import block_noise

ONE_SECRET = ["exact", "unrestricted", "sdp-a", "uniform"]
kernels = st.one_of(
    st.builds(RBF, st.floats(0.5, 3.0), st.floats(0.5, 4.0)),
    st.builds(Matern, st.floats(0.5, 6.0), st.sampled_from([0.5, 1.5, 2.5])),
    st.builds(Periodic, st.floats(0.6, 1.5), st.floats(3.3, 6.7)),
)


@st.composite
def problems(draw: st.DrawFn, max_secret: int = 2) -> DesignProblem:
    """Six to nine times, one or two of them secret, any budget."""
    points = draw(st.integers(6, 9))
    secret = draw(st.lists(st.integers(0, points - 1), min_size=1, max_size=max_secret, unique=True))
    prior = GaussianProcessPrior.at_steps(draw(kernels), points).covariance()
    return DesignProblem(prior, tuple(sorted(secret)), draw(st.floats(0.05, 20.0)))


def random_covariance(seed: int, points: int, trace: float) -> np.ndarray:
    """Some covariance of the given trace, of low or full rank."""
    random = np.random.default_rng(seed)
    root = random.standard_normal((points, int(random.integers(1, points + 1))))
    matrix = root @ root.T + 1e-6 * np.eye(points)
    return matrix * (trace / np.trace(matrix))


@pytest.mark.parametrize("method", METHODS)
@given(case=problems())
@settings(max_examples=15)
def test_a_design_is_a_covariance_that_spends_the_budget(method: str, case: DesignProblem) -> None:
    """Symmetric, positive semidefinite, of the trace asked for, for every method."""
    noise = design_noise(case, method).covariance
    assert np.array_equal(noise, noise.T)
    assert np.linalg.eigvalsh(noise)[0] >= -1e-9 * case.noise_budget
    assert np.trace(noise) == pytest.approx(case.noise_budget, rel=1e-8)


@pytest.mark.parametrize("method", METHODS)
@given(case=problems(), factor=st.floats(0.01, 100.0))
@settings(max_examples=10)
def test_a_design_does_not_depend_on_the_unit(method: str, case: DesignProblem, factor: float) -> None:
    """Values in other units: covariances scale, the information per squared unit scales back."""
    other = DesignProblem(case.prior * factor, case.secret, case.noise_budget * factor)
    ours = worst_information(case, design_noise(case, method).covariance)
    theirs = worst_information(other, design_noise(other, method).covariance) * factor
    if np.isfinite(ours) and ours < 1e6:  # beyond, the secret is as good as known
        assert theirs == pytest.approx(ours, rel=1e-4)


@pytest.mark.slow
@given(case=problems(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_no_covariance_of_the_same_trace_beats_the_unrestricted_design(
    case: DesignProblem, seed: int
) -> None:
    """Random covariances, and mixtures of one with the design itself (the loss is convex in the noise)."""
    best = design_noise(case, "unrestricted").covariance
    least = worst_information(case, best)
    other = random_covariance(seed, case.points, case.noise_budget)
    for share in (1.0, 0.1, 0.01):
        assert worst_information(case, share * other + (1.0 - share) * best) >= least * (1.0 - 1e-6)


@pytest.mark.slow
@given(case=problems(), seed=st.integers(0, 2**32 - 1), at_secret=st.floats(0.01, 0.99))
@settings(max_examples=100)
def test_no_noise_independent_at_the_secret_beats_the_exact_design(
    case: DesignProblem, seed: int, at_secret: float
) -> None:
    """Any split of the budget, any covariance of the rest, and mixtures with the design itself."""
    best = design_noise(case, "exact").covariance
    least = worst_information(case, best)
    size = case.split.secret.size
    rest = random_covariance(seed, case.points - size, (1.0 - at_secret) * case.noise_budget)
    other = block_noise(case.split, at_secret * case.noise_budget / size, rest)
    for share in (1.0, 0.1, 0.01):
        assert worst_information(case, share * other + (1.0 - share) * best) >= least * (1.0 - 1e-6)


@pytest.mark.slow
@given(case=problems())
@settings(max_examples=60)
def test_designs_are_ordered_by_what_they_may_choose(case: DesignProblem) -> None:
    """unrestricted <= exact <= SDP_A, uniform in the true loss, at any stabilisation."""
    loss = {method: worst_information(case, design_noise(case, method).covariance) for method in ONE_SECRET}
    assert loss["unrestricted"] <= loss["exact"] * (1.0 + 1e-6)
    assert loss["exact"] <= loss["sdp-a"] * (1.0 + 1e-6)
    assert loss["exact"] <= loss["uniform"] * (1.0 + 1e-6)


@given(case=problems(max_secret=3), seed=st.integers(0, 2**32 - 1), more=st.floats(0.01, 2.0))
@settings(max_examples=60)
def test_more_noise_never_tells_more(case: DesignProblem, seed: int, more: float) -> None:
    """ "More PSD, more private" (corollary 7.2.2), here for covariances with cross terms too."""
    noise = random_covariance(seed, case.points, case.noise_budget)
    added = noise + random_covariance(seed + 1, case.points, more)
    assert worst_information(case, added) <= worst_information(case, noise) * (1.0 + 1e-4)


@given(case=problems())
@settings(max_examples=40)
def test_the_short_form_is_right_for_independent_noise_at_the_secret(case: DesignProblem) -> None:
    """`1/sigma_s^2 + alpha` for the exact design; a lower bound at best for others."""
    noise = design_noise(case, "exact").covariance
    assert case.secret is not None
    short = 1.0 / noise[case.secret[0], case.secret[0]] + indirect_information(case.split, noise).largest
    assert secret_information(case.prior, noise, case.secret).largest == pytest.approx(short, rel=1e-5)


def test_the_short_form_misses_part_of_the_loss_of_multiple_secrets() -> None:
    """A compound secret under Multiple Secrets: the true loss is a tenth above it."""
    prior = GaussianProcessPrior.at_steps(RBF(2.0), 50).covariance()
    noise = design_noise(DesignProblem(prior, None, 26.27), "multiple").covariance
    case = DesignProblem(prior, (24, 25), 26.27)
    short = 1.0 / noise[24, 24] + indirect_information(case.split, noise).largest
    assert worst_information(case, noise) > 1.05 * short


@given(seed=st.integers(0, 2**32 - 1), members=st.integers(1, 5))
@settings(max_examples=30)
def test_sdp_b_covers_its_family_and_proves_how_tightly(seed: int, members: int) -> None:
    """Above every member, no dearer than their sum, within 1e-4 of what any cover costs."""
    family = [random_covariance(seed + index, 5, 1.0 + index) for index in range(members)]
    cover = sdp_b(family)
    for member in family:
        assert np.linalg.eigvalsh(cover.covariance - member)[0] >= -1e-7
    trace = float(np.trace(cover.covariance))
    assert trace <= sum(np.trace(member) for member in family) * (1.0 + 1e-4)
    assert trace >= max(np.trace(member) for member in family) * (1.0 - 1e-9)
    assert cover.relative_gap <= 1e-4


@given(case=problems(max_secret=3), stabilisation=st.sampled_from([1.0, 10.0, 1000.0]))
@settings(max_examples=40)
def test_sdp_a_meets_its_own_optimality_conditions(case: DesignProblem, stabilisation: float) -> None:
    """Budget spent, and no other covariance of that trace has a larger surrogate."""
    best = surrogate_optimum(case, stabilisation) * stabilisation
    inverse = np.linalg.pinv(case.split.lifted_effect())

    def surrogate(noise: np.ndarray) -> float:
        return np.linalg.eigvalsh(inverse @ (case.split.lifted_residual() + noise) @ inverse.T)[0]

    assert np.trace(best) == pytest.approx(stabilisation * case.noise_budget, rel=1e-9)
    for seed in range(5):
        other = random_covariance(seed, case.points, stabilisation * case.noise_budget)
        assert surrogate(0.9 * best + 0.1 * other) <= surrogate(best) * (1.0 + 1e-8) + 1e-12


@pytest.mark.parametrize("method", ["exact", "unrestricted", "sdp-a", "uniform", "concentrated"])
def test_a_secret_without_any_rest_gets_the_whole_budget(method: str) -> None:
    """One released value: the loss is one over the variance, whatever the method."""
    case = DesignProblem(np.array([[2.0]]), (0,), 0.5)
    assert worst_information(case, design_noise(case, method).covariance) == pytest.approx(2.0)


@pytest.mark.parametrize("method", ["exact", "unrestricted", "sdp-a", "multiple", "multiple-exact"])
def test_independent_values_need_no_noise_elsewhere(method: str) -> None:
    """A white prior: one secret takes the budget, every time takes an equal share."""
    every = method.startswith("multiple")
    case = DesignProblem(np.eye(5), None if every else (2,), 1.0)
    noise = design_noise(case, method).covariance
    expected = np.eye(5) / 5.0 if every else np.diag([0.0, 0.0, 1.0, 0.0, 0.0])
    assert np.allclose(noise, expected, atol=1e-6)


def test_a_value_released_without_noise_has_no_finite_loss() -> None:
    """A copy of the secret one period later, released as it is."""
    prior = GaussianProcessPrior.at_steps(Periodic(1.0, 4.0), 8).covariance()
    case = DesignProblem(prior, (1,), 1.0)
    information = secret_information(prior, design_noise(case, "concentrated").covariance, (1,))
    assert not information.is_resolved
    assert information.largest == np.inf
    assert np.isfinite(worst_information(case, design_noise(case, "exact").covariance))


@pytest.mark.parametrize(
    "kernel", [RBF(8.0), RBF(30.0), Periodic(1.1, 24.0), RBF(20.0) * Periodic(0.5, 12.0)]
)
def test_ill_conditioned_priors_are_solved_too(kernel: Kernel) -> None:
    """Priors that are singular in floating point: resolved, and below uniform noise."""
    case = DesignProblem(GaussianProcessPrior.at_steps(kernel, 48).covariance(), (24, 25), 1.0)
    exact = worst_information(case, design_noise(case, "exact").covariance)
    assert np.isfinite(exact)
    assert exact < worst_information(case, design_noise(case, "uniform").covariance)


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda case: replace(case, noise_budget=0.0), "noise budget must be positive"),
        (lambda case: replace(case, prior=np.zeros((3, 3))), "every value must vary"),
        (lambda case: replace(case, secret=(9,)), "positions 0..4"),
        (lambda case: design_noise(case, "best"), "the method must be one of"),
        (lambda case: design_noise(case, "sdp-a", "scs"), "must be solved directly"),
        (lambda case: design_noise(replace(case, secret=None), "exact"), "protects one secret"),
        (lambda case: secret_information(case.prior, np.eye(4), (0,)), "one row per time"),
        (lambda case: secret_information(case.prior, -np.eye(5), (0,)), "positive semidefinite"),
        (lambda case: secret_information(case.prior, np.triu(np.ones((5, 5))), (0,)), "symmetric"),
    ],
)
def test_what_cannot_be_designed_is_refused_with_a_remedy(attempt, words: str) -> None:
    """The message says what must hold."""
    case = DesignProblem((RBF(1.0) + White(0.1)).covariance(np.arange(5.0)), (2,), 1.0)
    with pytest.raises((NoiseDesignError, GaussianProcessError), match=words):
        attempt(case)
