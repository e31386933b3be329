"""Numbers in the words people use: "3 in 100", not 0.0312."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from math import ceil, floor, inf, isfinite, log, log10
from typing import NamedTuple

from accounting.continuous import ContinuousAccountant
from accounting.decisions import BudgetReason
from accounting.ledgers import DpStatement, ZcdpSpend
from accounting.ledgers.units import Unit, UnitStatement
from models.calendar import zone_of
from models.text import number_of
from stream_app.wire import DecisionReason, OverLimitCounts, RiskSummary, SampledRisks

HABITS_DECIDE = 0.8
"""The median guess without any count above which a warning is due."""

_SETTLED = {
    BudgetReason.FREE: "every sensor at its best",
    BudgetReason.BUDGET: "the least error that keeps the risk budget",
    BudgetReason.SPENT: "suppressed, because any release would exceed the risk budget",
    BudgetReason.HABITS: "suppressed, because habits alone exceed the risk budget at this hour",
    BudgetReason.CONTRADICTION: "a sensor that must be raw would exceed the risk budget and is suppressed",
    BudgetReason.NO_ANSWER: "not every account worker answered in time",
}

DISTANCE = "The distance between attack and ceiling is what we do not know."
ATTACK = (
    "How often one method is right that is tried after every step on simulated people: trajectories are "
    "drawn from their habits and releases from the schedule, never from a count."
)

IN_CROWD = "ceilings hold against an adversary who does not know where the others are"

NEAREST, UP, DOWN = ROUND_HALF_UP, ROUND_CEILING, ROUND_FLOOR
"""How a number is shortened. A ceiling, and what is added at most, goes up, the lower end of an attack down:
what is shown then never says more than was proved. Guesses and means go to the nearest."""

EXACT = "exact"
"""A limit or a threshold that somebody chose is no estimate: it is said as it was chosen."""

_FINEST = Decimal("0.01")  # in 100: what is smaller, or nearer to 100, is said as this


def shortened(value: float, decimals: int, to: str = NEAREST, *, shift: int = 0) -> str:
    """A number, times ``10 ** shift``, with so many decimals: ``shortened(0.6473, 3, UP)`` is "0.648"."""
    return f"{_rounded(_decimal(value, shift), decimals, to):z.{decimals}f}"


def significant(value: float, digits: int, to: str = NEAREST, *, shift: int = 0) -> str:
    """The same with so many significant digits: ``significant(8.6895e-5, 2, UP, shift=2)`` is "0.0087"."""
    found = _decimal(value, shift)
    short = _rounded(found, digits - 1 - found.adjusted(), to)
    return _plain(short) if found == 0 or found.adjusted() >= -6 else f"{short:.{digits - 1}e}"


def confidence_in_words(confidence: float) -> str:
    """How sure, never rounded to certainty: "95%", "99.9%"."""
    return f"{_plain(_rounded(_decimal(confidence, 2), 3, DOWN))}%"


def in_a_hundred(probability: float, to: str = NEAREST) -> str:
    """A probability, always of 100: "3 in 100", "0.04 in 100", "99.6 in 100".

    To the nearest it is never rounded to 0 or 100; rounded up it may be 100, and down 0. ``EXACT`` is not
    rounded: "2.4 in 100".
    """
    part = _decimal(probability, 2)
    if to == EXACT:
        return f"{_plain(part)} in 100"
    if not 0.0 < probability < 1.0:
        return f"{0 if probability <= 0.0 else 100} in 100"
    if part < 1:
        if part < _FINEST:
            return f"{0 if to == DOWN else _FINEST} in 100"
        return f"{_plain(_one_digit(part, to))} in 100"
    missing = 100 - part
    if missing > (1 if to == UP else Decimal("0.5")):
        return f"{_rounded(part, 0, to)} in 100"
    if missing < _FINEST:
        return f"{100 if to == UP else 100 - _FINEST} in 100"
    return f"{_plain(100 - _one_digit(missing, {UP: DOWN, DOWN: UP}.get(to, to)))} in 100"


def ceiling_in_words(probability: float) -> str:
    """What no method exceeds, or what is added at most: rounded up."""
    return in_a_hundred(probability, UP)


def _decimal(value: float, shift: int) -> Decimal:
    """Twelve significant digits of a value, times a power of ten.

    The digits after them are what floating-point sums leave: 0.1 + 0.2 is 30 in 100 and not, rounded up, 31.
    """
    return Decimal(f"{value:.11e}").scaleb(shift)


def _rounded(value: Decimal, decimals: int, to: str) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-decimals), to)


def _one_digit(value: Decimal, to: str) -> Decimal:
    return _rounded(value, -value.adjusted(), to)


def sentence_case(words: str) -> str:
    """Words as they begin a sentence."""
    return words[:1].upper() + words[1:]


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"


NO_GUARANTEE = "no guarantee"
"""An infinite epsilon. "None" would read as nothing spent, "no limit" as nothing to fear."""


def epsilon_in_words(epsilon: float) -> str:
    """An epsilon that is certified, rounded up: "0.0104", "4.16", "5,385"; infinite, it promises nothing."""
    if not isfinite(epsilon):
        return NO_GUARANTEE
    if epsilon >= 100.0 or epsilon <= 0.0:
        return f"{ceil(epsilon):,}"
    unit = 10.0 ** (floor(log10(epsilon)) - 2)
    # The factor keeps an epsilon of three digits as it is: 1.11 / 0.01 is 111.00000000000001 in floats.
    return f"{ceil(epsilon / unit * (1.0 - 1e-12)) * unit:.3g}"


WHOLE_LOG = "whole log"
"""The unit of privacy of every epsilon that is told without another."""


def unit_in_words(found: UnitStatement, hours: tuple[float, float], is_bounded: bool) -> str:
    """What a unit of privacy covers: what one person did in it may as well not have been."""
    any_hours, visit = (f"{each:g} hour{'s' if each != 1 else ''}" for each in hours)
    if found.unit is Unit.LOG:
        often = ", counted no more often a day than is declared" if is_bounded else ", counted at every one"
        steps = "the one step" if found.steps == 1 else f"all {found.steps:,} steps"
        return f"all that a person did in {steps}{often}"
    if found.unit is Unit.DAY:
        return "all that a person did on any one date"
    if found.unit is Unit.STEPS:
        return f"all that a person did in any {any_hours} ({found.steps:,} steps)"
    return f"one visit to one place, of at most {visit} ({found.steps:,} steps)"


def spent_in_words(spend: ZcdpSpend | DpStatement, delta: float) -> str:
    """Epsilon of what was released, or that there is no guarantee, and which releases left none."""
    epsilon = spend.epsilon(delta) if isinstance(spend, ZcdpSpend) else spend.epsilon
    return (
        epsilon_in_words(epsilon) if isfinite(epsilon) else f"{NO_GUARANTEE}: {why_no_epsilon(spend, delta)}"
    )


def why_no_epsilon(spend: ZcdpSpend | DpStatement, delta: float) -> str:
    """Why no differential-privacy guarantee can be given at ``delta``: which releases prevent it."""
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
        return f"the noise, or delta {delta:g}, is too small to hide what one person changes"
    most = log(delta / spend.distance.untabled_mass)
    return (
        f"the way in which the noise is drawn guarantees no epsilon above {most:.3g} at delta {delta:g}, "
        "and what was released costs more"
    )


def in_interval(mean: float, low: float, high: float) -> str:
    """A mean with its interval, never shown narrower than it is: "53 in 100 (51 to 55)"."""
    ends = (in_a_hundred(end, to).removesuffix(" in 100") for end, to in ((low, DOWN), (high, UP)))
    return f"{in_a_hundred(mean)} ({' to '.join(ends)})"


def in_points(difference: float, to: str = NEAREST) -> str:
    """A difference of probabilities: "5 percentage points"."""
    return f"{in_a_hundred(difference, to).removesuffix(' in 100')} percentage points"


def change_in_words(difference: float) -> str:
    """How a chance changes: "−3.1 in 100"; what is rounded to nothing has no sign."""
    part = shortened(abs(difference), 1, shift=2)
    if part == "0.0":
        return "under 0.1 in 100" if difference else "0 in 100"
    return f"{'−' if difference < 0.0 else '+'}{part} in 100"


class StepTimes(NamedTuple):
    """When steps begin, by the deployment's ``clock``: its time zone, or its origin's offset; else UTC.

    Without an origin steps have numbers only.
    """

    origin_seconds: int
    step_seconds: int
    clock: str | None = None

    def when(self, step: int) -> str:
        """When a step begins: "2026-03-02 17:00 CET (step 17)", or its number where no origin is set."""
        if self.origin_seconds == 0:
            return f"step {step:,}"
        try:
            return f"{self.moment(self.origin_seconds + step * self.step_seconds)} (step {step:,})"
        except (ValueError, OverflowError, OSError):  # beyond the calendar
            return f"step {step:,}"

    def moment(self, seconds: float) -> str:
        """A moment of Unix time by this clock: "2026-03-02 17:00 CET"; an error beyond the calendar."""
        moment = datetime.fromtimestamp(seconds, zone_of(self.clock))
        name = f"{moment:%Z}"  # zones without letters of their own have an offset: +03
        return f"{moment:%Y-%m-%d %H:%M} {'UTC' if name[:1] in '+-' else ''}{name}"

    def span(self, first: int, last: int) -> str:
        """Steps in words: "steps 0 to 47, from 2026-03-02 00:00 UTC"; one step as :meth:`when` says it."""
        if first == last:
            return self.when(first)
        begin = self.when(first).rpartition(" (")[0]
        return f"steps {first:,} to {last:,}{f', from {begin} on' if begin else ''}"


def duration(seconds: float) -> str:
    """A length of time: "40 s", "3 min", "2 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def not_reached_in_words(people: int) -> str | None:
    """What to say where the work of a step did not suffice for the refined bounds; None where it did."""
    if people == 0:
        return None
    return (
        f"the ceilings of {number_of(people, 'person')} are higher than they need be, and none is too low: "
        "only the fast bound was computed for them, as the work allowed for a step went to people with more "
        "added risk. A larger sharpen_operations lowers them, and takes longer"
    )


