"""Relative entropy without cancellation, and the success that binary divergence allows, never too small."""

from __future__ import annotations

import numpy as np

from models.numerics.jit import jit

_NEARLY_NOTHING = 1e-12  # information, relative to the guess
ROOT_MARGIN = 1e-9  # what rounding may take from a root, relative
_LAST_BITS = 1e-14  # what rounding may take from the root of a sum of squares of differences


@jit
def relative_entropy_term(q: float, p: float) -> float:
    """``q ln(q / p) - q + p``, never negative; their sum over a law is its relative entropy."""
    if p <= 0.0:
        return np.inf if q > 0.0 else 0.0
    if q <= 0.0:
        return p
    change = (q - p) / p
    if -0.5 <= change <= 1.0:
        return max(0.0, p * ((1.0 + change) * np.log1p(change) - change))
    # Nothing cancels; 1 + change would be 0 for q below p's last bit, and infinite for p far below q.
    return max(0.0, q * (np.log(q) - np.log(p)) + (p - q))


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


@jit
def most_moved(information: float) -> float:
    """``sqrt(I / 2)``: how much information moves the probability of any event on average, never too small.

    Pinsker for the total variation, Jensen for the mean. Exactly 0 for no information.
    """
    if information <= 0.0:
        return 0.0
    return float(np.sqrt(0.5 * information)) * (1.0 + ROOT_MARGIN) + _LAST_BITS
