"""Two implementations: the closed forms against the semidefinite programs they solve."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.noise_design import least_cover
from models.exceptions import NoiseDesignError
from models.gaussian_process import RBF, GaussianProcessPrior, Matern
from models.noise_design import METHODS, DesignProblem, design_noise, semidefinite, worst_information
from models.noise_design.design import sdp_b, surrogate_optimum
from models.noise_design.semidefinite import SemidefiniteSolution

cp = pytest.importorskip("cvxpy", reason="the extra 'design' is not installed")

SECRETS = [(5,), (5, 6)]


def problem(secret: tuple[int, ...] | None, length_scale: float = 2.0, points: int = 12) -> DesignProblem:
    """A small case with budget 1."""
    prior = GaussianProcessPrior.at_steps(RBF(length_scale), points).covariance()
    return DesignProblem(prior, secret, 1.0)


def uneven_problem(budget: float) -> DesignProblem:
    """Every time secret, variances from 1/4 to 4."""
    deviation = np.linspace(0.5, 2.0, 8)
    prior = GaussianProcessPrior.at_steps(Matern(4.0), 8).covariance() * np.outer(deviation, deviation)
    return DesignProblem(prior, None, budget)


@pytest.mark.parametrize("solver", ["clarabel", "scs"])
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("method", ["exact", "unrestricted"])
def test_the_closed_form_is_the_optimum_of_the_program(
    method: str, secret: tuple[int, ...], solver: str
) -> None:
    """Loss to 1e-3 and no solver below it."""
    case = problem(secret)
    direct = worst_information(case, design_noise(case, method).covariance)
    solved = worst_information(case, design_noise(case, method, solver).covariance)
    assert solved == pytest.approx(direct, rel=1e-3)
    assert direct <= solved * (1.0 + 1e-6)


@pytest.mark.parametrize("secret", SECRETS)
def test_the_programs_value_is_the_bound_that_is_reached(secret: tuple[int, ...]) -> None:
    """The least `1/sigma_s^2 + alpha` that Clarabel claims, to 1e-4."""
    case = problem(secret, length_scale=4.0)
    direct = worst_information(case, design_noise(case, "exact").covariance)
    assert semidefinite.exact(case).objective == pytest.approx(direct, rel=1e-4)


@pytest.mark.parametrize("stabilisation", [1.0, 1000.0])
@pytest.mark.parametrize("secret", SECRETS)
def test_sdp_as_closed_form_solves_the_papers_program(secret: tuple[int, ...], stabilisation: float) -> None:
    """The same covariance to 1 % and the same smallest eigenvalue to 1e-4."""
    case = problem(secret)
    noise, beta = cp.Variable((case.points, case.points), PSD=True), cp.Variable()
    inverse, budget = np.linalg.pinv(case.split.lifted_effect()), case.noise_budget * stabilisation
    surrogate = inverse @ (case.split.lifted_residual() / budget + noise) @ inverse.T
    constraints = [surrogate >> beta * np.eye(len(secret)), cp.trace(noise) <= 1.0]
    program = cp.Problem(cp.Maximize(beta), constraints)
    program.solve(**semidefinite.SOLVERS["clarabel"])
    direct = surrogate_optimum(case, stabilisation)
    assert np.allclose(case.noise_budget * noise.value, direct, atol=0.01 * np.abs(direct).max())
    spread = case.split.lifted_residual() + stabilisation * direct
    assert np.linalg.eigvalsh(inverse @ spread @ inverse.T)[0] == pytest.approx(
        budget * program.value, rel=1e-4
    )


def test_sdp_bs_dual_search_solves_the_papers_program() -> None:
    """The same trace to 1e-5."""
    case = problem(None)
    single_secrets = [DesignProblem(case.prior, (time,), 1.0) for time in range(case.points)]
    family = [design_noise(each, "sdp-a").covariance for each in single_secrets]
    least = least_cover(family, "clarabel")
    assert np.trace(least) == pytest.approx(float(np.trace(sdp_b(family).covariance)), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["clarabel", "scs"])
def test_prior_shaped_noise_is_the_joint_optimum(solver: str) -> None:
    """Equal variances: no solver goes below `n / budget`."""
    case = problem(None, points=6)
    solved = design_noise(case, "multiple-exact", solver)
    assert solved.solver == solver
    assert worst_information(case, solved.covariance) == pytest.approx(6.0, rel=2e-3)
    assert semidefinite.worst_of_all_times(case, solver).objective == pytest.approx(6.0, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [10.0, 100.0])
def test_unequal_variances_are_solved_and_beat_the_simple_designs(budget: float) -> None:
    """`auto` takes the program where there is no closed form, and both solvers agree."""
    case = uneven_problem(budget)
    solved = design_noise(case, "multiple-exact")
    worst = worst_information(case, solved.covariance)
    assert solved.solver == "clarabel"
    assert worst == pytest.approx(semidefinite.worst_of_all_times(case, "scs").objective, rel=5e-3)
    prior_shaped = case.prior * (budget / np.trace(case.prior))
    assert worst < worst_information(case, prior_shaped)
    for method in ("uniform", "multiple"):
        assert worst < worst_information(case, design_noise(case, method).covariance)


@pytest.mark.parametrize(
    ("share_of_truth", "is_accurate", "words"),
    [(0.5, True, "must keep what clarabel claims"), (2.0, False, "from an inaccurate solution")],
)
def test_a_solvers_claim_is_held_against_the_true_loss(
    monkeypatch: pytest.MonkeyPatch, share_of_truth: float, is_accurate: bool, words: str
) -> None:
    """Too good a claim is refused, and an inaccurate solution that does not even know its own value."""
    case, noise = problem((5,)), np.eye(12) / 12.0
    claim = share_of_truth * worst_information(case, noise)

    def boast(*_: object) -> SemidefiniteSolution:
        return SemidefiniteSolution(noise, claim, "clarabel", is_accurate)

    monkeypatch.setitem(METHODS, "exact", replace(METHODS["exact"], program=boast))
    with pytest.raises(NoiseDesignError, match=words):
        design_noise(case, "exact", "clarabel")


def test_an_unknown_solver_is_refused() -> None:
    """The message lists the known ones."""
    with pytest.raises(NoiseDesignError, match="clarabel"):
        design_noise(problem((5,)), "exact", "mosek")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cvxpy the closed forms still work and the programs say what to install."""
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    case = problem((5,))
    assert design_noise(case, "exact").covariance.shape == (12, 12)
    with pytest.raises(NoiseDesignError, match=r"tallyguard\[design\]"):
        design_noise(case, "exact", "clarabel")
