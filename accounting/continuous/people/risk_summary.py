"""Everybody's risk at one step as a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.people.groups import WorstMoments
from models.priors import Population

# Order statistics and means of figures that several people have, as if each stood there by itself.

_PARTS, _HALF = 52, 26
"""A mean counts values in parts of 2^-52, in two halves so that sums over many people fit their integers."""


class Ranked:
    """``values`` (G,) from 0 to 1, each of so many ``people`` (G,)."""

    def __init__(self, values: NDArray[np.float64], people: NDArray[np.int64]) -> None:
        self._values, self._people = values, people

    @cached_property
    def people(self) -> int:
        """How many there are."""
        return int(self._people.sum())

    def reached(self, levels: Sequence[float]) -> dict[float, int]:
        """How many people are at or above each level."""
        return {level: int(self._people[self._values >= level].sum()) for level in levels}

    def quantiles(self, levels: Sequence[float]) -> dict[float, float]:
        """Order statistics without interpolation, every one some person's; 0 where there is nobody."""
        if not self.people:
            return dict.fromkeys(levels, 0.0)
        if self.people == self._values.size:
            found = np.quantile(self._values, levels, method="higher")
            return {level: float(value) for level, value in zip(levels, found, strict=True)}
        return {level: self.at(int(np.ceil((self.people - 1) * level))) for level in levels}

    def mean(self) -> float:
        """The mean over people, 0 of nobody.

        Whole parts are added up, so that the bits do not depend on who has a figure in common with whom, nor
        on any order. For example 3 people at 1/4 and 1 at 1 have (3 * 2^50 + 2^52) / (4 * 2^52) = 7/16.
        """
        if not self.people:
            return 0.0
        parts = np.rint(self._values * 2.0**_PARTS).astype(np.int64)
        upper = int(((parts >> _HALF) * self._people).sum())
        lower = int(((parts & ((1 << _HALF) - 1)) * self._people).sum())
        return ((upper << _HALF) + lower) / (self.people << _PARTS)

    def median(self) -> float:
        """The middle figure, or the mean of both; 0 where there is nobody."""
        if not self.people:
            return 0.0
        return (self.at((self.people - 1) // 2) + self.at(self.people // 2)) / 2.0

    def at(self, rank: int) -> float:
        """The figure of the person at this rank, from 0 on."""
        values, behind = self._rising
        return float(values[np.searchsorted(behind, rank, side="right")])

    @cached_property
    def _rising(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The figures in rising order, and how many people are behind each of them or one before it."""
        order = np.argsort(self._values, kind="stable")
        return self._values[order], np.cumsum(self._people[order])


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


def summarise(
    step: int,
    figures: RiskFigures,
    thresholds: Sequence[float],
    worst: WorstMoments,
    people: NDArray[np.int64] | None = None,
) -> RiskSummary:
    """The summary of one step; ``worst`` includes the step.

    So many ``people`` (G,) have each figure; one by default.
    """
    each = np.ones(figures.risk.size, dtype=np.int64) if people is None else people
    risk, baseline, added = (Ranked(values, each) for values in figures)
    return RiskSummary(
        step=step,
        people=risk.people,
        at_risk=risk.reached(thresholds),
        at_added_risk=added.reached(thresholds),
        at_baseline=baseline.reached(thresholds),
        risk_quantiles=risk.quantiles(QUANTILES),
        added_quantiles=added.quantiles(QUANTILES),
        baseline_quantiles=baseline.quantiles(QUANTILES),
        mean_risk=risk.mean(),
        mean_added=added.mean(),
        mean_baseline=baseline.mean(),
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
    weights = population.stands_for
    if weights is None:
        return None
    total = float(weights.sum())
    shares = {level: float(weights[ceilings >= level].sum()) / total for level in levels}
    return SharesOfPeople(total, shares)
