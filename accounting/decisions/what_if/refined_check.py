"""A capped number of dear evaluations a step for people whom the cheap bound puts over the limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import AccountantView
from accounting.decisions.what_if.candidate_kernel import Terms
from accounting.decisions.what_if.limits_kernel import Caps
from accounting.decisions.what_if.refined_check_kernel import find_dear_rooms
from accounting.settings import HorizonSettings


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


_BEYOND_CHEAP = 1 << 61
"""A ``c`` that no cheap bound clears, so that the dear ones are asked about every horizon."""


class _Outcome(NamedTuple):
    """An evaluation: within the limit up to these terms, or beyond it from these on."""

    is_within: bool
    conditional: int
    unconditioned: int


class Clearing:
    """The dear bounds' opinion on one step's candidates.

    It depends on which of a person's places are counted, not on the noise, so one evaluation serves many
    candidates. Who is not evaluated any more stays over the limit.

    To the dear bounds noise is no help, so whom they clear now they must clear again at each step after, and
    what is taken now may leave nothing but silence. So a step that leaves no room to the cheap bound must be
    one that can go on: the horizons it is in must stay within the limit with the ``coming`` steps raw, too,
    or with more steps like it where none are known.
    """

    def __init__(
        self,
        view: AccountantView,
        settings: HorizonSettings,
        caps: Caps,
        step: int,
        dear: DearSettings,
        coming: NDArray[np.int32],
    ) -> None:
        """``coming`` (L, M) are the outcomes of the announced steps after this one; none if L = 0."""
        self._view = view
        self._settings = settings
        self._caps = caps
        self._step = step
        self._coming = coming
        people = view.since.size
        self._shard = np.zeros(people, np.int64) if dear.shard is None else dear.shard
        self._rank = np.arange(people) if dear.rank is None else dear.rank
        self._left = np.full(dear.shards, dear.evaluations // dear.shards)
        self.evaluations = int(self._left.sum())
        self._known: dict[tuple[int, bytes], list[_Outcome]] = {}

    def cleared(
        self,
        people: NDArray[np.int64],
        terms: Terms,
        excess: NDArray[np.int64],
        leaves_room: NDArray[np.bool_],
        labels: NDArray[np.int32],
    ) -> int:
        """How many of these people, (n,) over the limit by the cheap bound, are within it by the dear.

        ``terms`` (n,) are what the step tells, ``excess`` (n,) by how much it is too much; those with the
        least excess are evaluated first. ``leaves_room`` (n,): later horizons keep to the cheap bound.
        ``labels`` (M,) are the step's outcomes.
        """
        order = np.lexsort((self._rank[people], excess))
        keys = [(int(people[k]), self._pattern(int(people[k]), labels)) for k in order]
        told = [(int(terms.conditional[k]), int(terms.unconditioned[k])) for k in order]
        unknown = [
            i for i, key in enumerate(keys) if self._opinion(key, *told[i]) is None and self._take(key[0])
        ]
        if unknown:
            chosen = order[np.array(unknown)]
            asked = Terms(terms.conditional[chosen], terms.unconditioned[chosen])
            rooms = self._evaluate(people[chosen], asked, labels)
            greedy = np.flatnonzero((asked.unconditioned > 0) & ~leaves_room[chosen] & (rooms >= 0))
            some = Terms(asked.conditional[greedy], asked.unconditioned[greedy])
            rooms[greedy[~self._is_sustainable(people[chosen[greedy]], some, labels)]] = -1
            for i, room in zip(unknown, rooms, strict=True):
                outcome = _Outcome(room >= 0, max(told[i][0], int(room)), told[i][1])
                self._known.setdefault(keys[i], []).append(outcome)
        return sum(self._opinion(key, *told[i]) is True for i, key in enumerate(keys))

    def _opinion(self, key: tuple[int, bytes], conditional: int, unconditioned: int) -> bool | None:
        """What earlier evaluations say: less is within the limit where more was, and more beyond it."""
        for known in self._known.get(key, ()):
            if known.is_within and conditional <= known.conditional and unconditioned <= known.unconditioned:
                return True
            beyond = conditional >= known.conditional and unconditioned >= known.unconditioned
            if not known.is_within and beyond:
                return False
        return None

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
        self, people: NDArray[np.int64], terms: Terms, labels: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """The largest ``c`` of each person with silence after the step, (n,); -1 for over the limit."""
        nothing = np.zeros((0, labels.size), dtype=np.int32)
        return self._rooms(people, terms, self._ahead(people, labels, nothing))

    def _is_sustainable(
        self, people: NDArray[np.int64], terms: Terms, labels: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Whether each person stays within the limit if later steps are raw as well, (n,)."""
        if not people.size:
            return np.zeros(0, dtype=np.bool_)
        coming = self._coming
        if not len(coming):
            coming = np.repeat(labels[np.newaxis], self._settings.horizon - 1, axis=0)
        told = Terms(np.full(people.size, _BEYOND_CHEAP), terms.unconditioned)
        return self._rooms(people, told, self._ahead(people, labels, coming)) >= 0

    def _ahead(
        self, people: NDArray[np.int64], labels: NDArray[np.int32], coming: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """The last horizon, the step, what comes and silence, (rows, M)."""
        longest = int(self._view.population.slots[people].max())
        rows = np.zeros((self._settings.horizon + longest, labels.size), dtype=np.int32)
        rows[: len(coming)] = coming[: len(rows)]
        return np.concatenate((self._view.labels[1:], labels[np.newaxis], rows))

    def _rooms(self, people: NDArray[np.int64], terms: Terms, ahead: NDArray[np.int32]) -> NDArray[np.int64]:
        view, settings = self._view, self._settings
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
            terms.conditional,
            terms.unconditioned,
            settings.mistakes,
            settings.order,
            settings.sharpened_from,
            rooms,
        )
        return rooms
