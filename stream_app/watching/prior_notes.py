"""What is to be said of the habits a run rests on: that there are none, that they are assumed, or decide."""

from __future__ import annotations

from math import inf

from accounting.bounds.radius import Radius
from accounting.continuous import ContinuousAccountant
from stream_app.watching.wording import in_a_hundred

HABITS_DECIDE = 0.8
"""The median guess without any count above which a warning is due."""


NO_PEOPLE = (
    "no priors, so no risk of persons is computed: what is promised is differential privacy, as far as "
    "releases are noised, and nothing else"
)


def basis_note(people: int, assumed: str | None) -> str | None:
    """What every output of a run must say of its priors; None for measured habits of people."""
    if people == 0:
        return NO_PEOPLE
    if assumed is not None:
        return f"habits are assumed, not measured ({assumed}): every guess and ceiling holds for them only"
    return None


def radius_note(radius: Radius) -> str:
    """For whom a ceiling within a declared radius holds: its condition, which stands beside the number."""
    steps = radius.last - radius.first + 1
    known = [f"{radius.kl:g} nats of the prior's (relative entropy)"] if radius.kl < inf else []
    if radius.tv < 1.0:
        known.append(f"{radius.tv:g} of the prior's (total variation)")
    near = " and ".join(known) or "the given distances of the prior's"
    return (
        f"if the law of a person's places, over all {steps:,} steps of the schedule together, is within "
        f"{near}, no method does better; no added belongs to it, as the guess would rise too"
    )


def posterior_note() -> str:
    """What a mean and a credible ceiling over drawn chains are, and what they are not."""
    return (
        "Mean ceiling: if habits do not change, and smoothing says what was believed before the data, an "
        "adversary who knows the person's own chain succeeds no more often, averaged over what the data "
        "leave open; in brackets the 95 % interval of drawing. Credible: with 90 % the person's own ceiling "
        "is not above it. Figures, not certificates"
    )


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
