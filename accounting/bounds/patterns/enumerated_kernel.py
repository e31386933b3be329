"""The true optimum of a short horizon: every trajectory and every guess near it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import jit


@jit
def guesses_near(steps: int, places: int, mistakes: int, count: int) -> NDArray[np.int64]:
    """All ways to differ in at most ``s`` steps, as shifts modulo ``places``, shape (count, T)."""
    shifts = np.zeros((count, steps), np.int64)
    shift = np.zeros(steps, np.int64)
    changed = 0
    for row in range(1, count):
        # Count up in base ``places``, jumping over numbers with more than ``s`` digits set.
        t = 0
        while True:
            if shift[t] == 0 and changed == mistakes:
                t += 1
            elif shift[t] == 0:
                shift[t] = 1
                changed += 1
                break
            elif shift[t] + 1 < places:
                shift[t] += 1
                break
            else:
                shift[t] = 0
                changed -= 1
                t += 1
        shifts[row] = shift
    return shifts


@jit
def enumerated_optimum(
    paths: NDArray[np.int64],
    probability: NDArray[np.float64],
    seen: NDArray[np.int64],
    places: int,
    shifts: NDArray[np.int64],
) -> float:
    """``sum_y max_xhat Pr[d(X, xhat) <= s, y]``.

    ``paths`` (N, T) in an order in which equal observations ``seen`` (N,) are neighbours. Every path adds its
    probability to each guess near it; what a guess has gathered for an observation only grows, so the largest
    value met on the way is the maximum.
    """
    steps = paths.shape[1]
    gathered = np.zeros(places**steps)
    stamp = np.full(places**steps, -1)
    total = 0.0
    best = 0.0
    for n in range(paths.shape[0]):
        if n > 0 and seen[n] != seen[n - 1]:
            total += best
            best = 0.0
        for row in range(shifts.shape[0]):
            guess = 0
            for t in range(steps):
                place = paths[n, t] + shifts[row, t]
                guess = guess * places + (place - places if place >= places else place)
            if stamp[guess] != seen[n]:
                stamp[guess] = seen[n]
                gathered[guess] = 0.0
            gathered[guess] += probability[n]
            best = max(best, gathered[guess])
    return total + best
