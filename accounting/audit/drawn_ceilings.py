"""How sure a ceiling is where priors were fitted to few data: its mean and an upper quantile over draws.

A plug-in ceiling is that of the mean chain, and the mean chain is not what is known: whoever knows the
person's own chain may do better, on average, than the ceiling of the mean. The mean of the ceilings of chains
drawn from the posterior bounds the success, averaged over it, of any adversary who knows the person's chain,
and so of one who knows only the data. Figures with an error of drawing, never certificates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from accounting.bounds import Effort, certify, question
from accounting.exceptions import EffortError
from accounting.exposure import Exposure, baseline, check_mistakes
from accounting.numerics import mean_interval
from models.priors import Evidence, Population, posterior_draws
from models.releases import Schedule

LEVEL = 0.9
"""Of the credible ceiling: so likely is a person's own ceiling not above it, given the data."""
_CONFIDENCE = 0.95  # of both intervals


@dataclass(frozen=True, slots=True)
class PosteriorCeiling:
    """Ceilings of ``draws`` chains that the data could have given; intervals hold with 95 % confidence.

    ``mean`` is their mean, ``mean_low..mean_high`` the interval for that of all such chains. ``credible`` is
    their 90 % quantile, the upper of two neighbours, and ``credible_high`` is above that of all such chains
    (1 where the draws are too few to say).
    """

    draws: int
    mean: float
    mean_low: float
    mean_high: float
    credible: float
    credible_high: float


def posterior_ceiling(
    population: Population,
    person: int,
    schedule: Schedule,
    mistakes: int,
    evidence: Evidence,
    *,
    draws: int = 50,
    effort: Effort | None = None,
) -> PosteriorCeiling:
    """The ceilings of the person's posterior under a schedule; the chains follow from the effort's seed
    and the person's name.

    Each draw starts where it settles, and its ceiling is certain.
    :class:`~accounting.exceptions.EffortError` below two draws.
    """
    if draws < 2:
        raise EffortError("draws from the posterior must be at least 2", draws, "take 50")
    check_mistakes(mistakes, len(schedule.steps))
    effort = effort or Effort()
    chains = posterior_draws(population, person, evidence, draws, effort.seed)
    certain = replace(effort, draws=0)
    return summary_of(
        np.array([_ceiling(chains, number, schedule, mistakes, certain) for number in range(draws)])
    )


def summary_of(ceilings: NDArray[np.float64]) -> PosteriorCeiling:
    """Mean and quantile with their errors, of ceilings in the order in which they were drawn."""
    draws, ranked = ceilings.size, np.sort(ceilings)
    around = mean_interval(ceilings, 1.0 - _CONFIDENCE)
    ranks = np.arange(1, draws + 1)
    # The r-th smallest is below the quantile if at least r draws are.
    unlikely = ranks[bdtrc(ranks - 1.0, draws, LEVEL) <= 1.0 - _CONFIDENCE]
    return PosteriorCeiling(
        draws=draws,
        mean=float(ceilings.mean()),
        mean_low=around.low,
        mean_high=around.high,
        credible=float(ranked[min(draws, ceil(LEVEL * (draws + 1))) - 1]),
        credible_high=float(ranked[unlikely[0] - 1]) if unlikely.size else 1.0,
    )


def _ceiling(chains: Population, number: int, schedule: Schedule, mistakes: int, effort: Effort) -> float:
    """The certified bound of one chain, as an audit computes it."""
    exposure = Exposure.of(chains.chain(number), schedule, chains.location_count, chains.initial(number))
    return certify(question(exposure, mistakes, effort), baseline(exposure, mistakes).success).value
