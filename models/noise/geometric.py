"""Two-sided geometric noise, and what has to be added to make it noisier, as tables of exact integers.

``Pr[V = k] = (1 - q) / (1 + q) q^|k|`` with ``q = exp(-epsilon)`` is the integer form of Laplace noise
(Ghosh, Roughgarden, Sundararajan, "Universally Utility-Maximizing Privacy Mechanisms", 2012). The tables are
sampled as the discrete Gaussian's are: what the sampler realises is the table.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from models.exceptions import MechanismError
from models.noise.integer_table import FIXED_BITS, UNIT_BITS, IntegerTable, fixed_point_exp, integer_table

MIN_EPSILON = 0.001  # a table of 180 000 entries; noise of 1 000 people on average
MAX_EPSILON = 40.0  # beyond, the noise is zero in all but 2^-56 of the draws: say raw instead
_ONE = 1 << FIXED_BITS


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
    q = fixed_point_exp(-Fraction(epsilon))
    last = max(1, math.ceil(UNIT_BITS * math.log(2.0) / epsilon))
    weights = [_ONE]
    for _ in range(last):
        weights.append(weights[-1] * q >> FIXED_BITS)
    next_weight = (weights[-1] * q >> FIXED_BITS) + last  # one more for each truncated product
    tail = 2 * next_weight * _ONE // (_ONE - q) + 1
    weights[0] += extra_at_zero
    return weights, tail
