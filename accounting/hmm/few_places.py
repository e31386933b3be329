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
def move_two_few(matrix: Floats, slot: int, before: Floats, m: int, after: Floats) -> None:
    """:func:`move_few` of the rows ``m`` and ``m + 1`` of ``before`` (n, W), to those of ``after``.

    One alone mostly waits for its sum; two take little longer.
    """
    _, places, width = matrix.shape
    for y in range(0, width, 8):
        first, second, here = spread_out(0.0), spread_out(0.0), slot * places * width + y
        for x in range(places):
            row = load(matrix, here + x * width)
            first = first + spread_out(before[m, x]) * row
            second = second + spread_out(before[m + 1, x]) * row
        store(first, after, m * width + y)
        store(second, after, (m + 1) * width + y)


@inline
def guess_and_be_shown_few(columns: Floats, slot: int, value: Floats, before: Floats) -> None:
    """``before`` from ``value``, (s + 1, W) each, as ``guess_and_be_shown`` of a person without labels."""
    _, places, width = columns.shape
    for x in range(0, width, 8):
        here = slot * places * width + x
        right, missed, top = spread_out(0.0), spread_out(0.0), spread_out(0.0)
        for y in range(places):  # without a mistake and with one, if it is allowed: they share products
            column, low = load(columns, here + y * width), value[0, y]
            won = spread_out(low) * column
            right = larger_of(right, won)
            if value.shape[0] > 1:
                missed = missed + won
                top = larger_of(top, spread_out(max(0.0, value[1, y] - low)) * column)
        store(right, before, x)
        if value.shape[0] > 1:
            store(missed + top, before, width + x)
        for m in range(2, value.shape[0]):
            missed, top = spread_out(0.0), spread_out(0.0)
            for y in range(places):
                column, low = load(columns, here + y * width), value[m - 1, y]
                missed = missed + spread_out(low) * column
                top = larger_of(top, spread_out(max(0.0, value[m, y] - low)) * column)
            store(missed + top, before, m * width + x)


@inline
def multiply(left: Floats, i: int, right: Floats, j: int, product: Floats, k: int) -> None:
    """The product of two rows of one matrix each, place by place, as the row of a third one."""
    width = product.shape[product.ndim - 1]
    for x in range(0, width, 8):
        store(load(left, i * width + x) * load(right, j * width + x), product, k * width + x)
