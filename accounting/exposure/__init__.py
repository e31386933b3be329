"""One person under one schedule: released information, guesses from the prior alone, the history before."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.exposure.exposure import (
    Exposure,
    Information,
    PriorGuess,
    PublishedWindows,
    baseline,
    check_mistakes,
    entropy_nats,
    prior_guess,
    released_information,
)
from accounting.exposure.history import horizon_information, window_of
