"""Generic numerics: roots that err to the safe side, confidence bounds on means, flat arrays of people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from accounting.exceptions import SettingsError
from models.numerics.jit import jit

# Flat arrays in which everybody owns a run of entries.


def packed_positions(start: NDArray[np.int64], people: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every position these people own in a flat array; person ``i`` owns ``[start[i], start[i + 1])``."""
    length = start[people + 1] - start[people]
    first = np.cumsum(length) - length
    return np.repeat(start[people] - first, length) + np.arange(length.sum())


# Bisection that always errs to the side asked for.

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


# Exact confidence intervals for a probability estimated by counting successes.

PROVED = 1.0 - 1e-9
"""Confidence from which draws prove a claim wrong: no false alarm in a lifetime of audits."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval that holds the true probability with at least the stated confidence."""

    low: float
    high: float


def clopper_pearson(successes: int, draws: int, confidence: float = 0.95) -> Interval:
    """The exact binomial interval (Clopper and Pearson 1934), from quantiles of beta laws.

    :class:`SettingsError` unless ``0 <= successes <= draws``, ``draws >= 1`` and ``0 < confidence < 1``.
    """
    if not 0 <= successes <= draws or draws < 1:
        raise SettingsError(
            "successes must lie in 0..draws and draws be 1 or more",
            f"{successes} of {draws}",
            "count each draw once",
        )
    if not 0.0 < confidence < 1.0:
        raise SettingsError("a confidence must lie between 0 and 1", confidence, "use 0.95, say")
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if successes == 0 else float(betaincinv(successes, draws - successes + 1, tail))
    high = 1.0 if successes == draws else float(betaincinv(successes + 1, draws - successes, 1.0 - tail))
    return Interval(low, high)


# Betting against a mean: the capital of a gambler whom no mean as large as claimed lets grow rich.
#
# Who claims that draws in [0, 1] have a mean of ``m`` or more must offer even odds on every draw that comes
# below ``m``. Stakes ``lambda(t)``, each chosen before its draw, make of 1
#
#     capital = product over t of 1 + lambda(t) (m - x(t)).
#
# If the claim is true, its expectation never rises, so it ever reaches ``1 / delta`` with probability
# ``delta`` at most (Ville's inequality). Stakes are the predictable plug-in for a number of draws fixed
# beforehand, ``sqrt(2 ln(1 / delta) / (n variance))`` with the variance of the draws before, cut where a
# draw of 1 would take nearly everything (Waudby-Smith and Ramdas, *Estimating means of bounded random
# variables by betting*, 2024, section 4).

_MOST_STAKED = 0.95  # of the capital, should the draw be 1
_ROUNDING = 1e-15  # of each factor, relative


@jit
def stakes(values: NDArray[np.float64], log_threshold: float) -> NDArray[np.float64]:
    """``lambda(t)`` (n,) before it is cut, each from the draws before its own."""
    count = values.size
    found = np.empty(count)
    total, squares = 0.5, 0.25
    for t in range(count):
        found[t] = np.sqrt(2.0 * log_threshold * (t + 1) / (count * squares))
        total += values[t]
        squares += (values[t] - total / (t + 2)) ** 2
    return found


@jit
def is_refuted(
    mean: float, values: NDArray[np.float64], stake: NDArray[np.float64], threshold: float
) -> bool:
    """Whether the capital ever is ``threshold`` times what it was at first; true of any larger mean, too.

    Each factor rises in the mean, whether its stake is cut or not. Capital that underflows is lost.
    """
    if mean >= 1.0:
        return True  # nothing is above 1
    most, enough = _MOST_STAKED / (1.0 - mean), threshold * (1.0 + _ROUNDING * (values.size + 1))
    capital = 1.0
    for t in range(values.size):
        capital *= 1.0 + min(stake[t], most) * (mean - values[t])
        if capital >= enough:
            return True
    return False


# A mean from independent draws, bounded with a stated confidence.


