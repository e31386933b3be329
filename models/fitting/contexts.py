"""Priors whose next place depends on more than the present one: on the place before it, or the stay so far.

A *context* is what is known of how a person came to be at a place: where from (habits of second order), or
for how many steps they have been there (stays). A place with a context is a state; every place also has a
state without one, for a start, a gap, or a context never seen. The rows of a state are drawn towards those of
its place, as rows of a slot are drawn towards the row without a cycle.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from models.numerics.arrays import Flags, Integers, Integers32

Kind = Literal["places", "second order", "stays"]
WEIGHTS = 5.0, 20.0, 100.0
"""Moves that the row of a place may count for in the rows of its contexts: what predicts best is used."""
LONGEST_STAY = 12
"""Stays of more steps count as this long: a state for each length would cost accounting more than it says."""
NONE = -1  # the context of a state that has none


class Habit(NamedTuple):
    """What the next place depends on, and how many moves the row of a place counts for beside a context's."""

    kind: Kind = "places"
    weight: float = 0.0


PLACES = Habit()


class States(NamedTuple):
    """The states of all people, sorted by person, place (local) and context, that without one first."""

    kind: Kind
    person: Integers
    place: Integers
    context: Integers
    size: Integers  # own places of each person

    @property
    def start(self) -> Integers:
        """Where each person's states begin (N + 1,)."""
        return np.searchsorted(self.person, np.arange(self.size.size + 1))

    def find(self, person: Integers, place: Integers, context: Integers) -> Integers:
        """The state of each; that of the place without a context where this one was never seen."""
        own, asked = self._key(self.person, self.place, self.context), self._key(person, place, context)
        at = np.minimum(np.searchsorted(own, asked), own.size - 1)
        bare = np.searchsorted(own, self._key(person, place, np.full(person.size, NONE)))
        return np.asarray(np.where(own[at] == asked, at, bare))

    def after(self, state: Integers, target: Integers) -> Integers:
        """The state that a move from a state to a place (local) leads to."""
        place, context = self.place[state], self.context[state]
        if self.kind == "second order":
            return self.find(self.person[state], target, place)
        longer = np.where(context == NONE, NONE, np.minimum(context + 1, LONGEST_STAY))
        return self.find(self.person[state], target, np.where(target == place, longer, 1))

    def _key(self, person: Integers, place: Integers, context: Integers) -> Integers:
        most = int(self.size.max(initial=0))
        contexts = 1 + max(most, LONGEST_STAY + 1)  # none, a place, or a stay of 1 step to the longest
        return np.asarray((person * most + place) * contexts + context - NONE)


def states_of(kind: Kind, size: Integers, person: Integers, place: Integers32, context: Integers) -> States:
    """Every place of everybody, and every context that a move was made from."""
    owner = np.repeat(np.arange(size.size), size)
    own = np.arange(owner.size) - np.repeat(np.cumsum(size) - size, size)
    bare = np.column_stack([owner, own, np.full(owner.size, NONE)])
    seen = np.column_stack([person, place, context])
    found = np.unique(np.concatenate([bare, seen]).astype(np.int64), axis=0)
    return States(kind, found[:, 0], found[:, 1], found[:, 2], size)


def contexts_of(kind: Kind, place: Integers, follows: Flags) -> Integers:
    """The context of each window of people's traces, one after the other; ``place`` is local.

    ``follows[i]`` says that window ``i`` continues window ``i - 1`` of the same person.
    """
    if kind == "places":
        return np.full(place.size, NONE)
    before = np.concatenate(([NONE], place))[:-1]
    if kind == "second order":
        return np.asarray(np.where(follows, before, NONE))
    here = np.arange(place.size)
    begins = ~follows | (place != before)
    came = np.maximum.accumulate(np.where(begins, here, 0))  # where the present stay begins
    stayed = np.minimum(here - came + 1, LONGEST_STAY)
    return np.asarray(np.where(follows[came], stayed, NONE)) if place.size else place
