"""The law of what one person adds to a release over a window, and how well the noise hides it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.exposure import Exposure, entropy_nats
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from models.mechanisms import most_revealed, revealed_by_shift
from models.noise import own_count_information
from models.releases import MoveSensor, WindowRelease


@dataclass(frozen=True, eq=False)
class OwnCount:
    """One person's own count in a release.

    ``law`` (L + 1,) has the probability of each value if the device counts what it should. ``spread`` is how
    far two values that the person can have lie apart; of a device that miscounts ``most_counts``.
    ``information_nats`` bounds what is published says about the movements, exactly ``I(n; Y)`` of a device
    that counts what it should. Where the count ``is_constant`` the movements make no difference to it, so
    that it reveals nothing about them.

    Of a device that miscounts nothing may be concluded from ``law``. One that is down for a part of the
    window misses somebody because of *when* they were counted: what it reads is no function of ``n``, only
    of what is counted in each fine step. Somebody who changes place at every step is counted once in two
    steps for sure; a device that is down in the second reads where they began.
    """

    release: WindowRelease
    law: NDArray[np.float64]
    spread: int
    information_nats: float
    is_constant: bool = False

    def reveal_probability(self) -> float:
        """Of the noise, for any two values that the person can have."""
        return revealed_by_shift(self.release.mechanism, self.spread)

    def probability_above(self, value: int) -> float:
        """That the own count lies more than ``value`` above the least that is possible."""
        return float(self.law[int(np.flatnonzero(self.law)[0]) + value + 1 :].sum())


def own_count(exposure: Exposure, release: WindowRelease) -> OwnCount:
    """The own count of the person of ``exposure``, whose steps the release's window counts from 0."""
    law, mechanism = own_count_law(exposure, release), release.mechanism
    noise = mechanism.noise_law()
    if release.miscounts:
        fine = fine_entropy(exposure, release)
        nats = min(
            revealed_by_shift(mechanism, release.most_counts) * fine,
            most_revealed(mechanism, release.most_counts),
        )
        return OwnCount(release, law, release.most_counts, 0.0 if noise is None else nats, fine == 0.0)
    possible = np.flatnonzero(law)
    nats = 0.0 if noise is None else own_count_information(law, noise.probabilities)
    return OwnCount(release, law, int(possible[-1] - possible[0]), nats, possible.size <= 1)


def fine_entropy(exposure: Exposure, release: WindowRelease) -> float:
    """Bound (nats) on the entropy of what is to be counted in all fine steps of the window together.

    The sum of each step's own entropy; 0 only where the person is counted the same whatever they do.
    """
    sensor, steps = release.sensor, range(release.first, release.last + 1)
    if not isinstance(sensor, MoveSensor):
        here = np.isin(exposure.chain.places, sensor.locations)
        return sum(_entropy_of(exposure.marginal[step], here.astype(np.int64)) for step in steps)
    counted, found = _counted_moves(exposure, sensor), 0.0
    for step in steps:
        moves = dense_matrix(exposure.chain, exposure.slot(step - 1))
        found += _entropy_of(exposure.marginal[step - 1][:, np.newaxis] * moves, counted)
    return found


def _entropy_of(law: NDArray[np.float64], value: NDArray[np.int64]) -> float:
    """The entropy (nats) of a ``value`` of outcomes with this law, of the same shape."""
    mass = np.bincount(value.reshape(-1), law.reshape(-1))
    return entropy_nats(mass.astype(np.float64))


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
