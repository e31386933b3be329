"""Everybody's risk at one step as a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.worst_moments import WorstMoments
from models.priors import Population

QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class RiskSummary:
    """Counts at or above each threshold, quantiles and means of risk, added risk and baseline.

    ``most_risk`` and ``most_added`` are the highest of anybody at any step so far. ``not_reached`` are people
    whom the refined bounds could have lowered, and the work of the step did not suffice for. Risks are those
    of everybody ``within_nats`` of the prior; what was added, and baselines, are the prior's. All are means
    over the ``draws`` chains that stand for each person, which ``chains`` names.
    """

    step: int
    people: int
    at_risk: Mapping[float, int]
    at_added_risk: Mapping[float, int]
    at_baseline: Mapping[float, int]
    risk_quantiles: Mapping[float, float]
    added_quantiles: Mapping[float, float]
    baseline_quantiles: Mapping[float, float]
    mean_risk: float
    mean_added: float
    mean_baseline: float
    most_risk: float
    most_added: float
    not_reached: int = 0
    within_nats: float = 0.0
    draws: int = 1
    chains: str | None = None


def summarise(
    step: int,
    risk: NDArray[np.float64],
    baseline: NDArray[np.float64],
    added: NDArray[np.float64],
    thresholds: Sequence[float],
    worst: WorstMoments,
) -> RiskSummary:
    """The summary of one step, of figures (N,); ``worst`` includes the step.

    ``added`` is risk less baseline unless risks are those within a radius.
    """
    return RiskSummary(
        step=step,
        people=risk.size,
        at_risk=_reached(risk, thresholds),
        at_added_risk=_reached(added, thresholds),
        at_baseline=_reached(baseline, thresholds),
        risk_quantiles=_quantiles(risk),
        added_quantiles=_quantiles(added),
        baseline_quantiles=_quantiles(baseline),
        mean_risk=_mean(risk),
        mean_added=_mean(added),
        mean_baseline=_mean(baseline),
        most_risk=worst.most_risk,
        most_added=worst.most_added,
    )


def _reached(values: NDArray[np.float64], thresholds: Sequence[float]) -> dict[float, int]:
    return {level: int(np.count_nonzero(values >= level)) for level in thresholds}


def _quantiles(values: NDArray[np.float64]) -> dict[float, float]:
    """Order statistics without interpolation: every figure is some person's."""
    if values.size == 0:
        return dict.fromkeys(QUANTILES, 0.0)
    found = np.quantile(values, QUANTILES, method="higher")
    return {level: float(value) for level, value in zip(QUANTILES, found, strict=True)}


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else 0.0


@dataclass(frozen=True, slots=True)
class SharesOfPeople:
    """``sum_k w_k 1[B_k >= x]``: the share of ``people`` whose persona's ceiling reaches each level.

    ``B_k`` is the ceiling of the persona after a step.
    """

    people: float
    shares: Mapping[float, float]


def shares_of_people(
    population: Population, ceilings: NDArray[np.float64], levels: Sequence[float]
) -> SharesOfPeople | None:
    """The shares of ``ceilings`` (N,) by weight; None where everybody stands for themselves."""
    weights = population.weights
    if weights is None:
        return None
    total = float(weights.sum())
    shares = {level: float(weights[ceilings >= level].sum()) / total for level in levels}
    return SharesOfPeople(total, shares)
