"""Generic numerics: roots that err to the safe side, confidence bounds on means, packed arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from accounting.exceptions import SettingsError
from models.numerics.arrays import Floats, Integers
from models.numerics.jit import jit


def packed_positions(start: Integers, people: Integers) -> Integers:
    """The positions of these people in a packed array; person ``i`` owns ``[start[i], start[i + 1])``."""
    length = start[people + 1] - start[people]
    first = np.cumsum(length) - length
    return np.repeat(start[people] - first, length) + np.arange(length.sum())


_HALVINGS = 200  # more than bisection between any two floats takes


class Bracket(NamedTuple):
    """Neighbouring floats between which a condition stops being true."""

    last_true: float
    first_false: float


def bracket(holds: Callable[[float], bool], low: float, high: float) -> Bracket:
    """Where ``holds``, true at ``low`` and changing at most once towards ``high``, stops being true.

    The caller takes the end that errs to the safe side. Both ends are ``high`` if it never stops.
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


PROVED = 1.0 - 1e-9
"""The confidence at which draws prove a claim wrong; it makes false alarms practically impossible."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval that contains the true value with at least the stated confidence."""

    low: float
    high: float


def clopper_pearson(successes: int, draws: int, confidence: float = 0.95) -> Interval:
    """The exact binomial interval (Clopper and Pearson 1934), from quantiles of beta distributions.

    :class:`SettingsError` unless ``0 <= successes <= draws``, ``draws >= 1`` and ``0 < confidence < 1``.
    """
    if not 0 <= successes <= draws or draws < 1:
        raise SettingsError(
            "successes must lie in 0..draws and draws be 1 or more",
            f"{successes} of {draws}",
            "count each draw once",
        )
    if not 0.0 < confidence < 1.0:
        raise SettingsError("a confidence must lie between 0 and 1", confidence, "use, for example, 0.95")
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if successes == 0 else float(betaincinv(successes, draws - successes + 1, tail))
    high = 1.0 if successes == draws else float(betaincinv(successes + 1, draws - successes, 1.0 - tail))
    return Interval(low, high)


# Upper bounds on a mean by betting (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
# betting", 2024, section 4).
#
# To test the claim that draws in [0, 1] have a mean of ``m`` or more, a gambler bets against it. With stakes
# ``lambda(t)``, each chosen before its draw, a capital of 1 becomes
#
#     capital = product over t of 1 + lambda(t) (m - x(t)).
#
# If the claim is true, the expected capital never rises, so it ever reaches ``1 / delta`` with probability
# ``delta`` at most (Ville's inequality). The stakes are the predictable plug-in for a number of draws fixed
# beforehand, ``sqrt(2 ln(1 / delta) / (n variance))`` with the variance of the draws before. They are limited
# so that a draw of 1 does not take nearly all of the capital.

_MOST_STAKED = 0.95  # the largest part of the capital that a draw of 1 may take
_ROUNDING = 1e-15  # relative, of each factor: a claim must not be refuted by rounding


@jit
def stakes(values: Floats, log_threshold: float) -> Floats:
    """``lambda(t)`` (n,) before it is limited, each from the draws before it."""
    count = values.size
    found = np.empty(count)
    total, squares = 0.5, 0.25
    for t in range(count):
        found[t] = np.sqrt(2.0 * log_threshold * (t + 1) / (count * squares))
        total += values[t]
        squares += (values[t] - total / (t + 2)) ** 2
    return found


@jit
def is_refuted(mean: float, values: Floats, stake: Floats, threshold: float) -> bool:
    """Whether the capital ever reaches ``threshold`` times its first value.

    If so, it does for any larger mean, because each factor increases with the mean, limited or not. Capital
    that underflows stays 0, which refutes nothing.
    """
    if mean >= 1.0:
        return True  # no mean of draws in [0, 1] is above 1
    most, enough = _MOST_STAKED / (1.0 - mean), threshold * (1.0 + _ROUNDING * (values.size + 1))
    capital = 1.0
    for t in range(values.size):
        capital *= 1.0 + min(stake[t], most) * (mean - values[t])
        if capital >= enough:
            return True
    return False


