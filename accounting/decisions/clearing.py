"""A capped number of dear evaluations a step for people whom the cheap bound puts over the limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import AccountantView
from accounting.horizon_settings import HorizonSettings
from accounting.kernels.caps import Caps
from accounting.kernels.clearing import find_dear_rooms


@dataclass(frozen=True, eq=False)
class DearSettings:
    """How many dear evaluations a step may cost, and how people are split so that partitions agree.

    ``shard`` (N,) numbers the parts of the people, each with an even part of the ``evaluations``; ``rank``
    (N,) breaks ties between people. Both must be the same wherever a person is held.
    """

    evaluations: int = 500
    shards: int = 1
    shard: NDArray[np.int64] | None = None
    rank: NDArray[np.int64] | None = None


class Clearing:
    """The dear bounds' opinion on one step's candidates.

    It depends on which of a person's places are counted, not on the noise, so one evaluation serves many
    candidates. Who is not evaluated any more stays over the limit.
    """

    def __init__(
        self, view: AccountantView, settings: HorizonSettings, caps: Caps, step: int, dear: DearSettings
    ) -> None:
        self._view = view
        self._settings = settings
        self._caps = caps
        self._step = step
        people = view.since.size
        self._shard = np.zeros(people, np.int64) if dear.shard is None else dear.shard
        self._rank = np.arange(people) if dear.rank is None else dear.rank
        self._left = np.full(dear.shards, dear.evaluations // dear.shards)
        self.evaluations = int(self._left.sum())
        self._room: dict[tuple[int, bytes], int] = {}

    def cleared(
        self,
        people: NDArray[np.int64],
        conditional: NDArray[np.int64],
        excess: NDArray[np.int64],
        labels: NDArray[np.int32],
    ) -> int:
        """How many of these people, (n,) over the limit by the cheap bound, are within it by the dear.

        ``conditional`` (n,) is what the step tells, ``excess`` (n,) by how much it is too much; those with
        the least excess are evaluated first. ``labels`` (M,) are the step's outcomes.
        """
        order = np.lexsort((self._rank[people], excess))
        keys = [(int(people[k]), self._pattern(int(people[k]), labels)) for k in order]
        units = conditional[order]
        unknown = [i for i, key in enumerate(keys) if self._is_unknown(key, units[i]) and self._take(key[0])]
        if unknown:
            asked = people[order[unknown]]
            rooms = self._evaluate(asked, units[unknown], labels)
            self._room.update((keys[i], int(room)) for i, room in zip(unknown, rooms, strict=True))
        return sum(bool(units[i] <= self._room.get(key, -1)) for i, key in enumerate(keys))

    def _is_unknown(self, key: tuple[int, bytes], units: int) -> bool:
        """Whether an evaluation could still say something; a failed one has said all."""
        return key not in self._room or 0 <= self._room[key] < units

    def _pattern(self, person: int, labels: NDArray[np.int32]) -> bytes:
        """Which of the person's places are counted."""
        begin, end = self._view.population.places_start[person : person + 2]
        return (labels[self._view.population.places[begin:end]] > 0).tobytes()

    def _take(self, person: int) -> bool:
        """One of the evaluations that are left to the person's shard, if any is."""
        shard = self._shard[person]
        self._left[shard] -= 1
        return bool(self._left[shard] >= 0)

    def _evaluate(
        self, people: NDArray[np.int64], conditional: NDArray[np.int64], labels: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        view, settings = self._view, self._settings
        silence = np.zeros((settings.horizon - 1, labels.size), dtype=np.int32)
        ahead = np.concatenate((view.labels[1:], labels[np.newaxis], silence))
        rooms = np.full(people.size, -1)
        find_dear_rooms(
            view.population,
            view.constants,
            self._caps,
            view.state,
            view.since,
            people,
            settings.first_slot,
            self._step,
            ahead,
            conditional,
            settings.mistakes,
            settings.order,
            settings.sharpened_from,
            rooms,
        )
        return rooms
