"""The kernel that merges a chain over (activity, place) to one over places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import jit, pjit


class States(NamedTuple):
    """The states (activity, place) of classes with one type of day: S states each.

    ``place`` (n, S) is the number of the state's place among the class's own; ``share`` (n, S) is the
    probability of the place when the activity is taken up.
    """

    activity: NDArray[np.int64]  # (S,)
    place: NDArray[np.int64]
    share: NDArray[np.float64]


@jit
def _presence(
    law: NDArray[np.float64],
    activity: NDArray[np.int64],
    place: NDArray[np.int64],
    share: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """How likely one is at each place: the activity's probability times the place's."""
    out[:] = 0.0
    for s in range(activity.size):
        out[place[s]] += law[activity[s]] * share[s]


@pjit(lambda chosen, *_: chosen.size, least=64)
def write_persona_days(
    begin: int,
    end: int,
    chosen: NDArray[np.int64],
    states: States,
    moves: NDArray[np.float64],
    law: NDArray[np.float64],
    days: NDArray[np.float64],
) -> None:
    """``P_t(z, z') = sum_{a, a'} Pr[a | z] P_t((a, z), (a', z'))`` of some classes, dense (n, C, K, K).

    Who goes on with an activity stays; who takes another up goes to one of its places. One is always at an
    activity's places in the same shares, so ``Pr[a, z]`` is the activity's law times the place's share. A
    place where one never is in a slot is left as from everywhere: its row is the law one slot later.
    """
    present, later = np.empty(days.shape[2]), np.empty(days.shape[2])
    activity = states.activity
    for number in range(begin, end):
        person = chosen[number]
        place, share = states.place[person], states.share[person]
        for slot in range(law.shape[0]):
            matrix = days[number, slot]
            matrix[:] = 0.0
            _presence(law[slot], activity, place, share, present)
            for s in range(activity.size):
                mass = law[slot, activity[s]] * share[s]
                if mass > 0.0:
                    _leave(s, mass / present[place[s]], moves[slot, activity[s]], states, person, matrix)
            _presence(law[(slot + 1) % law.shape[0]], activity, place, share, later)
            for z in range(place.max() + 1):
                if not present[z] > 0.0:
                    matrix[z] = later / later.sum()


@jit
def _leave(
    state: int,
    weight: float,
    row: NDArray[np.float64],
    states: States,
    person: int,
    matrix: NDArray[np.float64],
) -> None:
    """Add where one goes from a state that is this part of its place."""
    place, share, activity = states.place[person], states.share[person], states.activity
    here = place[state]
    matrix[here, here] += weight * row[activity[state]]
    for s in range(activity.size):
        if activity[s] != activity[state]:
            matrix[here, place[s]] += weight * row[activity[s]] * share[s]
