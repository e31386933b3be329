"""Noise of a law on a few integers: the base of a mechanism of one's own."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from inspect import get_annotations
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from models.exceptions import MechanismError
from models.mechanisms.base import AddedNoise, NoiseLaw
from models.noise import InformationTable, noise_information_table
from models.numerics.arrays import Floats, Integers, Words

_DRAWN = 2.0**-53  # of a value's probability, by which a draw of 53 bits can miss it


class BoundedNoise(AddedNoise):
    """Noise on the integers ``-m..m`` of a law of your own; all that accountants ask for follows from it.

    A subclass is a frozen dataclass whose fields are numbers, with a ``name`` and ``law()``::

        @dataclass(frozen=True)
        class Triangle(tg.BoundedNoise):
            width: float
            name = "triangle"

            def law(self):
                far = np.abs(np.arange(-int(self.width), int(self.width) + 1))
                return self.width + 1 - far

    What is bounded can rule somebody out, so it has no differential privacy: divergence, zCDP and pure
    epsilon are infinite. :class:`~models.exceptions.MechanismError` for a law that is none.
    """

    is_exact: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """The parameters are the fields, which a dataclass has by their annotations."""
        own = get_annotations(cls)
        cls.parameter_names = tuple(name for name, kind in own.items() if "ClassVar" not in str(kind))

    @abstractmethod
    def law(self) -> ArrayLike:
        """Weights (2 m + 1,) of ``-m..m``, the same for either sign; they need not sum to 1."""

    def publish(self, counts: Integers, words: Words) -> Integers:
        """Counts (n,) plus noise by inversion of the law, with 53 of the bits ``words`` (n, 2)."""
        sums = np.cumsum(self._chances())
        level = (words[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53 * sums[-1]
        drawn = np.searchsorted(sums, level, side="right")
        return np.asarray(counts + np.minimum(drawn, sums.size - 1) - sums.size // 2, np.int64)

    def noise_law(self) -> NoiseLaw:
        """The law, and by how much draws of 53 bits can miss it."""
        chances = self._chances()
        return NoiseLaw(-(chances.size // 2), chances, chances.size * _DRAWN)

    def reveal_probability(self) -> float:
        """Total variation between the noise and itself shifted by one."""
        moved = np.abs(np.diff(self._chances(), prepend=0.0, append=0.0)).sum()
        return float(min(1.0, 0.5 * moved + self.noise_law().truncated_mass))

    def information_table(self) -> InformationTable:
        """Information of the law."""
        return _information_table(tuple(self._chances().tolist()))

    def _chances(self) -> Floats:
        weights = np.asarray(self.law(), dtype=np.float64)
        is_law = weights.ndim == 1 and weights.size % 2 == 1 and bool(np.all(weights >= 0.0))
        if not (is_law and 0.0 < weights.sum() < inf and np.array_equal(weights, weights[::-1])):
            raise MechanismError(
                f"law() of mechanism {self.name!r} must be weights of -m..m, the same for either sign",
                f"{weights.size} weights",
                "give an odd number, 0 or more each, and some above 0",
            )
        return np.asarray(weights / weights.sum(), np.float64)


@lru_cache(maxsize=64)
def _information_table(chances: tuple[float, ...]) -> InformationTable:
    return noise_information_table(np.array(chances))
