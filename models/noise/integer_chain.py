"""Integer noise: exact tables and samplers, and all tiers of one count from one chain of noise.

In the chain, the noise at the largest level is two-sided geometric; each lower level adds an independent
increment. So every tier has exactly the noise of its own level, and a coalition that pools its tiers knows no
more than its best-informed member: the others' noise is that member's plus independent noise (Koufogiannis
and Pappas, "Diffusing Private Data over Networks", theorem 3; here for integers, beyond the paper).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise

import numpy as np

from models.exceptions import MechanismError
from models.numerics.arrays import Floats, Integers, Words
from models.numerics.jit import jit

# Symmetric integer noise as a table of exact integers, and its sampler from 128 uniform bits.
#
# Weights are computed in 256-bit fixed point, rounded to multiples of 2^-128 and sampled by inverting the
# cumulative distribution. So the sampler's law is the table exactly, and nothing depends on floating point,
# whose low bits can be attacked (Mironov 2012).

UNIT_BITS = 128  # probabilities are multiples of 2^-128: as many bits as one draw gets
TOTAL = 1 << UNIT_BITS
FIXED_BITS = 256  # precision of the weights
_ONE = 1 << FIXED_BITS
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
    threshold_high: Words
    threshold_low: Words

    @property
    def last(self) -> int:
        """Largest value that can be drawn; the smallest is its negative."""
        return len(self.units) - 1

    @cached_property
    def probabilities(self) -> Floats:
        """The table's own probabilities (2K + 1,) of ``-K .. K``, each correctly rounded."""
        side = np.array([unit / TOTAL for unit in self.units])
        return np.concatenate((side[:0:-1], side))

    @cached_property
    def faithful_last(self) -> int:
        """Largest value up to which the table is within :data:`FAITHFUL_LOG_RATIO` of the ideal law.

        Rounding moves a value by half a unit, which is at most ``2^-41`` of 2^40 units; all other differences
        (the total, the weights' own precision) are below ``2^-90`` of a value.
        """
        return sum(unit >= _FAITHFUL_UNITS for unit in self.units) - 1  # the units decrease from 0 on

    def reveal_probability(self) -> float:
        """Total variation between the noise and itself shifted by one: of unimodal noise, the mass of zero.

        Rounded up, the truncated mass added: so it holds for table and ideal law.
        """
        exact = Fraction(self.units[0], TOTAL) + Fraction(self.truncated_mass)
        return min(1.0, math.nextafter(float(exact), math.inf))

    def sample(self, words: Words) -> Integers:
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


def _falling_weights(ratio: int, step: int, last: int, lost: int) -> tuple[list[int], int]:
    """Weights ``w(k + 1) = w(k) r(k)`` of 0..K in fixed point, and a bound on all beyond, both sides.

    ``r(0)`` is ``ratio`` and ``r(k + 1) = r(k) step``; ``lost`` is what truncated products lose of a weight.
    """
    weights = [_ONE]
    for _ in range(last):
        weights.append(weights[-1] * ratio >> FIXED_BITS)
        ratio = ratio * step >> FIXED_BITS
    # Ratios never rise, so the tail is at most a geometric series.
    next_weight = (weights[-1] * ratio >> FIXED_BITS) + lost
    return weights, 2 * next_weight * _ONE // (_ONE - ratio) + 1


