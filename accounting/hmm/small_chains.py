"""Both recursions for eight people of at most sixteen places each, a person to a lane.

Bit for bit what :mod:`accounting.hmm.forward_viterbi` finds entry by entry: matrices are laid out in full,
with zeros where one cannot go, and adding a product with zero changes no bit. Lanes without a branch are
faster than a few entries with many. Nothing runs across them: who shares them with a person changes no bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.hmm.eight import LANES
from accounting.hmm.forward_viterbi import POSSIBLE, SAFE_PRODUCT, likeliest_end, trace_back
from accounting.hmm.propagation import first_place_law
from accounting.hmm.shared_matrix import (
    COLUMNS,
    PeopleScale,
    begin_trace,
    condition_people,
    end_trace,
    move_own,
    new_scale,
    note_step,
)
from accounting.hmm.trace_decoding import DecodedArrays, FilterArrays, Observations, People, note_scale
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import bare_jit, jit
from models.priors.chain import inlined_chain_view

PLACES = 16
"""Places a chain may have here."""


class EightPeople(NamedTuple):
    """Scratch of eight people; where they have fewer places, numbers of theirs are zero."""

    who: Integers  # (8,)
    matrix: Floats  # (16 * 16 * 8,), by columns of as many places as any of them has
    turns: Integers32  # (257,) how many columns begin at each entry
    weights: Floats  # (T, 16, 8)
    each: Integers32  # (16,) the weight of each place is its own
    belief: Floats  # (16, 8)
    next_belief: Floats  # (16, 8)
    scores: Floats  # (T, 16, 8), every step's scaled scores, for tracing back
    scale: PeopleScale


@jit
def new_eight(steps: int) -> EightPeople:
    """Scratch for traces of ``steps`` steps."""
    return EightPeople(
        np.zeros(LANES, np.int64),
        np.zeros(PLACES * PLACES * LANES),
        np.zeros(PLACES * PLACES + 1, np.int32),
        np.zeros((steps, PLACES, LANES)),
        np.arange(PLACES).astype(np.int32),
        np.zeros((PLACES, LANES)),
        np.zeros((PLACES, LANES)),
        np.zeros((steps, PLACES, LANES)),
        new_scale(LANES),
    )


@bare_jit
def is_small(people: People, person: int) -> bool:
    """Whether a person's places fit the lanes."""
    start = people.arrays.places_start
    return bool(start[person + 1] - start[person] <= PLACES)


@bare_jit
def _places(people: People, count: int, work: EightPeople) -> int:
    """The largest number of places of the first ``count``, as the columns done at a time want it."""
    most, start = 1, people.arrays.places_start
    for lane in range(count):
        most = max(most, start[work.who[lane] + 1] - start[work.who[lane]])
    return most + (-most) % COLUMNS


@bare_jit
def _lay_out(people: People, step: int, count: int, places: int, work: EightPeople) -> None:
    """Everybody's matrix that moves on from ``step``.

    One loop over all entries: loops over columns of a few entries each would be mispredicted at every end.
    """
    matrix, turns = work.matrix, work.turns
    for j in range(np.uint64(places * places * LANES)):
        matrix[j] = 0.0
    for lane in range(count):
        chain = inlined_chain_view(people.arrays, work.who[lane])
        column = chain.column_start[(people.first_slot + step) % chain.start.shape[0]]
        own = np.uint64(chain.places.size)
        first = np.uint64(column[0])
        entries = np.uint64(column[own]) - first
        for j in range(entries):
            turns[j] = 0
        for y in range(np.uint64(1), own):
            turns[np.uint64(column[y]) - first] += 1
        to = lane
        for j in range(entries):
            to += turns[j] * places * LANES
            matrix[np.uint64(to + chain.row[first + j] * LANES)] = chain.value[first + j]


@bare_jit
def _weigh(people: People, observations: Observations, count: int, places: int, work: EightPeople) -> None:
    """How likely each step's observation is at each place."""
    arrays = people.arrays
    for lane in range(count):
        person = work.who[lane]
        own = arrays.places[arrays.places_start[person] : arrays.places_start[person + 1]]
        size = np.uint64(own.size)
        for step in range(observations.labels.shape[0]):
            labels, likelihood = observations.labels[step], observations.likelihood[person, step]
            weights = work.weights[step]
            for y in range(size):
                weights[y, lane] = likelihood[np.uint64(labels[np.uint64(own[y])])]
            for y in range(size, np.uint64(places)):
                weights[y, lane] = 0.0


