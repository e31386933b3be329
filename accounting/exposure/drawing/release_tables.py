"""Observations in the form the simulating kernels want."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import UnknownReleaseError
from accounting.exposure.drawing.noised_steps_kernel import ReleasedSteps, ValueTables, value_tables
from accounting.exposure.drawing.random_draws_kernel import alias_tables
from accounting.exposure.step_information import StepObservation
from models.mechanisms import Mechanism, NoiseLaw
from models.numerics.elementwise import log


def released_steps(observations: Sequence[StepObservation]) -> ReleasedSteps:
    """Pack the observations of ``T`` steps; equal mechanisms share one table of their noise's law.

    :class:`UnknownReleaseError` where steps share noise, which these tables cannot express.
    """
    if not all(observation.can_be_drawn for observation in observations):
        raise UnknownReleaseError(
            "an attack must be tried on releases whose noise is independent from step to step",
            "correlated noise",
            "leave attacks out; bounds hold for correlated noise too",
        )
    laws: dict[Mechanism, int] = {}
    for observation in observations:
        for mechanism in observation.mechanisms:
            laws.setdefault(mechanism, len(laws))
    most_releases = max(1, *(len(observation.mechanisms) for observation in observations))
    most_outcomes = max(len(observation.outcomes) for observation in observations)
    law = np.zeros((len(observations), most_releases), np.int64)
    counted = np.zeros((len(observations), most_outcomes, most_releases), np.int64)
    for t, observation in enumerate(observations):
        law[t, : len(observation.mechanisms)] = [laws[mechanism] for mechanism in observation.mechanisms]
        for outcome, sensors in enumerate(observation.outcomes):
            counted[t, outcome, list(sensors)] = 1
    return _with_laws(
        np.array([len(observation.mechanisms) for observation in observations]),
        np.array([len(observation.outcomes) for observation in observations]),
        law,
        counted,
        [_law(mechanism) for mechanism in laws],
    )


def noise_values(mechanisms: Sequence[Mechanism]) -> ValueTables:
    """What the noise of these mechanisms shows about one person, one law each, in their order."""
    nothing = np.zeros(0, np.int64)
    table = np.zeros((0, 0), np.int64)
    laws = [_law(mechanism) for mechanism in mechanisms]
    return value_tables(_with_laws(nothing, nothing, table, table[np.newaxis], laws))


def _with_laws(
    releases: NDArray[np.int64],
    outcomes: NDArray[np.int64],
    law: NDArray[np.int64],
    counted: NDArray[np.int64],
    laws: Sequence[NoiseLaw],
) -> ReleasedSteps:
    """Join the laws into flat tables; without any release there is one law that is never drawn."""
    probabilities = [found.probabilities for found in laws] or [np.ones(1)]
    starts = np.array([found.first for found in laws] or [0], np.int64)
    first = np.concatenate([[0], np.cumsum([len(each) for each in probabilities])]).astype(np.int64)
    value = np.concatenate([np.arange(len(each)) for each in probabilities])
    weight = np.concatenate(probabilities)
    tables = alias_tables(first, value, weight)
    return ReleasedSteps(releases, outcomes, law, counted, starts, log(weight), tables)


def _law(mechanism: Mechanism) -> NoiseLaw:
    law = mechanism.noise_law()
    assert law is not None, "observations leave suppressed sensors out"
    return law
