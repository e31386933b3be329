"""One person under one schedule: released information, guesses from the prior alone, the history before."""

from accounting.exposure.entropy import entropy_nats
from accounting.exposure.exposure import Exposure, check_mistakes
from accounting.exposure.guess_probability import PriorGuess, prior_guess
from accounting.exposure.history import (
    check_window,
    history_mixture,
    horizon_information,
    reversed_contraction,
    window_of,
)
from accounting.exposure.information import Information, released_information
from accounting.exposure.prior_baseline import baseline

__all__ = [
    "Exposure",
    "Information",
    "PriorGuess",
    "baseline",
    "check_mistakes",
    "check_window",
    "entropy_nats",
    "history_mixture",
    "horizon_information",
    "prior_guess",
    "released_information",
    "reversed_contraction",
    "window_of",
]
