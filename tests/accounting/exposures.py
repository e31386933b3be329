"""Exposures of small chains to raw and noised schedules, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from accounting.exposure import Exposure
from accounting.exposure.step_information import observe
from models.mechanisms import Gaussian, Mechanism, Raw
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import Case, chain_of

RAW = Raw()


@cache
def gaussian(sigma: float) -> Gaussian:
    """One table a sigma."""
    return Gaussian(sigma)


def step_of(locations: Sequence[int], mechanisms: Sequence[Mechanism]) -> StepSchedule:
    """One sensor a location."""
    pairs = zip(locations, mechanisms, strict=True)
    return StepSchedule(0, tuple(SensorRelease(Sensor(f"s{c}", (c,)), mechanism) for c, mechanism in pairs))


def raw_exposure(
    start: NDArray[np.float64],
    matrices: NDArray[np.float64],
    steps: Sequence[Sequence[int]],
    first_slot: int = 0,
) -> Exposure:
    """Raw sensors at the given locations of each step."""
    schedule = [step_of(locations, [RAW] * len(locations)) for locations in steps]
    return exposure_to(start, matrices, schedule, first_slot)


def exposure_to(
    start: NDArray[np.float64],
    matrices: NDArray[np.float64],
    schedule: Sequence[StepSchedule],
    first_slot: int = 0,
) -> Exposure:
    """Any schedule."""
    observations = tuple(observe(step, len(start)) for step in schedule)
    return Exposure(chain_of(matrices, start), np.asarray(start), first_slot, observations)


def case_exposure(case: Case) -> Exposure:
    """The raw exposure of a random case."""
    steps = [np.flatnonzero(row).tolist() for row in case.labels]
    return raw_exposure(case.start, case.matrices, steps, case.first_slot)


def noised_case(case: Case, sigmas: Sequence[float | None]) -> tuple[Exposure, list[NDArray[np.float64]]]:
    """One sensor of each step, Gaussian or (None) raw, and what each step shows: a channel a step."""
    schedule, channels = [], []
    for row, sigma in zip(case.labels, sigmas, strict=False):
        where = np.flatnonzero(row)[:1].tolist()
        mechanism = RAW if sigma is None else gaussian(sigma)
        schedule.append(step_of(where, [mechanism] * len(where)))
        law = mechanism.noise_law().probabilities
        channel = np.zeros((len(row), law.size + 1))
        channel[:, :-1] = law
        channel[where] = np.roll(channel[where], 1, axis=1)
        # Values this unlikely are merged; the adversary loses less than 1e-9 by it.
        likely = channel.max(axis=0) > 1e-10
        rare = channel[:, ~likely].sum(axis=1, keepdims=True)
        channels.append(np.hstack([channel[:, likely], rare]) if where else np.ones((len(row), 1)))
    return exposure_to(case.start, case.matrices, schedule, case.first_slot), channels


def koga_chain(places: int, tau: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Koga et al.'s synthetic chain ``P[x, x'] ~ exp(-|x - x'| / (tau M))`` with its stationary start."""
    index = np.arange(places)
    weights = np.exp(-np.abs(index[:, None] - index) / (tau * places))
    # Symmetric weights: the stationary law is proportional to the row sums.
    start = weights.sum(1) / weights.sum()
    return start, weights / weights.sum(1, keepdims=True)
