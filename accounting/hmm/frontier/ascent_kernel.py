"""A whole guess made better step by step: each step's place is the best one, given all the others.

A guess ``g`` of a horizon that may be wrong in ``s`` steps wins what is linear in each of its places. With
``w[m, x]`` the mass at ``x`` in step ``t``, evidence included, that made ``m`` mistakes before it, and
``B[m, x]`` what is won from ``x`` behind step ``t`` with ``m`` mistakes left, naming ``x`` wins

    sum_m w[m, x] (B[s - m, x] - B[s - m - 1, x])        (B = 0 below no mistakes)

more than naming nowhere. From the first step to the last the largest of these is taken, and again until a
sweep wins next to nothing: coordinate ascent, which ends in a local maximum, so it starts from several
guesses. Beyond Koga et al. For example two places and two steps, each place likely as the other and never
left, one mistake allowed: the guess (0, 0) wins 1/2; naming 1 in the second step wins everything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.hmm.propagation import predict, retreat
from models.numerics.arrays import Floats, Integers
from models.numerics.jit import jit
from models.priors.chain import LocalChain, slot_of

_MOST_SWEEPS = 16
_LEAST = 1e-9  # of what is won: a sweep that wins less is the last


class AscentMemory(NamedTuple):
    """Memory of one ascent."""

    behind: Floats  # (T, s + 1, K), B
    mass: Floats  # (s + 1, K), w
    moved: Floats  # (s + 1, K)
    gain: Floats  # (K,)


@jit
def new_ascent_memory(steps: int, mistakes: int, places: int) -> AscentMemory:
    """Memory for horizons of this size."""
    rows = mistakes + 1
    return AscentMemory(
        np.empty((steps, rows, places)), np.empty((rows, places)), np.empty((rows, places)), np.empty(places)
    )


@jit
def _look_behind(person: LocalChain, weight: Floats, guess: Integers, memory: AscentMemory) -> None:
    """Fill ``B`` of every step."""
    behind, value = memory.behind, memory.gain
    steps, rows, places = behind.shape
    behind[steps - 1] = 1.0
    for t in range(steps - 1, 0, -1):
        for m in range(rows):
            for x in range(places):
                value[x] = behind[t, m - 1, x] * weight[t, x] if m > 0 else 0.0
            value[guess[t]] = behind[t, m, guess[t]] * weight[t, guess[t]]
            retreat(person.chain, slot_of(person, t - 1), value, behind[t - 1, m])


@jit
def _choose(memory: AscentMemory, t: int) -> int:
    """The best place of one step; ties at the lowest index."""
    gain, behind, mass = memory.gain, memory.behind, memory.mass
    mistakes = mass.shape[0] - 1
    gain[:] = 0.0
    for m in range(mistakes + 1):
        for x in range(gain.size):
            less = behind[t, mistakes - m - 1, x] if m < mistakes else 0.0
            gain[x] += mass[m, x] * (behind[t, mistakes - m, x] - less)
    return int(gain.argmax())


@jit
def _sweep(person: LocalChain, weight: Floats, guess: Integers, memory: AscentMemory) -> float:
    """One round of choices; what the guess wins then."""
    mass, moved = memory.mass, memory.moved
    rows, places = mass.shape
    _look_behind(person, weight, guess, memory)
    mass[:] = 0.0
    mass[0] = person.start
    for t in range(guess.size):
        for m in range(rows):
            for x in range(places):
                mass[m, x] *= weight[t, x]
        guess[t] = _choose(memory, t)
        right = guess[t]
        for m in range(rows - 1, -1, -1):
            for x in range(places):
                if x != right:
                    mass[m, x] = mass[m - 1, x] if m > 0 else 0.0
        if t + 1 < guess.size:
            for m in range(rows):
                predict(person.chain, slot_of(person, t), mass[m], moved[m])
            mass[:] = moved
    return mass.sum()


@jit
def ascend(person: LocalChain, weight: Floats, guess: Integers, memory: AscentMemory) -> float:
    """Improve ``guess`` (T,) of a horizon with evidence ``weight`` (T, K); the mass it wins then."""
    won = _sweep(person, weight, guess, memory)
    for _ in range(_MOST_SWEEPS - 1):
        before, won = won, _sweep(person, weight, guess, memory)
        if won <= before * (1.0 + _LEAST):
            break
    return won
