"""The map of the simulated city: twelve quarters on a plane, each with homes, work and places to go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

QUARTERS = {  # position in kilometres from the centre
    "Old Town": (0.0, 0.0),
    "Market": (0.8, 0.5),
    "Station": (-0.9, 0.4),
    "Harbour": (0.4, -1.9),
    "University": (-1.6, 1.5),
    "Mill": (2.1, -0.6),
    "Garden": (1.7, 2.0),
    "River": (-2.2, -1.0),
    "Hill": (-0.2, 3.1),
    "Meadow": (3.4, 1.1),
    "Abbey": (-3.5, 0.8),
    "Lake": (-1.4, -3.2),
}
KINDS = ("homes north", "homes south", "offices", "shops", "park", "restaurants", "sports", "station")
HOMES = ("homes north", "homes south")
SENSOR_KINDS = (("station",), ("shops",), ("offices",), ("restaurants",), ("park",), ("sports",), HOMES)


@dataclass(frozen=True)
class CityMap:
    """Named locations with a kind and a position; index ``i`` is the location's index everywhere."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    position_km: NDArray[np.float64]  # (M, 2)

    def of_kind(self, *kinds: str) -> NDArray[np.int32]:
        """Indices of the locations of these kinds, increasing."""
        return np.flatnonzero(np.isin(np.array(self.kinds), kinds)).astype(np.int32)

    def distance_km(self, origin: NDArray[np.int32], to: NDArray[np.int32]) -> NDArray[np.float64]:
        """Distances (len(origin), len(to)) as the crow flies."""
        difference = self.position_km[origin][:, None, :] - self.position_km[to][None, :, :]
        return np.asarray(np.hypot(difference[..., 0], difference[..., 1]))


def city_map() -> CityMap:
    """The one map every simulated city shares; only its people differ from seed to seed."""
    names, kinds, positions = [], [], []
    for quarter, (east, north) in QUARTERS.items():
        for number, kind in enumerate(KINDS):
            angle = 2.0 * np.pi * number / len(KINDS)
            names.append(f"{quarter} {kind}")
            kinds.append(kind)
            positions.append((east + 0.3 * np.cos(angle), north + 0.3 * np.sin(angle)))
    return CityMap(tuple(names), tuple(kinds), np.array(positions))


def sensor_locations(places: CityMap, crowd: NDArray[np.float64], count: int) -> tuple[int, ...]:
    """Where a city would put ``count`` sensors: at the busiest places of each kind, homes included.

    ``crowd`` (M,) is the number of people expected at each location over the day. Kinds take turns, so one
    sensor in seven looks at homes: those are the ones that matter most to the people who live there.
    """
    ranked = [_busiest_first(places.of_kind(*kinds), crowd) for kinds in SENSOR_KINDS]
    rounds = max(len(locations) for locations in ranked)
    in_turn = [
        int(locations[turn]) for turn in range(rounds) for locations in ranked if turn < len(locations)
    ]
    return tuple(sorted(in_turn[:count]))


def _busiest_first(among: NDArray[np.int32], crowd: NDArray[np.float64]) -> NDArray[np.int32]:
    return among[np.argsort(-crowd[among], kind="stable")]
