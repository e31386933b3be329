"""Every bound there is. A new one is a file of its own, a line here and a line in its conformance suite.

Bounds on raw counts have their line in ``patterns/registry.py``.
"""

from __future__ import annotations

from accounting.bounds.information_bounds import DIVERGENCE, LOOSE, TIGHT
from accounting.bounds.noised import ERASURE, LEVELS, SAMPLED, SANDWICH
from accounting.bounds.noised.sandwich_kernel import BY_SANDWICH
from accounting.bounds.patterns import CODES, EXACT, FRONTIER, RAW_BOUNDS
from accounting.bounds.patterns.raw_success_kernel import (
    BY_BASELINE,
    BY_DIVERGENCE,
    BY_LEVELS,
    BY_RAW_SUCCESS,
)
from accounting.bounds.protocol import Bound, Effort, Question
from accounting.exposure import Exposure

BOUNDS: tuple[Bound, ...] = (
    LOOSE,
    TIGHT,
    DIVERGENCE,
    *RAW_BOUNDS[:2],
    ERASURE,  # sixth, as the fields of an audit have been promised
    *RAW_BOUNDS[2:],
    LEVELS,
    SANDWICH,
    SAMPLED,
)


def deciding_bound(code: int, mistakes: int) -> str:
    """The name of the bound that gave a person's certified value, from the code that accountants keep."""
    names = {
        **{code: name for name, code in CODES.items()},
        BY_BASELINE: "baseline",
        BY_DIVERGENCE: DIVERGENCE.name,
        BY_RAW_SUCCESS: (EXACT if mistakes == 0 else FRONTIER).name,
        BY_LEVELS: LEVELS.name,
        BY_SANDWICH: SANDWICH.name,
    }
    return names[code]


def question(exposure: Exposure, mistakes: int, effort: Effort) -> Question:
    """The question that all bounds answer; of two that are equal the earlier one counts."""
    return Question(exposure, mistakes, effort, BOUNDS)
