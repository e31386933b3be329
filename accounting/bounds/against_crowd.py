"""Certified success of an adversary who does not know where the others are; see ``exposure.crowd``.

Two ways, and whoever knows where the others are does no worse:

- *information*: each count is worth the mean of what it reveals over all that may be revealed of the others.
  Terms add up, and the binary divergence follows.
- *levels*: what is revealed decides how much every count reveals, of all steps at once, so means may not be
  put into a bound on success. But with a probability of at least ``1 - b`` no count that can see the person
  reveals more than ``delta(b)`` (a share of ``b`` for each), and for smaller ``b`` these events are wider. So
  ``(1 - b_1) f(delta(b_1)) + (b_1 - b_2) f(delta(b_2)) + .. + b_k f(1)``, with ``f`` any bound of counts
  erased but for these probabilities.

Beyond the papers: Koga, Meehan and Chaudhuri name this adversary as future work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accounting.bounds.certified import Certified, certify, smallest
from accounting.bounds.certified_horizon import HorizonRisk, horizon_risk
from accounting.bounds.protocol import Effort
from accounting.bounds.registry import question
from accounting.exposure import (
    Exposure,
    horizon_information,
    prior_guess,
    released_information,
    window_of,
)
from accounting.exposure.crowd import LEVELS, CrowdAdversary, StepCrowd, at_level, in_crowd
from accounting.exposure.step_information import observe
from accounting.numerics.divergence_root_kernel import divergence_root
from models.releases import StepSchedule

BY_INFORMATION, BY_LEVELS = "crowd_divergence", "crowd_levels"


@dataclass(frozen=True, slots=True)
class SeenInCrowd:
    """Steps, what each hides among, and from whom."""

    steps: Sequence[StepSchedule]
    crowds: Sequence[StepCrowd]
    adversary: CrowdAdversary

    def until(self, steps: int) -> SeenInCrowd:
        """The first so many steps."""
        return replace(self, steps=self.steps[:steps], crowds=self.crowds[:steps])

    def for_information(self, exposure: Exposure) -> Exposure:
        """The person under the steps as this adversary sees them, for bounds on information alone."""
        pairs = zip(self.steps, self.crowds, strict=True)
        return self._under(exposure, [in_crowd(*pair, self.adversary) for pair in pairs])

    def at_level(self, exposure: Exposure, level: float) -> Exposure:
        """The person under counts of which any reveals more with a probability of ``level`` at most."""
        share = level / _power_of_two(counts_that_see(exposure))
        pairs = zip(self.steps, self.crowds, strict=True)
        return self._under(exposure, [at_level(*pair, self.adversary, share) for pair in pairs])

    def of_everything(self, exposure: Exposure) -> Exposure:
        """What whoever knows where the others are sees; with companions no noise is known to hide them."""
        return self.at_level(exposure, 0.0)

    def _under(self, exposure: Exposure, steps: Sequence[StepSchedule]) -> Exposure:
        locations = exposure.observations[0].labels.size
        return exposure.under(tuple(observe(step, locations) for step in steps))


def counts_that_see(exposure: Exposure) -> int:
    """How many counts of the exposure can count the person."""
    found = 0
    for observation, labels, hits in zip(exposure.observations, exposure.labels, exposure.hits, strict=True):
        outcomes = np.unique(labels[hits]).tolist()
        found += len({sensor for outcome in outcomes for sensor in observation.outcomes[outcome]})
    return found


def _power_of_two(count: int) -> int:
    """At least the count: people share what is computed for it."""
    return 1 << max(0, count - 1).bit_length()


def over_levels(ceiling: Callable[[float], float], everything: float) -> float:
    """``(1 - b_1) f(b_1) + .. + b_k f(1)`` of a bound ``ceiling(b)``; ``everything``: of all counts."""
    total, smaller, least = LEVELS[-1] * everything, LEVELS[-1], everything
    for level, larger in zip(reversed(LEVELS), (*reversed(LEVELS[:-1]), 1.0), strict=True):
        least = min(least, ceiling(level))  # who sees less than at this level does no better
        total += (larger - smaller) * least
        smaller = larger
    return total


def certify_in_crowd(
    exposure: Exposure, seen: SeenInCrowd, mistakes: int, effort: Effort, baseline: float
) -> Certified:
    """The smallest ceiling against the crowd adversary, raised to the baseline; holds with certainty."""
    certain = replace(effort, draws=0)
    everything = certify(question(seen.of_everything(exposure), mistakes, certain), baseline)
    found = {BY_INFORMATION: _by_information(exposure, seen, mistakes, certain)}
    if everything.value > baseline:

        def ceiling(level: float) -> float:
            return certify(question(seen.at_level(exposure, level), mistakes, certain), baseline).value

        found[BY_LEVELS] = over_levels(ceiling, everything.value)
    if min(found.values()) >= everything.value:
        return everything
    return smallest(found, baseline, certain)


def horizon_risk_in_crowd(
    exposure: Exposure,
    seen: SeenInCrowd,
    window: tuple[int, int],
    mistakes: int,
    *,
    in_hindsight: bool = False,
    effort: Effort | None = None,
) -> HorizonRisk:
    """Risk of the steps ``first..last`` of a log against the crowd adversary; as ``horizon_risk`` else.

    ``seen`` is the log, whose every step is in ``exposure``. What is revealed of the others is
    revealed of the whole log at once, so history and future enter as they do for
    whoever knows where the others are.
    """
    first, last = window
    shown = exposure.steps if in_hindsight else last + 1
    exposure, seen = exposure.under(exposure.observations[:shown]), seen.until(shown)

    def risk(of: Exposure) -> HorizonRisk:
        least = replace(effort or Effort(), draws=0)
        return horizon_risk(of, first, last, mistakes, in_hindsight=in_hindsight, effort=least)

    everything = risk(seen.of_everything(exposure))
    revealed = horizon_information(seen.for_information(exposure), first, last)
    nats = revealed.in_hindsight if in_hindsight else revealed.at_the_moment
    guess = prior_guess(window_of(exposure, first, last), mistakes).best
    found = {BY_INFORMATION: float(divergence_root(nats, guess))}
    if everything.certified > everything.baseline:
        found[BY_LEVELS] = over_levels(
            lambda level: risk(seen.at_level(exposure, level)).certified, everything.certified
        )
    if min(found.values()) >= everything.certified:
        return everything
    least = smallest(found, everything.baseline, effort or Effort())
    return replace(
        everything,
        certified=least.value,
        by=least.by,
        information_nats=min(nats, everything.information_nats),
    )


def _by_information(exposure: Exposure, seen: SeenInCrowd, mistakes: int, effort: Effort) -> float:
    nats = released_information(seen.for_information(exposure)).best
    return float(divergence_root(nats, question(exposure, mistakes, effort).guess.best))