def upper_mean(values: NDArray[np.float64], failure_probability: float) -> float:
    """Upper bound on the mean of draws in [0, 1] that fails with at most the given probability.

    The largest mean that betting does not refute (:mod:`accounting.numerics`), and never less
    than the draws' own; their order matters. Their number must have been fixed beforehand. Without draws it
    says 1.
    """
    if values.size == 0 or failure_probability <= 0.0:
        return 1.0
    threshold = 1.0 / failure_probability
    stake = stakes(values, log(threshold) if threshold < inf else inf)
    refuted = bracket(lambda mean: not is_refuted(mean, values, stake, threshold), 0.0, 1.0)
    return max(refuted.first_false, min(1.0, float(values.mean())))


def mean_interval(values: NDArray[np.float64], failure_probability: float) -> Interval:
    """An interval that misses the mean of draws in [0, 1] with at most the given probability.

    The upper bound on the mean, and what the upper bound on the mean of ``1 - x`` leaves of it.
    """
    each = 0.5 * failure_probability
    return Interval(1.0 - upper_mean(1.0 - values, each), upper_mean(values, each))


# Relative entropy without cancellation, and the success that binary divergence allows, never too small.

_NEARLY_NOTHING = 1e-12  # information, relative to the guess
ROOT_MARGIN = 1e-9  # what rounding may take from a root, relative
_LAST_BITS = 1e-14  # what rounding may take from the root of a sum of squares of differences


@jit
def relative_entropy_term(q: float, p: float) -> float:
    """``q ln(q / p) - q + p``, never negative; their sum over a law is its relative entropy."""
    if p <= 0.0:
        return np.inf if q > 0.0 else 0.0
    if q <= 0.0:
        return p
    change = (q - p) / p
    if -0.5 <= change <= 1.0:
        return max(0.0, p * ((1.0 + change) * np.log1p(change) - change))
    # Nothing cancels; 1 + change would be 0 for q below p's last bit, and infinite for p far below q.
    return max(0.0, q * (np.log(q) - np.log(p)) + (p - q))


@jit
def divergence_root(information: float, guess: float) -> float:
    """The largest ``p >= q`` with ``d(p||q) <= I``, approached from above so that it never falls short.

    ``d`` is convex in ``p``, hence Newton's iterates from the right stay right of the root. The start is the
    smallest of three closed upper bounds (``d >= p ln(1/q) - ln 2``; Pinsker; ``d >= (p - q)^2 / (2 p)``).
    """
    if guess >= 1.0 or information >= -np.log(guess):
        return 1.0
    if information <= 0.0:
        return guess
    if information < _NEARLY_NOTHING * guess:
        # d(p||q) - I would be lost in rounding; d >= (p - q)^2 / (2 p (1 - q)) is the root to a billionth.
        a = information * (1.0 - guess)
        return min(1.0, (guess + a + np.sqrt(a * (a + 2.0 * guess))) * (1.0 + ROOT_MARGIN))
    p = min(
        (information + np.log(2.0)) / -np.log(guess),
        guess + np.sqrt(0.5 * information),
        guess + information + np.sqrt(information * (information + 2.0 * guess)),
    )
    p = min(p, 1.0 - 1e-16)
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
    """``sqrt(I / 2)``: how much information moves the probability of any event on average, never too small.

    Pinsker for the total variation, Jensen for the mean. Exactly 0 for no information.
    """
    if information <= 0.0:
        return 0.0
    return float(np.sqrt(0.5 * information)) * (1.0 + ROOT_MARGIN) + _LAST_BITS


# Roots of the binary divergence for many people.


@jit
def fill_divergence_roots(
    information_nats: NDArray[np.float64], guess: NDArray[np.float64], root: NDArray[np.float64]
) -> None:
    """:func:`divergence_root` of each; fills ``root``, all of shape (n,)."""
    for i in range(root.size):
        root[i] = divergence_root(information_nats[i], guess[i])