LEVELS = ("Level", "People by ceiling", "People by guess", "More because of releases", "People by added risk")
"""The headings over :func:`level_rows`; the live page has the same."""


def level_rows(summary: RiskSummary) -> Iterator[tuple[str, ...]]:
    """People at or above each level: by ceiling, by guess, the difference, and by added risk.

    Where ceilings are raised to a radius the difference is not due to releases, and is not known.
    """
    for level, at_risk in summary.at_risk.items():
        by_guess = summary.at_baseline.get(level)
        by_releases = "not recorded" if by_guess is None else f"{at_risk - by_guess:,}"
        yield (
            f"{in_a_hundred(float(level), EXACT)} or more",
            f"{at_risk:,}",
            "not recorded" if by_guess is None else f"{by_guess:,}",
            "not known" if summary.within_nats else by_releases,
            f"{summary.at_added_risk.get(level, 0):,}",
        )


def decision_in_words(why: DecisionReason, over: OverLimitCounts | None = None) -> str:
    """Why a step was released as it was, without a count of the sensors.

    It says three figures of people apart: who is ``over`` the limit now and who ever was, where the accounts
    are here, and the forecast by which the decision was made. A decision stops counting at one person more
    than may be over the limit.
    """
    if why.people == 0:
        return "Suppressed, because no people are accounted: a risk budget must have people to protect."
    now = "" if over is None else f" {over_limit_in_words(over)}."
    more = " or more" if why.over > why.allowed else ""
    cleared = f", after the refined bound cleared {why.cleared:,}" if why.cleared else ""
    crowd = f"; {IN_CROWD}" if why.adversary else ""
    return (
        f"{_SETTLED[why.reason].capitalize()}.{now} Forecast when it was decided: of "
        f"{number_of(why.people, 'person')} {why.over:,}{more} over the limit because of releases, in this "
        f"step or if nothing is released after it{cleared}, and {why.natural:,} because of habits alone; "
        f"{why.allowed:,} may be{crowd}."
    )


