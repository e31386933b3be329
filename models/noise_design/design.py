"""The design methods by name, and the check that every result passes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.exceptions import NoiseDesignError
from models.noise_design import semidefinite
from models.noise_design.problem import (
    DesignProblem,
    block_noise,
    positive_part,
    secret_information,
    trace_of_positive_part,
    weight_at_budget,
    within_budget,
)
from models.noise_design.semidefinite import SemidefiniteSolution
from models.numerics.arrays import Floats

# Independent noise, the baselines of the papers: at every time, or at the secret times only.


def uniform(problem: DesignProblem) -> Floats:
    """Noise of one variance at every time; its covariance (n, n)."""
    return np.eye(problem.points) * (problem.noise_budget / problem.points)


def concentrated(problem: DesignProblem) -> Floats:
    """All noise at ``problem.secret``, the rest released as it is: usually no protection; (n, n)."""
    split = problem.split
    return block_noise(split, problem.noise_budget / split.secret.size, np.zeros_like(split.residual))


# The best Gaussian noise for one secret: least true loss among all covariances of the given trace.
#
# Beyond the papers, which take noise at the secret to be independent of the rest. By the Schur complement
# the loss is at most ``u`` if and only if ``blkdiag(0, Sigma_{U|S}) + G >= B B^T / u``. The least trace
# that does it is that of the positive part of the difference, and it falls as ``u`` rises: the optimum is
# the ``u`` at which it equals the budget.


def unrestricted(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n) for ``problem.secret``."""
    split = problem.split
    lifted, residual = split.lifted_effect(), split.lifted_residual()
    gram = lifted @ lifted.T
    weight = weight_at_budget(
        lambda weight: trace_of_positive_part(weight * gram - residual), problem.noise_budget
    )
    return positive_part(weight * gram - residual)


# The exact design for one secret: least ``1/sigma_s^2 + alpha`` with independent noise at the secret.
#
# The semidefinite program that minimises theorem 3.4's bound
# (:func:`models.noise_design.semidefinite.exact`) is solved here in closed form up to one number. ``alpha
# <= u`` holds if and only if ``Sigma_{U|S} + G_UU >= A A^T / u`` (Schur complement), and the least trace
# that does it is that of the positive part of ``A A^T / u - Sigma_{U|S}``. In the weight ``1 / u`` trace
# and bound are convex.

_DECADES = 60.0  # natural-log range of weights below the largest one that the budget allows
_TOLERANCE = 1e-10  # of the weight's logarithm; the bound is flat there


def exact(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n) for ``problem.secret``."""
    split, budget = problem.split, problem.noise_budget
    size = split.secret.size
    gram = split.effect @ split.effect.T

    def spent(weight: float) -> float:
        """Trace of the noise at the rest that makes ``alpha`` at most ``1 / weight``."""
        return trace_of_positive_part(weight * gram - split.residual)

    def bound(log_weight: float) -> float:
        left = budget - spent(math.exp(log_weight))
        return size / left + math.exp(-log_weight) if left > 0.0 else math.inf

    largest = weight_at_budget(spent, budget) if np.any(gram) else math.inf
    if math.isinf(largest):  # the rest reveals nothing
        return block_noise(split, budget / size, np.zeros_like(split.residual))
    reach = (math.log(largest) - _DECADES, math.log(largest))
    from scipy.optimize import minimize_scalar  # takes long to import, and runs design nothing

    found = minimize_scalar(bound, bounds=reach, method="bounded", options={"xatol": _TOLERANCE})
    rest = positive_part(math.exp(found.x) * gram - split.residual)
    return block_noise(split, (budget - float(np.trace(rest))) / size, rest)


# The joint exact design: among all covariances of the given trace, least loss at the worst single time.
#
# The loss at a single time is ``lambda/2 r^2 (1/Post_tt - 1/Sigma_tt)``, so the design raises the smallest
# posterior variance. Where all prior variances are equal (a stationary kernel) the optimum is noise shaped
# like the prior, ``G = c Sigma``:
#
# - the mean of ``(Sigma M^-1 Sigma)_tt``, ``M = Sigma + G``, is ``tr(M^-1 Sigma^2) / n``; at a given trace
#   it is least at ``M`` proportional to ``(Sigma^2)^(1/2) = Sigma``, which ``G = c Sigma`` is;
# - there all times are equal, so no other ``G`` makes the largest of them smaller than that mean.
#
# Its loss is ``lambda/2 r^2 n / budget``, the same as for values that do not depend on each other at all.
# With unequal variances it is a semidefinite program
# (:func:`models.noise_design.semidefinite.worst_of_all_times`).

_EQUAL = 1e-9  # relative difference of variances that counts as none


def has_closed_form(problem: DesignProblem) -> bool:
    """Whether all prior variances are equal."""
    variances = np.diag(problem.prior)
    return bool(np.ptp(variances) <= _EQUAL * variances.max())


def multiple_exact(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n) that protects every time; optimal where :func:`has_closed_form`."""
    return problem.prior * (problem.noise_budget / float(np.trace(problem.prior)))


