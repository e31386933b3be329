"""What observed traces of many people say about where they were: likelihoods and most likely paths.

:func:`decode` takes whole traces, :class:`Filtering` one step at a time as observations arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from accounting.exceptions import HorizonError, ImpossibleObservationError
from accounting.hmm.eight import LANES
from accounting.hmm.forward_viterbi import (
    POSSIBLE,
    SAFE_PRODUCT,
    Observed,
    Recursion,
    Scale,
    condition,
    is_full,
    new_recursion,
    predict_full,
    predict_sparse,
    smallest_entry,
)
from accounting.hmm.propagation import first_place_law
from accounting.hmm.shared_matrix import SharedChain, decode_shared
from accounting.hmm.small_chains import EightPeople, decode_eight, filter_eight, is_small, new_eight
from accounting.hmm.trace_decoding import (
    DecodedArrays,
    FilterArrays,
    Observations,
    People,
    decode_trace,
    note_scale,
)
from models.arguments import checked
from models.numerics.arrays import Flags, Floats, Integers32
from models.numerics.jit import bare_jit, bare_pjit, inline, pjit
from models.priors import MovementPrior, Population
from models.priors.chain import ChainView, LocalChain, PopulationArrays, inlined_chain_view

# Forward + max-product for whole populations: many people, each with a matrix that fits the cache.
#
# Several steps per visit where the observations are known (:func:`decode_people`), one visit per step where
# they arrive one by one (:func:`filter_people`). People are independent and each is computed by one thread
# in one order, so the bits do not depend on the number of threads.

LEAST_PEOPLE = 64  # worth a thread with scratch of its own


@bare_jit
def largest_place_count(population: PopulationArrays) -> int:
    """The largest number of places that a person has."""
    most = 1
    for person in range(population.slots.size):
        most = max(most, population.places_start[person + 1] - population.places_start[person])
    return most


def smallest_entries(population: PopulationArrays) -> Floats:
    """The smallest positive probability in each person's matrices, (N,); computed once per population."""
    smallest = np.empty(population.slots.size)
    _fill_smallest(smallest, population)
    return smallest


@bare_pjit(lambda smallest, _: smallest.size, least=1024)
def _fill_smallest(begin: int, end: int, smallest: Floats, population: PopulationArrays) -> None:
    for person in range(begin, end):
        entries = population.value[population.entry_start[person] : population.entry_start[person + 1]]
        smallest[person] = smallest_entry(entries)


@bare_jit
def _decode_one(
    i: int, people: People, observations: Observations, decoded: DecodedArrays, work: Recursion
) -> None:
    """One person's trace, whatever the places."""
    arrays, first_slot = people.arrays, people.first_slot
    person = LocalChain(inlined_chain_view(arrays, i), first_place_law(arrays, i, first_slot), first_slot)
    observed = Observed(observations.labels, observations.likelihood[i])
    found = decode_trace(person, people.smallest[i], observed, work, decoded.path[i])
    decoded.status[i] = found.status
    decoded.log_likelihood[i] = found.log_likelihood
    decoded.log_path[i] = found.log_path


@bare_jit
def _decode_range(
    begin: int,
    end: int,
    people: People,
    observations: Observations,
    decoded: DecodedArrays,
    work: Recursion,
    eight: EightPeople,
) -> None:
    """The traces of these people, in the same scratch."""
    count = 0
    for i in range(begin, end):
        if is_small(people, i):
            eight.who[count] = i
            count += 1
        else:
            _decode_one(i, people, observations, decoded, work)
        if count == LANES or (count > 0 and i + 1 == end):
            for lost in range(decode_eight(people, count, observations, decoded, eight)):
                _decode_one(eight.who[lost], people, observations, decoded, work)
            count = 0


@pjit(lambda people, *_: people.smallest.size, least=LEAST_PEOPLE)
def decode_people(
    begin: int, end: int, people: People, observations: Observations, decoded: DecodedArrays
) -> None:
    """Every person's whole trace in one visit to their matrix."""
    steps = observations.labels.shape[0]
    work = new_recursion(steps, largest_place_count(people.arrays))
    _decode_range(begin, end, people, observations, decoded, work, new_eight(steps))