def forecast_in_words(why: DecisionReason) -> str:
    """How many people a decision counted over the limit: "24", or "26+" if it stopped counting."""
    return f"{why.over + why.natural}{'+' if why.over > why.allowed else ''}"


def over_limit_in_words(over: OverLimitCounts) -> str:
    """Who is over the limit now, by the ceilings that decide, and who ever was."""
    return (
        f"Over the limit now: {number_of(over.by_releases, 'person')} because of releases and "
        f"{over.by_habits:,} because of habits alone; ever so far: {over.ever:,}"
    )


def sampled_in_words(sampled: SampledRisks, when: str = "now") -> str:
    """What sampling says of those whose certain ceilings are high."""
    within = ""
    if sampled.within_limit is not None:
        within = f", and {sampled.within_limit:,} of those over the limit because of releases are within it"
    sure, people = confidence_in_words(sampled.confidence), number_of(sampled.people, "person")
    return (
        "If habits are as the priors say, against whoever knows where everybody else is, and with "
        f"{sure} confidence by sampling {people}: releases add at most "
        f"{in_a_hundred(sampled.most_added, UP)} to anybody's risk {when}{within}"
    )


def habits_warning(accountant: ContinuousAccountant) -> str | None:
    """What to say where habits give most people's steps away, with cause and remedy; else None."""
    guess, settings = accountant.median_guess(), accountant.settings
    if guess <= HABITS_DECIDE:
        return None
    return (
        "habits alone give most movements away: without any count, the best guess is right in "
        f"{in_a_hundred(guess)} cases or more for half of the people, with {settings.mistakes} of "
        f"{settings.horizon} steps allowed to be wrong, so the added risk hardly shows; lower mistakes or "
        "lengthen horizon"
    )
