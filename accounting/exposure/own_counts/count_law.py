"""The law of what one person adds to a release over a window, and how well the noise hides it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.exposure import Exposure
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from models.mechanisms import NoiseFamily, revealed_by_shift
from models.noise import miscounted_information, own_count_information
from models.releases import MoveSensor, WindowRelease


@dataclass(frozen=True, eq=False)
class OwnCount:
    """One person's own count in a release.

    ``law`` (L + 1,) has the probability of each value. ``spread`` is how far two values that the person can
    have lie apart; of a device that miscounts ``most_counts``. ``information_nats`` bounds what is published
    says about the movements, exactly ``I(n; Y)`` of a device that counts what it should.
    """

    release: WindowRelease
    law: NDArray[np.float64]
    spread: int
    information_nats: float

    @property
    def is_constant(self) -> bool:
        """Whether the movements make no difference to the count, so that it reveals nothing about them."""
        return int(np.count_nonzero(self.law)) <= 1

    def reveal_probability(self) -> float:
        """Of the noise, for any two values that the person can have."""
        return revealed_by_shift(self.release.mechanism, self.spread)

    def probability_above(self, value: int) -> float:
        """That the own count lies more than ``value`` above the least that is possible."""
        return float(self.law[int(np.flatnonzero(self.law)[0]) + value + 1 :].sum())


def own_count(exposure: Exposure, release: WindowRelease) -> OwnCount:
    """The own count of the person of ``exposure``, whose steps the release's window counts from 0."""
    law = own_count_law(exposure, release)
    possible = np.flatnonzero(law)
    exact_spread = int(possible[-1] - possible[0])
    spread = release.most_counts if release.miscounts else exact_spread
    return OwnCount(release, law, spread, _information(law, release))


def own_count_law(exposure: Exposure, release: WindowRelease) -> NDArray[np.float64]:
    """``Pr[n = k]``, (L + 1,), by a forward recursion over (place, count so far).

    A count that reaches ``L = most_counts`` stays there. O(window L K^2).
    """
    most, sensor = release.most_counts, release.sensor
    reached = np.zeros((most + 1, exposure.place_count))
    reached[0] = exposure.marginal[release.earliest_place]
    if isinstance(sensor, MoveSensor):
        counted = _counted_moves(exposure, sensor)
        for step in range(release.first, release.last + 1):
            reached = _move(reached, dense_matrix(exposure.chain, exposure.slot(step - 1)), counted)
        return np.asarray(reached.sum(axis=1))
    here = np.isin(exposure.chain.places, sensor.locations)
    for step in range(release.first, release.last + 1):
        if step > release.first:
            reached = reached @ dense_matrix(exposure.chain, exposure.slot(step - 1))
        reached[:, here] = _raised(reached[:, here], 1)
    return np.asarray(reached.sum(axis=1))


def _information(law: NDArray[np.float64], release: WindowRelease) -> float:
    """What the release reveals about the own count, from above."""
    mechanism = release.mechanism
    noise = mechanism.noise_law()
    if noise is None:
        return 0.0
    if release.miscounts:
        is_gaussian = mechanism.noise_family is NoiseFamily.DISCRETE_GAUSSIAN
        sigma = (2.0 * mechanism.divergence()) ** -0.5 if is_gaussian else None
        return miscounted_information(law, release.most_counts, noise.probabilities, sigma)
    return own_count_information(law, noise.probabilities)


def _counted_moves(exposure: Exposure, sensor: MoveSensor) -> NDArray[np.int64]:
    """How often the sensor counts each move between own places, (K, K)."""
    place_of = {int(location): place for place, location in enumerate(exposure.chain.places)}
    counted = np.zeros((exposure.place_count, exposure.place_count), dtype=np.int64)
    for start, end, times in sensor.times_counted:
        if start in place_of and end in place_of:
            counted[place_of[start], place_of[end]] = times
    return counted


def _move(
    reached: NDArray[np.float64], matrix: NDArray[np.float64], counted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """One fine move: masses (L + 1, K) by count so far and place."""
    moved = np.zeros_like(reached)
    for times in np.unique(counted):
        moved += _raised(reached @ np.where(counted == times, matrix, 0.0), int(times))
    return moved


def _raised(reached: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """The same masses counted ``times`` more, at most to the last row."""
    if times == 0:
        return reached
    raised = np.zeros_like(reached)
    last = reached.shape[0] - 1
    raised[min(times, last) :] = reached[: last + 1 - min(times, last)]
    raised[last] += reached[last + 1 - min(times, last) :].sum(axis=0)
    return raised
