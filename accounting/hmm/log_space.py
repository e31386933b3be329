"""The recursions of :mod:`accounting.hmm.forward_viterbi` in logarithms: slow, and nothing underflows.

Used for the few traces in which scaled arithmetic may have lost a path (probabilities down to 1e-300).
``ln 0 = -inf`` is a value here like any other; no NaN can arise because infinities are never subtracted.
"""

from __future__ import annotations

import numpy as np

from accounting.hmm.forward_viterbi import POSSIBLE, Filtered, Observed, Recursion, likeliest_end
from models.numerics.arrays import Floats, Integers32
from models.numerics.jit import bare_jit, jit
from models.priors.chain import ChainView, LocalChain, slot_of

# Sums of probabilities kept as logarithms.


@jit
def log_sum(total: float, term: float) -> float:
    """``ln(e^total + e^term)``; minus infinity is an empty sum."""
    larger = max(total, term)
    if larger == -np.inf:
        return larger
    return larger + np.log(1.0 + np.exp(min(total, term) - larger))


@bare_jit
def log_of(probability: float) -> float:
    """``ln p``, -inf at 0."""
    return np.log(probability) if probability > 0.0 else -np.inf


@bare_jit
def log_predict(chain: ChainView, slot: int, work: Recursion, step: int) -> None:
    """One step of both recursions; all of ``work`` are logarithms."""
    for y in range(chain.places.size):
        total = -np.inf
        best = -np.inf
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            entry = log_of(chain.value[j])
            total = log_sum(total, work.belief[chain.row[j]] + entry)
            best = max(best, work.scores[step, chain.row[j]] + entry)
        work.next_belief[y] = total
        work.next_score[y] = best


@bare_jit
def log_condition(places: Integers32, observed: Observed, step: int, work: Recursion) -> float:
    """Weigh what was predicted with what was observed in ``step``; the total's log, -inf if impossible."""
    total = -np.inf
    for y in range(places.size):
        weight = log_of(observed.likelihood[step, observed.labels[step, places[y]]])
        work.belief[y] = work.next_belief[y] + weight
        work.scores[step, y] = work.next_score[y] + weight
        total = log_sum(total, work.belief[y])
    return total


@bare_jit
def log_filter_steps(person: LocalChain, observed: Observed, work: Recursion) -> Filtered:
    """All steps of one observed trace; arguments as in ``filter_steps``, all of ``work`` logarithms."""
    chain = person.chain
    places = chain.places.size
    total = -np.inf
    for x in range(places):
        work.next_belief[x] = log_of(person.start[x])
        work.next_score[x] = work.next_belief[x]
    for step in range(observed.labels.shape[0]):
        if step > 0:
            log_predict(chain, slot_of(person, step - 1), work, step - 1)
        total = log_condition(chain.places, observed, step, work)
        if total == -np.inf:
            return Filtered(step, -np.inf, -np.inf, True)
    last = observed.labels.shape[0] - 1
    return Filtered(POSSIBLE, total, work.scores[last, likeliest_end(work.scores, last, places)], True)


@bare_jit
def log_best_predecessor(chain: ChainView, slot: int, score: Floats, place: int) -> int:
    """The place one best comes from to reach ``place``; ties at the lowest index."""
    best = -np.inf
    chosen = -1
    for j in range(chain.column_start[slot, place], chain.column_start[slot, place + 1]):
        candidate = score[chain.row[j]] + log_of(chain.value[j])
        if candidate > best or chosen < 0:
            best = candidate
            chosen = chain.row[j]
    return chosen


@bare_jit
def log_trace_back(chain: ChainView, first_slot: int, scores: Floats, path: Integers32) -> None:
    """The best path from logarithmic scores (T, K), into ``path`` (T,)."""
    last = path.size - 1
    path[last] = likeliest_end(scores, last, chain.places.size)
    for step in range(last - 1, -1, -1):
        slot = (first_slot + step) % chain.start.shape[0]
        path[step] = log_best_predecessor(chain, slot, scores[step], path[step + 1])
