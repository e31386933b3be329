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
from accounting.ledgers.sampling import SamplerDistance, step_distance
from accounting.ledgers.zcdp import Unprotected, ZcdpSpend
from models.mechanisms import Mechanism, NoiseFamily

_NAME = "differential-privacy"
_GAUSSIAN = (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.CONTINUOUS_GAUSSIAN)


@dataclass(frozen=True, slots=True)
class DpStatement:
    """What the log guarantees for two data sets that are ``neighbours``; epsilons in nats at ``delta``.

    ``epsilon`` is certified, ``certified_by`` says how: "zcdp" from ``rho``, "pure" from ``pure_epsilon``
    (inf where some noise has none), "gaussian" by the exact curve where all noise is continuous
    (``exact_epsilon``, else None). ``paper_epsilon`` is the classical formula, no guarantee; None where it
    does not apply. ``distance`` is that of all samplers. Where nothing is certified,
    ``unprotected`` says which releases have no rho.
    """

    neighbours: Neighbours
    delta: float
    rho: Cost
    pure_epsilon: Cost
    zcdp_epsilon: float
    exact_epsilon: float | None
    paper_epsilon: float | None
    distance: SamplerDistance
    epsilon: float
    certified_by: str
    unprotected: Unprotected

    @property
    def truncated_mass(self) -> float:
        """Total variation between the samplers and the ideal noise, of all releases together."""
        return self.distance.truncated_mass

    def rho_value(self) -> float:
        """rho as a number; inf where a release has none."""
        return float(self.rho)


def read_differential_privacy(
    log: ReleaseLog, delta: float, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> DpStatement:
    """The statement for a log; :class:`UnknownReleaseError` for a mechanism whose cost is not known."""
    check_delta(delta)
    rho = _total(log, zcdp_cost, neighbours)
    pure = _total(log, pure_cost, neighbours)
    distance = log_distance(log, neighbours)
    zcdp = ZcdpSpend(rho.amount, rho.is_infinite, distance).epsilon(delta)
    family = _only_family(log)
    mu = math.sqrt(2.0 * float(rho)) if not rho.is_infinite else math.inf
    is_continuous = family is NoiseFamily.CONTINUOUS_GAUSSIAN
    exact = distance.epsilon(lambda left: gaussian_epsilon(left, mu), delta) if is_continuous else None
    paper = paper_epsilon(delta, mu) if family in _GAUSSIAN else None
    candidates = {"zcdp": zcdp, "pure": distance.epsilon(lambda _: float(pure), delta)}
    if exact is not None:
        candidates["gaussian"] = exact
    best = min(candidates, key=lambda name: candidates[name])
    return DpStatement(
        neighbours,
        delta,
        rho,
        pure,
        zcdp,
        exact,
        paper,
        distance,
        candidates[best],
        certified_by=best,
        unprotected=_unprotected(log),
    )


def log_distance(log: ReleaseLog, neighbours: Neighbours) -> SamplerDistance:
    """How far the samplers of the whole log may be from ideal noise in the counts that anybody changes."""
    return sum((step_distance(step.releases, neighbours) for step in log.steps), SamplerDistance())


def _unprotected(log: ReleaseLog) -> Unprotected:
    """The releases that no finite rho covers."""
    found = Unprotected()
    for step in log.steps:
        for release in step.releases:
            if zcdp_cost(release.charged).is_infinite:
                found = found.and_of(release.sensor.name, release.charged.is_exact)
    return found


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


def _total(log: ReleaseLog, cost: Callable[[Mechanism], Cost], neighbours: Neighbours) -> Cost:
    """Sum over the steps: a person is there at all of them."""
    return sum((step_cost(step.releases, cost, neighbours) for step in log.steps), Cost())