@bare_jit
def _begin(lane: int, places: int, belief: Floats, score: Floats, work: EightPeople) -> None:
    """A person's numbers (K,), before the first step is observed."""
    for x in range(belief.size):
        work.belief[x, lane] = belief[x]
        work.scores[0, x, lane] = score[x]
    for x in range(belief.size, places):
        work.belief[x, lane] = work.scores[0, x, lane] = 0.0


@bare_jit
def _trace_back(count: int, places: int, work: EightPeople, path: Integers32) -> None:
    """The best paths of the first ``count`` people through the matrices laid out; ties at the lowest index.

    Nothing here is mispredicted, and one person's look-ups do not wait for those of another.
    """
    last = path.shape[1] - 1
    for lane in range(count):
        path[work.who[lane], last] = likeliest_end(work.scores[:, :, lane], last, places)
    for step in range(last - 1, -1, -1):
        scores = work.scores[step]
        for lane in range(np.uint64(count)):
            own = path[work.who[lane]]
            column = np.uint64(own[step + 1] * places * LANES) + lane
            best, chosen = -1.0, 0
            for x in range(np.uint64(places)):
                candidate = scores[x, lane] * work.matrix[column + x * np.uint64(LANES)]
                chosen = x if candidate > best else chosen
                best = candidate if candidate > best else best
            own[step] = chosen


@bare_jit
def decode_eight(
    people: People, count: int, observations: Observations, decoded: DecodedArrays, work: EightPeople
) -> int:
    """The whole traces of the first ``count`` people in ``work``, into ``decoded``.

    Those in whose traces underflow may have hidden a path become the first in ``work``; how many they are.
    """
    arrays, first_slot, scale = people.arrays, people.first_slot, work.scale
    places = _places(people, count, work)
    _weigh(people, observations, count, places, work)
    cycle = 1
    for lane in range(count):
        person = work.who[lane]
        start = first_place_law(arrays, person, first_slot)
        _begin(lane, places, start, start, work)
        begin_trace(person, lane, scale, decoded)
        cycle = max(cycle, arrays.slots[person])
    belief, spare = work.belief, work.next_belief
    for step in range(observations.labels.shape[0]):
        if step == 1 or (step > 1 and cycle > 1):
            _lay_out(people, step - 1, count, places, work)
        if step > 0:
            move_own(work.matrix, belief[:places], work.scores[step - 1], spare, work.scores[step])
            belief, spare = spare, belief
        condition_people(work.each, work.weights[step], belief[:places], work.scores[step], scale)
        for lane in range(count):
            note_step(work.who[lane], lane, step, scale, decoded)
    if cycle == 1:
        _trace_back(count, places, work, decoded.path)
    lost = 0
    for lane in range(count):
        person = work.who[lane]
        end_trace(person, lane, scale, decoded)
        if not scale.lowest[lane] * people.smallest[person] >= SAFE_PRODUCT:
            work.who[lost] = person
            lost += 1
        elif cycle > 1 and decoded.status[person] == POSSIBLE:
            chain = inlined_chain_view(arrays, person)
            trace_back(chain, first_slot, work.scores[:, :, lane], decoded.path[person])
    return lost


@bare_jit
def filter_eight(
    people: People, count: int, step: int, observations: Observations, state: FilterArrays, work: EightPeople
) -> None:
    """One step for the first ``count`` people in ``work``; ``observations`` have this step only."""
    places, start, scale = _places(people, count, work), people.arrays.places_start, work.scale
    _weigh(people, observations, count, places, work)
    for lane in range(count):
        first, last = start[work.who[lane]], start[work.who[lane] + 1]
        _begin(lane, places, state.belief[first:last], state.score[first:last], work)
        scale.lowest[lane] = np.inf
    belief = work.belief
    if step > 0:
        _lay_out(people, step - 1, count, places, work)
        move_own(work.matrix, belief[:places], work.scores[0], work.next_belief, work.scores[1])
        belief = work.next_belief
    score = work.scores[min(step, 1)]
    condition_people(work.each, work.weights[0], belief[:places], score, scale)
    for lane in range(count):
        person = work.who[lane]
        first = start[person]
        state.is_exact[person] &= scale.lowest[lane] * people.smallest[person] >= SAFE_PRODUCT
        if scale.total[lane] == 0.0 or scale.best[lane] == 0.0:
            state.status[person] = step
            continue
        for x in range(start[person + 1] - first):
            state.belief[first + x] = belief[x, lane]
            state.score[first + x] = score[x, lane]
        note_scale(person, scale.total[lane], scale.best[lane], state)
