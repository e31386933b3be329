"""Monte Carlo attacks on raw counts: between two hits the guess is looked up, nothing is decoded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.simulation.hit_tables_kernel import HitTables
from accounting.attacks.simulation.noised_draws_kernel import note_draw
from accounting.exposure.drawing.random_draws_kernel import Draws, Walker, new_stream, walk
from models.numerics.jit import jit


@jit
def wrong_between(
    guess: NDArray[np.int32], a: int, b: int, begin: int, finish: int, trace: NDArray[np.int32]
) -> int:
    """Mistakes of the guess between nodes ``a`` and ``b`` (times ``begin`` and ``finish``, both excluded)."""
    wrong = 0
    for step in range(begin + 1, finish):
        wrong += guess[a, b, step] != trace[step]
    return wrong


@jit
def mistakes_of_trace(tables: HitTables, guess: NDArray[np.int32], trace: NDArray[np.int32]) -> int:
    """Mistakes the attack makes on one true trace (T,), whose hits it sees."""
    wrong = 0
    a = 0
    begin = -1
    for step in range(trace.size):
        b = tables.node_of[step, trace[step]]
        if b >= 0:
            wrong += wrong_between(guess, a, b, begin, step, trace)
            a, begin = b, step
    return wrong + wrong_between(guess, a, tables.nodes.time.size - 1, begin, trace.size, trace)


@jit
def raw_successes(
    walker: Walker,
    tables: HitTables,
    guesses: NDArray[np.int32],
    blind: NDArray[np.int32],
    mistakes: int,
    draws: Draws,
) -> NDArray[np.int64]:
    """How both attacks go (3, 2) in simulated trajectories.

    ``guesses[attack, a, b, t]`` as in :class:`~accounting.attacks.simulation.hit_tables_kernel.HitTables`,
    ``blind[attack, t]`` without any release.
    """
    stream = new_stream(draws)
    found = np.zeros((3, 2), np.int64)
    trace = np.empty(tables.node_of.shape[0], np.int32)
    for _ in range(draws.number):
        walk(walker, stream, trace)
        for attack in range(guesses.shape[0]):
            wrong = mistakes_of_trace(tables, guesses[attack], trace)
            note_draw(found, attack, wrong, blind, trace, mistakes)
    return found
