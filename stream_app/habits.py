"""Whether habits alone give people away, so that no release can show."""

from __future__ import annotations

from accounting.continuous import ContinuousAccountant
from stream_app.wording import in_a_hundred

HABITS_DECIDE = 0.8
"""The median guess without any count above which a warning is due."""


def habits_warning(accountant: ContinuousAccountant) -> str | None:
    """What to say where habits alone tell most people's steps, cause and remedy; None where they do not."""
    guess, settings = accountant.median_guess(), accountant.settings
    if guess <= HABITS_DECIDE:
        return None
    return (
        "habits alone give this away: without any count, half of the people are guessed right in "
        f"{in_a_hundred(guess)} cases or more, with {settings.mistakes} of {settings.horizon} steps allowed "
        "to be wrong, so what releases add hardly shows; lower mistakes or lengthen horizon"
    )
