"""Zones of a city: where they are, and where one goes from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from models.exceptions import PersonaError
from models.fitting.personas.day_types import Activity
from models.numerics.elementwise import exp

_EARTH_KM = 6371.0088
_CHUNK = 256  # zones whose distances to all others are in memory at once


@dataclass(frozen=True, eq=False)
class Zones:
    """Zones by name, with ``position_km`` (Z, 2), east and north; ``is_placed`` (Z,) where it is known."""

    names: tuple[str, ...]
    position_km: NDArray[np.float64]
    is_placed: NDArray[np.bool_]

    @classmethod
    def on_plane(
        cls, names: Sequence[str], east_km: Sequence[float | None], north_km: Sequence[float | None]
    ) -> Zones:
        """Zones on a map in kilometres; None where a zone's position is not known."""
        both = list(zip(east_km, north_km, strict=True))
        placed = [None not in pair for pair in both]
        pairs = [(east or 0.0, north or 0.0) for east, north in both]
        at = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        return cls(tuple(names), at, np.array(placed, dtype=np.bool_))

    def distances_km(self, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """From some zones to all, (n, Z), as the crow flies."""
        apart = self.position_km[chosen][:, None, :] - self.position_km[None, :, :]
        return np.asarray(np.sqrt((apart**2).sum(axis=2)))

    def nearest(self, places: Zones, within_km: float) -> NDArray[np.int64]:
        """The nearest of some places for each zone (Z,); ``len(places.names)`` where none is near enough."""
        found = np.full(len(self.names), len(places.names), dtype=np.int64)
        candidates, mine = np.flatnonzero(places.is_placed), np.flatnonzero(self.is_placed)
        if candidates.size and mine.size:
            tree = cKDTree(places.position_km[candidates])
            apart, best = tree.query(self.position_km[mine])
            best = np.minimum(best, candidates.size - 1)  # none is nearest to what is endlessly far
            is_near = np.isfinite(apart) & (apart <= within_km)
            found[mine] = np.where(is_near, candidates[best], len(places.names))
        return found


def plane_km(
    latitude: Sequence[float | None], longitude: Sequence[float | None], middle: float
) -> tuple[list[float | None], list[float | None]]:
    """East and north of degrees on a map that is true to scale at the latitude ``middle``: for one city."""
    degree = math.radians(1.0) * _EARTH_KM
    along = degree * math.cos(math.radians(middle))
    east = [None if value is None else value * along for value in longitude]
    return east, [None if value is None else value * degree for value in latitude]


@dataclass(frozen=True, eq=False)
class OwnPlaces:
    """Where one goes for an activity from each zone: ``zone`` (Z, K), ``share`` (Z, K) sums to one."""

    zone: NDArray[np.int64]
    share: NDArray[np.float64]


def own_places(
    zones: Zones, activity: Activity, attraction: NDArray[np.float64], anchors: NDArray[np.int64], most: int
) -> OwnPlaces:
    """The ``most`` likely zones of a gravity model, ``p(z) ~ attraction(z) exp(-distance / reach)``.

    Zones that are no one's anchor, whose position is not known or that nothing attracts from go nowhere else.
    """
    count = len(zones.names)
    if attraction.shape != (count,) or not (attraction >= 0.0).all() or not np.isfinite(attraction).all():
        raise PersonaError(
            f"attraction of {activity.name!r} must be one number of 0 or more for each of {count} zones",
            attraction.shape,
            "correct the table of zones",
        )
    most = min(most, count)
    zone = np.repeat(np.arange(count)[:, None], most, axis=1)
    share = np.zeros((count, most))
    share[:, 0] = 1.0
    pulls = np.where(zones.is_placed, attraction, 0.0)
    from_here = anchors[zones.is_placed[anchors]]
    for first in range(0, from_here.size, _CHUNK):
        chosen = from_here[first : first + _CHUNK]
        apart = zones.distances_km(chosen)
        nearest = np.where(pulls > 0.0, apart, np.inf).min(axis=1, keepdims=True)
        if not np.isfinite(nearest).all():
            break  # nothing attracts at all
        weight = pulls * exp((nearest - apart) / activity.reach_km)
        best = np.argsort(-weight, axis=1, kind="stable")[:, :most]
        likely = np.take_along_axis(weight, best, axis=1)
        zone[chosen] = best
        share[chosen] = likely / likely.sum(axis=1, keepdims=True)
    return OwnPlaces(zone, share)
