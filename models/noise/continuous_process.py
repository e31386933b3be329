"""The process ``V_epsilon`` for real-valued data of any dimension: Laplace noise at every privacy level.

Koufogiannis and Pappas, "Diffusing Private Data over Networks": at level ``epsilon`` the density of the noise
is proportional to ``exp(-epsilon ||v||)``, and from a level to a lower one independent noise is added
(theorem 3). A path is constant but for a few jumps (proposition 4), so it is drawn exactly (algorithm 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from models.exceptions import MechanismError
from models.keys import UniformStream
from models.numerics.arrays import Floats


@dataclass
class PrivateProcess:
    """One path of ``V_epsilon`` in ``dimension`` dimensions, from the level ``highest`` downwards.

    The path is a function of the stream's seed: a recipient who gets another level later, up to ``highest``,
    reads the same path there. ``highest`` (nats per unit of the data) is fixed beforehand and can never rise.
    The path is drawn as far down as it has been read.
    """

    dimension: int
    highest: float
    stream: UniformStream
    _levels: list[float] = field(init=False, repr=False)
    _values: list[Floats] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Draw the noise at the largest level; :class:`MechanismError` for a wrong level or dimension."""
        if self.dimension < 1:
            raise MechanismError("the data must have a dimension", self.dimension, "give 1 or more")
        if not (math.isfinite(self.highest) and self.highest > 0):
            raise MechanismError("the largest epsilon must be positive", self.highest, "e.g. 1.0")
        self._levels = [self.highest]
        self._values = [laplace_vector(self.dimension, self.highest, self.stream)]

    def at(self, epsilon: float) -> Floats:
        """The noise (dimension,) at a level in (0, highest]; :class:`MechanismError` outside."""
        if not 0.0 < epsilon <= self.highest:
            raise MechanismError(
                f"a level must lie in (0, {self.highest:g}]",
                epsilon,
                "fix the largest level before the first release; it cannot rise for a value already released",
            )
        self._draw_below(epsilon)
        return self._values[int(np.searchsorted(-np.array(self._levels), -epsilon, side="right")) - 1].copy()

    def jumps(self, lowest: float) -> Floats:
        """The levels in [lowest, highest) at which the value changes, falling."""
        self._draw_below(lowest)
        levels = np.array(self._levels[1:])
        return levels[levels >= lowest]

    def _draw_below(self, epsilon: float) -> None:
        """Jump after jump until the path is known at ``epsilon``.

        ``ln epsilon`` of the jumps is a Poisson process of rate ``dimension + 1`` (proposition 4).
        """
        while self._levels[-1] >= epsilon:
            level = self._levels[-1] * math.exp(-self.stream.exponential() / (self.dimension + 1))
            self._values.append(self._values[-1] + jump_vector(self.dimension, level, self.stream))
            self._levels.append(level)


def laplace_vector(dimension: int, epsilon: float, stream: UniformStream) -> Floats:
    """A vector with density proportional to ``exp(-epsilon ||v||)``: Gamma norm, uniform direction."""
    norm = math.fsum(stream.exponential() for _ in range(dimension)) / epsilon
    return norm * _direction(dimension, stream)


def jump_vector(dimension: int, epsilon: float, stream: UniformStream) -> Floats:
    """A jump at level ``epsilon``: its norm has the paper's Bessel law, its direction is uniform.

    The jump's characteristic function is ``1 / (1 + ||s||^2 / epsilon^2)`` (the paper's lemma 7), which is
    that of a normal vector with an exponential variance: ``sqrt(2 E) Z / epsilon``. So no Bessel function has
    to be inverted. In one dimension it is Laplace.
    """
    scale = math.sqrt(2.0 * stream.exponential()) / epsilon
    return scale * stream.normals(dimension)


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of ``2^exponent`` on which real values are published.

    Floating-point noise can be attacked in its low bits (Mironov 2012). Here the value and the noise are each
    rounded to the grid and their sum is exact, so the possible sums do not depend on the value.
    """

    exponent: int

    @property
    def step(self) -> float:
        """Distance of two neighbours on the grid, in units of the data."""
        return math.ldexp(1.0, self.exponent)

    @classmethod
    def for_level(cls, highest: float) -> Grid:
        """A grid a thousand times finer than the noise of the best-informed tier."""
        return cls(math.floor(-math.log2(highest)) - 10)

    def round(self, values: Floats) -> Floats:
        """The nearest points of the grid, same shape; :class:`MechanismError` beyond 2^52 of its steps."""
        steps = np.rint(values / self.step)
        if not np.all(np.abs(steps) < 2.0**52):
            raise MechanismError(
                "values and noise must be below 2^52 steps of the grid", values, "choose a coarser grid"
            )
        return np.asarray(steps * self.step, dtype=np.float64)

    def epsilon(self, level: float, radius: float, dimension: int) -> float:
        """A tier's guarantee (nats) for values ``radius`` apart, which rounding may move further apart."""
        return level * (radius + self.step * math.sqrt(dimension))


def publish_tiers(value: Floats, process: PrivateProcess, levels: Sequence[float], grid: Grid) -> Floats:
    """The values of each tier (tiers, dimension) for ``value`` (dimension,), on the grid, from one path.

    Rounding the noise is post-processing, as the value is already on the grid: the coalition's guarantee
    holds, with :meth:`Grid.epsilon`.
    """
    rounded = grid.round(np.asarray(value, dtype=np.float64))
    return np.stack([rounded + grid.round(process.at(level)) for level in levels])


def _direction(dimension: int, stream: UniformStream) -> Floats:
    """A uniform direction, a unit vector."""
    vector = stream.normals(dimension)
    return vector / math.sqrt(float(np.sum(vector * vector)))
