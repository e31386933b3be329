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

from accounting.hmm.eight import first_ones, larger_of, largest, load, padded, spread_out, store
from models.numerics.arrays import Floats, Integers
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView, LocalChain, Rows, rows_of, slot_of

_MOST_ENTRIES = 1 << 20  # 8 MiB a table, of two
_MOST_PRODUCTS = 1 << 26  # some tens of milliseconds of one core


class _Tables(NamedTuple):
    """``U`` after a step and of it: rows ``m K + x`` of ``W`` numbers, K in whole eights, zero beyond."""

    after: Floats
    here: Floats
    gain: Floats  # (K, W), of one m: U(t + 1, m, y, v) - U(t + 1, m - 1, y, v)
    moved: Floats  # (W,), S(t, m - 1, x, v) of one x


@jit
def late_genie_affordable(chain: ChainView, steps: int, mistakes: int) -> bool:
    """Whether the bound takes some tens of milliseconds at most."""
    slots, places = chain.start.shape
    width = padded(places)
    rows, products = (mistakes + 1) * places, (mistakes + 1) * 2 * (chain.value.size // slots)
    return rows * width <= _MOST_ENTRIES and steps * products * width <= _MOST_PRODUCTS


@inline
def fill_row(rows: Floats, row: int, places: int, value: float) -> None:
    """The same value for each place, and zero beyond."""
    for y in range(0, rows.shape[1], 8):
        store(first_ones(spread_out(value), places - y), rows, row * rows.shape[1] + y)


@inline
def _fill_gain(tables: _Tables, m: int) -> None:
    """What one mistake more than ``m - 1`` adds after the step."""
    places, width = tables.gain.shape
    for k in range(0, places * width, 8):
        more = load(tables.after, m * places * width + k)
        if m > 0:
            more = more - load(tables.after, (m - 1) * places * width + k)
        store(more, tables.gain, k)


@inline
def _fill_moved(tables: _Tables, m: int, first: int, last: int, column: Integers, value: Floats) -> float:
    """``S(t, m - 1, x, v)`` of the moves ``first..last - 1`` out of ``x``; the largest is ``U`` of a guess
    that is never right.
    """
    places, width = tables.gain.shape
    top = spread_out(0.0)
    for v in range(0, width, 8):
        won = spread_out(0.0)
        if m > 0:
            for j in range(first, last):
                row = (m - 1) * places + column[j]
                won = won + spread_out(value[j]) * load(tables.after, row * width + v)
        store(won, tables.moved, v)
        top = larger_of(top, won)
    return largest(top)


@inline
def _best_next(tables: _Tables, y: int, chance: float) -> float:
    """``U(t, m, x, y)`` where ``P(x, y)`` is ``chance``."""
    width, top = tables.moved.size, spread_out(0.0)
    for v in range(0, width, 8):
        won = load(tables.moved, v) + spread_out(chance) * load(tables.gain, y * width + v)
        top = larger_of(top, won)
    return largest(top)


@bare_jit
def _step_back(rows: Rows, slot: int, least: int, most: int, tables: _Tables) -> None:
    """Fill ``here`` from ``after`` for ``least`` to ``most`` mistakes left, for a move out of a slot."""
    places = tables.gain.shape[0]
    for m in range(least, most + 1):
        _fill_gain(tables, m)
        for x in range(places):
            first, last = rows.start[slot, x], rows.start[slot, x + 1]
            never_right = _fill_moved(tables, m, first, last, rows.column, rows.value)
            fill_row(tables.here, m * places + x, places, never_right)
            for j in range(first, last):
                y = rows.column[j]
                tables.here[m * places + x, y] = _best_next(tables, y, rows.value[j])


@jit
def late_genie_bound(person: LocalChain, steps: int, mistakes: int) -> float:
    """An upper bound on what any guess of a horizon wins with at most so many mistakes, up to rounding."""
    places = person.start.size
    table, width = (mistakes + 1) * places, padded(places)
    numbers = np.empty((2 * table + places + 1) * width)
    tables = _Tables(
        numbers[: table * width].reshape(table, width),
        numbers[table * width : 2 * table * width].reshape(table, width),
        numbers[2 * table * width : -width].reshape(places, width),
        numbers[-width:],
    )
    # Who may be wrong in all steps to come wins everything, whatever would be guessed next: that is never
    # overwritten. And no more mistakes are made than there were steps.
    for row in range(table):
        fill_row(tables.after, row, places, 1.0)
        fill_row(tables.here, row, places, 1.0)
    rows = rows_of(person.chain)
    for t in range(steps - 1, 0, -1):
        least, most = max(0, mistakes - t), min(mistakes, steps - 1 - t)
        _step_back(rows, slot_of(person, t - 1), least, most, tables)
        tables = _Tables(tables.here, tables.after, tables.gain, tables.moved)
    # Nobody was seen before the first step: its law is that of the moves from there.
    _fill_gain(tables, mistakes)
    _fill_moved(tables, mistakes, 0, places, np.arange(places), person.start)
    best = 0.0
    for y in range(places):
        best = max(best, _best_next(tables, y, person.start[y]))
    return best
