"""How different kinds of people spend a day, hour by hour, as weights over the roles places play for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HOURS = 24

#: Where a role's place is found: kind of location, near which other role, and how far people go for it (km).
ROLES: Mapping[str, tuple[tuple[str, ...], str, float]] = {
    "home": (("homes north", "homes south"), "", 0.0),
    "work": (("offices",), "home", 2.5),
    "lunch": (("restaurants",), "work", 0.6),
    "shop": (("shops",), "home", 0.8),
    "park": (("park",), "home", 1.0),
    "sports": (("sports",), "home", 1.5),
    "evening": (("restaurants",), "home", 2.0),
    "station": (("station",), "home", 0.6),
    "friend": (("homes north", "homes south"), "home", 2.5),
    "round a": (("shops", "restaurants"), "work", 4.0),
    "round b": (("shops", "restaurants"), "work", 4.0),
    "round c": (("offices", "station"), "work", 4.0),
    "round d": (("offices", "station"), "work", 4.0),
    "round e": (("homes north", "homes south"), "work", 4.0),
    "round f": (("homes north", "homes south"), "work", 4.0),
}


@dataclass(frozen=True)
class Habit:
    """One way of life: its share of the city, the roles it knows, and a day as ``(from hour, weights)``.

    A block of hours lasts until the next one begins. ``linger`` is the probability of staying another hour
    where one is wanted anyway; the rest is drawn from the weights of the next hour.
    """

    name: str
    share: float
    roles: tuple[str, ...]
    day: tuple[tuple[int, Mapping[str, float]], ...]
    linger: float

    def hourly_weights(self) -> NDArray[np.float64]:
        """Weights (24, K) of the roles in each hour, rows summing to one."""
        weights = np.zeros((HOURS, len(self.roles)))
        ends = [start for start, _ in self.day[1:]] + [HOURS]
        for (start, block), end in zip(self.day, ends, strict=True):
            for role, weight in block.items():
                weights[start:end, self.roles.index(role)] = weight
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


COMMUTER = Habit(
    "commuter",
    0.52,
    ("home", "work", "lunch", "shop", "sports", "evening", "station"),
    (
        (0, {"home": 0.995, "evening": 0.005}),
        (6, {"home": 0.7, "station": 0.25, "sports": 0.05}),
        (7, {"home": 0.3, "station": 0.4, "work": 0.3}),
        (9, {"work": 0.92, "home": 0.06, "lunch": 0.02}),
        (12, {"work": 0.55, "lunch": 0.4, "shop": 0.05}),
        (14, {"work": 0.93, "home": 0.04, "shop": 0.03}),
        (17, {"work": 0.25, "station": 0.35, "shop": 0.15, "home": 0.25}),
        (19, {"home": 0.6, "sports": 0.15, "evening": 0.2, "shop": 0.05}),
        (22, {"home": 0.9, "evening": 0.1}),
    ),
    0.75,
)
STAYS_PUT = Habit(
    "stays put",
    0.16,
    ("home", "shop", "park", "friend", "evening"),
    (
        (0, {"home": 1.0}),
        (8, {"home": 0.85, "shop": 0.1, "park": 0.05}),
        (13, {"home": 0.87, "park": 0.06, "friend": 0.07}),
        (18, {"home": 0.96, "evening": 0.02, "friend": 0.02}),
        (21, {"home": 1.0}),
    ),
    0.85,
)
ROAMER = Habit(
    "roams",
    0.12,
    ("home", "work", "round a", "round b", "round c", "round d", "round e", "round f", "evening"),
    (
        (0, {"home": 0.99, "evening": 0.01}),
        (6, {"home": 0.5, "work": 0.5}),
        (8, {"work": 0.1, **{f"round {letter}": 0.15 for letter in "abcdef"}}),
        (18, {"work": 0.3, "home": 0.5, "evening": 0.2}),
        (20, {"home": 0.8, "evening": 0.2}),
    ),
    0.2,
)
STUDENT = Habit(
    "student",
    0.12,
    ("home", "work", "lunch", "sports", "evening", "friend"),
    (
        (0, {"home": 0.9, "friend": 0.06, "evening": 0.04}),
        (3, {"home": 0.97, "friend": 0.03}),
        (9, {"home": 0.35, "work": 0.65}),
        (12, {"work": 0.5, "lunch": 0.4, "home": 0.1}),
        (14, {"work": 0.6, "sports": 0.15, "home": 0.2, "friend": 0.05}),
        (18, {"home": 0.4, "sports": 0.15, "evening": 0.25, "friend": 0.2}),
        (22, {"home": 0.6, "evening": 0.25, "friend": 0.15}),
    ),
    0.6,
)
NIGHT_WORKER = Habit(
    "works at night",
    0.08,
    ("home", "work", "shop", "station", "park"),
    (
        (0, {"work": 0.97, "home": 0.03}),
        (6, {"station": 0.4, "home": 0.5, "shop": 0.1}),
        (8, {"home": 0.97, "shop": 0.03}),
        (15, {"home": 0.7, "shop": 0.15, "park": 0.15}),
        (20, {"home": 0.5, "station": 0.3, "work": 0.2}),
        (22, {"work": 0.95, "home": 0.05}),
    ),
    0.8,
)
HABITS = (COMMUTER, STAYS_PUT, ROAMER, STUDENT, NIGHT_WORKER)