@bare_pjit(lambda people, *_: people.smallest.size, least=1024)
def begin_filter(begin: int, end: int, people: People, state: FilterArrays) -> None:
    """Set belief and score to everybody's start, before the first observation."""
    for person in range(begin, end):
        start = first_place_law(people.arrays, person, people.first_slot)
        first = people.arrays.places_start[person]
        for x in range(start.size):
            state.belief[first + x] = state.score[first + x] = start[x]
        state.log_likelihood[person] = state.log_path[person] = 0.0
        state.likelihood[person] = state.path[person] = 1.0
        state.status[person] = POSSIBLE
        state.is_exact[person] = True


@bare_jit
def _move_person(
    chain: ChainView, slot: int, observed: Observed, belief: Floats, score: Floats, work: Recursion
) -> Scale:
    """Move ``belief`` and ``score`` (K,) by the matrix of ``slot``, unless it is -1, and condition them."""
    places = belief.size
    for x in range(places):
        work.belief[x] = work.next_belief[x] = belief[x]
        work.scores[0, x] = work.next_score[x] = score[x]
    if slot >= 0 and is_full(chain):
        predict_full(chain, slot, work, 0)
    elif slot >= 0:
        predict_sparse(chain, slot, work, 0)
    scale = condition(chain.places, observed, 0, work)
    if scale.total > 0.0:
        for x in range(places):
            belief[x] = work.belief[x]
            score[x] = work.scores[0, x]
    return scale


@inline
def _filter_person(
    people: People, person: int, step: int, observed: Observed, work: Recursion, state: FilterArrays
) -> None:
    """One person's update by one step; ``observed`` has this step only, ``work`` is scratch."""
    chain = inlined_chain_view(people.arrays, person)
    first, last = people.arrays.places_start[person], people.arrays.places_start[person + 1]
    belief, score = state.belief[first:last], state.score[first:last]
    slot = (people.first_slot + step - 1) % chain.start.shape[0] if step > 0 else -1
    scale = _move_person(chain, slot, observed, belief, score, work)
    state.is_exact[person] &= scale.lowest * people.smallest[person] >= SAFE_PRODUCT
    if scale.total == 0.0:
        state.status[person] = step
        return
    note_scale(person, scale.total, scale.best, state)


@bare_jit
def _filter_range(
    begin: int,
    end: int,
    people: People,
    step: int,
    observations: Observations,
    state: FilterArrays,
    work: Recursion,
    eight: EightPeople,
) -> None:
    """One step for those of these people whose trace is still possible."""
    labels, likelihood = observations.labels, observations.likelihood
    count = 0
    for i in range(begin, end):
        if state.status[i] == POSSIBLE:
            if is_small(people, i):
                eight.who[count] = i
                count += 1
            else:
                _filter_person(people, i, step, Observed(labels, likelihood[i]), work, state)
        if count == LANES or (count > 0 and i + 1 == end):
            filter_eight(people, count, step, observations, state, eight)
            count = 0


@pjit(lambda people, *_: people.smallest.size, least=LEAST_PEOPLE)
def filter_people(
    begin: int, end: int, people: People, step: int, observations: Observations, state: FilterArrays
) -> None:
    """One step for everybody whose trace is still possible.

    ``step`` counts from 0 at the first slot; ``observations`` have this step only. Not for people whose
    ``is_exact`` has become False: their whole trace is decoded instead.
    """
    work = new_recursion(1, largest_place_count(people.arrays))
    _filter_range(begin, end, people, step, observations, state, work, new_eight(2))


@dataclass(frozen=True, eq=False)
class Decoded:
    """Everybody's observed trace, decoded. Natural logarithms, up to the scale of the likelihoods given.

    ``log_likelihood`` (N,) is ``ln Pr[y]``, ``log_path`` (N,) is ``ln max_x Pr[x, y]``, ``path`` (N, T) the
    path that reaches it, in the person's own places; ties go to the lowest index, the last step first.
    """

    log_likelihood: Floats
    log_path: Floats
    path: Integers32


