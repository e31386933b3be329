"""The success that binary divergence allows for an amount of information, never too small."""

from __future__ import annotations

import numpy as np

from models.numerics.jit import jit

_NEARLY_NOTHING = 1e-12  # information, relative to the guess
ROOT_MARGIN = 1e-9  # what rounding may take from a root, relative


@jit
def divergence_root(information: float, guess: float) -> float:
    """The largest ``p >= q`` with ``d(p||q) <= I``, approached from above so that it never falls short.

    ``d`` is convex in ``p``, hence Newton's iterates from the right stay right of the root. The start is the
    smallest of three closed upper bounds (``d >= p ln(1/q) - ln 2``; Pinsker; ``d >= (p - q)^2 / (2 p)``).
    """
    if guess >= 1.0 or information >= -np.log(guess):
        return 1.0
    if information <= 0.0:
        return guess
    if information < _NEARLY_NOTHING * guess:
        # d(p||q) - I would be lost in rounding; d >= (p - q)^2 / (2 p (1 - q)) is the root to a billionth.
        a = information * (1.0 - guess)
        return min(1.0, (guess + a + np.sqrt(a * (a + 2.0 * guess))) * (1.0 + ROOT_MARGIN))
    p = min(
        (information + np.log(2.0)) / -np.log(guess),
        guess + np.sqrt(0.5 * information),
        guess + information + np.sqrt(information * (information + 2.0 * guess)),
    )
    p = min(p, 1.0 - 1e-16)
    log_missed = np.log1p(-guess)
    for _ in range(60):
        outside = np.log1p(-p) - log_missed
        slope = np.log(p / guess) - outside
        excess = p * slope + outside - information  # d(p||q) - I
        if slope <= 0.0 or excess <= 1e-13 * information:
            break
        p -= excess / slope
    return min(1.0, p * (1.0 + ROOT_MARGIN) + 1e-300)
