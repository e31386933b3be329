"""Numbers in the words people use: "3 in 100", not 0.0312."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, inf, isfinite, log, log10

from accounting.decisions import BudgetReason
from accounting.ledgers import DpStatement, ZcdpSpend
from stream_app.wire import Attack, DecisionReason, OverLimitCounts

_SETTLED = {
    BudgetReason.FREE: "every sensor at its best",
    BudgetReason.BUDGET: "the least error that keeps the risk budget",
    BudgetReason.SPENT: "suppressed, as any release would exceed the risk budget",
    BudgetReason.HABITS: "suppressed, as habits alone exceed the risk budget at this hour",
    BudgetReason.CONTRADICTION: "a sensor that must be raw would exceed the risk budget and is suppressed",
    BudgetReason.NO_ANSWER: "not every account worker answered in time",
}

DISTANCE = "The distance between attack and ceiling is what we do not know."
ATTACK = (
    "How often one method is right that is tried after every step on drawn people, with trajectories from "
    "their habits and releases from the schedule, never with a count."
)

IN_CROWD = "ceilings are those against whoever does not know where everybody else is"

_FINEST = 0.01  # in 100: what is smaller, or nearer to 100, is said as this


def in_a_hundred(probability: float) -> str:
    """A probability, always of 100: "3 in 100", "0.04 in 100", "99.6 in 100"; never rounded to 0 or 100."""
    part = 100.0 * probability
    if part <= 0.0 or part >= 100.0:
        return f"{0 if part <= 0.0 else 100} in 100"
    if part < 0.95:
        return f"{max(part, _FINEST):.1g} in 100"
    if part < 99.5:
        return f"{part:.0f} in 100"
    missing = float(f"{max(100.0 - part, _FINEST):.1g}")
    return f"{100.0 - missing:.{-floor(log10(missing))}f} in 100"


def epsilon_in_words(epsilon: float) -> str:
    """An epsilon that is certified, rounded up: "0.0104", "4.16", "5,385"; "none" where there is none."""
    if not isfinite(epsilon):
        return "none"
    if epsilon >= 100.0 or epsilon <= 0.0:
        return f"{ceil(epsilon):,}"
    unit = 10.0 ** (floor(log10(epsilon)) - 2)
    return f"{ceil(epsilon / unit * (1.0 - 1e-12)) * unit:.3g}"


def spent_in_words(spend: ZcdpSpend | DpStatement, delta: float) -> str:
    """Epsilon of what was released, or "none", and which releases left none: for a cell of a table."""
    epsilon = spend.epsilon(delta) if isinstance(spend, ZcdpSpend) else spend.epsilon
    return epsilon_in_words(epsilon) if isfinite(epsilon) else f"none: {why_no_epsilon(spend, delta)}"


def why_no_epsilon(spend: ZcdpSpend | DpStatement, delta: float) -> str:
    """What was released so that no differential-privacy guarantee can be given at ``delta``."""
    did = spend.unprotected
    if spend.rho_value() == inf:
        if not did.counts:
            return "counts were published exactly"
        how = "exactly" if did.is_exact else "exactly, or with noise that hides nobody"
        others = " and other sensors" if did.of_others else ""
        counts = "1 count" if did.counts == 1 else f"{did.counts:,} counts"
        return (
            f"{counts} of sensor {did.sensor}{others} {'was' if did.counts == 1 else 'were'} published {how}"
        )
    if spend.distance.outside + spend.distance.untabled_mass >= delta:
        return f"the noise is too small, or delta {delta:g} is, to hide what one person changes"
    most = log(delta / spend.distance.untabled_mass)
    return (
        f"the way in which its noise is drawn vouches for no epsilon above {most:.3g} at delta {delta:g}, "
        "and what was released costs more"
    )


def attack_in_words(attack: Attack | None) -> str:
    """A mean attack with its interval: "53 in 100 (51 to 55)"."""
    return "not measured" if attack is None else in_interval(attack.success, attack.low, attack.high)


def in_interval(mean: float, low: float, high: float) -> str:
    """The same of any mean."""
    ends = (in_a_hundred(end).removesuffix(" in 100") for end in (low, high))
    return f"{in_a_hundred(mean)} ({' to '.join(ends)})"


def in_points(difference: float) -> str:
    """A difference of probabilities: "5 percentage points"."""
    return f"{in_a_hundred(difference).removesuffix(' in 100')} percentage points"


def step_in_words(step: int, origin_seconds: int, step_seconds: int) -> str:
    """When a step begins: "2026-03-02 17:00 UTC (step 17)", or its number where no origin is set."""
    if origin_seconds == 0:
        return f"step {step:,}"
    try:
        begin = datetime.fromtimestamp(origin_seconds + step * step_seconds, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return f"step {step:,}"
    return f"{begin:%Y-%m-%d %H:%M} UTC (step {step:,})"


def duration(seconds: float) -> str:
    """A length of time: "40 s", "3 min", "2 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def not_reached_in_words(people: int) -> str | None:
    """What to say where the work of a step did not suffice for the tighter bounds; None where it did."""
    if people == 0:
        return None
    who = "1 person keeps" if people == 1 else f"{people:,} people keep"
    return (
        f"{who} the fast bound, which is larger than need be: the work of the step went to those to whom "
        "more was added; raise sharpen_operations to reach everybody"
    )


def decision_in_words(why: DecisionReason, over: OverLimitCounts | None = None) -> str:
    """Why a step was released as it was, in a sentence without a count of the sensors.

    Three figures of people, never one for the other: who is ``over`` the limit now and ever was, where the
    accounts are here, and the forecast that the decision was made by.
    """
    if why.people == 0:
        return "Suppressed, nobody is accounted: a risk budget must have people to protect."
    cleared = f", after the slower, tighter bound cleared {why.cleared:,}" if why.cleared else ""
    forecast = (
        f"Forecast when it was decided: of {why.people:,} people {_forecast(why)} over the limit because "
        f"of releases, then or in silence after it{cleared}, and {why.natural:,} by habit alone; "
        f"{why.allowed:,} may be"
    )
    whom = f"; {IN_CROWD}" if why.adversary else ""
    now = "" if over is None else f" {over_limit_in_words(over)}."
    return f"{_SETTLED[why.reason].capitalize()}.{now} {forecast}{whom}."


def _forecast(why: DecisionReason) -> str:
    """People are not counted beyond one more than may be."""
    return f"{why.over:,} or more" if why.over > why.allowed else f"{why.over:,}"


def forecast_in_words(why: DecisionReason) -> str:
    """All people whom a decision counted against the budget, in a table: "24", "26+" for more not counted."""
    return f"{why.over + why.natural}{'+' if why.over > why.allowed else ''}"


def over_limit_in_words(over: OverLimitCounts) -> str:
    """Who is over the limit now, by the ceilings that decide, and who ever was."""
    return (
        f"Over the limit now: {over.by_releases:,} people by releases and {over.by_habits:,} by habit alone; "
        f"ever so far: {over.ever:,}"
    )