# SDP_A of Meehan and Chaudhuri for one secret (appendix 7.3.1), as their published code solves it.
#
# Maximise the smallest eigenvalue of ``P (D + G) P^T`` with ``P`` the left pseudo-inverse of ``B = [I;
# A]``, ``D = blkdiag(0, Sigma_{U|S})`` and ``tr G`` at most ``stabilisation`` times the budget; divide the
# solution by ``stabilisation``; keep the mean of the secret's variances and the block of the rest.
#
# The optimal ``G`` lives in the range of ``B`` (anything else costs trace and does not count), so it is ``B
# L^(1/2) H L^(1/2) B^T`` with ``L = (B^T B)^-1`` and a k-by-k matrix ``H``, and for a smallest eigenvalue
# ``beta`` the least ``tr H`` is that of the positive part of ``L^(-1/2) (beta I - P D P^T) L^(-1/2)``. For
# one value this is the closed form ``sigma_s^2 = budget / (1 + |a|^2)``, ``G_UU = sigma_s^2 a a^T``.

STABILISATION = 1000.0  # the authors' for compound secrets; of no consequence for basic ones


def sdp_a(problem: DesignProblem, stabilisation: float = STABILISATION) -> Floats:
    """The noise covariance (n, n) for ``problem.secret``."""
    noise = surrogate_optimum(problem, stabilisation)
    secret, rest = problem.split.secret, problem.split.rest
    return block_noise(problem.split, float(noise[secret, secret].mean()), noise[np.ix_(rest, rest)])


def surrogate_optimum(problem: DesignProblem, stabilisation: float) -> Floats:
    """The optimal ``G`` (n, n) of the program, divided by ``stabilisation``, cross terms still in it."""
    lifted = problem.split.lifted_effect()
    root, inverse_root = _gram_roots(lifted)
    base = lifted @ inverse_root  # orthonormal columns that span the range of B
    uncertain = inverse_root @ base.T @ problem.split.lifted_residual() @ base @ inverse_root  # P D P^T

    def excess(beta: float) -> Floats:
        return root @ (beta * np.eye(len(root)) - uncertain) @ root

    beta = weight_at_budget(
        lambda beta: trace_of_positive_part(excess(beta)), stabilisation * problem.noise_budget
    )
    return base @ positive_part(excess(beta)) @ base.T / stabilisation


def _gram_roots(lifted: Floats) -> tuple[Floats, Floats]:
    """``(B^T B)^(1/2)`` and ``(B^T B)^(-1/2)``; ``B`` holds an identity, so no eigenvalue is below 1."""
    values, vectors = np.linalg.eigh(lifted.T @ lifted)
    return (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T


# SDP_B of Meehan and Chaudhuri (appendix 7.3.2): the least trace above a family of covariances.
#
# ``minimise tr G subject to G >= N_i for every i`` (in the order of positive semidefinite matrices). With
# ``N_i = F_i F_i^T`` its Lagrange dual is, after minimising over ``G`` by hand,
#
#   maximise 2 tr (sum_i F_i Y_i F_i^T)^(1/2) - sum_i tr Y_i over Y_i >= 0,    G = (sum_i F_i Y_i F_i^T)^(1/2)
#
# a smooth concave problem in a few numbers per member, solved by L-BFGS over ``Y_i = C_i C_i^T``. What the
# search leaves uncovered is added to ``G``, and the dual's value proves how far from optimal the sum can
# be.

_RANK = 1e-12  # eigenvalues below this share of the largest are rounding
_START = 0.3
_FLOOR = 1e-18  # of the squared root's scale: directions that no member needs yet
_LARGEST_GAP = 1e-4
_SEARCH = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}