@checked(HorizonError)
def decode(
    who: Population | MovementPrior, labels: ArrayLike, likelihood: ArrayLike, first_slot: int = 0
) -> Decoded:
    """Likelihood and most likely path of ``N`` observed traces: one of each person, or all of one chain.

    ``labels`` (T, M) is the outcome each location leads to, ``likelihood`` (N, T, O) how likely what was
    seen in a trace is under each outcome. :class:`ImpossibleObservationError` names the first person and step
    whose observation the prior excludes, :class:`HorizonError` says which shape is wrong.
    """
    outcomes = _outcomes(labels)
    likelihoods = np.ascontiguousarray(likelihood, dtype=np.float64)
    people = who if isinstance(who, Population) else Population.pack([who])
    traces = len(people) if isinstance(who, Population) else len(likelihoods)
    _check_shapes(people, traces, outcomes, likelihoods)
    decoded = _empty(traces, len(outcomes))
    if isinstance(who, Population):
        everybody = People(people.arrays, smallest_entries(people.arrays), first_slot)
        decode_people(everybody, Observations(outcomes, likelihoods), decoded)
    else:
        _decode_all(who, people, Observations(outcomes, likelihoods), first_slot, decoded)
    wrong = np.flatnonzero(decoded.status != POSSIBLE)
    if wrong.size:
        raise _impossible(people.people[wrong[0] % len(people)], int(decoded.status[wrong[0]]))
    return Decoded(decoded.log_likelihood, decoded.log_path, decoded.path)


def _outcomes(labels: ArrayLike) -> Integers32:
    """The outcome that each location leads to, as whole numbers; :class:`HorizonError` for others."""
    found = np.asarray(labels)
    if found.dtype.kind == "f" and not np.all(found == np.rint(found)):
        raise HorizonError("outcomes must be whole numbers", "others", "count outcomes from 0")
    if found.size and not (np.abs(found) < 2**31).all():
        raise HorizonError("outcomes must be whole numbers", "numbers too large", "count outcomes from 0")
    return np.ascontiguousarray(found, dtype=np.int32)


def _empty(people: int, steps: int) -> DecodedArrays:
    return DecodedArrays(
        np.empty(people, np.int32), np.empty(people), np.empty(people), np.empty((people, steps), np.int32)
    )


def _decode_all(
    prior: MovementPrior,
    shared: Population,
    observations: Observations,
    first_slot: int,
    decoded: DecodedArrays,
) -> None:
    """Many traces of one chain: eight at a time where its matrix is full.

    Traces in which underflow may have hidden a path are decoded again on their own.
    """
    chain, rest = shared.chain(0), np.ones(len(decoded.status), np.bool_)
    if len(chain.start) == 1 and is_full(chain):
        initial, size = shared.initial(0), chain.places.size
        start = chain.start[0] if initial is None else initial
        labels = np.ascontiguousarray(observations.labels[:, chain.places])
        own = Observations(labels, observations.likelihood)
        decode_shared(SharedChain(chain.value.reshape(size, size), start), own, decoded, rest)
        rest = ~rest
    if not rest.any():
        return
    named = [replace(prior, person=str(trace)) for trace in np.flatnonzero(rest)]
    copies = Population.pack(named, shared.location_names)
    again = _empty(len(copies), len(observations.labels))
    those = Observations(observations.labels, observations.likelihood[rest])
    decode_people(People(copies.arrays, smallest_entries(copies.arrays), first_slot), those, again)
    decoded.status[rest] = again.status
    decoded.log_likelihood[rest] = again.log_likelihood
    decoded.log_path[rest] = again.log_path
    decoded.path[rest] = again.path


