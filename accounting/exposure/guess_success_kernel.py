"""Exact success of a fixed guess: how often the person is where the guess says, step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.renewal_kernel import normalise
from accounting.hmm.propagation import predict
from models.numerics.jit import jit
from models.priors.chain import ChainView


@jit
def guess_success(
    chain: ChainView, start: NDArray[np.float64], first_slot: int, guess: NDArray[np.int64], mistakes: int
) -> float:
    """``Pr[d(X, guess) <= s]`` by the recursion over (mistakes so far, place)."""
    now = np.zeros((mistakes + 1, start.size))
    after = np.zeros_like(now)
    now[0] = start
    for t in range(guess.size):
        if t > 0:
            for m in range(min(t, mistakes) + 1):  # no more mistakes than steps so far
                predict(chain, (first_slot + t - 1) % chain.start.shape[0], now[m], after[m])
            now, after = after, now
        right = guess[t]
        for m in range(min(t + 1, mistakes), -1, -1):
            # Whoever is elsewhere has made one mistake more; with s already made they are out.
            still_right = now[m, right]
            if m > 0:
                now[m] = now[m - 1]
            else:
                now[m] = 0.0
            now[m, right] = still_right
    return min(1.0, now.sum())


@jit
def most_likely_path(
    chain: ChainView, start: NDArray[np.float64], first_slot: int, steps: int
) -> NDArray[np.int64]:
    """The most likely trajectory of the prior (Viterbi), shape (T,); ties go to the lowest index."""
    place_count = start.size
    best = start.copy()
    after = np.empty(place_count)
    origin = np.zeros((steps, place_count), np.int32)
    for t in range(1, steps):
        slot = (first_slot + t - 1) % chain.start.shape[0]
        for y in range(place_count):
            largest = 0.0
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                candidate = best[chain.row[j]] * chain.value[j]
                if candidate > largest:
                    largest = candidate
                    origin[t, y] = chain.row[j]
            after[y] = largest
        best, after = after, best
        normalise(best)
    path = np.empty(steps, np.int64)
    path[steps - 1] = best.argmax()
    for t in range(steps - 1, 0, -1):
        path[t - 1] = origin[t, path[t]]
    return path


@jit
def constant_success(
    gaps: NDArray[np.float64], marginal: NDArray[np.float64], place: int, steps: int, mistakes: int
) -> float:
    """``Pr[at most s steps elsewhere than place]`` from the laws of first visit and of return.

    The guess succeeds when the visit number ``T - s`` comes in time, with at most ``s`` steps missed before
    it; so only returns within ``s + 1`` steps count, and these follow from the diagonals of the gap matrices.
    """
    starts = gaps.shape[0]
    returns = np.empty((starts, mistakes + 1))
    first_visit = np.empty(mistakes + 1)
    for i in range(starts):
        for g in range(mistakes + 1):
            # First return = return, less those that had returned before.
            earlier = 0.0
            for h in range(g):
                earlier += returns[i, h] * gaps[(i + h + 1) % starts, g - h - 1, place, place]
            returns[i, g] = max(0.0, gaps[i, g, place, place] - earlier)
    for o in range(mistakes + 1):
        earlier = 0.0
        for h in range(o):
            earlier += first_visit[h] * gaps[h % starts, o - h - 1, place, place]
        first_visit[o] = max(0.0, marginal[o, place] - earlier)
    missed = first_visit
    for visit in range(1, steps - mistakes):
        later = np.zeros(mistakes + 1)
        for o in range(mistakes + 1):
            for g in range(mistakes + 1 - o):
                later[o + g] += missed[o] * returns[(visit - 1 + o) % starts, g]
        missed = later
    return min(1.0, missed.sum())
