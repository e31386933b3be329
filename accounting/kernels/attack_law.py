"""Exact law of an attack on raw counts: how often it is within ``s`` mistakes, without sampling.

Between two hits the attack's guess depends on those two hits alone, so the number of its mistakes there is
independent of the rest given them. A recursion over hits convolves the segments' laws. Beyond Koga et al.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.kernels.hit_tables import HitTables
from accounting.kernels.propagation import predict
from models.chain import ChainView
from models.jit import jit


@jit
def law_work(tables: HitTables, entries: int, mistakes: int) -> float:
    """Multiplications :func:`attack_law` needs, for a matrix of ``entries`` stored entries per slot."""
    total = 0.0
    count = tables.nodes.time.size
    for a in range(count - 1):
        for b in range(a + 1, count):
            if tables.log_sum[b, a] > -np.inf:
                for gap in range(1, tables.nodes.time[b] - tables.nodes.time[a]):
                    total += min(gap, mistakes + 1)
    return total * entries


@jit
def _count_mistakes(now: NDArray[np.float64], right: int, rows: int) -> None:
    """``now[j, x]``: at ``x`` with ``j`` mistakes; everybody not at ``right`` has made one more."""
    for j in range(rows, 0, -1):
        kept = now[j, right]
        now[j] = now[j - 1]
        now[j, right] = kept
    kept = now[0, right]
    now[0] = 0.0
    now[0, right] = kept


@jit
def _segment_law(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    hits: NDArray[np.bool_],
    tables: HitTables,
    guess: NDArray[np.int32],
    a: int,
    b: int,
    now: NDArray[np.float64],
    after: NDArray[np.float64],
    law: NDArray[np.float64],
) -> None:
    """``law[j] = Pr[b is the next hit after a, with j mistakes between | a]``, ``j <= s``."""
    begin, finish, place = tables.nodes.time[a], tables.nodes.time[b], tables.nodes.place[b]
    now[:] = 0.0
    if begin >= 0:
        now[0, tables.nodes.place[a]] = 1.0
    rows = 0  # no row above has anything in it yet
    for step in range(begin + 1, finish + 1):
        if step == 0:
            now[0] = start
        elif step < hits.shape[0]:
            for j in range(rows + 1):
                predict(chain, (first_slot + step - 1) % chain.start.shape[0], now[j], after[j])
                now[j] = after[j]
        if step < finish:
            for j in range(rows + 1):
                for x in range(hits.shape[1]):
                    if hits[step, x]:
                        now[j, x] = 0.0
            rows = min(rows + 1, now.shape[0] - 1)
            _count_mistakes(now, guess[a, b, step], rows)
    for j in range(now.shape[0]):
        law[j] = now[j].sum() if place < 0 else now[j, place]


@jit
def attack_law(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    hits: NDArray[np.bool_],
    tables: HitTables,
    guess: NDArray[np.int32],
    mistakes: int,
) -> NDArray[np.float64]:
    """``Pr[exactly j mistakes]``, ``j = 0..s``, of the attack guessing ``guess[a, b, t]`` between hits."""
    count = tables.nodes.time.size
    reached = np.zeros((count, mistakes + 1))
    reached[0, 0] = 1.0
    law = np.empty(mistakes + 1)
    now = np.empty((mistakes + 1, hits.shape[1]))
    after = np.empty_like(now)
    for a in range(count - 1):
        if reached[a].max() == 0.0:
            continue
        for b in range(a + 1, count):
            if tables.log_sum[b, a] == -np.inf:
                continue
            _segment_law(chain, start, first_slot, hits, tables, guess, a, b, now, after, law)
            for j in range(mistakes + 1):
                for more in range(mistakes + 1 - j):
                    reached[b, j + more] += reached[a, j] * law[more]
    return reached[count - 1]
