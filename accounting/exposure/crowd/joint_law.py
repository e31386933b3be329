"""The law of what all others together add to a few counts: nothing is told of them, nothing is bounded.

Where few counts are published, and the crowd is not too large, the adversary need be given nothing. Each
person's places, step by step, give a law of how often each count counts the person, over windows and moves,
too; these laws are convolved, with an axis a count. Values that hardly ever come are cut off on the way, and
their probability is kept.

For example two counts of one place in two steps, and ten others who are there with probability 1/2 each and
stay where they are: both counts have the same of them, so whoever comes or leaves in between is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from accounting.exposure.crowd.others import CrowdAdversary
from accounting.exposure.exposure import Exposure
from accounting.exposure.own_counts import law_together, own_window
from models.mechanisms import DrawnPerWindow, shares_noise, truncated_mass
from models.numerics.arrays import Floats, Integers
from models.priors import Population
from models.releases import Counts, Schedule, SensorRelease, WindowRelease, window_release

_MOST_COUNTS = 5
_MOST_PRIORS = 4096
_MOST_PATTERNS = 1 << _MOST_COUNTS  # of own counts
_MOST_CELLS = 1 << 18  # of the law
_MOST_OPERATIONS = 5e8  # half a second of one core
_MOST_VALUES = 1 << 14  # that are told apart, the likeliest; others show which counts the person is in
_RARE = 1e-13  # of the outermost values of an axis
_ROUNDING = 2.0**-50  # relative, of each product and sum


class CountsAmong(NamedTuple):
    """What is published by how often one person is in each count: one number, the first its highest digit."""

    releases: tuple[WindowRelease, ...]
    seen: Floats  # (V, P)
    left_out: float  # of every column, at most


@dataclass(frozen=True, eq=False)
class FewCounts:
    """All that a schedule publishes, in steps counted from its first, and who is in it.

    ``own`` (N, L + 1, ..) has the law of how often each count counts a person of each prior, an axis a count;
    ``people`` (N,) how many live like it.
    """

    releases: tuple[WindowRelease, ...]
    own: Floats
    people: Integers

    @classmethod
    def of(cls, population: Population, schedule: Schedule, adversary: CrowdAdversary) -> FewCounts | None:
        """What a schedule publishes of people who live as their priors say, from its first step on.

        None where there are too many counts or priors, where the adversary knows more than priors and
        counts, where not all move alone, and where a count may say anything else than how often each person
        is counted, with noise of its own. People beyond a persona's whole ones, and strangers, are left out:
        whoever knows how they move does no worse.
        """
        counts = [(t, each) for t, step in enumerate(schedule.steps) for each in step.releases]
        counts = [(t, each) for t, each in counts if each.mechanism.is_released]
        is_few = 1 <= len(counts) <= _MOST_COUNTS and len(population) <= _MOST_PRIORS
        is_plain = all(_is_plain(each) for _, each in counts) and population.draws == 1
        has_holidays = schedule.calendar is not None and bool(schedule.calendar.holidays)
        knows_more = adversary.known > 0 or adversary.companions > 0 or adversary.alone < 1.0
        if not (is_few and is_plain) or has_holidays or knows_more:
            return None
        weights = np.ones(len(population)) if population.weights is None else population.weights
        releases = tuple(_window_of(*each) for each in counts)
        if prod(each.most_counts + 1 for each in releases) > _MOST_PATTERNS:
            return None
        people = np.floor(weights * adversary.least).astype(np.int64)
        own = np.empty((len(population), *(each.most_counts + 1 for each in releases)))
        for number in range(len(population)):
            chain, start = population.chain(number), population.initial(number)
            person = Exposure.of(chain, schedule, population.location_count, start)
            own[number] = law_together(person, [own_window(person, each) for each in releases])
        return cls(releases, own, people)

    def among(self, person: int) -> CountsAmong | None:
        """What is published of one of those who live like prior ``person``, among all others.

        None where that is too much work.
        """
        people = self.people.copy()
        people[person] -= 1
        law, left_out, spent = np.ones((1,) * len(self.releases)), 0.0, 0
        for own in np.repeat(self.own, np.maximum(people, 0), axis=0):
            law, cut = _trimmed(_sum(law, own))
            left_out += cut
            spent += law.size * own.size
            if spent > _MOST_OPERATIONS or law.size > _MOST_CELLS:
                return None
        for axis, each in enumerate(self.releases):
            noise = each.mechanism.noise_law()
            assert noise is not None
            left_out += truncated_mass(each.mechanism)
            law = _sum(law, noise.probabilities.reshape([-1 if k == axis else 1 for k in range(law.ndim)]))
            if law.size > _MOST_CELLS:
                return None
        law *= 1.0 + _ROUNDING * (int(people.sum()) + 9) * 2**law.ndim
        most = [each.most_counts for each in self.releases]
        return CountsAmong(self.releases, _by_own(law, most), left_out)


def _window_of(step: int, release: SensorRelease) -> WindowRelease:
    """A count of a schedule's step as one over the steps that it counts in."""
    if release.sensor.window is not None:
        return window_release(release, step)
    return WindowRelease(release.sensor, step, step, 1, release.mechanism)


def _is_plain(release: SensorRelease) -> bool:
    """Whether it says how often everybody is counted, once, with noise of its own."""
    sensor, mechanism = release.sensor, release.mechanism
    counts_all = sensor.counts is not Counts.OCCUPIED and sensor.part_of is None
    is_of_places = sensor.most_counts == 1 if sensor.window is None else not sensor.window.miscounts
    is_own = not shares_noise(mechanism) and not isinstance(mechanism, DrawnPerWindow)
    has_law = is_own and mechanism.noise_law() is not None
    return counts_all and is_of_places and not sensor.corrections and has_law


def _sum(one: Floats, other: Floats) -> Floats:
    """The law of a sum, an axis a count."""
    found = np.zeros([a + b - 1 for a, b in zip(one.shape, other.shape, strict=True)])
    for where in product(*map(range, other.shape)):
        if other[where] > 0.0:
            there = tuple(slice(k, k + size) for k, size in zip(where, one.shape, strict=True))
            found[there] += other[where] * one
    return found


def _trimmed(law: Floats) -> tuple[Floats, float]:
    """Without outermost values that hardly ever come, and their probability."""
    cut = 0.0
    for axis in range(law.ndim):
        along = law.sum(axis=tuple(k for k in range(law.ndim) if k != axis))
        likely = np.flatnonzero(along >= _RARE)
        first, last = int(likely[0]), int(likely[-1]) + 1
        cut += float(along[:first].sum() + along[last:].sum())
        law = law[(slice(None),) * axis + (slice(first, last),)]
    return law, cut


def _by_own(law: Floats, most: Sequence[int]) -> Floats:
    """What is published by a person's own counts, each at ``most`` so large, if others add this ``law``."""
    patterns = product(*(range(each + 1) for each in most))
    padded = [np.pad(law, [(n, each - n) for n, each in zip(own, most, strict=True)]) for own in patterns]
    seen = np.stack([each.reshape(-1) for each in padded], axis=1)
    seen = seen[np.argsort(-seen.sum(axis=1), kind="stable")]
    kept, rest = seen[:_MOST_VALUES], seen[_MOST_VALUES:].sum(axis=0)
    return np.concatenate((kept[kept.any(axis=1)], np.diag(rest)[rest > 0.0]))
