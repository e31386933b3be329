"""Counts published on several levels, made consistent: hours, days, weeks, of sensors, districts and a city.

Every level has noise of its own. By weighted least squares parts add up to their whole, and each is as near
as all levels together allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Estimate(NamedTuple):
    """A node's estimate and its variance."""

    value: float
    variance: float


def consistent(
    children: Mapping[str, Sequence[str]],
    values: Mapping[str, float],
    variances: Mapping[str, float | None],
    root: str,
) -> dict[str, Estimate]:
    """The least-squares estimates of a tree of counts: children add up to their parent.

    A variance is None where a node was not published; every leaf must be.
    """
    below: dict[str, tuple[float, float, float]] = {}  # own estimate from the subtree, its variance, S

    def up(node: str) -> None:
        own = variances[node]
        kids = children.get(node, ())
        if not kids:
            if own is None:
                raise ValueError(f"leaf {node} must be published")
            below[node] = values[node], own, 0.0
            return
        for kid in kids:
            up(kid)
        total, spread = math.fsum(below[kid][0] for kid in kids), math.fsum(below[kid][1] for kid in kids)
        precision = 1.0 / spread + (0.0 if own is None else 1.0 / own)
        seen = total / spread + (0.0 if own is None else values[node] / own)
        below[node] = seen / precision, 1.0 / precision, spread

    found: dict[str, Estimate] = {}

    def down(node: str, estimate: Estimate) -> None:
        found[node] = estimate
        kids = children.get(node, ())
        spread = below[node][2]
        rest = estimate.value - math.fsum(below[kid][0] for kid in kids)
        for kid in kids:
            value, own, _ = below[kid]
            variance = own - own**2 / spread * (1.0 - estimate.variance / spread)
            down(kid, Estimate(value + own / spread * rest, variance))

    up(root)
    down(root, Estimate(*below[root][:2]))
    return found


def whole_numbers(
    children: Mapping[str, Sequence[str]], estimates: Mapping[str, Estimate], root: str
) -> dict[str, int]:
    """Numbers that people can have, from the top: none below 0, and children add up to their parent.

    Not right on average: five empty hours at sigma 3 become 5 people.
    """
    found = {root: max(0, math.floor(estimates[root].value + 0.5))}

    def down(node: str) -> None:
        kids = children.get(node, ())
        if kids:
            shares = _onto_sum([estimates[kid].value for kid in kids], found[node])
            least = [math.floor(share) for share in shares]
            order = sorted(range(len(kids)), key=lambda k: (least[k] - shares[k], k))
            for k in order[: found[node] - sum(least)]:
                least[k] += 1
            found.update(zip(kids, least, strict=True))
        for kid in kids:
            down(kid)

    down(root)
    return found


def _onto_sum(values: Sequence[float], total: int) -> list[float]:
    """The nearest numbers of 0 or more with this sum."""
    rising = sorted(values, reverse=True)
    shift = 0.0
    for count in range(1, len(rising) + 1):
        own = (math.fsum(rising[:count]) - total) / count
        if rising[count - 1] - own > 0.0:
            shift = own
    return [max(0.0, value - shift) for value in values]
