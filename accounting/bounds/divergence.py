"""Binary divergence: always at least as tight as the paper's tight bound."""

from __future__ import annotations

from math import log, log1p

from accounting.numerics import bracket


def binary_divergence_nats(p: float, q: float) -> float:
    """``d(p||q) = p ln(p/q) + (1-p) ln((1-p)/(1-q))`` for ``0 < q < 1``.

    Written with ``p - q`` so that it keeps its digits where the two nearly agree and ``d`` goes like
    ``(p - q)^2``.
    """
    excess = p - q
    inside = p * log1p(excess / q) if p > 0.0 else 0.0
    outside = (1.0 - p) * log1p(-excess / (1.0 - q)) if p < 1.0 else 0.0
    return inside + outside


def divergence_bound(information_nats: float, guess: float) -> float:
    """The root of ``d(p||q) = I`` at or above ``q``, rounded up; ``guess`` is ``q`` in (0, 1].

    Success against an independent copy of the trajectory has probability at most ``q``; data processing of
    the pair (trajectory, releases) to "success" gives ``I >= d(p||q)``. Beyond the paper.
    """
    if guess >= 1.0 or information_nats >= -log(guess):
        return 1.0
    if information_nats <= 0.0:
        return guess
    return bracket(lambda p: binary_divergence_nats(p, guess) <= information_nats, guess, 1.0).first_false
