"""Exact confidence intervals for a probability estimated by counting successes."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import betaincinv

from accounting.exceptions import SettingsError

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
