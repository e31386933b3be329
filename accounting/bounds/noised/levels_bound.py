"""The frontier bound of one person's noised horizon: each noised count in a few levels of evidence."""

from __future__ import annotations

from functools import reduce
from math import sqrt

from accounting.bounds.noised.noised_frontier_kernel import SEQUENCES, noised_frontier
from accounting.bounds.patterns import Size, affordable_vectors
from accounting.bounds.patterns.raw_frontier_kernel import frontier_effort
from accounting.bounds.protocol import Bound, Question, Scope
from accounting.exposure import Exposure
from accounting.exposure.step_information import followed_by, nothing_seen_for, seen_step
from accounting.exposure.step_information.seen_steps_kernel import SeenSteps, own_channels

_MOST_OPERATIONS = 2e9  # some seconds of one core


def levels_bound(asked: Question) -> float | None:
    """Of the horizon on its own; None where every count is exact, or where it is too expensive."""
    exposure = asked.exposure
    vectors = min(asked.effort.vectors, _affordable(exposure, asked.mistakes))
    if exposure.is_raw or vectors == 0:
        return None
    chain, hits, marginal = exposure.person.chain, exposure.hits, exposure.marginal
    channels = own_channels(chain, hits, marginal, _seen(exposure), 0, SEQUENCES * vectors)
    laws, effort = exposure.start.reshape(1, -1), frontier_effort(vectors)
    return float(noised_frontier(exposure.person, channels, marginal, laws, asked.mistakes, effort))


def _affordable(exposure: Exposure, mistakes: int) -> int:
    """Vectors whose searches, one for each hit and sequence of levels, stay within the work."""
    size = Size.of(exposure)
    a_search = size.steps * (mistakes + 1) ** 2 * (size.moves + 2 * size.places)
    vectors = int(sqrt(_MOST_OPERATIONS / (SEQUENCES * (size.hits + 1) * a_search)))
    return min(vectors, affordable_vectors(size, mistakes, max(vectors, 1)))


def _seen(exposure: Exposure) -> SeenSteps:
    """What the horizon shows, row by row."""
    observations = exposure.observations
    nothing = nothing_seen_for(len(observations), observations[0].labels.size)
    return reduce(followed_by, map(seen_step, observations), nothing)


LEVELS = Bound(
    "levels",
    idea="below; the frontier bound through noise",
    scope=Scope.NOISED,
    cost="levels of the noised sensor-steps multiplied, up to 8 `vectors`, times a search each",
    compute=levels_bound,
)
