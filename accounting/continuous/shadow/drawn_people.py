"""Whom the shadow adversary attacks, and how often: chosen by name, whatever else is known of anybody."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import PeopleShares

_RANK_BITS = 56


class DrawnPart(NamedTuple):
    """Of a part of so many ``people`` those at ``person`` (P,), each attacked in so many ``draws``.

    The draws come from streams named by ``seed`` (P,), which belongs to a person wherever the person is held.
    """

    people: int
    person: NDArray[np.int64]
    seed: NDArray[np.int64]
    draws: int


def drawn_parts(
    shares: PeopleShares, draws: int, stands_for: NDArray[np.int64] | None = None
) -> list[DrawnPart]:
    """An even part of the draws for every share: its people of smallest rank, one draw each.

    If a share has fewer people than draws, everybody is drawn equally often, so that all draws together are
    about as many. For example ranks 7, 5, 6 of one share: with 2 draws persons 1 and 2 once each, with 8
    draws all three people three times. Where a person ``stands_for`` (N,) several, the people behind are
    drawn.
    """
    each = max(1, draws // shares.count)
    order = np.lexsort((shares.rank, shares.share))
    begins = np.flatnonzero(np.diff(shares.share[order], prepend=-1))
    own = np.split(order, begins)[1:]
    if stands_for is not None:
        return [_part_of_personas(people, shares.rank, stands_for[people], each) for people in own]
    return [_part(people, shares.rank, each) for people in own]


def _part(people: NDArray[np.int64], rank: NDArray[np.int64], draws: int) -> DrawnPart:
    chosen = people[:draws].copy()
    return DrawnPart(people.size, chosen, rank[chosen], max(1, round(draws / people.size)))


def _part_of_personas(
    personas: NDArray[np.int64], rank: NDArray[np.int64], behind: NDArray[np.int64], draws: int
) -> DrawnPart:
    """People behind the personas at even distances, in the order of ranks; the ranks decide where to begin.

    So a persona is drawn in proportion to the people ``behind`` it. For example 2 draws of the 10 people
    behind personas of 7 and 3: one of the first five people and the fifth after that one.
    """
    total = int(behind.sum())
    first = int(np.bitwise_xor.reduce(rank[personas]))  # of 2^56: which part of the way to the next one
    places = [((k << _RANK_BITS) + first) * total // (draws << _RANK_BITS) for k in range(draws)]
    at = np.searchsorted(np.cumsum(behind), np.array(places), side="right")
    again = np.arange(draws) - np.searchsorted(at, at)
    return DrawnPart(total, personas[at], rank[personas[at]] + again, 1)
