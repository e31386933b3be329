"""How much noise each level of one count should get: hours, days and weeks, of sensors, districts and a city.

Every level is published with noise of its own. Precisions are one over variances; a level with precision 0
is not published. What the estimates of all levels together vary by follows from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Grid = tuple[tuple[float, ...], ...]
"""A number for each level of time (rows) and of space (columns), finest first."""


@dataclass(frozen=True, slots=True)
class NestedLevels:
    """A cell of level ``i`` has ``times[i]`` finest times, or ``places[i]`` finest places; 1 first, each a
    multiple of the one before."""

    times: tuple[int, ...]
    places: tuple[int, ...]

    def variances(self, precision: Sequence[Sequence[float]]) -> Grid:
        """The variance of a cell of each level after least squares over all of them.

        ``n_i^2 m_k^2 sum_{l>=i, q>=k} (1/n_l - 1/n_{l+1}) (1/m_q - 1/m_{q+1}) / lambda_lq`` with
        ``lambda_lq = sum_{j<=l, p<=q} w_jp n_j m_p``; beyond the last level ``1/n`` is 0.
        """
        found = self._lambda(precision)
        return tuple(
            tuple(
                (self.times[i] * self.places[k]) ** 2
                * math.fsum(self._step(m, q) / found[m][q] for m, q in self._from(i, k))
                for k in range(len(self.places))
            )
            for i in range(len(self.times))
        )

    def _lambda(self, precision: Sequence[Sequence[float]]) -> list[list[float]]:
        return [
            [
                math.fsum(
                    precision[j][p] * self.times[j] * self.places[p]
                    for j in range(m + 1)
                    for p in range(q + 1)
                )
                for q in range(len(self.places))
            ]
            for m in range(len(self.times))
        ]

    def _step(self, time: int, place: int) -> float:
        """The share of the space of all cells that has this eigenvalue."""
        return _difference(self.times, time) * _difference(self.places, place)

    def _from(self, time: int, place: int) -> list[tuple[int, int]]:
        return [(m, q) for m in range(time, len(self.times)) for q in range(place, len(self.places))]

    def best_split(
        self, cost: Sequence[Sequence[float]], weight: Sequence[Sequence[float]], rho: float
    ) -> Split:
        """The precisions of least ``sum weight Var`` with ``sum precision cost = 2 rho``.

        ``cost`` is the largest sum of squares of one person's counts in the cells of a level. The shares
        ``v = w cost / 2 rho`` are multiplied by ``sqrt(g / F)``, ``g = -dF/dv``, until the gap ``max g - F``
        to the least of all, which is convex in them, is nothing.
        """
        size = len(self.times), len(self.places)
        cells = [(i, k) for i in range(size[0]) for k in range(size[1])]
        shares = {cell: 1.0 / len(cells) for cell in cells}
        gap, objective = math.inf, math.inf
        precision: Grid = ()
        for _ in range(_ROUNDS):
            precision = tuple(
                tuple(2.0 * rho * shares[i, k] / cost[i][k] for k in range(size[1])) for i in range(size[0])
            )
            variances = self.variances(precision)
            objective = math.fsum(weight[i][k] * variances[i][k] for i, k in cells)
            gains = self._gains(precision, weight)
            by_share = {(i, k): gains[i, k] * 2.0 * rho / cost[i][k] for i, k in cells}
            gap = max(by_share.values()) - objective
            if gap <= _GAP * objective:
                break
            shares = {cell: shares[cell] * math.sqrt(by_share[cell] / objective) for cell in cells}
            total = math.fsum(shares.values())
            shares = {cell: share / total for cell, share in shares.items()}
        return Split(precision, objective, gap)

    def _gains(
        self, precision: Sequence[Sequence[float]], weight: Sequence[Sequence[float]]
    ) -> dict[tuple[int, int], float]:
        """By how much the weighted variance falls with each precision."""
        found = self._lambda(precision)
        size = len(self.times), len(self.places)
        falls = [[0.0] * size[1] for _ in range(size[0])]  # of each eigenvalue
        for i in range(size[0]):
            for k in range(size[1]):
                scale = weight[i][k] * (self.times[i] * self.places[k]) ** 2
                for m, q in self._from(i, k):
                    falls[m][q] += scale * self._step(m, q) / found[m][q] ** 2
        return {
            (j, p): self.times[j] * self.places[p] * math.fsum(falls[m][q] for m, q in self._from(j, p))
            for j in range(size[0])
            for p in range(size[1])
        }


_ROUNDS = 20_000
_GAP = 1e-12


class Split(NamedTuple):
    """Precisions of each level, the weighted variance, and how far it may be from the least."""

    precision: Grid
    objective: float
    gap: float


def _difference(sizes: Sequence[int], level: int) -> float:
    return 1.0 / sizes[level] - (1.0 / sizes[level + 1] if level + 1 < len(sizes) else 0.0)


def coarse_share(cells: int, most: int, fine_weight: float, coarse_weight: float) -> float:
    """What the coarser of two levels should get of the budget; 0 where it only hurts the finer one.

    A person is counted in ``most`` of the ``cells`` fine cells of a coarse one, and so ``most`` times in it.
    """
    ratio = cells / most
    inner = fine_weight * (1.0 - 1.0 / cells)
    outer = fine_weight / cells + coarse_weight * cells
    z = math.sqrt(outer * (ratio - 1.0) / inner)
    return (z - 1.0) / (z + ratio - 1.0) if z > 1.0 else 0.0
