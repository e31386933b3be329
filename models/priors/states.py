"""Priors with several states a place: habits of second order, stays that last as long as they do, and devices
that miss people or count them falsely.

What is to be guessed stays the place (:class:`~models.priors.prior.MovementPrior`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from models.arguments import checked
from models.exceptions import PriorError
from models.numerics.arrays import Floats, Integers
from models.priors.chain import ChainView
from models.priors.prior import MovementPrior
from models.priors.question import Question


@checked(PriorError)
def second_order(person: str, chances: ArrayLike, places: ArrayLike | None = None) -> MovementPrior:
    """A prior of somebody whose next place depends on the last two: ``chances[a, b, c]`` of ``a, b, c``.

    ``chances`` are (K, K, K). A pair of places ``a, b`` whose chances are all zero does not come, and no move
    may lead there. ``places`` (K,) are location indices, 0..K-1 if not given. A state is a pair, at its
    second place. :class:`~models.exceptions.PriorError` for another shape, and a move that leads nowhere.
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
    is a place and how long one has been there: a semi-Markov chain.
    :class:`~models.exceptions.PriorError` for fewer than two places, and laws that do not sum to 1.
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


class DeviceView(NamedTuple):
    """A prior of somebody whom a device sees or misses, the locations where it counts, and what is asked.

    ``counted`` are the locations, as in ``Schedule.raw([[view.counted]])``; ``question`` is which place.
    """

    prior: MovementPrior
    counted: tuple[int, ...]
    question: Question

    def counted_at(self, place: int) -> int:
        """The location at which a device counts who is at this place."""
        return self.counted[0] - int(self.prior.places[0]) + place


@checked(PriorError)
def with_device(
    prior: MovementPrior, at: Sequence[int], misses: float | Mapping[int, float], falsely: float = 0.0
) -> DeviceView:
    """The prior seen by a device at the places ``at``, which errs anew in each step.

    Somebody who is there is missed with probability ``misses``, one for all places or by place, and
    somebody elsewhere counted ``falsely``. Several devices, of which none counts falsely, are as one of which
    each place is counted by itself: ``Schedule.raw([[view.counted_at(1), view.counted_at(2)]])``.
    Each place becomes two locations: itself, where the device does not count, and ``1 + highest + itself``,
    where it does. So ceilings, attacks and plans need nothing new; they hold whatever the device does to
    others, which the adversary knows. A device that counts everybody anew with these chances shows less than
    an exact one, so that a ceiling for exact counts holds for it too.
    :class:`~models.exceptions.PriorError` for chances outside 0..1, and a place that the prior lacks.
    """
    rates = misses if isinstance(misses, Mapping) else dict.fromkeys(at, misses)
    if set(rates) != set(at):
        raise PriorError(
            "misses must have a rate for each place of at", sorted(rates), "name the same places"
        )
    for name, rate in (*(("misses", rate) for rate in rates.values()), ("falsely", falsely)):
        if not 0.0 <= rate <= 1.0:
            raise PriorError(f"{name} must lie in 0..1", rate, "give the probability of an error in a step")
    here = np.isin(prior.places, at)
    if not here.any():
        raise PriorError(
            f"a device must be at a place of person {prior.person!r}", tuple(at), "use location indices"
        )
    places = prior.places.tolist()
    seen = np.array([1.0 - rates[place] if place in rates else falsely for place in places])
    chance = np.stack((1.0 - seen, seen))  # (2, K)
    matrices = [
        np.concatenate([np.tile(matrix.toarray(), (2, 1)) * own for own in chance], axis=1)
        for matrix in prior.transitions
    ]
    start = None if prior.initial is None else (chance * prior.initial).reshape(-1)
    above = 1 + int(prior.places.max())
    doubled = np.concatenate((prior.places, prior.places + above))
    groups = {
        f"place {place}": [str(place), str(above + place)] for place in np.unique(prior.places).tolist()
    }
    return DeviceView(
        MovementPrior.from_dense(prior.person, matrices, doubled, start),
        tuple((above + np.unique(prior.places)).tolist()),
        Question("spot", groups),
    )


def states_that_look_like_places(view: ChainView, covered: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Places that are probably states of one place, by what moves and sensors give away; None for none.

    Pairs of places, as a habit of second order has them, can be told: two of them lead to the same pairs or
    to no common one. Where the places fall into groups of two or more like that, and no sensor tells any
    group's members apart (``covered``: the locations of each), the first such group is given.
    """
    size, following = view.places.size, view.column_start.shape[0]
    leads = np.zeros((size, size), dtype=bool)
    for slot in range(following):
        for y in range(size):
            leads[view.row[view.column_start[slot, y] : view.column_start[slot, y + 1]], y] = True
    kinds, kind = np.unique(leads, axis=0, return_inverse=True)
    members = np.bincount(kind.reshape(-1))
    is_of_pairs = len(kinds) > 1 and members.min() > 1 and kinds.sum(axis=0).max() == 1
    groups = [view.places[kind.reshape(-1) == number] for number in range(len(kinds))]
    is_told_apart = any(0 < np.isin(group, own).sum() < group.size for group in groups for own in covered)
    if not is_of_pairs or is_told_apart or np.unique(view.places).size < size:
        return None
    return tuple(groups[0].tolist())


def _numbers(person: str, what: str, given: ArrayLike) -> Floats:
    """An array of numbers; :class:`PriorError` for anything else."""
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if not np.isfinite(found).all():
        raise PriorError(f"{what} of person {person!r} must be numbers", "others", "give one number each")
    return found


def _own_places(person: str, places: ArrayLike | None, size: int) -> Integers:
    own = np.arange(size) if places is None else np.asarray(places)
    if own.shape != (size,) or own.dtype.kind not in "iu":
        raise PriorError(
            f"places of person {person!r} must be one location index for each of {size}",
            own.shape,
            "use positions, counted from 0",
        )
    return own.astype(np.int64)
