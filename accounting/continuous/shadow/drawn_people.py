"""Whom the shadow adversary attacks, and how often: chosen by name, whatever else is known of anybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class DrawnPeople(NamedTuple):
    """``person`` (P,) by position, each attacked in ``draws`` (P,) draws from streams named by ``seed`` (P,).

    A seed belongs to a person wherever the person is held.
    """

    person: NDArray[np.int64]
    seed: NDArray[np.int64]
    draws: NDArray[np.int64]


def go_round(parts: Sequence[Sequence[int]], seed: Sequence[int], draws: int) -> DrawnPeople:
    """The same number of ``draws`` for each part of the people, in turn among its own; ``seed`` by position.

    For example parts (4, 2), (7,) and 3 draws: person 4 twice, person 2 once, person 7 three times.
    """
    person, number = [], []
    for part in parts:
        for place, each in enumerate(part[:draws]):
            person.append(each)
            number.append(draws // len(part[:draws]) + (place < draws % len(part[:draws])))
    seeds = [seed[each] for each in person]
    return DrawnPeople(*(np.array(values, dtype=np.int64) for values in (person, seeds, number)))
