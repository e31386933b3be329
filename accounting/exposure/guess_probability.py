"""How likely a guess from the prior alone is: ``q >= max_xhat Pr[d(X, xhat) <= s]``."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.exposure.exposure import Exposure, check_mistakes
from accounting.exposure.prior_constants_kernel import (
    GuessBounds,
    gaps_affordable,
    guess_bounds,
    markov_guess,
)
from accounting.hmm.propagation import gap_matrices


@dataclass(frozen=True, slots=True)
class PriorGuess:
    """Upper bounds on the success of any guess from the prior alone, at most 1.

    ``koga`` is Koga et al. eq. (5), None where subset maxima are too dear; ``best`` the smallest of it,
    ``C(T, s) A_{T-s}`` and Markov's inequality.
    """

    koga: float | None
    best: float


def prior_guess(exposure: Exposure, mistakes: int) -> PriorGuess:
    """``q`` of one person's horizon; :class:`~accounting.exceptions.HorizonError` unless ``0 <= s < T``."""
    check_mistakes(mistakes, exposure.steps)
    slots = exposure.chain.start.shape[0]
    if not gaps_affordable(exposure.place_count, slots, exposure.steps, mistakes):
        return PriorGuess(None, min(1.0, markov_guess(exposure.marginal, mistakes)))
    gaps = gap_matrices(exposure.chain, exposure.first_slot, min(slots, exposure.steps), mistakes + 1)
    bounds = GuessBounds(*guess_bounds(gaps, exposure.marginal, mistakes, True))
    return PriorGuess(min(1.0, bounds.koga), min(1.0, *bounds))
