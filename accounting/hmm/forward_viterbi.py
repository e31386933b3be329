"""Forward and max-product recursion in one pass over a person's matrix, scaled once a step.

With ``b`` the distribution given all observations so far and ``v`` the probability of the best path, both
relative to their scale, one step in gather form is (Rabiner 1989, eq. 20 and 33)

    b'(y) = w(y) sum_x b(x) P(x, y)          v'(y) = w(y) max_x v(x) P(x, y)

with ``w`` the likelihood of what was observed. Dividing by the largest score, not multiplying with its
inverse, makes a place that is certain have exactly 1: after a raw hit the recursion restarts, bit for bit.
Zeros in the matrix are zeros here. Where scaled arithmetic may have lost a path to underflow, the
caller gets a status and goes on in logarithms (:mod:`accounting.hmm.log_space`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.hmm.eight import LANES, larger_of, largest, load, spread_out, total_of
from models.numerics.arrays import Floats, Integers32
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView, LocalChain, slot_of

# Sum and maximum of products in eight lanes of a fixed order.
#
# Entry ``x`` belongs to lane ``x mod 8``, lanes are joined in halves. So a full matrix is read at the speed
# of memory and a replay on any machine gives the same bits.


@bare_jit
def sum_and_max_of_products(column: Floats, belief: Floats, score: Floats) -> tuple[float, float]:
    """``sum_x belief[x] column[x]`` and ``max_x score[x] column[x]``; contiguous, none negative.

    ``belief`` and ``score`` may be longer than ``column``.
    """
    size, sums, tops = column.size, spread_out(0.0), spread_out(0.0)
    whole = size - size % LANES
    for x in range(0, whole, LANES):
        entries = load(column, x)
        sums = sums + load(belief, x) * entries
        tops = larger_of(load(score, x) * entries, tops)
    total, best = total_of(sums), largest(tops)
    for x in range(whole, size):
        total += belief[x] * column[x]
        best = max(best, score[x] * column[x])
    return total, best


_1 = np.uint64(1)
SAFE_PRODUCT = 1e-290
"""Products above this keep all their digits (the smallest normal double is 2.2e-308)."""

_LEAST_REST, _LARGEST_REST = 1e-250, 1e250

POSSIBLE = -1
"""Status of a trace in which every observation was possible; otherwise the first impossible step."""


class Scale(NamedTuple):
    """The total and the largest score that one step's conditioning divided by.

    No positive number before or after dividing is below ``lowest``, which is 0 when a product underflowed.
    """

    total: float
    best: float
    lowest: float


@inline
def times(log: float, rest: float, factor: float) -> tuple[float, float]:
    """The product of ``factor``, which is positive, and of ``rest`` with ``e^log``, as another such pair.

    ``rest`` keeps all its digits, so a logarithm is due where it would leave that range, and once at the end.
    """
    together = rest * factor
    if _LEAST_REST < together < _LARGEST_REST:
        return log, together
    return log + np.log(rest) + np.log(factor), 1.0


class Observed(NamedTuple):
    """What was observed of one person: the outcome of each location, and how likely each outcome made it.

    Over the person's own places instead of all locations where the chain's ``places`` are ``0..K-1``.
    """

    labels: Integers32  # (T, M)
    likelihood: Floats  # (T, O), up to a scale a step


class Filtered(NamedTuple):
    """One observed trace: ``status`` is POSSIBLE or the first impossible step.

    ``log_likelihood`` is ``ln Pr[observations]``, ``log_path`` is ``ln max_x Pr[x, observations]``, up
    to the scale of the likelihoods given.
    """

    status: int
    log_likelihood: float
    log_path: float
    is_exact: bool


@bare_jit
def is_full(chain: ChainView) -> bool:
    """Whether every entry of every slot's matrix is stored: ``value`` is then plain column-major."""
    slots, places = chain.start.shape
    return bool(chain.value.size == slots * places * places)


@bare_jit
def smallest_entry(value: Floats) -> float:
    """The smallest positive probability of a matrix; 1 when there is none."""
    smallest = 1.0
    for j in range(value.size):
        if 0.0 < value[j] < smallest:
            smallest = value[j]
    return smallest


class Recursion(NamedTuple):
    """Scratch of one person's recursions; wider than the chain is fine."""

    belief: Floats  # (K,)
    next_belief: Floats  # (K,)
    next_score: Floats  # (K,)
    scores: Floats  # (T, K), every step's scaled scores, for tracing back


@jit
def new_recursion(steps: int, places: int) -> Recursion:
    """Scratch for traces of up to ``steps`` steps in chains of up to ``places`` places."""
    return Recursion(np.empty(places), np.empty(places), np.empty(places), np.empty((steps, places)))


