"""The guess of the frontier search, made better step by step, for each pattern of hits that matters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.simulation.exact_law_kernel import WonByPattern
from accounting.bounds.patterns.segments_kernel import Nodes
from accounting.hmm.frontier.ascent_kernel import ascend, new_ascent_memory
from accounting.hmm.frontier.search_kernel import best_guess
from models.numerics.jit import jit
from models.priors.chain import LocalChain

SEARCHED_FROM = 3  # guesses each pattern's ascents begin with
_VECTORS = 2  # of the search that finds one of them
_MOST_CONSTANTS = 32  # that the ascents of the patterns that matter most begin with, too


class GuessesBetweenHits(NamedTuple):
    """What MAP and marginals guess between two hits, and where hits are possible."""

    nodes: Nodes
    unseen: NDArray[np.float64]  # (T, K), 0 where a hit would have been seen
    path: NDArray[np.int32]  # (n, n, T)
    places: NDArray[np.int32]  # (n, n, T)


@jit
def _follow(
    guesses: GuessesBetweenHits,
    pattern: NDArray[np.int64],
    weight: NDArray[np.float64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> None:
    """The evidence of one pattern, and the two guesses for it."""
    nodes = guesses.nodes
    weight[:] = guesses.unseen
    for i in range(1, pattern.size):
        a, b = pattern[i - 1], pattern[i]
        if b < 0:
            return
        for t in range(nodes.time[a] + 1, nodes.time[b]):
            first[t], second[t] = guesses.path[a, b, t], guesses.places[a, b, t]
        if nodes.place[b] >= 0:
            t = nodes.time[b]
            weight[t] = 0.0
            weight[t, nodes.place[b]] = 1.0
            first[t], second[t] = nodes.place[b], nodes.place[b]


@jit
def searched_success(
    person: LocalChain, won: WonByPattern, guesses: GuessesBetweenHits, mistakes: int, least: float
) -> float:
    """Success of the best guess found for each pattern; those that win less than ``least`` are not searched.

    Nobody does worse than by the better of MAP and marginals, whose success is ``won``. Constant guesses are
    tried for patterns that win so much more that they take no longer all together.
    """
    steps, places = guesses.unseen.shape
    constants = min(places, _MOST_CONSTANTS)
    least_for_constants = least * constants / SEARCHED_FROM
    weight = np.empty((steps, places))
    guess = np.zeros((SEARCHED_FROM, steps), np.int64)
    memory = new_ascent_memory(steps, mistakes, places)
    total = 0.0
    for i in range(won.success.size):
        best = won.success[i]
        if best >= least:
            _follow(guesses, won.pattern[i], weight, guess[0], guess[1])
            best_guess(person, weight, mistakes, _VECTORS, guess[2])
            for j in range(SEARCHED_FROM):
                best = max(best, ascend(person, weight, guess[j], memory))
        if won.success[i] >= least_for_constants:
            for j in range(constants):
                guess[0] = j * places // constants
                best = max(best, ascend(person, weight, guess[0], memory))
        total += best
    return total
