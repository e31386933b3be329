"""Whom the shadow adversary attacks, and how often: chosen by name, whatever else is known of anybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class DrawnPart(NamedTuple):
    """Of a part of so many ``people`` those at ``person`` (P,), each attacked in so many ``draws``.

    The draws come from streams named by ``seed`` (P,), which belongs to a person wherever the person is held.
    """

    people: int
    person: NDArray[np.int64]
    seed: NDArray[np.int64]
    draws: int


def drawn_part(people: Sequence[int], seed: Sequence[int], draws: int) -> DrawnPart:
    """The first of the ``people``, one draw each; if there are fewer than ``draws``, all equally often.

    ``seed`` is by position. For example people (4, 2) and 5 draws: two draws of person 4, two of person 2.
    """
    chosen = np.array(people[:draws], dtype=np.int64)
    seeds = np.array([seed[person] for person in people[:draws]], dtype=np.int64)
    return DrawnPart(len(people), chosen, seeds, max(1, draws // max(1, len(people))))
