"""Trajectories drawn from habits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.contraction_kernel import dense_matrix
from models.priors import ChainView, Population


def draw_traces(chain: ChainView, first_slot: int, steps: int, draws: int, seed: int) -> NDArray[np.int32]:
    """So many of one person, as locations (draws, steps)."""
    random, cycle = np.random.default_rng(seed), chain.start.shape[0]
    own = np.empty((draws, steps), np.int64)
    for t in range(steps):
        slot = (first_slot + t) % cycle
        if t == 0:
            law = np.broadcast_to(chain.start[slot], (draws, chain.places.size))
        else:
            law = dense_matrix(chain, (slot - 1) % cycle)[own[:, t - 1]]
        below = np.cumsum(law, axis=1)
        own[:, t] = (below <= random.random((draws, 1)) * below[:, -1:]).sum(axis=1)
    return chain.places[own]


def draw_days(population: Population, first_slot: int, steps: int, days: int) -> NDArray[np.int32]:
    """Where everybody is on simulated days, independent of each other, (days, steps, N)."""
    found = np.empty((days, steps, len(population)), np.int32)
    for person in range(len(population)):
        traces = draw_traces(population.chain(person), first_slot, steps, days, seed=1 + person)
        found[:, :, person] = traces
    return found
