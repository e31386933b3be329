"""A second opinion: the same log through Google's dp_accounting, where it is installed.

Its accountants are independent implementations: Renyi divergences (RDP) and numerical privacy-loss
distributions (PLD). tallyguard certifies by its own zCDP; these confirm it and show how much it gives away.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from accounting.exceptions import LedgerError
from accounting.ledgers.differential_privacy import zcdp_cost
from accounting.ledgers.person_cost import Neighbours, step_cost
from accounting.ledgers.release_log import ReleaseLog, refuse
from models.mechanisms import Composite, Mechanism, NoiseFamily
from models.releases import SensorRelease

_PACKAGES = ("dp_accounting", "dp_accounting.pld", "dp_accounting.rdp")
_INTERVAL = 1e-4  # discretisation of the privacy loss, rounded upwards
_RENYI = (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.CONTINUOUS_GAUSSIAN)  # whose Renyi curve is zCDP
_MOST_SIGMA = 200.0  # tables of discrete noise beyond are taken as zCDP


@dataclass(frozen=True, slots=True)
class OracleEpsilons:
    """Epsilon (nats) by two accountants for adding or removing a person; the noise taken as ideal.

    ``rdp`` is None where noise is not Gaussian: dp_accounting has no Renyi curve for it.
    """

    rdp: float | None
    pld: float


def oracle_epsilons(log: ReleaseLog, delta: float) -> OracleEpsilons | None:
    """Both epsilons; None where dp_accounting is not installed.

    The dearest release of each step is composed, so at each step at most one sensor may count a person and
    the noise must be of one kind: :class:`LedgerError` otherwise, and for raw releases, which have no
    epsilon.
    """
    try:
        dp_accounting, pld, rdp = map(import_module, _PACKAGES)
    except ImportError:
        return None
    releases = Counter(found for step in log.steps if (found := _dearest(step.releases)) is not None)
    accountant: Any = rdp.RdpAccountant()
    total: Any = pld.privacy_loss_distribution.identity(_INTERVAL)
    for mechanism, times in releases.items():
        total = total.compose(_distribution(pld, mechanism).self_compose(times))
        if mechanism.noise_family in _RENYI:
            sigma = 1.0 / math.sqrt(2.0 * mechanism.zcdp_rho())
            accountant.compose(dp_accounting.GaussianDpEvent(sigma), times)
    has_curve = all(mechanism.noise_family in _RENYI for mechanism in releases)
    rdp_epsilon = float(accountant.get_epsilon(delta)) if has_curve else None
    return OracleEpsilons(rdp_epsilon, float(total.get_epsilon_for_delta(delta)))


def _dearest(releases: tuple[SensorRelease, ...]) -> Mechanism | None:
    """The release that costs a step most; None for a step that releases nothing."""
    released = [release for release in releases if release.mechanism.is_released]
    if not released:
        return None
    dearest = max(released, key=lambda release: release.mechanism.zcdp_rho())
    if math.isinf(dearest.mechanism.zcdp_rho()):
        raise LedgerError("a release must have noise to have an epsilon", "a raw count", "leave it out")
    if any(each.sensor.window is not None or isinstance(each.charged, Composite) for each in released):
        raise LedgerError(
            "a person must be counted once by a sensor in a step",
            "sensors with windows or most_counts above 1, or corrected values",
            "ask for the others; the ledger's zCDP holds for all",
        )
    if len({release.mechanism.name for release in released}) > 1:
        raise LedgerError(
            "the noise of a step must be of one kind", "several mechanisms", "ask for one group of sensors"
        )
    if step_cost(releases, zcdp_cost, Neighbours.ADD_REMOVE) != step_cost(
        [dearest], zcdp_cost, Neighbours.ADD_REMOVE
    ):
        raise LedgerError(
            "a person must be counted by one sensor at a time", "sensors that overlap", "ask for one group"
        )
    return dearest.mechanism


def _distribution(pld: Any, mechanism: Mechanism) -> Any:
    """The mechanism's privacy-loss distribution, rounded upwards."""
    make = pld.privacy_loss_distribution
    options = {"value_discretization_interval": _INTERVAL}
    family, sigma = mechanism.noise_family, math.sqrt(mechanism.gaussian_variance() or 0.0)
    if family is NoiseFamily.DISCRETE_GAUSSIAN and sigma <= _MOST_SIGMA:
        return make.from_discrete_gaussian_mechanism(sigma, **options)
    if family in _RENYI:
        return make.from_gaussian_mechanism(1.0 / math.sqrt(2.0 * mechanism.zcdp_rho()), **options)
    if family is NoiseFamily.GEOMETRIC:
        return make.from_discrete_laplace_mechanism(mechanism.pure_epsilon(), **options)
    raise refuse("oracle", mechanism)
