"""What a noised count reveals about a person who can be counted more than once.

The channel is ``Y = n + Z`` with a person's own count ``n`` in ``0..L`` and ``Z`` an integer noise, everybody
else's counts being known.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

_NUMERIC_MARGIN = 1e-11  # relative, of the sums of logarithms below
_ROUNDING = 1e-15  # relative, of a sum of probabilities by math.fsum and of the probabilities themselves


def shift_probability(noise: NDArray[np.float64], shift: int) -> float:
    """Largest probability of ``shift`` consecutive values of ``noise`` (n,), rounded up.

    For a unimodal noise it is the total variation between the noise and itself shifted by ``shift``, and all
    shifts ``0..shift`` of the noise have the rest, one minus it, in common: over a run of shifts a unimodal
    law is smallest at one of the run's two ends. For a noise with several modes, ``shift`` times the total
    variation of a shift by one, which bounds what they do not have in common.
    """
    steps = np.diff(np.concatenate(([0.0], noise, [0.0])))
    falls = np.flatnonzero(steps < 0.0)
    if falls.size and (steps[falls[0] :] > 0.0).any():
        found = shift * math.fsum(np.maximum(steps, 0.0))
    else:
        found = _largest_run(noise, shift)
    return min(1.0, found * (1.0 + _ROUNDING))


def _largest_run(noise: NDArray[np.float64], length: int) -> float:
    """The largest sum of ``length`` consecutive probabilities of a unimodal law."""
    first = last = int(np.argmax(noise))
    while last - first + 1 < min(length, noise.size):  # the larger neighbour belongs to it
        if last + 1 == noise.size or (first > 0 and noise[first - 1] >= noise[last + 1]):
            first -= 1
        else:
            last += 1
    return math.fsum(noise[first : last + 1])


def own_count_information(law: NDArray[np.float64], noise: NDArray[np.float64]) -> float:
    """``I(n; n + Z)`` nats for an own count of law ``law`` (L + 1,) and a noise ``noise`` (n,), exactly.

    Sums ``x - ln(1 + x)`` of the relative difference ``x`` of the mixture from each shifted noise: it is
    never negative, so nothing cancels.
    """
    counts = np.flatnonzero(law > 0.0)
    mixture = np.zeros(noise.size + law.size - 1)
    for count in counts:
        mixture[count : count + noise.size] += law[count] * noise
    total = 0.0
    for count in counts:
        seen = mixture[count : count + noise.size]
        possible = noise > 0.0
        excess = (seen[possible] - noise[possible]) / noise[possible]
        own = float((noise[possible] * (excess - np.log1p(excess))).sum())
        mixture_outside = mixture.copy()
        mixture_outside[count : count + noise.size][possible] = 0.0
        outside = float(mixture_outside.sum())  # the changes sum to minus this mass
        total += float(law[count]) * (own + outside)
    return max(0.0, min(total * (1.0 + _NUMERIC_MARGIN), float(entr(law[counts]).sum())))
