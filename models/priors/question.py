"""What must not be reconstructed of people: which place, which district, at a sensitive place or not.

A prior has states, each at one place, and a question gives each state a *label*, which is what an adversary
has to guess: its place, or the group that its place is in. Where every place is one state and the question is
which place, in every step, nothing is changed: that is what everything is made for.

Coarser labels and fewer asked steps never lower what the best adversary achieves, so a ceiling for places is
none for districts: each question has ceilings of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.arguments import checked
from models.exceptions import PriorError
from models.numerics.arrays import Integers
from models.priors.chain import PopulationArrays
from models.priors.packing import offsets_of
from models.priors.population import Population

PLACE = "place"
"""The name of the question that is asked where nothing else is said: which place, in every step."""
ELSEWHERE = "elsewhere"
"""What is to be guessed of places in no group."""

_MOST_WEIGHT = 100
_MOST_ROWS = 1 << 14  # a week of minutes, and more


@checked(PriorError)
@dataclass(frozen=True)
class Question:
    """What is to be guessed in each step, and what a wrong guess costs there.

    ``groups`` are names of places by group; of places in none of them only that is to be guessed. Without
    groups it is the place. ``weights`` is what a wrong guess costs in each slot of a cycle, for example of
    the 24 hours of a day: 0 where nothing is asked, and without it 1 everywhere. An adversary succeeds whose
    wrong guesses cost at most the mistakes allowed. ``name`` is what figures of this question are known by.

    For example whether somebody was at one of two clinics, from 8 to 18 o'clock::

        Question("clinic", {"clinic": ["A", "B"]}, weights=[0] * 8 + [1] * 10 + [0] * 6)
    """

    name: str = PLACE
    groups: Mapping[str, Sequence[str]] | None = None
    weights: Sequence[int] | None = None

    def __post_init__(self) -> None:
        """:class:`~models.exceptions.PriorError` for groups that are none, and weights out of range."""
        if not self.name:
            raise PriorError("a question must have a name", "none", "call it clinic, for example")
        set_once = object.__setattr__
        groups = self.groups or {}
        set_once(self, "groups", {label: tuple(map(str, places)) for label, places in groups.items()})
        named = [place for places in self.groups.values() for place in places]  # type: ignore[union-attr]
        empty = next((label for label, places in self.groups.items() if not places), None)  # type: ignore[union-attr]
        if empty is not None:
            raise PriorError(
                f"group {empty!r} of question {self.name!r} must have places", "none", "name them, or drop it"
            )
        if len(set(named)) < len(named):
            twice = next(place for place in named if named.count(place) > 1)
            raise PriorError(
                f"each place must be in one group of question {self.name!r}",
                f"{twice!r} in two",
                "keep it in one, or ask two questions",
            )
        if self.weights is None:
            return
        weights = tuple(self.weights)
        is_whole = all(isinstance(each, int | np.integer) and 0 <= each <= _MOST_WEIGHT for each in weights)
        if not is_whole or not any(weights) or len(weights) > _MOST_ROWS:
            raise PriorError(
                f"weights of question {self.name!r} must be whole numbers in 0..{_MOST_WEIGHT}, one for each "
                "slot of a cycle, and some above 0",
                "others",
                "give 1 for each slot that is asked about, and 0 for the others",
            )
        set_once(self, "weights", tuple(int(each) for each in weights))

    def __hash__(self) -> int:
        """Equal questions have equal numbers."""
        return hash((self.name, tuple(self.groups or ()), self.weights))

    def in_words(self) -> list[Any]:
        """Everything that it follows from, as JSON values."""
        return [
            self.name,
            {label: list(places) for label, places in (self.groups or {}).items()},
            self.weights,
        ]

    @property
    def is_place(self) -> bool:
        """Whether it is which place, in every step."""
        return not self.groups and (self.weights is None or set(self.weights) == {1})

    def sentence(self, right: int, steps: int) -> str:
        """What is told of a person by whoever succeeds: "where a person was in at least 9 of 10 steps"."""
        hours = "" if self.weights is None else " that are asked about"
        return f"{self.what} in at least {right} of {steps} steps{hours}"

    def asks(self, horizon: int, mistakes: int) -> str:
        """What is to be told of a horizon: "where that person was in each of the last 10 steps"."""
        steps = f"the last {horizon} steps"
        many = "each" if mistakes == 0 else f"at least {horizon - mistakes}"
        if self.weights is not None:
            many = "each" if mistakes == 0 else f"all but {mistakes}"
            steps = f"those of {steps} that are asked about"
        return f"{self.what.replace('a person', 'that person')} in {many} of {steps}"

    @property
    def what(self) -> str:
        """What is told of a person in a step: "where a person was", "whether a person was at clinic"."""
        labels = list(self.groups or ())
        if not labels:
            return "where a person was"
        if len(labels) == 1:
            return f"whether a person was at {labels[0]}"
        return f"in which {self.name} a person was"

    @checked(PriorError)
    def asked_of(self, population: Population) -> Population:
        """The population, of whom this is asked; drawn chains, too.

        :class:`~models.exceptions.PriorError` for places that there are not, and a cycle that the weights do
        not fit.
        """
        if self.is_place:
            return population
        group = self._group_of(population.location_names)
        drawn = population.drawn
        if drawn is not None:
            drawn = replace(drawn, arrays=self._labelled(drawn.arrays, group))
        return replace(population, arrays=self._labelled(population.arrays, group), drawn=drawn)

    def _group_of(self, names: Sequence[str]) -> Integers:
        """The number of what is to be guessed at each location, (M,)."""
        if not self.groups:
            return np.arange(len(names))
        position, group = {name: k for k, name in enumerate(names)}, np.zeros(len(names), dtype=np.int64)
        for number, (label, places) in enumerate(self.groups.items(), start=1):
            unknown = next((place for place in places if place not in position), None)
            if unknown is not None:
                raise PriorError(
                    f"places of group {label!r} must be among the {len(names)} locations",
                    repr(unknown),
                    "use the names of the priors' locations",
                )
            group[[position[place] for place in places]] = number
        return group

    def _labelled(self, arrays: PopulationArrays, group: Integers) -> PopulationArrays:
        """The chains with a label for each state and slot."""
        weights = np.ones(1, dtype=np.int32) if self.weights is None else np.array(self.weights, np.int32)
        arrays = _in_cycles_of(arrays, weights.size, self.name)
        sizes = np.diff(arrays.places_start)
        person = np.repeat(np.arange(sizes.size), sizes)
        code = group[arrays.places]
        _, first, found = np.unique(
            person * (group.max(initial=0) + 1) + code, return_index=True, return_inverse=True
        )
        label = first[found.reshape(-1)] - arrays.places_start[person]  # the first state with the same
        rows = np.repeat(np.arange(sizes.size), arrays.slots)  # the person of each slot
        width = sizes[rows] + 1
        start = offsets_of(width)
        of_row = np.repeat(np.arange(rows.size), width)
        x = np.arange(start[-1]) - start[of_row]
        is_cost = x == width[of_row] - 1
        slot = np.arange(rows.size) - np.repeat(offsets_of(arrays.slots)[:-1], arrays.slots)
        states = arrays.places_start[rows[of_row]] + np.where(is_cost, 0, x)
        filled = np.where(is_cost, weights[slot[of_row] % weights.size], label[states])
        return arrays._replace(
            label_start=offsets_of((sizes + 1) * arrays.slots), label=filled.astype(np.int32)
        )


def _in_cycles_of(arrays: PopulationArrays, slots: int, name: str) -> PopulationArrays:
    """The same chains, with a cycle of so many slots where theirs is a part of it."""
    wrong = np.flatnonzero((arrays.slots % slots != 0) & (slots % arrays.slots != 0))
    if wrong.size:
        raise PriorError(
            f"weights of question {name!r} must be as many as slots of the priors' cycle, or divide them",
            f"{slots} weights for {arrays.slots[wrong[0]]} slots",
            "give one weight for each slot, or priors with a cycle of a day",
        )
    times = np.maximum(1, slots // arrays.slots)
    if (times == 1).all():
        return arrays

    def again(start: Integers) -> tuple[Integers, Integers, Integers]:
        """Where everybody's numbers begin, which they are, and how many entries of the person are before."""
        length = np.diff(start)
        begins, person = offsets_of(length * times), np.repeat(np.arange(times.size), length * times)
        turn, within = np.divmod(np.arange(begins[-1]) - begins[person], length[person])
        return begins, start[person] + within, turn * np.diff(arrays.entry_start)[person]

    distribution_start, laws, _ = again(arrays.distribution_start)
    column_start_start, columns, before = again(arrays.column_start_start)
    entry_start, entries, _ = again(arrays.entry_start)
    return arrays._replace(
        slots=(arrays.slots * times).astype(np.int32),
        distribution_start=distribution_start,
        distribution=arrays.distribution[laws],
        column_start_start=column_start_start,
        column_start=(arrays.column_start[columns] + before).astype(np.int32),
        entry_start=entry_start,
        row=arrays.row[entries],
        value=arrays.value[entries],
    )
