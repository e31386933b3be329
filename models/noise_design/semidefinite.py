"""The designs as semidefinite programs, for cases without a closed form and to check the closed forms.

Needs the extra ``tallyguard[design]`` (cvxpy with SCS and Clarabel), imported when a program is solved. The
variables of every program are of order one, and the solver's status is checked.
:mod:`models.noise_design.design` turns the result into a covariance of the right trace and compares the
claimed loss with the true one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from models.exceptions import NoiseDesignError
from models.noise_design.problem import DesignProblem, block_noise
from models.numerics.arrays import Floats

DEFAULT_SOLVER = "clarabel"
SOLVERS: dict[str, dict[str, Any]] = {
    "scs": {"solver": "SCS", "eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 100_000},
    "clarabel": {"solver": "CLARABEL"},
}


@dataclass(frozen=True, slots=True)
class SemidefiniteSolution:
    """What a solver returned: a covariance (n, n) up to its tolerance, and the optimal value it claims."""

    covariance: Floats
    objective: float
    solver: str
    is_accurate: bool  # False: the solver stopped before its own tolerance


def exact(problem: DesignProblem, solver: str = DEFAULT_SOLVER) -> SemidefiniteSolution:
    """Minimise ``a + b``: ``[[a I, A^T], [A, Sigma_{U|S} + G_UU]] >= 0``, ``b >= 1/v``, within the budget.

    ``objective`` is the least ``1/sigma_s^2 + alpha``.
    """
    cp = _cvxpy()
    split, budget = problem.split, problem.noise_budget
    size, unit = split.secret.size, _secret_variance_scale(problem)
    rest = cp.Variable((split.rest.size, split.rest.size), PSD=True)  # in budgets
    indirect, direct, variance = (
        cp.Variable(),
        cp.Variable(),
        cp.Variable(pos=True),
    )  # in 1/unit, 1/unit, unit
    effect = split.effect * np.sqrt(unit / budget)
    spread = split.residual / budget + rest
    constraints = [
        cp.bmat([[indirect * np.eye(size), effect.T], [effect, spread]]) >> 0,
        direct >= cp.inv_pos(variance),
        size * (unit / budget) * variance + cp.trace(rest) <= 1.0,
    ]
    value, accurate = _solve(cp.Problem(cp.Minimize(indirect + direct), constraints), solver)
    noise = block_noise(split, unit * float(variance.value), budget * rest.value)
    return SemidefiniteSolution(noise, value / unit, solver, accurate)


def unrestricted(problem: DesignProblem, solver: str = DEFAULT_SOLVER) -> SemidefiniteSolution:
    """Minimise ``u``: ``[[u I, B^T], [B, blkdiag(0, Sigma_{U|S}) + G]] >= 0`` within the budget."""
    cp = _cvxpy()
    split, budget = problem.split, problem.noise_budget
    unit = _secret_variance_scale(problem)
    noise = cp.Variable((problem.points, problem.points), PSD=True)
    information = cp.Variable()
    lifted = split.lifted_effect() * np.sqrt(unit / budget)
    spread = split.lifted_residual() / budget + noise
    block = cp.bmat([[information * np.eye(split.secret.size), lifted.T], [lifted, spread]])
    value, accurate = _solve(
        cp.Problem(cp.Minimize(information), [block >> 0, cp.trace(noise) <= 1.0]), solver
    )
    return SemidefiniteSolution(budget * noise.value, value / unit, solver, accurate)


def worst_of_all_times(problem: DesignProblem, solver: str = DEFAULT_SOLVER) -> SemidefiniteSolution:
    """Minimise the largest ``1/Post_tt - 1/Sigma_tt`` over all times, ``objective``.

    With ``[[W, Sigma], [Sigma, Sigma + G]] >= 0`` the posterior covariance is at least ``Sigma - W``. It is
    posed for correlations, so that every diagonal is 1; ``Post_tt >= Sigma_tt / (1 + u Sigma_tt)`` is convex
    in ``u``.
    """
    cp = _cvxpy()
    points, budget = problem.points, problem.noise_budget
    deviation = np.sqrt(np.diag(problem.prior))
    correlation = problem.prior / np.outer(deviation, deviation)
    noise = cp.Variable((points, points), PSD=True)
    learned = cp.Variable((points, points), symmetric=True)
    information = cp.Variable(nonneg=True)  # in points / budget
    unit = points / budget
    constraints = [
        cp.bmat([[learned, correlation], [correlation, correlation + noise]]) >> 0,
        cp.inv_pos(1.0 + unit * deviation**2 * information) <= 1.0 - cp.diag(learned),
        cp.sum(cp.multiply(deviation**2 / budget, cp.diag(noise))) <= 1.0,
    ]
    value, accurate = _solve(cp.Problem(cp.Minimize(information), constraints), solver)
    covariance = noise.value * np.outer(deviation, deviation)
    return SemidefiniteSolution(covariance, unit * value, solver, accurate)


def _secret_variance_scale(problem: DesignProblem) -> float:
    """The order of the secret's noise variance: what SDP_A would give a basic secret."""
    return problem.noise_budget / float(np.sum(problem.split.lifted_effect() ** 2))


def _cvxpy() -> Any:
    try:
        import cvxpy
    except ImportError:
        raise NoiseDesignError(
            "this design must have a solver for semidefinite programs",
            "no cvxpy",
            "install tallyguard[design]",
        ) from None
    return cvxpy


def _solve(program: Any, solver: str) -> tuple[float, bool]:
    """The optimum, and whether it meets the solver's tolerance; :class:`NoiseDesignError` without one."""
    if solver not in SOLVERS:
        raise NoiseDesignError(f"the solver must be one of {sorted(SOLVERS)}", solver, "choose one of them")
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")  # the status says so too
        try:
            program.solve(**SOLVERS[solver])
        except _cvxpy().error.SolverError as error:
            raise _unsolved(solver, str(error)) from None
    if program.status not in ("optimal", "optimal_inaccurate"):
        raise _unsolved(solver, program.status)
    return float(program.value), program.status == "optimal"


def _unsolved(solver: str, found: str) -> NoiseDesignError:
    return NoiseDesignError(
        f"{solver} must find an optimum", found, "try the other solver, fewer times or a shorter length scale"
    )
