"""One move of a person with few places, eight of them at a time.

The matrices are laid out in full, :func:`~accounting.hmm.eight.padded` with zeros. Vectors are as wide as
their rows and zero beyond the places, so that what is computed from them is, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.hmm.eight import larger_of, load, padded, spread_out, store
from models.numerics.arrays import Flags, Floats
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView

FEW = 16  # places: no more than two eights a row


class FullMatrices(NamedTuple):
    """A chain's matrices laid out in full, as far as they were asked for; ``W`` is K in whole eights."""

    rows: Floats  # (C, K, W), [k, x, y]: from place x to y; C = 0 where places are many
    columns: Floats  # (C, K, W), [k, y, x]
    is_there: Flags  # (C,)


@jit
def room_for_matrices(chain: ChainView) -> FullMatrices:
    """Room for those of this chain; none where it has many places."""
    slots, places = chain.start.shape
    if places > FEW:
        slots = 0
    shape = slots, places, padded(places)
    return FullMatrices(np.empty(shape), np.empty(shape), np.zeros(slots, np.bool_))


@bare_jit
def lay_out(chain: ChainView, matrices: FullMatrices, slot: int) -> None:
    """Fill in one slot's matrix."""
    rows, columns = matrices.rows, matrices.columns
    for x in range(rows.shape[1]):
        for y in range(rows.shape[2]):
            rows[slot, x, y] = columns[slot, x, y] = 0.0
    for y in range(rows.shape[1]):
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            rows[slot, chain.row[j], y] = columns[slot, y, chain.row[j]] = chain.value[j]
    matrices.is_there[slot] = True


@inline
def move_few(matrix: Floats, slot: int, before: Floats, after: Floats) -> None:
    """The sum of the matrix's rows in one slot, weighted by ``before``: ``predict`` with ``rows``, and with
    ``columns`` ``retreat``.
    """
    _, places, width = matrix.shape
    for y in range(0, width, 8):
        total, here = spread_out(0.0), slot * places * width + y
        for x in range(places):
            total = total + spread_out(before[x]) * load(matrix, here + x * width)
        store(total, after, y)


@inline
def guess_and_be_shown_few(columns: Floats, slot: int, value: Floats, before: Floats) -> None:
    """``before`` from ``value``, (s + 1, W) each, as ``guess_and_be_shown`` of a person without labels."""
    _, places, width = columns.shape
    for m in range(value.shape[0]):
        for x in range(0, width, 8):
            total, top, here = spread_out(0.0), spread_out(0.0), slot * places * width + x
            for y in range(places):
                low = value[m - 1, y] if m > 0 else 0.0
                column = load(columns, here + y * width)
                total = total + spread_out(low) * column
                top = larger_of(top, spread_out(max(0.0, value[m, y] - low)) * column)
            store(total + top, before, m * width + x)
