"""Whether people's moves surprise as much as their priors say they should."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.attacks import own_places
from accounting.audit.calibration.chosen_horizons import RecordedPeople
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from models.numerics import elementwise
from models.priors import ChainView, Population


@dataclass(frozen=True, slots=True)
class Sharpness:
    """Surprise of recorded moves, ``-ln P(x'|x)``, against the entropy of the rows they left.

    ``surprise`` and ``expected`` are nats a move over ``moves``; ``z`` is their difference in standard
    deviations that follow from the rows (positive: people surprise more than the priors say, which are too
    sharp), ``z_by_person`` with the spread between people instead; None where nothing varies. ``unknown``
    moves lead to where the prior says one cannot go, or start at a place it does not know: their surprise is
    infinite, so they are counted apart.
    """

    moves: int
    unknown: int
    surprise: float
    expected: float
    z: float | None
    z_by_person: float | None


class _Person(NamedTuple):
    """Sums over the moves of one person."""

    moves: int
    unknown: int
    surprise: float
    expected: float
    variance: float


def sharpness(population: Population, recorded: RecordedPeople) -> Sharpness:
    """The sum of ``-ln P(x'|x) - H(P(.|x))`` is a martingale under the priors: its z over all moves."""
    people = [
        _one_person(population.chain(position), places, recorded.first_slot)
        for position, places in zip(recorded.positions.tolist(), recorded.places, strict=True)
    ]
    sums = np.array(people, dtype=np.float64).reshape(-1, len(_Person._fields))
    moves, unknown, surprise, expected, variance = sums.sum(axis=0).tolist()
    spread = float(((sums[:, 2] - sums[:, 3]) ** 2).sum())
    return Sharpness(
        moves=int(moves),
        unknown=int(unknown),
        surprise=surprise / moves if moves else 0.0,
        expected=expected / moves if moves else 0.0,
        z=(surprise - expected) / sqrt(variance) if variance > 0.0 else None,
        z_by_person=(surprise - expected) / sqrt(spread) if spread > 0.0 else None,
    )


def _one_person(chain: ChainView, places: NDArray[np.int32], first_slot: int) -> _Person:
    """The moves between successive known steps."""
    known = (places[:-1] >= 0) & (places[1:] >= 0)
    own = own_places(chain, places)
    origin, target = own[:-1][known], own[1:][known]
    slot = (first_slot + np.flatnonzero(known)) % chain.start.shape[0]
    rows = np.stack([dense_matrix(chain, k) for k in range(chain.start.shape[0])])
    probability = np.where((origin >= 0) & (target >= 0), rows[slot, origin, target], 0.0)
    possible = probability > 0.0
    left = rows[slot[possible], origin[possible]]
    nats = -elementwise.log(np.where(left > 0.0, left, 1.0))
    entropy = (left * nats).sum(axis=1)
    variance = (left * nats**2).sum(axis=1) - entropy**2
    return _Person(
        int(possible.sum()),
        int((~possible).sum()),
        float(-elementwise.log(probability[possible]).sum()),
        float(entropy.sum()),
        float(np.maximum(variance, 0.0).sum()),
    )
