"""Decoding one observed trace of one person, by whichever recursion suits the chain and loses nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numpy.typing import NDArray

from accounting.hmm.forward_viterbi import (
    POSSIBLE,
    SAFE_PRODUCT,
    Filtered,
    Observed,
    Recursion,
    Scale,
    filter_steps,
    new_recursion,
    trace_back,
)
from accounting.hmm.log_space import log_filter_steps, log_trace_back
from accounting.hmm.propagation import predict, retreat
from accounting.hmm.vectors import (
    INFINITIES,
    LANES,
    ZEROS,
    add,
    data_of,
    join,
    larger,
    load,
    smaller,
    spread,
    store,
    whole,
)
from models.numerics.jit import bare_jit, inline, intrinsic, jit
from models.priors.chain import ChainView, LocalChain, slot_of

# One step of both recursions for a chain of at most sixteen places, a place to a lane.
#
# The matrix is laid out in full, row ``x`` from ``16 x`` on, with zeros where one cannot go: adding a
# product with zero changes no bit, and sixteen lanes without a branch are faster than a few entries with
# many.

# mypy: allow-untyped-calls


WIDTH = 2 * LANES
"""Places a chain may have here."""

_HALVES = (whole(0), whole(LANES))


class Observations(NamedTuple):
    """What was observed of everybody: outcomes are the same for all, their likelihoods each person's own."""

    labels: NDArray[np.int32]  # (T, M) outcome of each location
    likelihood: NDArray[np.float64]  # (N, T, O)


class DecodedArrays(NamedTuple):
    """What decoding found, filled by the kernels; natural logarithms.

    ``status`` is POSSIBLE or the first impossible step; ``path`` holds indices of the person's own places.
    """

    status: NDArray[np.int32]  # (N,)
    log_likelihood: NDArray[np.float64]  # (N,)
    log_path: NDArray[np.float64]  # (N,)
    path: NDArray[np.int32]  # (N, T)


_Halves = list[Any]
"""Numbers of sixteen places, in halves of eight."""


def _predict(builder: Any, matrix: Any, belief: Any, score: Any, places: Any) -> tuple[_Halves, _Halves]:
    """``sum_x belief[x] P(x, y)`` and ``max_x score[x] P(x, y)`` for all ``y``, in registers."""
    sums = [cgutils.alloca_once_value(builder, ZEROS) for _ in _HALVES]
    tops = [cgutils.alloca_once_value(builder, ZEROS) for _ in _HALVES]
    for register in sums + tops:  # set again: alloca_once is at the function's entry, this may be in a loop
        builder.store(ZEROS, register)
    with cgutils.for_range(builder, places) as loop:
        row = builder.mul(loop.index, whole(WIDTH))
        belief_here = spread(builder, builder.load(builder.gep(belief, [loop.index])))
        score_here = spread(builder, builder.load(builder.gep(score, [loop.index])))
        for half, total, top in zip(_HALVES, sums, tops, strict=True):
            entries = load(builder, matrix, builder.add(row, half))
            term = builder.fmul(belief_here, entries)
            builder.store(builder.fadd(builder.load(total), term), total)
            candidate = builder.fmul(score_here, entries)
            builder.store(larger(builder, candidate, builder.load(top)), top)
    return [builder.load(total) for total in sums], [builder.load(top) for top in tops]


def _condition(
    builder: Any, beliefs: _Halves, scores: _Halves, weight: Any, belief: Any, score: Any, lowest: Any
) -> Any:
    """Weigh and rescale what was predicted into ``belief`` and ``score``; the total and the largest score."""
    weights = [load(builder, weight, half) for half in _HALVES]
    predicted = beliefs
    beliefs = [builder.fmul(*pair) for pair in zip(beliefs, weights, strict=True)]
    scores = [builder.fmul(*pair) for pair in zip(scores, weights, strict=True)]
    total = join(builder, builder.fadd(*beliefs), add)
    best = join(builder, larger(builder, *scores), larger)
    inverse = builder.fdiv(ir.Constant(ir.DoubleType(), 1.0), total)
    for k, half in enumerate(_HALVES):
        new_belief = builder.fmul(beliefs[k], spread(builder, inverse))
        new_score = builder.fdiv(scores[k], spread(builder, best))
        store(builder, new_belief, belief, half)
        store(builder, new_score, score, half)
        # Looked at before and after rescaling: digits lost before would not show after it. What was divided
        # by zero is no number, and `smaller` then takes its right side.
        least = smaller(
            builder, smaller(builder, new_belief, new_score), smaller(builder, beliefs[k], scores[k])
        )
        is_possible = builder.and_(
            builder.fcmp_ordered(">", predicted[k], ZEROS), builder.fcmp_ordered(">", weights[k], ZEROS)
        )
        least = smaller(builder, builder.select(is_possible, least, INFINITIES), load(builder, lowest, half))
        store(builder, least, lowest, half)
    return total, best


def _begin_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    start, weight, belief, score, lowest = data_of(context, builder, signature.args, args)
    first = [load(builder, start, half) for half in _HALVES]
    found = _condition(builder, first, first, weight, belief, score, lowest)
    return context.make_tuple(builder, signature.return_type, found)


