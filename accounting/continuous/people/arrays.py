"""Named tuples of arrays that have people on their last axis: put together and taken apart."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Arrays = TypeVar("Arrays", bound=Any)  # a NamedTuple of arrays whose last axis is people


def join_people(first: Arrays, second: Arrays) -> Arrays:
    """The people of the first, then those of the second; every array has them on its last axis."""
    joined = (np.concatenate(pair, axis=-1) for pair in zip(first, second, strict=True))
    return type(first)(*joined)


def take_people(arrays: Arrays, people: NDArray[np.int64]) -> Arrays:
    """The arrays of these people, by position."""
    return type(arrays)(*(np.ascontiguousarray(array[..., people]) for array in arrays))


def bytes_of_people(arrays: Arrays) -> NDArray[np.uint8]:
    """All that the arrays say of each, byte by byte, (N, bytes)."""
    columns = (np.atleast_2d(array).T for array in arrays)
    rows = [np.ascontiguousarray(column).view(np.uint8) for column in columns]
    return np.concatenate(rows, axis=1)
