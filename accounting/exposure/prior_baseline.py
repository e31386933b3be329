"""What anyone can do without the releases: the exact success of the best guess from the prior alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.exposure import Exposure
from accounting.exposure.prior_constants_kernel import (
    CONSTANT_GUESS,
    FRONTIER_GUESS,
    MAP_GUESS,
    MARGINAL_GUESS,
)

GUESS_NAMES = {
    MAP_GUESS: "prior",
    MARGINAL_GUESS: "marginal",
    CONSTANT_GUESS: "constant",
    FRONTIER_GUESS: "frontier",
}


@dataclass(frozen=True, slots=True, eq=False)
class BaselineGuess:
    """The best of the most likely path (``"prior"``), the marginals' maxima, the constant guesses, and what
    the frontier search finds (``"frontier"``).

    ``success`` is ``Pr[d(X, guess) <= s]`` exactly; ``guess`` (T,) holds own places.
    """

    success: float
    name: str
    guess: NDArray[np.int64]


def baseline(exposure: Exposure, mistakes: int) -> BaselineGuess:
    """The baseline of one person's horizon; ties go to the earlier in ``GUESS_NAMES``."""
    best = exposure.prior_constants(mistakes).baseline
    return BaselineGuess(float(best.success), GUESS_NAMES[best.kind], best.guess)
