"""What can still be won where one guess may be wrong, for chains of many places with few exits each.

In the recursion of :mod:`accounting.hmm.frontier.one_mistake_kernel`,

    U(t, x, y) = max_v P(x, y) U(t + 1, y, v) + (P^2(x, v) - P(x, y) P(y, v)) R(t + 1, v),

``U(t + 1, y, v)`` is one number for all ``v`` to which ``y`` does not lead, and never larger than for another
``v``. So it is kept once a place and once an exit, and ``v`` runs over the ends of pairs of exits, one behind
the other: ``U`` of its second exit where the first is that to ``y``, else the number of ``y``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.hmm.eight import larger_of, largest, load, padded, spread_out, where_positive
from accounting.hmm.frontier.late_genie_kernel import fill_row
from models.numerics.arrays import Floats, Integers
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView, LocalChain, slot_of


class FewExits(NamedTuple):
    """``E`` exits a place, and pairs of an exit and one of its end, ``E E`` a place, ``n`` with zeros behind.

    The row of place ``x`` in step ``t`` is number ``t mod C * K + x``. The first of a place with fewer exits
    lead to place 0 with chance 0, which changes no maximum.
    """

    pending: Integers  # (C, K), exits not laid out yet
    place: Integers  # (n,), where one place's pairs end
    end: Integers  # (rows, E), rising
    chance: Floats  # (rows, E)
    two: Floats  # (rows, n), P^2 to the end of each pair
    wrong: Floats  # (rows E, n), the part of it that does not go by way of this exit
    own: Floats  # (E, n), 1 where a pair's first exit is this one
    after: Floats  # (2, n), R at the ends of one place's pairs, and U of their second exits
    never_right: Floats  # (T, K), U of any guess the place does not lead to
    right: Floats  # (T, K E), U of each exit


@jit
def exits_counted(chain: ChainView) -> Integers:
    """How many exits each place has (C, K), if they are few enough to be faster so; otherwise nothing."""
    slots, places = chain.start.shape
    if 4 * padded((chain.value.size // (slots * places)) ** 2) > padded(places):
        return np.empty((0, 0), np.int64)
    count = np.zeros((slots, places), np.int64)
    for slot in range(slots):
        for j in range(chain.column_start[slot, 0], chain.column_start[slot, places]):
            count[slot, chain.row[j]] += 1
    return count if 4 * padded(count.max() ** 2) <= padded(places) else count[:0]


@jit
def few_exits(count: Integers, steps: int) -> FewExits:
    """Room for them."""
    (slots, places), exits = count.shape, count.max()
    rows, pairs = min(slots, steps) * places, padded(exits * exits)
    return FewExits(
        count,
        np.empty(pairs, np.uint64),
        np.zeros((rows, exits), np.uint64),
        np.zeros((rows, exits)),
        np.zeros((rows, pairs)),
        np.zeros((rows * exits, pairs)),
        np.zeros((exits, pairs)),
        np.zeros((2, pairs)),
        np.ones((steps, places)),
        np.ones((steps, places * exits)),
    )


@bare_jit
def lay_out_few(person: LocalChain, steps: int, one: Floats, two: Floats, few: FewExits) -> None:
    """Fill in the chances, with rows of all places for one move and, which are zero so far, for two."""
    chain, end, chance = person.chain, few.end, few.chance
    slots, places = chain.start.shape
    exits = np.uint64(end.shape[1])
    for t in range(min(slots, steps)):
        slot = slot_of(person, t)
        for y in range(places):
            for i in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                x = chain.row[i]
                row, j = t * places + x, few.end.shape[1] - few.pending[slot, x]
                end[row, j], chance[row, j] = y, chain.value[i]
                few.pending[slot, x] -= 1
    for j in range(exits):
        for k in range(exits):
            few.own[j, j * exits + k] = 1.0
    for t in range(min(slots, steps - 1)):
        then = np.uint64((t + 1) % slots * places)
        for row in range(np.uint64(t * places), np.uint64((t + 1) * places)):
            for j in range(exits):
                after = then + end[row, j]
                for k in range(exits):
                    v = end[after, k]
                    few.place[j * exits + k] = v
                    two[row, v] += chance[row, j] * chance[after, k]
            for pair in range(exits * exits):
                few.two[row, pair] = two[row, few.place[pair]]
            for j in range(exits):
                y, right = then + end[row, j], chance[row, j]
                for pair in range(exits * exits):
                    without = few.two[row, pair] - right * one[y, few.place[pair]]
                    few.wrong[row * exits + j, pair] = without


@bare_jit
def fill_few(person: LocalChain, few: FewExits, rest: Floats) -> None:
    """Fill in ``U`` behind the first step, and ``R`` as ``rest`` (T, W), from the last step back."""
    slots, places = person.chain.start.shape
    steps, width, exits = rest.shape[0], few.after.shape[1], np.uint64(few.end.shape[1])
    for x in range(places):
        rest[steps - 1, x] = 1.0
    for t in range(steps - 1, 1, -1):
        here, now = np.uint64(t), np.uint64(t - 1)
        rows, then = np.uint64((t - 2) % slots * places), np.uint64((t - 1) % slots * places)
        for x in range(np.uint64(places)):
            row, best = rows + x, 0.0
            for k in range(exits):
                best = max(best, few.chance[then + x, k] * rest[here, few.end[then + x, k]])
            rest[now, x] = best
            for j in range(exits):
                y = few.end[row, j]
                for k in range(exits):
                    few.after[0, j * exits + k] = rest[here, few.end[then + y, k]]
                    few.after[1, j * exits + k] = few.right[here, y * exits + k]
            top = spread_out(0.0)
            for i in range(0, width, 8):
                top = larger_of(top, load(few.two, int(row) * width + i) * load(few.after, i))
            few.never_right[now, x] = largest(top)
            for j in range(exits):
                chance, top = spread_out(few.chance[row, j]), spread_out(0.0)
                never = spread_out(few.never_right[here, few.end[row, j]])
                for i in range(0, width, 8):
                    own = load(few.own, int(j) * width + i)
                    late = where_positive(load(few.after, width + i), own, never)
                    wrong = load(few.wrong, int(row * exits + j) * width + i) * load(few.after, i)
                    top = larger_of(top, chance * late + wrong)
                few.right[now, x * exits + j] = largest(top)


@inline
def unfold(person: LocalChain, few: FewExits, t: int, x: int, late: Floats) -> None:
    """``U(t, x, y)`` for all places ``y``, in row ``t K + x`` of ``late``."""
    slots, places = person.chain.start.shape
    row, move, exits = t * places + x, (t - 1) % slots * places + x, few.end.shape[1]
    fill_row(late, row, places, few.never_right[t, x])
    for j in range(exits):
        if few.chance[move, j] > 0.0:
            late[row, few.end[move, j]] = few.right[t, x * exits + j]
