"""Numbers in the words people use: "3 in 100", not 0.0312."""

from __future__ import annotations

from accounting.decisions.because import Because
from stream_app.messages import DecisionReason

_SETTLED = {
    Because.FREE: "every sensor at its best",
    Because.BUDGET: "the least error that keeps the risk budget",
    Because.SPENT: "suppressed, the risk budget leaves no room",
    Because.HABITS: "suppressed, at this hour habits alone break the risk budget",
    Because.CONTRADICTION: "a sensor that must be raw would break the risk budget and is suppressed",
    Because.NO_ANSWER: "not everybody's accounts answered in time",
}

_WHOLES = (100, 1_000, 10_000, 100_000, 1_000_000)


def in_a_hundred(probability: float) -> str:
    """A probability as "3 in 100"; small ones "2 in 10,000", neither rounded to nothing nor to certainty."""
    if probability <= 0.0:
        return "0 in 100"
    if 0.995 <= probability < 1.0:
        return "over 99 in 100"
    for whole in _WHOLES:
        if probability * whole >= 0.95:
            return f"{round(probability * whole):,} in {whole:,}"
    return "under 1 in 10⁶"


def duration(seconds: float) -> str:
    """A length of time: "40 s", "3 min", "2 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def decision_in_words(why: DecisionReason) -> str:
    """Why a step was released as it was, in a sentence without a count of the sensors."""
    over = f"{why.over:,} of {why.people:,} people over the limit by releases, {why.natural:,} by habit alone"
    cleared = f"; {why.dear:,} within it by the dear bounds only" if why.dear else ""
    return f"{_SETTLED[why.because].capitalize()}: {over}, {why.allowed:,} may be{cleared}."
