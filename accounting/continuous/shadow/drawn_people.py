"""Whom the shadow adversary attacks, and how often: chosen by name, whatever else is known of anybody."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import PeopleShares


class DrawnPart(NamedTuple):
    """Of a part of so many ``people`` those at ``person`` (P,), each attacked in so many ``draws``.

    The draws come from streams named by ``seed`` (P,), which belongs to a person wherever the person is held.
    """

    people: int
    person: NDArray[np.int64]
    seed: NDArray[np.int64]
    draws: int


def drawn_parts(shares: PeopleShares, draws: int) -> list[DrawnPart]:
    """An even part of the draws for every share: its people of smallest rank, one draw each.

    If a share has fewer people than draws, all are drawn equally often, about so many times in all. For
    example ranks 7, 5, 6 of one share: with 2 draws person 1 and person 2 once, with 8 all three times.
    """
    each = max(1, draws // shares.count)
    order = np.lexsort((shares.rank, shares.share))
    begins = np.flatnonzero(np.diff(shares.share[order], prepend=-1))
    return [_part(people, shares.rank, each) for people in np.split(order, begins)[1:]]


def _part(people: NDArray[np.int64], rank: NDArray[np.int64], draws: int) -> DrawnPart:
    chosen = people[:draws].copy()
    return DrawnPart(people.size, chosen, rank[chosen], max(1, round(draws / people.size)))
