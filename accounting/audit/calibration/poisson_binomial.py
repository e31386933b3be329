"""How many of several independent guesses are right, where each is right with a probability of its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class TailProbabilities(NamedTuple):
    """``Pr[N >= hits]`` and ``Pr[N <= hits]``: p-values for more hits than predicted, and for fewer."""

    higher: float
    lower: float


def hits_law(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """``Pr[N = k]`` for ``k = 0..n``, exactly: the Poisson binomial law, one guess after the other."""
    law = np.zeros(probabilities.size + 1)
    law[0] = 1.0
    for guesses, probability in enumerate(probabilities.tolist(), start=1):
        hit = law[:guesses] * probability
        law[:guesses] *= 1.0 - probability
        law[1 : guesses + 1] += hit
    return law


def tail_probabilities(probabilities: NDArray[np.float64], hits: int) -> TailProbabilities:
    """How surprising so many hits are, in both directions."""
    law = hits_law(probabilities)
    return TailProbabilities(min(1.0, float(law[hits:].sum())), min(1.0, float(law[: hits + 1].sum())))
