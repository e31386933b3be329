"""Who has the same prior: people of one persona are computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import inline, jit, pjit

_PRIME = np.uint64(0x9E3779B97F4A7C15)


@inline
def _mixed(digest: np.uint64, word: np.uint64) -> np.uint64:
    """A digest of what ``digest`` is one of, and ``word``."""
    found = (digest ^ word) * _PRIME
    return found ^ (found >> np.uint64(29))


@pjit(lambda start, *_: start.size - 1, least=1024)
def mix_in(
    begin: int, end: int, start: NDArray[np.int64], words: NDArray[Any], digest: NDArray[np.uint64]
) -> None:
    """Go on with each one's ``digest`` (N,) by ``words[start[i] : start[i + 1]]``, and how many they are."""
    for person in range(begin, end):
        found = _mixed(digest[person], np.uint64(start[person + 1] - start[person]))
        for j in range(start[person], start[person + 1]):
            found = _mixed(found, np.uint64(words[j]))
        digest[person] = found


@jit
def split_unequal(
    order: NDArray[np.int64], start: NDArray[np.int64], words: NDArray[Any], first: NDArray[np.int64]
) -> None:
    """Whoever is not equal to ``first`` of their group, (N,), in these words becomes a group of their own."""
    for person in order:
        other = first[person]
        size = start[person + 1] - start[person]
        is_equal = size == start[other + 1] - start[other]
        for j in range(size if is_equal else 0):
            is_equal &= words[start[person] + j] == words[start[other] + j]
        if not is_equal:
            first[person] = person