@checked(HorizonError)
class Filtering:
    """The place law of every person, step by step as observations arrive: the forward recursion alone.

    ``log_likelihood`` (N,) and ``log_path`` (N,) are those of :class:`Decoded` for the steps so far.
    Where ``is_exact`` (N,) is False underflow may have hidden a path: decode the whole trace then.
    """

    def __init__(self, population: Population, first_slot: int = 0) -> None:
        arrays = population.arrays
        size, people = arrays.places.size, len(population)
        self.steps = 0
        self._population = population
        self._people = People(arrays, smallest_entries(arrays), first_slot)
        self._state = FilterArrays(
            belief=np.empty(size),
            score=np.empty(size),
            log_likelihood=np.empty(people),
            log_path=np.empty(people),
            likelihood=np.empty(people),
            path=np.empty(people),
            status=np.empty(people, np.int32),
            is_exact=np.empty(people, np.bool_),
        )
        begin_filter(self._people, self._state)

    @property
    def log_likelihood(self) -> Floats:
        """``ln Pr[y]`` (N,) of all steps observed."""
        return self._state.log_likelihood + np.log(self._state.likelihood)

    @property
    def log_path(self) -> Floats:
        """``ln max_x Pr[x, y]`` (N,) of all steps observed."""
        return self._state.log_path + np.log(self._state.path)

    @property
    def is_exact(self) -> Flags:
        """Whether every path was kept, (N,)."""
        return self._state.is_exact.copy()

    @checked(HorizonError)
    def belief(self, person: int) -> Floats:
        """``Pr[place | all observations so far]`` (K,) over the person's own places."""
        start = self._people.arrays.places_start
        if not 0 <= person < len(self._population):
            raise HorizonError(
                f"a person's position must lie in 0..{len(self._population) - 1}",
                person,
                "count people from 0",
            )
        return self._state.belief[start[person] : start[person + 1]].copy()

    @checked(HorizonError)
    def observe(self, labels: ArrayLike, likelihood: ArrayLike) -> None:
        """The next step of everybody: ``labels`` (M,) and ``likelihood`` (N, O); errors as :func:`decode`."""
        outcomes = _outcomes(labels)[None]
        likelihoods = np.ascontiguousarray(likelihood, dtype=np.float64)[:, None]
        _check_shapes(self._population, len(self._population), outcomes, likelihoods)
        filter_people(self._people, self.steps, Observations(outcomes, likelihoods), self._state)
        wrong = np.flatnonzero(self._state.status != POSSIBLE)
        if wrong.size:
            raise _impossible(self._population.people[wrong[0]], int(self._state.status[wrong[0]]))
        self.steps += 1


def _impossible(person: str, step: int) -> ImpossibleObservationError:
    """The error for an observation that a person's prior gives probability zero."""
    return ImpossibleObservationError(
        f"what is observed of person {person!r} in step {step} must be possible under the prior",
        "an observation of probability 0",
        "smooth the prior, or replay the trace with accounting.attacks.attack_recorded, which counts these",
    )


def _check_shapes(population: Population, traces: int, labels: Integers32, likelihood: Floats) -> None:
    """:class:`HorizonError` unless labels are (T, M) and likelihoods (N, T, O) with every outcome present."""
    steps = len(labels)
    if labels.ndim != 2 or steps == 0 or labels.shape[1] != population.location_count or labels.min() < 0:
        raise HorizonError(
            f"labels must be (steps, {population.location_count}) with at least one step, 0 or more",
            labels.shape,
            "give the outcome of every location in every step",
        )
    needed = int(labels.max()) + 1
    is_right = likelihood.ndim == 3 and likelihood.shape[:2] == (traces, steps)
    if not is_right or likelihood.shape[2] < needed:
        raise HorizonError(
            f"likelihoods must be ({traces}, {steps}, {needed} or more)",
            likelihood.shape,
            "give one for every trace, step and outcome",
        )
    if not (np.isfinite(likelihood).all() and (likelihood >= 0.0).all()):
        raise HorizonError(
            "likelihoods must be finite and not negative",
            "another number",
            "give probabilities, not their logarithms",
        )
