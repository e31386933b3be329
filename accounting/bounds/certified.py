"""All bounds of one person's horizon and the smallest of them."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from accounting.bounds.divergence import divergence_bound
from accounting.bounds.loose import loose_bound
from accounting.bounds.patterns import (
    Effort,
    HitMoments,
    erasure,
    exact_bound,
    feedback_bound,
    moment_bound,
    sampled_bound,
    trajectories,
)
from accounting.bounds.tight import tight_bound
from accounting.exposure import Exposure, Information, PriorGuess, renewal_terms


class Bounds(BaseModel):
    """Upper bounds on the success of any adversary; None where one does not apply or was too dear.

    ``loose`` and ``tight`` are the paper's, from its own information and prior guess where these exist.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    loose: float
    tight: float
    divergence: float
    moment: float | None = None
    exact: float | None = None
    erasure: float | None = None
    feedback: float | None = None


@dataclass(frozen=True, slots=True)
class ComputedBounds:
    """The bounds that hold with certainty, and the one that holds with the effort's confidence."""

    bounds: Bounds
    sampled: float | None = None


@dataclass(frozen=True, slots=True)
class Certified:
    """The smallest bound, which one it was, and with what probability it holds."""

    value: float
    by: str
    confidence: float


def compute_bounds(
    exposure: Exposure,
    mistakes: int,
    entropy_nats: float,
    information: Information,
    guess: PriorGuess,
    effort: Effort,
) -> ComputedBounds:
    """Every bound that applies to the exposure."""
    paper_guess = guess.best if guess.koga is None else guess.koga
    moments = HitMoments.of(exposure, mistakes, effort)
    moment = None if moments is None else moment_bound(exposure, mistakes, effort, moments)
    feedback = feedback_bound(exposure, mistakes, effort, moments)
    everything = trajectories(exposure, mistakes) if effort.patterns > 0 else None
    exact = exact_bound(exposure, mistakes, everything)
    raw_nats = float(renewal_terms(exposure).sum())
    bounds_of_raw = (moment, feedback, exact, divergence_bound(raw_nats, guess.best))
    raw_success = min(bound for bound in bounds_of_raw if bound is not None)
    erased = erasure(exposure, mistakes, guess.best, raw_success, raw_nats, effort, everything)
    nats = information.best if erased is None else min(information.best, erased.information_nats)
    loose = loose_bound(entropy_nats, information.paper, exposure.place_count, exposure.steps, mistakes)
    return ComputedBounds(
        Bounds(
            loose=loose,
            tight=tight_bound(information.paper, paper_guess),
            divergence=divergence_bound(nats, guess.best),
            moment=moment,
            exact=exact,
            erasure=None if erased is None else erased.success,
            feedback=feedback,
        ),
        _smallest(sampled_bound(exposure, mistakes, effort), None if erased is None else erased.sampled),
    )


def _smallest(first: float | None, second: float | None) -> float | None:
    """The smaller of two bounds that may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def certify(computed: ComputedBounds, baseline: float, effort: Effort) -> Certified:
    """The minimum of all bounds, raised to the baseline, which no rounding may undercut."""
    values = {name: value for name, value in computed.bounds.model_dump().items() if value is not None}
    name = min(values, key=values.__getitem__)
    confidence = 1.0
    if computed.sampled is not None and computed.sampled < values[name]:
        values["sampled"], name, confidence = computed.sampled, "sampled", effort.confidence
    return Certified(min(1.0, max(values[name], baseline)), name, confidence)


def baseline_bound(
    exposure: Exposure, mistakes: int, entropy_nats: float, guess: PriorGuess, effort: Effort
) -> float:
    """The smallest bound with nothing released: what of a certified bound is the bounds' own slack."""
    nothing = exposure.nothing_released
    moments = HitMoments.of(nothing, mistakes, effort)
    moment = None if moments is None else moment_bound(nothing, mistakes, effort, moments)
    feedback = feedback_bound(nothing, mistakes, effort, moments)
    everything = trajectories(nothing, mistakes) if effort.patterns > 0 else None
    exact = exact_bound(nothing, mistakes, everything)
    loose = loose_bound(entropy_nats, 0.0, exposure.place_count, exposure.steps, mistakes)
    return min(bound for bound in (loose, guess.best, moment, feedback, exact) if bound is not None)
