"""Bisection that always errs to the side asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

_HALVINGS = 200


class Bracket(NamedTuple):
    """Neighbouring floats around the place where a condition stops to hold."""

    last_true: float
    first_false: float


def bracket(holds: Callable[[float], bool], low: float, high: float) -> Bracket:
    """Where ``holds``, true at ``low`` and changing at most once towards ``high``, stops being true.

    Both ends are ``high`` when it never does.
    """
    if holds(high):
        return Bracket(high, high)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if holds(middle):
            low = middle
        else:
            high = middle
    return Bracket(low, high)
