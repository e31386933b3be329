"""What a guess from the prior wins at most, for any number of mistakes: the genie who is a step late.

The completion of :mod:`accounting.hmm.frontier.search_kernel` has a genie who shows the truth after every
guess. This genie shows it only once the next guess has been made too. The adversary still knows more than
one without a genie, so no guess wins more; but the guess behind a wrong one is made without knowing.

Let ``U(t, m, x, y)`` be what can be won from step ``t`` on by who was seen at ``x`` in the step before, has
guessed ``y`` and may be wrong ``m`` times from here on. Behind the last step ``U`` is 1, and

    S(t, m, x, v) = sum_z P(x, z) U(t + 1, m, z, v),
    U(t, m, x, y) = max_v S(t, m - 1, x, v) + P(x, y) (U(t + 1, m, y, v) - U(t + 1, m - 1, y, v)):

the next guess ``v`` is the same whether the person is at ``y``, and a mistake less is left elsewhere. For one
mistake this is the completion of :mod:`accounting.hmm.frontier.one_mistake_kernel`.

For example two steps of fair coins and one mistake. Before the last step ``U(1, 0, x, y) = 1/2`` and ``U(1,
1, x, y) = 1``. In the first ``U(0, 1, y) = 1/2 + 1/2 (1 - 1/2) = 3/4``, the optimum: only who is wrong twice
fails.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.eight import larger_of, largest, load, padded, spread_out, store
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView, LocalChain, slot_of

_MOST_ENTRIES = 1 << 20  # 8 MiB a table, of three
_MOST_PRODUCTS = 1 << 26  # some tens of milliseconds of one core


class _Tables(NamedTuple):
    """``U`` after a step and of it, and ``S``: rows ``m K + x`` of ``W`` numbers, K in whole eights."""

    after: NDArray[np.float64]
    here: NDArray[np.float64]
    moved: NDArray[np.float64]


@jit
def late_genie_affordable(chain: ChainView, steps: int, mistakes: int) -> bool:
    """Whether the bound takes some tens of milliseconds at most."""
    slots, places = chain.start.shape
    width = padded(places)
    rows, products = (mistakes + 1) * places, (mistakes + 1) * 2 * (chain.value.size // slots)
    return rows * width <= _MOST_ENTRIES and steps * products * width <= _MOST_PRODUCTS


@inline
def fill_row(rows: NDArray[np.float64], row: int, places: int, value: float) -> None:
    """The same value for each place, and zero beyond."""
    for y in range(places):
        rows[row, y] = value
    for y in range(places, rows.shape[1]):
        rows[row, y] = 0.0


@inline
def _best_next(tables: _Tables, places: int, m: int, x: int, y: int, chance: float) -> float:
    """``U(t, m, x, y)`` where ``P(x, y)`` is ``chance``; without one nothing depends on ``y``."""
    width, top = tables.after.shape[1], spread_out(0.0)
    moved = ((m - 1) * places + x) * width
    right, wrong = (m * places + y) * width, ((m - 1) * places + y) * width
    for v in range(0, width, 8):
        won = spread_out(0.0)
        if m > 0:
            won = load(tables.moved, moved + v)
        if chance > 0.0:
            gain = load(tables.after, right + v)
            if m > 0:
                gain = gain - load(tables.after, wrong + v)
            won = won + spread_out(chance) * gain
        top = larger_of(top, won)
    return largest(top)


@bare_jit
def _step_back(chain: ChainView, slot: int, least: int, most: int, tables: _Tables) -> None:
    """Fill ``here`` from ``after`` for ``least`` to ``most`` mistakes left, for a move out of a slot."""
    places, width = chain.start.shape[1], tables.after.shape[1]
    for m in range(max(0, least - 1), most + 1):
        first = m * places
        for x in range(places if m < most else 0):
            fill_row(tables.moved, first + x, width, 0.0)
        for z in range(places if m < most else 0):
            for j in range(chain.column_start[slot, z], chain.column_start[slot, z + 1]):
                sums, row = (first + chain.row[j]) * width, (first + z) * width
                for v in range(0, width, 8):
                    more = spread_out(chain.value[j]) * load(tables.after, row + v)
                    store(load(tables.moved, sums + v) + more, tables.moved, sums + v)
        for x in range(places if m >= least else 0):
            never_right = _best_next(tables, places, m, x, 0, 0.0)
            fill_row(tables.here, first + x, places, never_right)
        for y in range(places if m >= least else 0):
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                x = chain.row[j]
                tables.here[first + x, y] = _best_next(tables, places, m, x, y, chain.value[j])


@jit
def late_genie_bound(person: LocalChain, steps: int, mistakes: int) -> float:
    """An upper bound on what any guess of a horizon wins with at most so many mistakes, up to rounding."""
    places = person.start.size
    rows, width = (mistakes + 1) * places, padded(places)
    numbers = np.empty(3 * rows * width)
    tables = _Tables(
        numbers[: rows * width].reshape(rows, width),
        numbers[rows * width : 2 * rows * width].reshape(rows, width),
        numbers[2 * rows * width :].reshape(rows, width),
    )
    # Who may be wrong in all steps to come wins everything, whatever would be guessed next: that is never
    # overwritten. And no more mistakes are made than there were steps.
    for row in range(rows):
        fill_row(tables.after, row, places, 1.0)
        fill_row(tables.here, row, places, 1.0)
    for t in range(steps - 1, 0, -1):
        least, most = max(0, mistakes - t), min(mistakes, steps - 1 - t)
        _step_back(person.chain, slot_of(person, t - 1), least, most, tables)
        tables = _Tables(tables.here, tables.after, tables.moved)
    # Nobody was seen before the first step: row 0 of each table is that of the law of its place.
    best = 0.0
    for m in range(max(0, mistakes - 1), mistakes):
        fill_row(tables.moved, m * places, width, 0.0)
        for z in range(places):
            for v in range(places):
                tables.moved[m * places, v] += person.start[z] * tables.after[m * places + z, v]
    for y in range(places):
        best = max(best, _best_next(tables, places, mistakes, 0, y, person.start[y]))
    return best
