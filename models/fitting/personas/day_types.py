"""How a kind of person spends a day: a chain over activities, from a survey's sequences or from weights.

A chain over activities says nothing of places; those follow from a class's home and work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PersonaError
from models.priors import MovementPrior

HOME, WORK = "home", "work"
FORGETTING = 1e-3
"""Share of moves that follow the hour alone: no day is a world of its own that nobody enters or leaves."""


@dataclass(frozen=True)
class Activity:
    """What one does away from home and work: where from one goes there, and how far (km, e-folding)."""

    name: str
    anchor: str = HOME
    reach_km: float = 2.0

    def __post_init__(self) -> None:
        """Refuse what is no activity of a class's own places."""
        if self.name in (HOME, WORK) or self.anchor not in (HOME, WORK) or not self.reach_km > 0.0:
            raise PersonaError(
                "an activity must be other than home and work, start from one of them and reach somewhere",
                f"{self.name!r} from {self.anchor!r} within {self.reach_km} km",
                "correct it",
            )


@dataclass(frozen=True, eq=False)
class DayType:
    """A kind of day that a ``share`` of those with a place of work, or of those without one, have.

    ``moves`` (C, A, A) go from an activity in slot ``t`` to one in slot ``t + 1``, rows sum to one; ``law``
    (C, A) is how many do what in each slot, with ``law[t + 1] = law[t] moves[t]``, the last followed by the
    first. Whose activities name work has a place of work.
    """

    name: str
    activities: tuple[str, ...]
    moves: NDArray[np.float64]
    law: NDArray[np.float64]
    share: float = 1.0

    def __post_init__(self) -> None:
        """Check that it is a chain, and that the law is one of its own."""
        slots, size = self.law.shape
        wanted = (slots, size, size)
        if self.moves.shape != wanted or len(self.activities) != size or HOME not in self.activities:
            raise PersonaError(
                f"day {self.name!r} must have a home, and a matrix of its activities for each slot",
                f"{self.moves.shape} for {', '.join(self.activities)}",
                "correct it",
            )
        after = (self.law[:, :, None] * self.moves).sum(axis=1)
        is_chain = np.abs(self.moves.sum(axis=2) - 1.0).max() < 1e-9 and self.moves.min() >= 0.0
        if not (is_chain and np.abs(after - np.roll(self.law, -1, axis=0)).max() < 1e-9 and self.share > 0.0):
            raise PersonaError(
                f"day {self.name!r} must be a chain whose law goes on from slot to slot",
                "another",
                "make it with of_sequences or of_weights",
            )

    @property
    def works(self) -> bool:
        """Whether one has a place of work."""
        return WORK in self.activities

    @property
    def slots(self) -> int:
        """Slots of the cycle."""
        return int(self.law.shape[0])

    @classmethod
    def of_sequences(
        cls,
        name: str,
        activities: Sequence[str],
        sequences: NDArray[np.int64],
        weights: NDArray[np.float64] | None = None,
        share: float = 1.0,
    ) -> DayType:
        """The chain of days ``sequences`` (n, C), numbers of activities; each day is followed by itself.

        Activities that nobody does are left out. A thousandth of the moves follow the slot alone
        (:data:`FORGETTING`), which leaves the law of every slot as it was.
        """
        count = np.ones(len(sequences)) if weights is None else weights
        done = np.unique(np.concatenate((sequences.ravel(), [list(activities).index(HOME)])))
        number = np.searchsorted(done, sequences)
        slots = sequences.shape[1]
        seen = np.zeros((slots, done.size, done.size))
        for slot in range(slots):
            np.add.at(seen[slot], (number[:, slot], number[:, (slot + 1) % slots]), count)
        law = seen.sum(axis=2) / count.sum()
        after = np.roll(law, -1, axis=0)[:, None, :]
        left = seen.sum(axis=2)[:, :, None]
        moves = np.divide(seen, left, out=np.broadcast_to(after, seen.shape).copy(), where=left > 0.0)
        moves = (1.0 - FORGETTING) * moves + FORGETTING * after
        return cls(name, tuple(activities[i] for i in done), moves, law, share)

    @classmethod
    def of_weights(
        cls,
        name: str,
        activities: Sequence[str],
        weights: NDArray[np.float64],
        linger: float,
        share: float = 1.0,
    ) -> DayType:
        """The chain of who stays with probability ``linger``, else draws from the next slot's ``weights``."""
        goes = weights / weights.sum(axis=1, keepdims=True)
        moves = lazy_moves(np.roll(goes, -1, axis=0), linger)
        law = MovementPrior.from_dense(name, moves).chain().start.copy()
        return cls(name, tuple(activities), moves, law, share)

    def then(self, other: DayType, days: tuple[int, int]) -> DayType:
        """A cycle of so many days of this type and then of another with the same activities.

        Whoever does in the evening what the other day does not know goes on as everybody else does then.
        """
        activities = tuple(dict.fromkeys((*self.activities, *other.activities)))
        cycle = [day for day, times in ((self, days[0]), (other, days[1])) for _ in range(times)]
        goes = [np.zeros((day.slots, len(activities), len(activities))) for day in cycle]
        for number, (day, matrix) in enumerate(zip(cycle, goes, strict=True)):
            known = [activities.index(name) for name in day.activities]
            next_day = cycle[(number + 1) % len(cycle)]
            later = [activities.index(name) for name in next_day.activities]
            matrix[:, :, known] = np.roll(day.law, -1, axis=0)[:, None, :]
            matrix[np.ix_(range(day.slots), known, known)] = day.moves
            if next_day is not day:
                matrix[-1] = 0.0
                matrix[-1][:, later] = next_day.law[0]
        moves = np.concatenate(goes)
        law = MovementPrior.from_dense(self.name, moves).chain().start.copy()
        return DayType(self.name, activities, moves, law, self.share)


def lazy_moves(goes: NDArray[np.float64], linger: float) -> NDArray[np.float64]:
    """Moves (C, K, K) of who stays with ``linger``, and else goes where ``goes`` (C, K) says."""
    return np.asarray(linger * np.eye(goes.shape[1]) + (1.0 - linger) * goes[:, None, :])
