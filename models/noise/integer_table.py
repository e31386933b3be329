"""Symmetric integer noise as a table of exact integers, and its sampler from 128 uniform bits.

Weights come in 256-bit fixed point, are rounded to multiples of 2^-128, and are sampled by inverting the
cumulative distribution: what the sampler realises is the table, exactly, and nothing depends on floating
point. No low bits to attack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from models.exceptions import MechanismError
from models.numerics.jit import jit

UNIT_BITS = 128  # probabilities are multiples of 2^-128: as many bits as one draw gets
TOTAL = 1 << UNIT_BITS
FIXED_BITS = 256  # precision of the weights
FAITHFUL_LOG_RATIO = 2.0**-40  # between the table and the ideal law, at values of at least 2^40 units
_FAITHFUL_UNITS = 1 << 40
_CONTEXT = Context(prec=120)
_LOW_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class IntegerTable:
    """Exact law of a sampler of integers, symmetric about zero.

    ``units[k]`` is the probability of ``k`` and of ``-k`` as a multiple of 2^-128; all values together have
    exactly 2^128 units. ``truncated_mass`` bounds the total variation to the ideal law. ``threshold_high``
    and ``threshold_low`` (2K,) are the cumulative units of ``-K .. K - 1``, in two words.
    """

    units: tuple[int, ...]
    truncated_mass: float
    threshold_high: NDArray[np.uint64]
    threshold_low: NDArray[np.uint64]

    @property
    def last(self) -> int:
        """Largest value that can be drawn; the smallest is its negative."""
        return len(self.units) - 1

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """The table's own probabilities (2K + 1,) of ``-K .. K``, each correctly rounded."""
        side = np.array([unit / TOTAL for unit in self.units])
        return np.concatenate((side[:0:-1], side))

    @cached_property
    def faithful_last(self) -> int:
        """Largest value up to which the table is within :data:`FAITHFUL_LOG_RATIO` of the ideal law.

        Rounding moves a value by half a unit, which is at most ``2^-41`` of 2^40 units; what else differs
        (the total, the weights' own precision) is below ``2^-90`` of a value.
        """
        return sum(unit >= _FAITHFUL_UNITS for unit in self.units) - 1  # they fall from 0 on

    def reveal_probability(self) -> float:
        """Total variation between the noise and itself shifted by one: of unimodal noise, the mass of zero.

        Rounded up, the truncated mass added: so it holds for table and ideal law.
        """
        exact = Fraction(self.units[0], TOTAL) + Fraction(self.truncated_mass)
        return min(1.0, math.nextafter(float(exact), math.inf))

    def sample(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Noise (n,) for 128 uniform bits each: ``words`` (n, 2), high word first."""
        values = np.empty(words.shape[0], dtype=np.int64)
        _invert(self.threshold_high, self.threshold_low, words, values)
        return values - self.last


def integer_table(weights: Sequence[int], tail: int) -> IntegerTable:
    """The table of weights for 0..K (both signs alike), ``tail`` bounding the weight of all values beyond."""
    units = _round_to_units(weights)
    high, low = _cumulative_words(units)
    # Rounding moves each value by half a unit at most, and the value 0 by what all others moved together.
    truncated_units = len(units) + Fraction(tail * TOTAL, weights[0])
    truncated_mass = math.nextafter(float(truncated_units / TOTAL), math.inf)
    return IntegerTable(units, truncated_mass, high, low)


def fixed_point_exp(exponent: Fraction) -> int:
    """``exp(exponent)`` for a negative exponent, as a multiple of 2^-256, rounded down."""
    quotient = _CONTEXT.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    return int(_CONTEXT.multiply(_CONTEXT.exp(quotient), Decimal(1 << FIXED_BITS)))


def _round_to_units(weights: Sequence[int]) -> tuple[int, ...]:
    """Normalise to 2^128 units: nearest unit for each k > 0, what is left for 0; zeros at the end dropped."""
    total = 2 * sum(weights) - weights[0]
    units = [((weight << (UNIT_BITS + 1)) + total) // (2 * total) for weight in weights[1:]]
    while units and units[-1] == 0:
        units.pop()
    return (TOTAL - 2 * sum(units), *units)


def _cumulative_words(units: tuple[int, ...]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Units at or below each of -K..K-1, high and low 64 bits; K itself always completes the 2^128."""
    cumulative, running = [], 0
    for unit in (*units[:0:-1], *units[:-1]):
        running += unit
        cumulative.append(running)
    high = np.array([entry >> 64 for entry in cumulative], dtype=np.uint64)
    low = np.array([entry & _LOW_WORD for entry in cumulative], dtype=np.uint64)
    return high, low


@jit
def _invert(
    high: NDArray[np.uint64], low: NDArray[np.uint64], words: NDArray[np.uint64], out: NDArray[np.int64]
) -> None:
    """How many thresholds are at or below each 128-bit word: the inverse cumulative distribution."""
    for i in range(words.shape[0]):
        left, right = 0, high.size
        while left < right:
            middle = (left + right) // 2
            above = high[middle] > words[i, 0] or (high[middle] == words[i, 0] and low[middle] > words[i, 1])
            if above:
                right = middle
            else:
                left = middle + 1
        out[i] = left


# The discrete Gaussian as a table of exact integers (:mod:`models.noise.integer_table`).
#
# Probability of the integer ``k`` proportional to ``exp(-k^2 / (2 sigma^2))`` (Canonne, Kamath, Steinke,
# "The Discrete Gaussian for Differential Privacy", 2020, definition 1). Weights are computed once per sigma
# in 256-bit fixed point; an error of n^2 2^-256 is left after n steps of the recurrence.

MIN_SIGMA = 0.05  # below it the noise is zero in all but 2^-287 of the draws: say raw instead
MAX_SIGMA = 10_000.0  # 251 851 table entries, 4 MB, a fifth of a second to compute

_WIDTH = 13.2  # table half-width in sigmas: the mass beyond is below 2^-128


@lru_cache(maxsize=64)
def discrete_gaussian_table(sigma: float) -> IntegerTable:
    """The table for ``sigma`` in [0.05, 10 000], computed once; :class:`MechanismError` outside."""
    check_sigma(sigma)
    weights, tail = _weights(sigma)
    return integer_table(weights, tail)


def check_sigma(sigma: float) -> None:
    """:class:`MechanismError` unless ``sigma`` is a finite number in the range that has a table."""
    if math.isfinite(sigma) and MIN_SIGMA <= sigma <= MAX_SIGMA:
        return
    if math.isfinite(sigma) and 0 <= sigma < MIN_SIGMA:
        remedy = 'use the mechanism "raw" for no noise'
    elif sigma > MAX_SIGMA:
        remedy = 'use the mechanism "suppressed" where such noise would leave nothing'
    else:
        remedy = "give the standard deviation in people, e.g. 1.0"
    raise MechanismError(f"sigma must lie in {MIN_SIGMA}..{MAX_SIGMA:g}", sigma, remedy)


def _weights(sigma: float) -> tuple[list[int], int]:
    """Weights of 0..K in 256-bit fixed point, and a bound on the weight of all values beyond, both sides.

    ``w(k+1) = w(k) r(k)`` with ``r(k) = exp(-(2k+1) / (2 sigma^2))`` and ``r(k+1) = r(k) exp(-1 / sigma^2)``.
    """
    one = 1 << FIXED_BITS
    last = max(1, math.ceil(_WIDTH * sigma))
    ratio = fixed_point_exp(-1 / (2 * Fraction(sigma) ** 2))
    step = ratio * ratio >> FIXED_BITS
    weights = [one]
    for _ in range(last):
        weights.append(weights[-1] * ratio >> FIXED_BITS)
        ratio = ratio * step >> FIXED_BITS
    # Ratios fall, so what lies beyond is below a geometric series; one more for the truncated products.
    next_weight = (weights[-1] * ratio >> FIXED_BITS) + last**2
    tail = 2 * next_weight * one // (one - ratio) + 1
    return weights, tail
