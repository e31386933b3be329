"""How likely a guess from the prior alone is: ``q >= max_xhat Pr[d(X, xhat) <= s]``."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from accounting.exposure.exposure import Exposure


@dataclass(frozen=True, slots=True)
class PriorGuess:
    """Upper bounds on the success of any guess from the prior alone, at most 1.

    ``koga`` is Koga et al. eq. (5), None where subset maxima are too expensive; ``best`` the smallest of it,
    ``C(T, s) A_{T-s}``, Markov's inequality and the frontier search.
    """

    koga: float | None
    best: float


def prior_guess(exposure: Exposure, mistakes: int) -> PriorGuess:
    """``q`` of one person's horizon; :class:`~accounting.exceptions.HorizonError` unless ``0 <= s < T``."""
    bounds = exposure.prior_constants(mistakes).guess
    koga = None if bounds.koga == inf else min(1.0, bounds.koga)
    return PriorGuess(koga, min(1.0, *bounds))
