"""Everybody's risk at one step as a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.people.ranked import Ranked
from accounting.continuous.people.worst_moments import WorstMoments
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


class RiskFigures(NamedTuple):
    """Risk, baseline and added risk after a step, (G,) each, of people or of groups of them.

    ``added`` is risk less baseline unless risks are those within a radius.
    """

    risk: NDArray[np.float64]
    baseline: NDArray[np.float64]
    added: NDArray[np.float64]


class StandsFor(Protocol):
    """For whom figures stand, as :class:`~accounting.continuous.people.Spread` says it."""

    @property
    def people(self) -> NDArray[np.int64]:
        """How many people have each figure, (G,)."""

    def mean(self, values: NDArray[np.float64]) -> float:
        """The mean over people of figures (G,)."""


class EachAlone(NamedTuple):
    """Figures of so many people, who have each their own."""

    everybody: int

    @property
    def people(self) -> NDArray[np.int64]:
        """One each."""
        return np.ones(self.everybody, dtype=np.int64)

    def mean(self, values: NDArray[np.float64]) -> float:
        """Of everybody; 0 of nobody."""
        return float(values.mean()) if values.size else 0.0


def summarise(
    step: int,
    figures: RiskFigures,
    thresholds: Sequence[float],
    worst: WorstMoments,
    stands_for: StandsFor | None = None,
) -> RiskSummary:
    """The summary of one step; ``worst`` includes the step. Figures are of one person each by default."""
    everybody = EachAlone(figures.risk.size) if stands_for is None else stands_for
    risk, baseline, added = (Ranked(values, everybody.people) for values in figures)
    return RiskSummary(
        step=step,
        people=risk.people,
        at_risk=risk.reached(thresholds),
        at_added_risk=added.reached(thresholds),
        at_baseline=baseline.reached(thresholds),
        risk_quantiles=risk.quantiles(QUANTILES),
        added_quantiles=added.quantiles(QUANTILES),
        baseline_quantiles=baseline.quantiles(QUANTILES),
        mean_risk=everybody.mean(figures.risk),
        mean_added=everybody.mean(figures.added),
        mean_baseline=everybody.mean(figures.baseline),
        most_risk=worst.most_risk,
        most_added=worst.most_added,
    )


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
