"""What observed traces of many people say about where they were: likelihoods and most likely paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import HorizonError, ImpossibleObservationError
from accounting.hmm.forward_viterbi import POSSIBLE
from accounting.hmm.populations.population_decoding import (
    DecodedArrays,
    Observations,
    People,
    decode_people,
    smallest_entries,
)
from models.priors import Population


@dataclass(frozen=True, eq=False)
class Decoded:
    """Everybody's observed trace, decoded. Natural logarithms, up to the scale of the likelihoods given.

    ``log_likelihood`` (N,) is ``ln Pr[y]``, ``log_path`` (N,) is ``ln max_x Pr[x, y]``, ``path`` (N, T) the
    path that reaches it, in the person's own places; ties go to the lowest index, the last step first.
    """

    log_likelihood: NDArray[np.float64]
    log_path: NDArray[np.float64]
    path: NDArray[np.int32]


def decode_population(
    population: Population, first_slot: int, labels: NDArray[np.int32], likelihood: NDArray[np.float64]
) -> Decoded:
    """Decode one observed trace per person.

    ``labels`` (T, M) is the outcome each location leads to, ``likelihood`` (N, T, O) how likely what was
    seen of the person is under each outcome. :class:`ImpossibleObservationError` names the first person and
    step whose observation the prior excludes.
    """
    people, steps = len(population), labels.shape[0]
    _check_shapes(population, labels, likelihood)
    decoded = DecodedArrays(
        np.empty(people, np.int32), np.empty(people), np.empty(people), np.empty((people, steps), np.int32)
    )
    observed = People(population.arrays, smallest_entries(population.arrays), first_slot)
    decode_people(observed, Observations(labels, likelihood), decoded)
    wrong = np.flatnonzero(decoded.status != POSSIBLE)
    if wrong.size:
        raise impossible(population.people[wrong[0]], int(decoded.status[wrong[0]]))
    return Decoded(decoded.log_likelihood, decoded.log_path, decoded.path)


def impossible(person: str, step: int) -> ImpossibleObservationError:
    """The error for an observation that a person's prior gives probability zero."""
    return ImpossibleObservationError(
        f"what is observed of person {person!r} in step {step} must be possible under the prior",
        "an observation of probability 0",
        "smooth the prior, or replay the trace with accounting.attacks.attack_recorded, which counts these",
    )


def _check_shapes(population: Population, labels: NDArray[np.int32], likelihood: NDArray[np.float64]) -> None:
    """:class:`HorizonError` unless labels are (T, M) and likelihoods (N, T, O) with every outcome present."""
    steps = labels.shape[0]
    if steps == 0 or labels.shape[1] != population.location_count:
        raise HorizonError(
            f"labels must be (steps, {population.location_count}) with at least one step",
            labels.shape,
            "give the outcome of every location in every step",
        )
    needed = int(labels.max()) + 1
    if likelihood.shape[:2] != (len(population), steps) or likelihood.shape[2] < needed:
        raise HorizonError(
            f"likelihoods must be ({len(population)}, {steps}, {needed} or more)",
            likelihood.shape,
            "give one for every person, step and outcome",
        )