def _round_to_units(weights: Sequence[int]) -> tuple[int, ...]:
    """Normalise to 2^128 units: nearest unit for each k > 0, the rest for 0; zeros at the end are dropped."""
    total = 2 * sum(weights) - weights[0]
    units = [((weight << (UNIT_BITS + 1)) + total) // (2 * total) for weight in weights[1:]]
    while units and units[-1] == 0:
        units.pop()
    return (TOTAL - 2 * sum(units), *units)


def _cumulative_words(units: tuple[int, ...]) -> tuple[Words, Words]:
    """Units at or below each of -K..K-1, high and low 64 bits; K itself always completes the 2^128."""
    cumulative, running = [], 0
    for unit in (*units[:0:-1], *units[:-1]):
        running += unit
        cumulative.append(running)
    high = np.array([entry >> 64 for entry in cumulative], dtype=np.uint64)
    low = np.array([entry & _LOW_WORD for entry in cumulative], dtype=np.uint64)
    return high, low


@jit
def _invert(high: Words, low: Words, words: Words, out: Integers) -> None:
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


# The discrete Gaussian.
#
# Probability of the integer ``k`` proportional to ``exp(-k^2 / (2 sigma^2))`` (Canonne, Kamath, Steinke,
# "The Discrete Gaussian for Differential Privacy", 2020, definition 1). Weights are computed once per sigma
# in 256-bit fixed point; an error of n^2 2^-256 is left after n steps of the recurrence.

MIN_SIGMA = 0.05  # below it the noise is zero in all but 2^-287 of the draws: use raw instead
MAX_SIGMA = 10_000.0  # 251 851 table entries, 4 MB, a fifth of a second to compute

_WIDTH = 13.2  # table half-width in sigmas: the mass beyond is below 2^-128


@lru_cache(maxsize=64)
def discrete_gaussian_table(sigma: float) -> IntegerTable:
    """The table for ``sigma`` in [0.05, 10 000], computed once; :class:`MechanismError` outside."""
    check_sigma(sigma)
    last = max(1, math.ceil(_WIDTH * sigma))
    ratio = fixed_point_exp(-1 / (2 * Fraction(sigma) ** 2))  # r(k) = exp(-(2k + 1) / (2 sigma^2))
    return integer_table(*_falling_weights(ratio, ratio * ratio >> FIXED_BITS, last, last**2))


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


# Two-sided geometric noise, and the increments from one level to a lower one.
#
# ``Pr[V = k] = (1 - q) / (1 + q) q^|k|`` with ``q = exp(-epsilon)`` is the integer form of Laplace noise
# (Ghosh, Roughgarden, Sundararajan, "Universally Utility-Maximizing Privacy Mechanisms", 2012).

MIN_EPSILON = 0.001  # a table of 180 000 entries; noise of 1 000 people on average
MAX_EPSILON = 40.0  # beyond, the noise is zero in all but 2^-56 of the draws: use raw instead


def check_epsilon(epsilon: float) -> None:
    """:class:`MechanismError` unless ``epsilon`` is in the range that has a table."""
    if math.isfinite(epsilon) and MIN_EPSILON <= epsilon <= MAX_EPSILON:
        return
    remedy = "give the privacy level in nats, e.g. 0.5"
    if epsilon > MAX_EPSILON:
        remedy = 'use the mechanism "raw" where nothing is to be hidden'
    raise MechanismError(f"epsilon must lie in {MIN_EPSILON:g}..{MAX_EPSILON:g}", epsilon, remedy)


@lru_cache(maxsize=64)
def geometric_table(epsilon: float) -> IntegerTable:
    """Table of the two-sided geometric noise of level ``epsilon``; :class:`MechanismError` out of range."""
    check_epsilon(epsilon)
    return integer_table(*_weights(epsilon, 0))


@lru_cache(maxsize=64)
def increment_table(lower: float, higher: float) -> IntegerTable:
    """Table of ``W`` with ``V_lower = V_higher + W``, ``W`` independent of ``V_higher``.

    With probability :func:`atom_probability` ``W`` is 0, otherwise two-sided geometric of level ``lower``
    (itself possibly 0): the quotient of the two characteristic functions. :class:`MechanismError` unless
    ``lower < higher``.
    """
    if not lower < higher:
        raise MechanismError(
            "a tier's epsilon must be below that of the tier it is made from",
            f"{lower} and {higher}",
            "give each tier an epsilon of its own",
        )
    atom = atom_probability(lower, higher)
    q = _fixed_q(lower)
    zero = (1 - q) / (1 + q)
    return integer_table(*_weights(lower, int(_ONE * atom / ((1 - atom) * zero))))


def atom_probability(lower: float, higher: float) -> Fraction:
    """``((1 - q_l) / (1 - q_h))^2 q_h / q_l``, ``q = exp(-epsilon)`` to 256 bits: no jump between two levels.

    The integer form of Koufogiannis and Pappas ("Diffusing Private Data over Networks", proof of theorem 3),
    whose atom is ``(epsilon_l / epsilon_h)^2``; beyond the paper.
    """
    check_epsilon(lower)
    check_epsilon(higher)
    q_low, q_high = _fixed_q(lower), _fixed_q(higher)
    return ((1 - q_low) / (1 - q_high)) ** 2 * q_high / q_low


def _fixed_q(epsilon: float) -> Fraction:
    return Fraction(fixed_point_exp(-Fraction(epsilon)), _ONE)


def _weights(epsilon: float, extra_at_zero: int) -> tuple[list[int], int]:
    """Weights ``q^k`` of 0..K in fixed point, and a bound on the weight of all values beyond, both sides."""
    last = max(1, math.ceil(UNIT_BITS * math.log(2.0) / epsilon))
    weights, tail = _falling_weights(fixed_point_exp(-Fraction(epsilon)), _ONE, last, last)
    weights[0] += extra_at_zero
    return weights, tail


def check_levels(levels: Sequence[float]) -> None:
    """:class:`MechanismError` unless there is a level, and levels rise strictly."""
    if not levels or any(not low < high for low, high in pairwise(levels)):
        raise MechanismError(
            "tiers must have privacy levels of their own, at least one",
            list(levels),
            "give each tier another epsilon, or two recipients the same tier",
        )


def chain_noise(levels: Sequence[float], words: Words) -> Integers:
    """Noise (n, m) of ``n`` counts at ``m`` rising levels (epsilon, nats), one chain a count.

    ``words`` (n, m, 2): 128 uniform bits for the largest level and for each increment below it, in that
    order. :class:`MechanismError` for levels that do not rise or have no table.
    """
    check_levels(levels)
    falling = levels[::-1]
    tables = [geometric_table(falling[0])]
    tables += [increment_table(lower, higher) for higher, lower in pairwise(falling)]
    draws = [table.sample(words[:, position]) for position, table in enumerate(tables)]
    return np.cumsum(np.stack(draws, axis=1), axis=1)[:, ::-1]


@dataclass(frozen=True, slots=True)
class ReleasedNoise:
    """The noise of one released value at the levels that were ever read: rising ``levels``, ``noise`` each.

    To give a recipient a level that nobody has read, continue this process (:meth:`with_level`). A fresh draw
    at that level would be a second, independent look at the count: both together would cost more than either.
    """

    levels: tuple[float, ...]
    noise: tuple[int, ...]

    def __post_init__(self) -> None:
        """:class:`MechanismError` for levels that do not rise or do not fit the noise."""
        check_levels(self.levels)
        if len(self.levels) != len(self.noise):
            raise MechanismError(
                "each level must have its noise", f"{self.levels} and {self.noise}", "give one per level"
            )

    def at(self, level: float) -> int:
        """The noise at a level that was read; :class:`MechanismError` for any other."""
        if level not in self.levels:
            raise MechanismError("the level must have been read", level, "continue the process to it first")
        return self.noise[self.levels.index(level)]

    def with_level(self, level: float, word: int) -> ReleasedNoise:
        """The same process with one more level; unchanged when that was read before.

        ``word`` is one uniform 128-bit integer. The new noise has its law given all that was read, which
        depends on the two neighbouring levels alone (the process is Markov).
        """
        if level in self.levels:
            return self
        position = bisect_left(self.levels, level)
        above = self.levels[position] if position < len(self.levels) else None
        start = 0 if above is None else self.noise[position]
        if position == 0:
            noise = start + _free(level, self.levels[0]).draw(word)
        else:
            gap = self.noise[position - 1] - start
            noise = start + _bridge(self.levels[position - 1], level, above, gap).draw(word)
        levels = (*self.levels[:position], level, *self.levels[position:])
        return ReleasedNoise(levels, (*self.noise[:position], noise, *self.noise[position:]))


def continued_value(values: Mapping[float, int], level: float, word: int) -> int:
    """A reading's value at one more ``level``, given its ``values`` at the published levels (epsilon).

    Needs no count: below the largest level the process moves by increments, and those are differences of
    values as well as of noise. ``word`` as in :meth:`ReleasedNoise.with_level`. :class:`MechanismError` for a
    level above the largest: its law depends on the count, and it would reveal more than was accounted for.
    """
    levels = tuple(sorted(values))
    if not levels or level > levels[-1]:
        raise MechanismError(
            "a level read later must not be above those already out",
            f"{level:g} above {levels[-1]:g}" if levels else "no level",
            "give the recipient the best level there is; a better one can only begin with new readings",
        )
    known = ReleasedNoise(levels, tuple(values[level] for level in levels))
    return known.with_level(level, word).at(level)


def between_weights(first: IntegerTable, second: IntegerTable, gap: int) -> Mapping[int, int]:
    """Integer weights of ``A`` given ``A + B = gap``, ``A`` and ``B`` independent with the two tables."""
    values = range(max(-first.last, gap - second.last), min(first.last, gap + second.last) + 1)
    return {value: first.units[abs(value)] * second.units[abs(gap - value)] for value in values}


@dataclass(frozen=True, slots=True)
class _Quantiles:
    """A law on consecutive integers from ``first`` on, by its ``cumulative`` integer weights."""

    first: int
    cumulative: tuple[int, ...]

    @classmethod
    def of(cls, weights: Mapping[int, int]) -> _Quantiles:
        return cls(next(iter(weights)), tuple(accumulate(weights.values())))

    def draw(self, word: int) -> int:
        """The value at the quantile ``word / 2^128``; each probability is met to 2^-128."""
        target = (word * self.cumulative[-1] >> UNIT_BITS) + 1
        return self.first + bisect_left(self.cumulative, target)


# A log is continued reading by reading, and nearly all readings have one of a few gaps between two tiers.
@lru_cache(maxsize=64)
def _bridge(below: float, level: float, above: float | None, gap: int) -> _Quantiles:
    """Law of the step from ``above`` (None: from no noise) to ``level``, given ``gap`` of it and the next."""
    first = geometric_table(level) if above is None else increment_table(level, above)
    return _Quantiles.of(between_weights(first, increment_table(below, level), gap))


@lru_cache(maxsize=8)
def _free(level: float, above: float) -> _Quantiles:
    """Law of the step from ``above`` to a ``level`` that has nothing below it."""
    table = increment_table(level, above)
    return _Quantiles.of({value: table.units[abs(value)] for value in range(-table.last, table.last + 1)})