def _move_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    arrays = data_of(context, builder, signature.args[:-1], args[:-1])
    matrix, belief, score, weight, new_score, lowest = arrays
    predicted = _predict(builder, matrix, belief, score, args[-1])
    found = _condition(builder, *predicted, weight, belief, new_score, lowest)
    return context.make_tuple(builder, signature.return_type, found)


def _begin_lanes(typing_context: Any, start: Any, weight: Any, belief: Any, score: Any, lowest: Any) -> Any:
    """The first step: ``start`` (16,) weighed with ``weight`` (16,) and rescaled.

    Into ``belief`` and ``score`` (16,); gives the total and the largest score it divided by. ``lowest`` (16,)
    becomes the smallest number there was at each place that is possible, 0 after an underflow.
    """
    return types.UniTuple(types.float64, 2)(start, weight, belief, score, lowest), _begin_code


def _move_lanes(
    typing_context: Any,
    matrix: Any,
    belief: Any,
    score: Any,
    weight: Any,
    new_score: Any,
    lowest: Any,
    places: Any,
) -> Any:
    """One move by ``matrix`` (256,) and one observation; ``belief`` changes in place, scores do not."""
    arrays = (matrix, belief, score, weight, new_score, lowest)
    return types.UniTuple(types.float64, 2)(*arrays, types.intp), _move_code


begin_lanes = intrinsic(_begin_lanes)
move_lanes = intrinsic(_move_lanes)


# Both recursions for people of at most sixteen places: the matrix spread out in the first-level cache.
#
# The same as :mod:`accounting.hmm.forward_viterbi`, in the lanes of :mod:`accounting.hmm.trace_decoding`. A
# chain's entries are spread once a visit; every step then runs without a branch or an index.


class LaneWork(NamedTuple):
    """Scratch of one person's recursions on at most sixteen places; lanes beyond the places are zero."""

    matrix: NDArray[np.float64]  # (256,)
    turns: NDArray[np.int32]  # (257,) how many columns begin at each entry
    weights: NDArray[np.float64]  # (T, 16)
    start: NDArray[np.float64]  # (16,)
    belief: NDArray[np.float64]  # (16,)
    scores: NDArray[np.float64]  # (T, 16), every step's scaled scores, for tracing back
    lowest: NDArray[np.float64]  # (16,)


@jit
def new_lane_work(steps: int) -> LaneWork:
    """Scratch for traces of ``steps`` steps."""
    return LaneWork(
        np.zeros(WIDTH * WIDTH),
        np.zeros(WIDTH * WIDTH + 1, np.int32),
        np.zeros((steps, WIDTH)),
        np.zeros(WIDTH),
        np.zeros(WIDTH),
        np.zeros((steps, WIDTH)),
        np.zeros(WIDTH),
    )


@inline
def is_small(chain: ChainView) -> bool:
    """Whether the chain fits the lanes."""
    return bool(chain.places.size <= WIDTH)


@inline
def _spread(chain: ChainView, slot: int, work: LaneWork) -> None:
    """Lay the matrix of ``slot`` out in full.

    One loop over all entries: loops over columns of a few entries each would be mispredicted at every end.
    """
    places, column = chain.places.size, chain.column_start[slot]
    first = np.uint64(column[0])
    entries = np.uint64(column[places]) - first
    for j in range(np.uint64(places * WIDTH)):
        work.matrix[j] = 0.0
    for j in range(entries):
        work.turns[j] = 0
    for y in range(1, places):
        work.turns[np.uint64(column[np.uint64(y)]) - first] += 1
    y = 0
    for j in range(entries):
        y += work.turns[j]
        work.matrix[np.uint64(chain.row[first + j] * WIDTH + y)] = chain.value[first + j]


@inline
def _weigh_places(places: NDArray[np.int32], observed: Observed, work: LaneWork) -> None:
    """How likely each step's observation is at each place."""
    size = np.uint64(places.size)
    for step in range(observed.labels.shape[0]):
        labels, likelihood, weights = observed.labels[step], observed.likelihood[step], work.weights[step]
        for y in range(size):
            weights[y] = likelihood[np.uint64(labels[np.uint64(places[y])])]
        for y in range(size, np.uint64(WIDTH)):
            weights[y] = 0.0


@inline
def _lowest(work: LaneWork) -> float:
    """The smallest number there was at any place."""
    lowest = np.inf
    for y in range(WIDTH):
        lowest = min(lowest, work.lowest[y])
    return lowest


@inline
def _is_exact(work: LaneWork, smallest: float) -> bool:
    """Whether no product of what was left with the matrix's smallest entry can have underflowed."""
    return bool(_lowest(work) * smallest >= SAFE_PRODUCT)


