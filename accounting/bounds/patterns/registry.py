"""The bounds on raw counts. A new one is a file of its own, a line here and a line in its conformance suite.

Those that are fast enough for everybody are kernels too: :func:`least_raw_success` is then their minimum.
"""

from __future__ import annotations

from collections.abc import Callable

from accounting.bounds.patterns.exact import EXACT
from accounting.bounds.patterns.frontier_bound import FRONTIER
from accounting.bounds.patterns.moment import MOMENT
from accounting.bounds.patterns.raw_success_kernel import (
    BY_LEVELS,
    BY_RAW_SUCCESS,
    RawQuestion,
    RawSuccess,
    SeenRaw,
)
from accounting.bounds.protocol import Bound
from models.numerics.jit import inline, jit

RAW_BOUNDS: tuple[Bound, ...] = (
    MOMENT,
    EXACT,
    FRONTIER,
)
CODES = {
    bound.name: BY_RAW_SUCCESS if bound in (EXACT, FRONTIER) else BY_LEVELS + 1 + number
    for number, bound in enumerate(RAW_BOUNDS)
}
"""The code of each bound, for where it decides. Snapshots of accounts keep codes, so new bounds come last."""

_Least = Callable[[SeenRaw, RawQuestion], RawSuccess]


@inline
def _nothing(seen: SeenRaw, question: RawQuestion) -> RawSuccess:
    """No success is above 1."""
    return RawSuccess(1.0, BY_RAW_SUCCESS)


def _least_of(bounds: tuple[Bound, ...]) -> _Least:
    """The minimum over the bounds that are kernels; the first of those that are equal counts."""
    least: _Least = _nothing
    for bound in bounds:
        if bound.kernel is not None:
            least = _also(least, bound.kernel, CODES[bound.name])
    return least


def _also(others: _Least, kernel: Callable[[SeenRaw, RawQuestion], float], code: int) -> _Least:
    """The least of a bound and others."""

    @inline
    def both(seen: SeenRaw, question: RawQuestion) -> RawSuccess:
        least = others(seen, question)
        value = kernel(seen, question)
        return RawSuccess(value, code) if value < least.value else least

    return both


_LEAST = _least_of(RAW_BOUNDS)
_LEAST_AFTER_HISTORY = _least_of(tuple(bound for bound in RAW_BOUNDS if bound.knows_history))


@jit
def least_raw_success(seen: SeenRaw, question: RawQuestion) -> RawSuccess:
    """The least of the bounds that the question wants, of a horizon before which nothing was released.

    1 where it wants none. For the erasure bound.
    """
    return _LEAST(seen, question)


@inline
def least_after_history(seen: SeenRaw, question: RawQuestion) -> RawSuccess:
    """:func:`least_raw_success` where earlier releases count too; for continuous accounts and decisions."""
    return _LEAST_AFTER_HISTORY(seen, question)
