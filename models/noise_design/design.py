"""The methods by name, and the check that every result passes before it is handed out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.exceptions import NoiseDesignError
from models.noise_design import semidefinite
from models.noise_design.closed_forms import (
    concentrated,
    exact,
    has_closed_form,
    multiple,
    multiple_exact,
    sdp_a,
    uniform,
    unrestricted,
)
from models.noise_design.problem import DesignProblem, Floats, secret_information, within_budget
from models.noise_design.semidefinite import SemidefiniteSolution

AUTO = "auto"

_AGREEMENT = 0.01  # how far the true information may lie above what a solver claims
_ROUNDING = 1e-9  # relative
_EVEN_SHARE = 1e-4  # of a solver's budget, spread evenly: a direction it rounded to no noise would reveal all


@dataclass(frozen=True, slots=True)
class NoiseDesign:
    """A noise covariance (n, n) for one noise window, and how it was found."""

    method: str
    covariance: Floats
    solver: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Method:
    """How one design is found: directly, and where it exists by the program it is the solution of."""

    direct: Callable[[DesignProblem], Floats]
    solver: str
    program: Callable[[DesignProblem, str], SemidefiniteSolution] | None = None
    is_direct: Callable[[DesignProblem], bool] = lambda problem: True


METHODS = {
    "exact": Method(exact, "closed form and a search in one variable", semidefinite.exact),
    "unrestricted": Method(unrestricted, "closed form and a root in one variable", semidefinite.unrestricted),
    "sdp-a": Method(sdp_a, "closed form and a root in one variable"),
    "multiple": Method(multiple, "L-BFGS on the dual, gap certified"),
    "multiple-exact": Method(
        multiple_exact,
        "closed form",
        semidefinite.worst_of_all_times,
        has_closed_form,
    ),
    "uniform": Method(uniform, "none"),
    "concentrated": Method(concentrated, "none"),
}


def design_noise(problem: DesignProblem, method: str, solver: str = AUTO) -> NoiseDesign:
    """Noise for one window by ``method`` (a key of :data:`METHODS`).

    ``solver`` is ``auto`` (directly where possible), ``scs`` or ``clarabel``. The result is a covariance
    within the budget whatever the solver returned; its true loss was compared with the solver's claim.
    :class:`NoiseDesignError` for an unknown name, a solver that found nothing, or a claim that does not hold.
    """
    if method not in METHODS:
        raise NoiseDesignError(
            f"the method must be one of {', '.join(METHODS)}", method, "choose one of them"
        )
    how, started = METHODS[method], time.perf_counter()
    if solver == AUTO and how.is_direct(problem):
        covariance, by = how.direct(problem), how.solver
    else:
        by = semidefinite.DEFAULT_SOLVER if solver == AUTO else solver
        covariance = _solved(problem, method, by)
    seconds = time.perf_counter() - started
    return NoiseDesign(method, _checked(covariance, problem.noise_budget, method), by, seconds)


def _solved(problem: DesignProblem, method: str, solver: str) -> Floats:
    """By the semidefinite program; its claim is held against the true loss."""
    program = METHODS[method].program
    if program is None:
        raise NoiseDesignError(
            f"{method} must be solved directly", f"solver {solver}", "leave the solver out"
        )
    solution = program(problem, solver)
    even = np.eye(problem.points) * (problem.noise_budget / problem.points)
    solved = within_budget(solution.covariance, problem.noise_budget)
    covariance = (1.0 - _EVEN_SHARE) * solved + _EVEN_SHARE * even
    true = worst_information(problem, covariance)
    excess = true / solution.objective - 1.0
    if not (excess <= _AGREEMENT and (solution.is_accurate or -excess <= _AGREEMENT)):
        raise NoiseDesignError(
            f"the noise must keep what {solver} claims, an information of {solution.objective:.6g}",
            f"{true:.6g}" + ("" if solution.is_accurate else " from an inaccurate solution"),
            "use the closed form, another solver, fewer times or a shorter length scale",
        )
    return covariance


def worst_information(problem: DesignProblem, covariance: Floats) -> float:
    """The largest information about any secret of the problem; inf where one is fixed by the release."""
    return max(secret_information(problem.prior, covariance, secret).largest for secret in problem.secrets)


def _checked(covariance: Floats, noise_budget: float, method: str) -> Floats:
    """The covariance, symmetric; :class:`NoiseDesignError` if it is none or above the budget."""
    symmetric = (covariance + covariance.T) / 2.0
    trace, smallest = float(np.trace(symmetric)), float(np.linalg.eigvalsh(symmetric)[0])
    if not (trace <= (1.0 + _ROUNDING) * noise_budget and smallest >= -_ROUNDING * noise_budget):
        raise NoiseDesignError(
            f"the covariance of {method} must be one of trace {noise_budget}",
            f"trace {trace}, smallest eigenvalue {smallest}",
            "report this prior and secret as a fault of the program",
        )
    return symmetric
