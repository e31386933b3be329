"""The guess of the frontier search, made better step by step, for each pattern of hits that matters."""

from __future__ import annotations

import numpy as np

from accounting.attacks.exact_law_kernel import WonByPattern
from accounting.bounds.patterns.segments_kernel import Nodes
from accounting.hmm.frontier.ascent_kernel import ascend, new_ascent_memory
from accounting.hmm.frontier.search_kernel import best_guess
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import jit
from models.priors.chain import LocalChain

SEARCHED_FROM = 3  # guesses each pattern's ascents begin with
_VECTORS = 2  # of the search that finds one of them
_MOST_CONSTANTS = 32  # that the ascents of the patterns that matter most begin with, too


@jit
def _follow(
    nodes: Nodes,
    unseen: Floats,
    path: Integers32,
    places: Integers32,
    pattern: Integers,
    weight: Floats,
    guess: Integers,
) -> None:
    """Fill the evidence ``weight`` (T, K) of one pattern and two guesses for it, the first rows of ``guess``.

    Between two hits the guesses are those of MAP (``path``) and of marginals (``places``).
    """
    weight[:] = unseen
    for i in range(1, pattern.size):
        a, b = pattern[i - 1], pattern[i]
        if b < 0:
            return
        for t in range(nodes.time[a] + 1, nodes.time[b]):
            guess[0, t], guess[1, t] = path[a, b, t], places[a, b, t]
        if nodes.place[b] >= 0:
            t = nodes.time[b]
            weight[t] = 0.0
            weight[t, nodes.place[b]] = 1.0
            guess[0, t] = guess[1, t] = nodes.place[b]


@jit
def searched_success(
    person: LocalChain,
    won: WonByPattern,
    nodes: Nodes,
    unseen: Floats,
    path: Integers32,
    likeliest: Integers32,
    mistakes: int,
    least: float,
) -> float:
    """Success of the best guess found for each pattern; those that win less than ``least`` are not searched.

    ``won`` is the success of the better of MAP and marginals, which guess ``path`` and ``likeliest`` (n, n,
    T) between two hits; no pattern ends below it. ``unseen`` (T, K) is 0 where a hit would have been seen.
    Constant guesses are tried for patterns that win so much more that all of these together take no longer.
    """
    steps, places = unseen.shape
    constants = min(places, _MOST_CONSTANTS)
    least_for_constants = least * max(1.0, constants / SEARCHED_FROM)  # of others there is no evidence
    weight = np.empty((steps, places))
    guess = np.zeros((SEARCHED_FROM, steps), np.int64)
    memory = new_ascent_memory(steps, mistakes, places)
    total = 0.0
    for i in range(won.success.size):
        best = won.success[i]
        if best >= least:
            _follow(nodes, unseen, path, likeliest, won.pattern[i], weight, guess)
            best_guess(person, weight, mistakes, _VECTORS, guess[2])
            for j in range(SEARCHED_FROM):
                best = max(best, ascend(person, weight, guess[j], memory))
        if won.success[i] >= least_for_constants:
            for j in range(constants):
                guess[0] = j * places // constants
                best = max(best, ascend(person, weight, guess[0], memory))
        total += best
    return total
