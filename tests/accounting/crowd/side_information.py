"""A person's part in a crowd by plain arrays: laws, moves and who is asked when. Shares no kernel's loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.crowd.variance_kernel import COLUMNS, add_free_bits, new_crowd_scratch

Floats = NDArray[np.float64]


def moves_between(transitions: Sequence[Floats], first: int, last: int) -> Floats:
    """From step ``first`` to step ``last``."""
    found = np.eye(len(transitions[0]))
    for t in range(first, last):
        found = found @ transitions[t]
    return found


def law_at(initial: Floats, transitions: Sequence[Floats], step: int) -> Floats:
    """Of the place in a step."""
    return initial @ moves_between(transitions, 0, step) if step else initial


def neighbours(
    initial: Floats, transitions: Sequence[Floats], revealed: Sequence[int], step: int
) -> tuple[Floats, Floats, Floats]:
    """Weight of the place revealed before a step, the moves to the step, and to the next revealed place."""
    places = initial.size
    earlier, later = [u for u in revealed if u < step], [u for u in revealed if u > step]
    right = moves_between(transitions, step, min(later)) if later else np.ones((places, 1))
    if not earlier:
        return np.ones(1), law_at(initial, transitions, step)[None], right
    before = max(earlier)
    return law_at(initial, transitions, before), moves_between(transitions, before, step), right


def free_bits(weight: Floats, left: Floats, right: Floats, own: NDArray[np.int64], designated: int) -> Floats:
    """The kernel's sums of one person's free step, (sensors, COLUMNS)."""
    sensors = max(int(own.max()), 0)
    size = max(*left.shape, *right.shape, sensors, 1)
    scratch = new_crowd_scratch(size)
    scratch.weight[: weight.size] = weight
    scratch.left[: left.shape[0], : left.shape[1]] = left
    scratch.right[: right.shape[0], : right.shape[1]] = right
    scratch.own[: own.size] = own
    add_free_bits(scratch, left.shape[0], left.shape[1], right.shape[1], sensors, designated)
    return scratch.sums[:sensors, :COLUMNS].copy()
