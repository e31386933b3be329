"""What was counted between two totals of a counter that may have begun again in between.

A counter that was reset shows less than before. It may also be reset and count past its old total before it
is read again: nobody can see that, so have it read several times a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Literal


def difference(
    totals: Mapping[int, int], start: int, end: int, resets: Literal["not_counted", "from_zero"]
) -> int | None:
    """People counted from ``start`` to ``end``, by the totals at both and all in between.

    None where one of the two is not known, or a total is below the one before and ``resets`` does not say
    that the counter begins at 0 then (what it counted before the reset is missing, so it is a least number).
    """
    if start not in totals or end not in totals:
        return None
    counted = 0
    between = sorted(at for at in totals if start <= at <= end)
    for before, after in pairwise(between):
        gained = totals[after] - totals[before]
        if gained < 0 and resets == "not_counted":
            return None
        counted += gained if gained >= 0 else totals[after]
    return counted