@dataclass(frozen=True, slots=True)
class LeastCover:
    """A covariance above every member, and how much lower than its trace any other's could be."""

    covariance: Floats
    relative_gap: float


def sdp_b(family: Sequence[Floats]) -> LeastCover:
    """The least-trace covariance above positive semidefinite matrices (n, n).

    :class:`NoiseDesignError` where the search stops further than 1e-4 from the optimum.
    """
    factors = _factors(family)
    scale = float(np.mean(np.sum(factors**2, axis=(1, 2))))
    factors = factors / np.sqrt(scale)
    members, _, rank = factors.shape
    start = np.tile(_START * np.eye(rank), (members, 1, 1)).ravel()
    from scipy.optimize import minimize

    found = minimize(  # type: ignore[call-overload]  # the stubs refuse jac=True with an array
        lambda flat: _negative_dual(flat, factors), start, jac=True, method="L-BFGS-B", options=_SEARCH
    )
    root, _ = _roots(_spread(factors, found.x.reshape(members, rank, rank)))
    cover = scale * root
    for member in family:  # what the search left uncovered
        cover = cover + positive_part(member - cover)
    gap = 1.0 + scale * float(found.fun) / float(np.trace(cover))
    if not gap <= _LARGEST_GAP:
        raise NoiseDesignError(
            f"SDP_B must be solved to {_LARGEST_GAP}", gap, "leave times out, or take a shorter length scale"
        )
    return LeastCover(cover, max(gap, 0.0))


def _factors(family: Sequence[Floats]) -> Floats:
    """``F_i`` [member, time, column] with ``N_i = F_i F_i^T``, zero columns where the rank is less."""
    decomposed = [np.linalg.eigh(member) for member in family]
    ranks = [int(np.sum(values > _RANK * values[-1])) for values, _ in decomposed]
    rank = max(ranks)
    return np.stack(
        [vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0)) for values, vectors in decomposed]
    )


def _negative_dual(flat: Floats, factors: Floats) -> tuple[float, Floats]:
    """Minus the dual's value at ``C`` and its gradient: ``d 2 tr K^(1/2) = tr K^(-1/2) dK``."""
    members, _, rank = factors.shape
    roots = flat.reshape(members, rank, rank)
    root, inverse = _roots(_spread(factors, roots))
    value = 2.0 * float(np.trace(root)) - float(np.sum(roots**2))
    pulled = factors.transpose(0, 2, 1) @ (inverse @ (factors @ roots))
    return -value, -2.0 * (pulled - roots).ravel()


def _spread(factors: Floats, roots: Floats) -> Floats:
    """``K = sum_i F_i C_i C_i^T F_i^T`` (n, n)."""
    columns = (factors @ roots).transpose(1, 0, 2).reshape(factors.shape[1], -1)
    return np.asarray(columns @ columns.T, np.float64)


def _roots(matrix: Floats) -> tuple[Floats, Floats]:
    """``K^(1/2)`` and ``K^(-1/2)``."""
    values, vectors = np.linalg.eigh(matrix)
    root = np.sqrt(np.maximum(values, _FLOOR))
    return (vectors * root) @ vectors.T, (vectors / root) @ vectors.T


# Multiple Secrets of Meehan and Chaudhuri (algorithm 1): SDP_A for each secret, then SDP_B above them all.
#
# The algorithm bounds each secret's own budget and leaves SDP_B's trace free. For basic secrets both programs
# scale with the budget, so the result is scaled to the noise budget of the problem.


def multiple(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n) that protects every time of the window, of trace ``noise_budget``."""
    return within_budget(multiple_secrets(problem).covariance, problem.noise_budget)


def multiple_secrets(problem: DesignProblem) -> LeastCover:
    """Algorithm 1 itself, ``noise_budget`` being each basic secret's own."""
    single_secrets = [replace(problem, secret=(time,)) for time in range(problem.points)]
    return sdp_b([sdp_a(each) for each in single_secrets])


AUTO = "auto"

_AGREEMENT = 0.01  # how far the true information may lie above what a solver claims
_ROUNDING = 1e-9  # relative
_EVEN_SHARE = 1e-4  # of a solver's budget, spread evenly: a direction rounded to no noise would reveal all


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
    "multiple-exact": Method(multiple_exact, "closed form", semidefinite.worst_of_all_times, has_closed_form),
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
    """The solution of the semidefinite program, after a comparison of its claim with the true loss."""
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
            "report this prior and secret as a bug",
        )
    return symmetric