def upper_mean(values: Floats, failure_probability: float) -> float:
    """Upper bound on the mean of draws in [0, 1] that fails with at most the given probability.

    It is the largest mean that betting does not refute, and never less than the mean of the draws. The order
    of the draws matters, and their number must have been fixed beforehand. Without draws the bound is 1.
    """
    if values.size == 0 or failure_probability <= 0.0:
        return 1.0
    threshold = 1.0 / failure_probability
    stake = stakes(values, log(threshold) if threshold < inf else inf)
    refuted = bracket(lambda mean: not is_refuted(mean, values, stake, threshold), 0.0, 1.0)
    return max(refuted.first_false, min(1.0, float(values.mean())))


def mean_interval(values: Floats, failure_probability: float) -> Interval:
    """An interval that misses the mean of draws in [0, 1] with at most the given probability.

    From the upper bounds on the means of ``x`` and of ``1 - x``, each with half of the probability.
    """
    each = 0.5 * failure_probability
    return Interval(1.0 - upper_mean(1.0 - values, each), upper_mean(values, each))


# Relative entropy without cancellation, and the root of the binary divergence, never too small.

_NEARLY_NOTHING = 1e-12  # information, relative to the guess, below which the root has a closed form
ROOT_MARGIN = 1e-9  # relative; more than rounding may take from a root
_LAST_BITS = 1e-14  # more than rounding may take from the root of a sum of squares of differences


@jit
def relative_entropy_term(q: float, p: float) -> float:
    """``q ln(q / p) - q + p``, never negative; the sum over a law is the relative entropy ``KL(q || p)``."""
    if p <= 0.0:
        return np.inf if q > 0.0 else 0.0
    if q <= 0.0:
        return p
    change = (q - p) / p
    if -0.5 <= change <= 1.0:
        return max(0.0, p * ((1.0 + change) * np.log1p(change) - change))
    # Nothing cancels here. 1 + change would be 0 if q were below the last bit of p, and infinite for tiny p.
    return max(0.0, q * (np.log(q) - np.log(p)) + (p - q))


@jit
def divergence_root(information: float, guess: float) -> float:
    """The largest ``p >= q`` with ``d(p||q) <= I``, approached from above so that it is never too small.

    By data processing of relative entropy: if a guess is right with probability ``q`` without releases, then
    after ``I`` nats of information an adversary is right with probability ``p`` at most.

    ``d`` is convex in ``p``, so Newton's iterates from the right stay right of the root. The
    start is the smallest of three closed upper bounds (``d >= p ln(1/q) - ln 2``; Pinsker;
    ``d >= (p - q)^2 / (2 p)``).
    """
    if guess >= 1.0 or information >= -np.log(guess):
        return 1.0
    if information <= 0.0:
        return guess
    if information < _NEARLY_NOTHING * guess:
        # d(p||q) - I would be lost in rounding; solving (p - q)^2 / (2 p (1 - q)) = I errs by a billionth.
        a = information * (1.0 - guess)
        return min(1.0, (guess + a + np.sqrt(a * (a + 2.0 * guess))) * (1.0 + ROOT_MARGIN))
    p = min(
        (information + np.log(2.0)) / -np.log(guess),
        guess + np.sqrt(0.5 * information),
        guess + information + np.sqrt(information * (information + 2.0 * guess)),
    )
    p = min(p, 1.0 - 1e-16)  # log1p(-p) must be finite
    log_missed = np.log1p(-guess)
    for _ in range(60):
        outside = np.log1p(-p) - log_missed
        slope = np.log(p / guess) - outside
        excess = p * slope + outside - information  # d(p||q) - I
        if slope <= 0.0 or excess <= 1e-13 * information:
            break
        p -= excess / slope
    return min(1.0, p * (1.0 + ROOT_MARGIN) + 1e-300)


@jit
def most_moved(information: float) -> float:
    """``sqrt(I / 2)``: the most that information moves an event's probability on average; never too small.

    By Pinsker's inequality for the total variation and Jensen's for the mean. Exactly 0 for no information.
    """
    if information <= 0.0:
        return 0.0
    return float(np.sqrt(0.5 * information)) * (1.0 + ROOT_MARGIN) + _LAST_BITS


@jit
def fill_divergence_roots(information_nats: Floats, guess: Floats, root: Floats) -> None:
    """Fill ``root`` with the :func:`divergence_root` of each entry, all of shape (n,)."""
    for i in range(root.size):
        root[i] = divergence_root(information_nats[i], guess[i])