@bare_jit
def predict_sparse(chain: ChainView, slot: int, work: Recursion, step: int) -> None:
    """Move belief and the scores of ``step`` by the matrix of ``slot``, into next belief and score."""
    row, value, belief, score = chain.row, chain.value, work.belief, work.scores[step]
    column = chain.column_start[slot]
    first = np.uint64(column[0])
    for y in range(np.uint64(chain.places.size)):
        last = np.uint64(column[y + _1])
        total = best = 0.0
        for j in range(first, last):
            x = np.uint64(row[j])
            total += belief[x] * value[j]
            candidate = score[x] * value[j]
            best = candidate if candidate > best else best
        work.next_belief[y] = total
        work.next_score[y] = best
        first = last


@bare_jit
def predict_full(chain: ChainView, slot: int, work: Recursion, step: int) -> None:
    """:func:`predict_sparse` through a full matrix, at the speed of memory."""
    places = chain.places.size
    for y in range(places):
        first = (slot * places + y) * places
        column = chain.value[first : first + places]
        work.next_belief[y], work.next_score[y] = sum_and_max_of_products(
            column, work.belief, work.scores[step]
        )


@bare_jit
def condition(places: Integers32, observed: Observed, step: int, work: Recursion) -> Scale:
    """Weigh what was predicted with what was observed in ``step``, and rescale it into belief and scores.

    A total of zero means that the observation is impossible; nothing is divided then.
    """
    labels, likelihood, size = observed.labels[step], observed.likelihood[step], np.uint64(places.size)
    next_belief, next_score = work.next_belief, work.next_score
    total = best = 0.0
    lowest = np.inf
    for y in range(size):
        weight = likelihood[np.uint64(labels[np.uint64(places[y])])]
        before = next_belief[y]
        belief, score = before * weight, next_score[y] * weight
        least = belief if belief < score else score  # zero for a place that is possible: it underflowed
        is_possible = weight > 0.0 and before > 0.0
        lowest = least if is_possible and least < lowest else lowest
        next_belief[y], next_score[y] = belief, score
        total += belief
        best = score if score > best else best
    if total == 0.0 or best == 0.0:
        return Scale(0.0, 0.0, lowest)
    inverse, scores = 1.0 / total, work.scores[step]
    for y in range(size):
        work.belief[y] = next_belief[y] * inverse
        scores[y] = next_score[y] / best
    return Scale(total, best, lowest / max(total, best, 1.0))


@bare_jit
def filter_steps(person: LocalChain, smallest: float, observed: Observed, work: Recursion) -> Filtered:
    """All steps of one observed trace of one person.

    ``smallest`` is the matrix's smallest positive entry. The result is exact unless underflow may have hidden
    a path. ``work.scores`` then holds every step's scores for :func:`trace_back`.
    """
    chain = person.chain
    places = chain.places.size
    full = is_full(chain)
    log_likelihood, likelihood = 0.0, 1.0
    log_path, path = 0.0, 1.0
    is_exact = True
    for x in range(places):
        work.next_belief[x] = person.start[x]
        work.next_score[x] = person.start[x]
    for step in range(observed.labels.shape[0]):
        if step > 0:
            slot = slot_of(person, step - 1)
            if full:  # two calls here, not one that chooses: the compiler inlines the sparse one
                predict_full(chain, slot, work, step - 1)
            else:
                predict_sparse(chain, slot, work, step - 1)
        scale = condition(chain.places, observed, step, work)
        is_exact &= scale.lowest * smallest >= SAFE_PRODUCT
        if scale.total == 0.0:
            return Filtered(step, -np.inf, -np.inf, is_exact)
        log_likelihood, likelihood = times(log_likelihood, likelihood, scale.total)
        log_path, path = times(log_path, path, scale.best)
    return Filtered(POSSIBLE, log_likelihood + np.log(likelihood), log_path + np.log(path), is_exact)


@inline
def best_predecessor(chain: ChainView, slot: int, scores: Floats, step: int, place: int) -> int:
    """The place of ``step`` one best comes from to reach ``place``; ties at the lowest index."""
    best, chosen, column = -1.0, 0, chain.column_start[slot]
    for j in range(np.uint64(column[np.uint64(place)]), np.uint64(column[np.uint64(place + 1)])):
        candidate = scores[step, np.uint64(chain.row[j])] * chain.value[j]
        chosen = chain.row[j] if candidate > best else chosen
        best = candidate if candidate > best else best
    return chosen


@inline
def likeliest_end(scores: Floats, last: int, places: int) -> int:
    """The place with the largest score in step ``last``; ties at the lowest index."""
    best, top = 0, scores[last, 0]
    for x in range(1, places):
        score = scores[last, np.uint64(x)]
        best, top = (x, score) if score > top else (best, top)
    return best


@inline
def trace_back(chain: ChainView, first_slot: int, scores: Floats, path: Integers32) -> None:
    """The best path from the scores (T, K or more) of all steps, into ``path`` (T,).

    Only the columns on the path are looked at again, so no back-pointers are kept.
    """
    last = path.size - 1
    path[last] = likeliest_end(scores, last, chain.places.size)
    for step in range(last - 1, -1, -1):
        slot = (first_slot + step) % chain.start.shape[0]
        path[step] = best_predecessor(chain, slot, scores, step, path[step + 1])