@inline
def filter_small(person: LocalChain, smallest: float, observed: Observed, work: LaneWork) -> Filtered:
    """All steps of one observed trace of one person; arguments and result as in ``filter_steps``."""
    chain = person.chain
    places = chain.places.size
    slots = chain.start.shape[0]
    _weigh_places(chain.places, observed, work)
    for y in range(WIDTH):
        work.lowest[y] = np.inf
        work.start[y] = person.start[y] if y < places else 0.0
    total, best = begin_lanes(work.start, work.weights[0], work.belief, work.scores[0], work.lowest)
    if total == 0.0 or best == 0.0:
        return Filtered(0, -np.inf, -np.inf, _is_exact(work, smallest))
    log_likelihood, log_path = np.log(total), np.log(best)
    for step in range(1, observed.labels.shape[0]):
        if step == 1 or slots > 1:
            _spread(chain, slot_of(person, step - 1), work)
        score, new_score = work.scores[step - 1], work.scores[step]
        total, best = move_lanes(
            work.matrix, work.belief, score, work.weights[step], new_score, work.lowest, places
        )
        if total == 0.0 or best == 0.0:
            return Filtered(step, -np.inf, -np.inf, _is_exact(work, smallest))
        log_likelihood += np.log(total)
        log_path += np.log(best)
    return Filtered(POSSIBLE, log_likelihood, log_path, _is_exact(work, smallest))


@inline
def filter_small_step(chain: ChainView, slot: int, observed: Observed, work: LaneWork) -> Scale:
    """One step on ``work.belief`` and ``work.scores[0]``, moved by the matrix of ``slot``; -1 does not move.

    ``observed`` has this step only. A total of zero means that the observation is impossible.
    """
    _weigh_places(chain.places, observed, work)
    for y in range(WIDTH):
        work.lowest[y] = np.inf
    weight, score = work.weights[0], work.scores[0]
    if slot < 0:
        for y in range(WIDTH):
            work.start[y] = work.belief[y]
        total, best = begin_lanes(work.start, weight, work.belief, score, work.lowest)
    else:
        _spread(chain, slot, work)
        total, best = move_lanes(
            work.matrix, work.belief, score, weight, score, work.lowest, chain.places.size
        )
    if total == 0.0 or best == 0.0:
        return Scale(0.0, 0.0, _lowest(work))
    return Scale(total, best, _lowest(work))


class DecodeWork(NamedTuple):
    """Scratch of one person's decoding, whatever the number of places."""

    recursion: Recursion
    lanes: LaneWork


@jit
def new_decode_work(steps: int, places: int) -> DecodeWork:
    """Scratch for traces of ``steps`` steps in chains of up to ``places`` places."""
    return DecodeWork(new_recursion(steps, places), new_lane_work(steps))


@inline
def decode_trace(
    person: LocalChain, smallest: float, observed: Observed, work: DecodeWork, path: NDArray[np.int32]
) -> Filtered:
    """Filter and decode one observed trace, in logarithms where scaled arithmetic may have lost a path.

    Arguments as in ``filter_steps``; ``path`` (T,) is left alone when an observation is impossible.
    """
    chain, first_slot = person.chain, person.first_slot
    if is_small(chain):
        found = filter_small(person, smallest, observed, work.lanes)
        scores = work.lanes.scores
    else:
        found = filter_steps(person, smallest, observed, work.recursion)
        scores = work.recursion.scores
    if found.is_exact:
        if found.status == POSSIBLE:
            trace_back(chain, first_slot, scores, path)
        return found
    found = log_filter_steps(person, observed, work.recursion)
    if found.status == POSSIBLE:
        log_trace_back(chain, first_slot, work.recursion.scores, path)
    return found


# Where the person most likely was at each step, given everything observed: forward-backward (Rabiner 1989,
# eq. 27), one argmax a step. Maximises the expected number of right steps, so it is often the stronger attack
# when mistakes are allowed.


@bare_jit
def _weigh(observed: Observed, step: int, vector: NDArray[np.float64]) -> float:
    """Weigh a vector (K,) with what was observed in ``step``, scale its maximum to 1, return what it was."""
    top = 0.0
    for x in range(vector.size):
        vector[x] *= observed.likelihood[step, observed.labels[step, x]]
        top = max(top, vector[x])
    if top > 0.0:
        for x in range(vector.size):
            vector[x] /= top
    return top


@jit
def likeliest_places(
    person: LocalChain, observed: Observed, forward: NDArray[np.float64], guess: NDArray[np.int32]
) -> bool:
    """Posterior argmax of every step into ``guess`` (T,); ties at the lowest index.

    ``observed`` is over the own places, ``forward`` (T, K) scratch. False, with ``guess`` left alone, when
    the observations are impossible (or underflow made them so).
    """
    steps, places = observed.labels.shape
    forward[0] = person.start
    for step in range(steps):
        if step > 0:
            predict(person.chain, slot_of(person, step - 1), forward[step - 1], forward[step])
        if _weigh(observed, step, forward[step]) == 0.0:
            return False
    behind = np.ones(places)
    moved = np.empty(places)
    for step in range(steps - 1, -1, -1):
        guess[step] = np.argmax(forward[step] * behind)
        if step > 0:
            _weigh(observed, step, behind)
            retreat(person.chain, slot_of(person, step - 1), behind, moved)
            behind, moved = moved, behind
    return True
