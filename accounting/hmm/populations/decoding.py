"""What observed traces of many people say about where they were: likelihoods and most likely paths.

:func:`decode` takes whole traces, :class:`Filtering` one step at a time as observations arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting.exceptions import HorizonError, ImpossibleObservationError
from accounting.hmm.forward_viterbi import POSSIBLE, is_full
from accounting.hmm.populations.population_decoding import (
    DecodedArrays,
    FilterArrays,
    Observations,
    People,
    begin_filter,
    decode_people,
    filter_people,
    smallest_entries,
)
from accounting.hmm.populations.shared_matrix import SharedChain, decode_shared
from models.arguments import checked
from models.priors import MovementPrior, Population


@dataclass(frozen=True, eq=False)
class Decoded:
    """Everybody's observed trace, decoded. Natural logarithms, up to the scale of the likelihoods given.

    ``log_likelihood`` (N,) is ``ln Pr[y]``, ``log_path`` (N,) is ``ln max_x Pr[x, y]``, ``path`` (N, T) the
    path that reaches it, in the person's own places; ties go to the lowest index, the last step first.
    """

    log_likelihood: NDArray[np.float64]
    log_path: NDArray[np.float64]
    path: NDArray[np.int32]


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
        _decode_each(people, Observations(outcomes, likelihoods), first_slot, decoded)
    else:
        _decode_all(who, people, Observations(outcomes, likelihoods), first_slot, decoded)
    wrong = np.flatnonzero(decoded.status != POSSIBLE)
    if wrong.size:
        raise _impossible(people.people[wrong[0] % len(people)], int(decoded.status[wrong[0]]))
    return Decoded(decoded.log_likelihood, decoded.log_path, decoded.path)


def _outcomes(labels: ArrayLike) -> NDArray[np.int32]:
    """Which outcome each location leads to."""
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


def _decode_each(
    population: Population, observations: Observations, first_slot: int, decoded: DecodedArrays
) -> None:
    """Everybody's own trace under everybody's own chain."""
    arrays = population.arrays
    decode_people(People(arrays, smallest_entries(arrays), first_slot), observations, decoded)


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
    _decode_each(copies, Observations(observations.labels, observations.likelihood[rest]), first_slot, again)
    decoded.status[rest] = again.status
    decoded.log_likelihood[rest] = again.log_likelihood
    decoded.log_path[rest] = again.log_path
    decoded.path[rest] = again.path


@checked(HorizonError)
class Filtering:
    """Where everybody may be, step by step as observations arrive: the forward recursion alone.

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
            status=np.empty(people, np.int32),
            is_exact=np.empty(people, np.bool_),
        )
        begin_filter(self._people, self._state)

    @property
    def log_likelihood(self) -> NDArray[np.float64]:
        """``ln Pr[y]`` (N,) of all steps observed."""
        return self._state.log_likelihood.copy()

    @property
    def log_path(self) -> NDArray[np.float64]:
        """``ln max_x Pr[x, y]`` (N,) of all steps observed."""
        return self._state.log_path.copy()

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Whether every path was kept, (N,)."""
        return self._state.is_exact.copy()

    @checked(HorizonError)
    def belief(self, person: int) -> NDArray[np.float64]:
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


def _check_shapes(
    population: Population, traces: int, labels: NDArray[np.int32], likelihood: NDArray[np.float64]
) -> None:
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
