"""The differential-privacy reader: what the whole log costs anybody who was there at every step.

Discrete Gaussian noise is certified by zCDP, tiers by their own epsilon or by zCDP, whichever is smaller;
continuous noise (correlated releases) has an exact curve besides. Sums are exact rationals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from accounting.exceptions import LedgerError
from accounting.ledgers.gaussian_curve import gaussian_epsilon, paper_epsilon
from accounting.ledgers.neighbours import Cost, Neighbours, step_cost
from accounting.ledgers.release_log import ReleaseLog, known
from accounting.ledgers.zcdp import ZcdpSpend, mass_in_delta
from models.mechanisms import Mechanism, NoiseFamily, truncated_mass

_NAME = "differential-privacy"
_GAUSSIAN = (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.CONTINUOUS_GAUSSIAN)


@dataclass(frozen=True, slots=True)
class DpStatement:
    """What the log guarantees for two data sets that are ``neighbours``; epsilons in nats at ``delta``.

    ``epsilon`` is certified, ``certified_by`` says how: "zcdp" from ``rho``, "pure" from ``pure_epsilon``
    (inf where some noise has none), "gaussian" by the exact curve where all noise is continuous
    (``exact_epsilon``, else None). ``paper_epsilon`` is the classical formula, no guarantee; None where it
    does not apply. ``truncated_mass`` is charged to delta.
    """

    neighbours: Neighbours
    delta: float
    rho: Cost
    pure_epsilon: Cost
    zcdp_epsilon: float
    exact_epsilon: float | None
    paper_epsilon: float | None
    truncated_mass: float
    epsilon: float
    certified_by: str


def read_differential_privacy(
    log: ReleaseLog, delta: float, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> DpStatement:
    """The statement for a log; :class:`UnknownReleaseError` for a mechanism whose cost is not known."""
    check_delta(delta)
    rho = _total(log, zcdp_cost, neighbours)
    pure = _total(log, pure_cost, neighbours)
    mass = float(_total(log, truncated_mass_cost, neighbours))
    zcdp = ZcdpSpend(rho.amount, rho.is_infinite, mass).epsilon(delta)
    family = _only_family(log)
    mu = math.sqrt(2.0 * float(rho)) if not rho.is_infinite else math.inf
    is_curve_exact = family is NoiseFamily.CONTINUOUS_GAUSSIAN and mass < delta
    exact = gaussian_epsilon(delta - mass, mu) if is_curve_exact else None
    paper = paper_epsilon(delta, mu) if family in _GAUSSIAN else None
    candidates = {"zcdp": zcdp, "pure": charged_epsilon(float(pure), mass, delta)}
    if exact is not None:
        candidates["gaussian"] = exact
    best = min(candidates, key=lambda name: candidates[name])
    return DpStatement(
        neighbours, delta, rho, pure, zcdp, exact, paper, mass, candidates[best], certified_by=best
    )


def _only_family(log: ReleaseLog) -> NoiseFamily | None:
    """The one law that all noise of the log follows; None where there are several."""
    released = (own.mechanism for step in log.steps for own in step.releases if own.mechanism.is_released)
    families = {mechanism.noise_family for mechanism in released}
    return families.pop() if len(families) == 1 else None


def check_delta(delta: float) -> None:
    """:class:`LedgerError` unless ``0 < delta < 1``."""
    if not 0.0 < delta < 1.0:
        raise LedgerError(
            "delta must lie in (0, 1)", delta, "e.g. 1e-6, far below one over the people counted"
        )


def zcdp_cost(mechanism: Mechanism) -> Cost:
    """zCDP of one count changed by one; inf for a raw one."""
    return Cost.of(known(_NAME, mechanism).zcdp_rho())


def pure_cost(mechanism: Mechanism) -> Cost:
    """Pure epsilon (nats) of one count changed by one: a tiered one's largest; inf for Gaussian and raw."""
    return Cost.of(known(_NAME, mechanism).pure_epsilon())


def truncated_mass_cost(mechanism: Mechanism) -> Cost:
    """Total variation between a sampler and its ideal noise; charged for the counts a person can change."""
    return Cost.of(truncated_mass(mechanism))


def _total(log: ReleaseLog, cost: Callable[[Mechanism], Cost], neighbours: Neighbours) -> Cost:
    """Sum over the steps: a person is there at all of them."""
    return sum((step_cost(step.releases, cost, neighbours) for step in log.steps), Cost())


def charged_epsilon(epsilon: float, mass: float, delta: float) -> float:
    """A pure epsilon whose samplers miss the ideal by ``mass``: ``(1 + e^epsilon) mass`` of delta, or inf."""
    return epsilon if mass_in_delta(epsilon, mass) <= delta else math.inf
