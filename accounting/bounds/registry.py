"""Every bound there is. A new one is a file of its own, a line here and a line in its conformance suite.

A bound from outside is registered: shown beside ours, and part of the ceiling only if somebody vouches for
it.
"""

from __future__ import annotations

import numpy as np

from accounting.bounds.information_bounds import DIVERGENCE, LOOSE, TIGHT
from accounting.bounds.noised import ERASURE, LEVELS, SAMPLED, SANDWICH
from accounting.bounds.noised.own_counts_bound import BY_OWN_COUNTS
from accounting.bounds.noised.sandwich_kernel import BY_SANDWICH
from accounting.bounds.patterns import EXACT, FRONTIER, MOMENT
from accounting.bounds.patterns.raw_success_kernel import (
    BY_BASELINE,
    BY_DIVERGENCE,
    BY_LEVELS,
    BY_RAW_SUCCESS,
)
from accounting.bounds.protocol import Bound, Effort, Question, Scope
from accounting.exposure import Exposure
from models.exceptions import ArgumentError
from models.registry import Registry

BOUNDS: tuple[Bound, ...] = (
    LOOSE,
    TIGHT,
    DIVERGENCE,
    MOMENT,
    EXACT,
    ERASURE,  # sixth, as the fields of an audit have been promised
    FRONTIER,
    LEVELS,
    SANDWICH,
    SAMPLED,
)


def is_probability(value: object) -> bool:
    """Whether a bound may give this."""
    is_number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    return is_number and 0.0 <= value <= 1.0  # type: ignore[operator]  # false for nan


def _has_plain_noise(exposure: Exposure) -> bool:
    """Whether each count is published with noise of its own, whose law says what it shows."""
    mechanisms = {own for seen in exposure.observations for own in seen.mechanisms}
    return exposure.can_be_drawn and all(own.noise_law() is not None for own in mechanisms)


def own_bound(name: str, compute: object, is_vouched: bool = False) -> Bound:
    """A bound from outside. Not asked about labels, nor where a noise law is not all that a count shows."""
    if not callable(compute):
        raise ArgumentError(
            "a bound must be a function of a question", f"a {type(compute).__name__}", "write one"
        )

    def value(question: Question) -> float | None:
        if question.exposure.is_labelled or not _has_plain_noise(question.exposure):
            return None
        found = compute(question)
        if found is not None and not is_probability(found):
            raise ArgumentError(
                f"bound {name!r} must be a number in 0..1 or None",
                repr(found)[:40],
                "run tallyguard.check_bound",
            )
        return None if found is None else float(found)

    return Bound(name, compute.__doc__ or "from outside", Scope.ANY, "its own", value, is_vouched=is_vouched)


ALL_BOUNDS: Registry[Bound] = Registry("bound", {bound.name: bound for bound in BOUNDS}, own_bound)
"""Ours by name, and those from outside."""


def deciding_bound(code: int, mistakes: int) -> str:
    """The name of the bound that gave a person's certified value, from the code that accountants keep."""
    names = {
        BY_BASELINE: "baseline",
        BY_DIVERGENCE: DIVERGENCE.name,
        BY_RAW_SUCCESS: (EXACT if mistakes == 0 else FRONTIER).name,
        BY_LEVELS: LEVELS.name,
        BY_SANDWICH: SANDWICH.name,
        BY_OWN_COUNTS: "own_counts",
    }
    return names[code]


def question(exposure: Exposure, mistakes: int, effort: Effort) -> Question:
    """The question that all bounds answer; of two that are equal the earlier one counts."""
    return Question(exposure, mistakes, effort, tuple(ALL_BOUNDS.values()))
