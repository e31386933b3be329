"""Priors with several states a place: habits of second order, and stays that last as long as they do.

What is to be guessed stays the place (:class:`~models.priors.prior.MovementPrior`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.arguments import checked
from models.exceptions import PriorError
from models.priors.prior import MovementPrior


@checked(PriorError)
def second_order(person: str, chances: ArrayLike, places: ArrayLike | None = None) -> MovementPrior:
    """A prior of somebody whose next place depends on the last two: ``chances[a, b, c]`` of ``a, b, c``.

    A pair of places ``a, b`` whose chances are all zero does not come, and no move may lead there.
    ``places`` (K,) are location indices, 0..K-1 if not given. A state is a pair, at its second place.
    """
    given = _numbers(person, "chances", chances)
    size = given.shape[0] if given.ndim else 0
    if given.shape != (size, size, size) or size == 0:
        raise PriorError(
            f"chances of person {person!r} must have one number for each three places in a row",
            " x ".join(map(str, given.shape)),
            "give K matrices of K x K",
        )
    before, now = np.nonzero(given.sum(axis=2) > 0.0)
    state = np.full((size, size), -1)
    state[before, now] = np.arange(now.size)
    moves = np.zeros((now.size, now.size))
    for here, (a, b) in enumerate(zip(before, now, strict=True)):
        for c in np.flatnonzero(given[a, b]).tolist():
            if state[b, c] < 0:
                raise PriorError(
                    f"places {b} and {c} of person {person!r} must have chances of what comes next",
                    "none, and a move that leads there",
                    "give the row, or leave the move out",
                )
            moves[here, state[b, c]] = given[a, b, c]
    return MovementPrior.from_dense(person, moves, _own_places(person, places, size)[now])


@checked(PriorError)
def with_stays(
    person: str, moves: ArrayLike, stays: Sequence[ArrayLike], places: ArrayLike | None = None
) -> MovementPrior:
    """A prior of somebody whose stays at place ``k`` last ``n`` steps with probability ``stays[k][n - 1]``.

    After a stay one leaves for another place, by the row of ``moves`` (K, K) without its diagonal. So
    ``stays`` of ``[0, 1]`` last two steps each, and those of an ordinary chain have no longest one. A state
    is a place and how long one has been there.
    """
    given = _numbers(person, "moves", moves)
    size = given.shape[0] if given.ndim else 0
    if given.shape != (size, size) or len(stays) != size or size < 2:
        raise PriorError(
            f"person {person!r} must have moves between 2 places or more, and stays at each",
            f"{' x '.join(map(str, given.shape))} and {len(stays)} stays",
            "give K x K moves and K laws",
        )
    leaving = given * (1.0 - np.eye(size))
    laws = [np.trim_zeros(_numbers(person, "stays", law), "b") for law in stays]
    for place, law in enumerate(laws):
        if law.ndim != 1 or (law < 0.0).any() or not abs(law.sum() - 1.0) <= 1e-6:
            raise PriorError(
                f"stays of person {person!r} at place {place} must be probabilities that sum to 1",
                f"{law.sum():.6g}",
                "give one number for each length, from one step on",
            )
        if not leaving[place].sum() > 0.0:
            raise PriorError(
                f"person {person!r} must be able to leave place {place} for another",
                "no such move",
                "give one, or leave the place out",
            )
    first = np.concatenate(([0], np.cumsum([law.size for law in laws])))
    found = np.zeros((first[-1], first[-1]))
    for place, law in enumerate(laws):
        longer = law[::-1].cumsum()[::-1]  # the probability of so many steps or more
        after = leaving[place] / leaving[place].sum()
        for stage in range(law.size):
            here = first[place] + stage
            leaves = law[stage] / longer[stage]
            found[here, first[:-1]] += leaves * after
            if stage + 1 < law.size:
                found[here, here + 1] = 1.0 - leaves
    own = _own_places(person, places, size)
    return MovementPrior.from_dense(person, found, np.repeat(own, [law.size for law in laws]))


def _numbers(person: str, what: str, given: ArrayLike) -> NDArray[np.float64]:
    """An array of numbers; :class:`PriorError` for anything else."""
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if not np.isfinite(found).all():
        raise PriorError(f"{what} of person {person!r} must be numbers", "others", "give one number each")
    return found


def _own_places(person: str, places: ArrayLike | None, size: int) -> NDArray[np.int64]:
    own = np.arange(size) if places is None else np.asarray(places)
    if own.shape != (size,) or own.dtype.kind not in "iu":
        raise PriorError(
            f"places of person {person!r} must be one location index for each of {size}",
            own.shape,
            "use positions, counted from 0",
        )
    return own.astype(np.int64)
