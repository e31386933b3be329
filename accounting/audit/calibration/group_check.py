"""One group of people: predicted and realised success, how surprising that is, and what it refutes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from accounting.audit.calibration.poisson_binomial import tail_probabilities
from accounting.numerics import clopper_pearson

CONFIDENCE = 0.95
"""Of the interval of a realised share, and of the lower bounds on the radius of all groups together."""


class Verdict(StrEnum):
    """What the data say of the priors, worst last."""

    NOT_REFUTED = "not refuted"
    TOO_HIGH = "ceilings too high"
    TOO_LOW = "ceilings too low"


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """People with neighbouring predictions: ``predicted`` and ``realised`` are means over them.

    ``low`` and ``high`` are the interval of the realised share. ``p_higher`` is small where there are more
    hits than the priors allow, ``p_lower`` where there are fewer (None where predictions are ceilings, which
    may be undercut); both are times the number of groups. The data refute any radius below ``kappa_min``,
    nats; nothing in them bounds the radius from above.
    """

    people: int
    predicted: float
    predicted_lowest: float
    predicted_highest: float
    hits: int
    realised: float
    low: float
    high: float
    p_higher: float
    p_lower: float | None
    kappa_min: float
    refuted: Verdict

    @property
    def verdict(self) -> str:
        """The verdict with what it rests on where nothing was refuted."""
        is_open = self.refuted is Verdict.NOT_REFUTED
        return f"not refuted by {self.people:,} people" if is_open else self.refuted.value


@dataclass(frozen=True, slots=True)
class Looks:
    """How a group is judged: one of ``groups``, refuted where a p-value is at most ``level``."""

    groups: int
    level: float
    are_ceilings: bool


def check_group(predicted: NDArray[np.float64], hit: NDArray[np.bool_], looks: Looks) -> GroupCheck:
    """Predicted probabilities of success (n,) against what happened (n,), n at least 1."""
    people, hits = predicted.size, int(hit.sum())
    tails = tail_probabilities(predicted, hits)
    p_higher = min(1.0, looks.groups * tails.higher)
    p_lower = None if looks.are_ceilings else min(1.0, looks.groups * tails.lower)
    interval = clopper_pearson(hits, people, CONFIDENCE)
    return GroupCheck(
        people=people,
        predicted=float(predicted.mean()),
        predicted_lowest=float(predicted.min()),
        predicted_highest=float(predicted.max()),
        hits=hits,
        realised=hits / people,
        low=interval.low,
        high=interval.high,
        p_higher=p_higher,
        p_lower=p_lower,
        kappa_min=least_radius(hits, people, float(predicted.mean()), (1.0 - CONFIDENCE) / looks.groups),
        refuted=_refuted(p_higher, p_lower, looks.level),
    )


def least_radius(hits: int, people: int, predicted: float, failure_probability: float) -> float:
    """``d(a_low || b)``: below it no radius is compatible with the hits, up to the given probability.

    ``a_low`` is the one-sided Clopper-Pearson limit of the share of hits; data processing of the hit and
    joint convexity give ``mean KL(Q_i || P_i) >= d(a_low || mean b_i)``. 0 unless ``a_low > b``.
    """
    low = clopper_pearson(hits, people, 1.0 - 2.0 * failure_probability).low
    if low <= predicted:
        return 0.0
    return float(rel_entr(low, predicted) + rel_entr(1.0 - low, 1.0 - predicted))


def _refuted(p_higher: float, p_lower: float | None, level: float) -> Verdict:
    """More hits than allowed are the worse of the two."""
    if p_higher <= level:
        return Verdict.TOO_LOW
    return Verdict.TOO_HIGH if p_lower is not None and p_lower <= level else Verdict.NOT_REFUTED


def worst(verdicts: list[Verdict]) -> Verdict:
    """The worst of several."""
    order = list(Verdict)
    return max(verdicts, key=order.index)
