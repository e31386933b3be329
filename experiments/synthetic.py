"""The synthetic chains of Koga, Meehan, Chaudhuri, "Measuring Privacy Loss in Distributed Spatio-Temporal
Data", section 4.1: places on a line, one sensor a step at a random place, stationary start.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from accounting.exposure import Exposure
from models.mechanisms import Mechanism, parse
from models.priors import MovementPrior
from models.releases import Schedule, SensorRegistry, SensorRelease, StepSchedule

RAW = parse("raw", {})
PLACES = 100
STEPS = 10
MISTAKES = 5
TAU = 0.1


@lru_cache(maxsize=16)
def koga_prior(places: int, tau: float = TAU) -> MovementPrior:
    """``P[x, y]`` proportional to ``exp(-|x - y| / (tau M))``, stationary start."""
    distance = np.abs(np.arange(places)[:, np.newaxis] - np.arange(places))
    weight = np.exp(-distance / (tau * places))
    return MovementPrior.from_dense("synthetic", weight / weight.sum(axis=1, keepdims=True))


def random_sensors(places: int, steps: int, seed: int) -> list[int]:
    """One place a step, uniformly.

    The same seed gives the same relative positions for any number of places, and a longer schedule begins
    with the shorter one: a curve then changes because of its parameter alone.
    """
    positions = np.random.default_rng(seed).random(steps)
    return [int(position * places) for position in positions]


def koga_exposure(
    places: int = PLACES, steps: int = STEPS, *, seed: int = 0, mechanism: Mechanism = RAW, tau: float = TAU
) -> Exposure:
    """One synthetic person under one random schedule."""
    registry = SensorRegistry.one_per_location([str(place) for place in range(places)])
    released = tuple(
        StepSchedule(step, (SensorRelease(registry.sensors[sensor], mechanism),))
        for step, sensor in enumerate(random_sensors(places, steps, seed))
    )
    return Exposure.of(koga_prior(places, tau).chain(), Schedule(released), places)
