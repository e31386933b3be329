"""What every output says of the priors: that there are none, that they are assumed, or were refuted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from accounting.bounds.radius import Radius
from accounting.exposure.crowd import CrowdAdversary
from accounting.settings import RiskBudget
from models.priors import Population, states_that_look_like_places
from models.text import number_of
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.watching.events import PanelChecked
from stream_app.watching.wording import DOWN, significant

_MOST_LINES = 3  # of strangers that a condition names

NO_PEOPLE = (
    "no priors, so no risk of persons is computed: the only promise is differential privacy, as far as "
    "releases have noise"
)


def basis_note(
    people: int, assumed: str | None, check: PriorsVerdict | None = None, draws: int = 1
) -> str | None:
    """What every output of a run must say of its priors; None for measured habits that were not checked.

    ``draws`` chains stand for each person.
    """
    if people == 0:
        return NO_PEOPLE
    found = [] if check is None else [check_note(check, draws)]
    if draws > 1:
        found.append(
            f"ceiling, guess, attack and added risk are means over {draws:,} chains for each person that the "
            "same data could have given: estimates, not certificates, for habits that do not change"
        )
    if assumed is not None:
        found.append(
            f"habits are assumed, not measured ({assumed}): every guess and ceiling holds for these only"
        )
    return "; ".join(found) or None


def check_note(check: PriorsVerdict, draws: int = 1) -> str:
    """What real traces said of the priors, and what that means for every figure beside it."""
    if not check.is_too_low:
        return f"compared with later traces of {number_of(check.people, 'person')}, " + (
            "ceilings were too high, which errs on the safe side"
            if check.verdict == "ceilings too high"
            else "the priors were not refuted, which is no proof"
        )
    around = "the priors" if draws == 1 else "what the data leave open"
    raised = (
        f"ceilings are raised to hold for each person within {_radius(check.within_nats)} nats of {around} "
        "(over all steps together), the smallest mean distance that their traces allow for a group; the true "
        "one may be larger"
        if check.within_nats
        else "their traces do not say by how much"
    )
    return (
        f"the priors were refuted on {number_of(check.people, 'person')}, because ceilings were too low: "
        f"{raised}; guess, attack and added risk are what the refuted priors say"
    )


def panel_note(event: PanelChecked) -> str | None:
    """What volunteers say of the priors while the engine runs; None before the first guesses are shown."""
    if event.is_refuted:
        return (
            f"volunteers refute the priors ({event.guesses:,} guesses compared with their true places): "
            "people are easier to guess than the priors say, and ceilings computed with them are too low"
        )
    if event.guesses:
        return (
            f"volunteers do not refute the priors ({event.guesses:,} guesses compared with their true "
            "places), which is no proof"
        )
    return None


def _radius(nats: float) -> str:
    return significant(nats, 3, DOWN)


def ceiling_condition(check: PriorsVerdict | None, draws: int = 1) -> str:
    """When ceilings hold, in short: what stands beside each of them; ``draws`` chains stand for each person.

    A check bounds the mean distance over a group's people. A raised ceiling, and a mean of raised ceilings,
    holds if each person's distance is within it: hence "each". A mean over chains is raised as a whole: an
    adversary who does not know which chain is the person's does no better than one who knows.
    """
    if check is None or not check.is_too_low:
        return "if habits are as assumed" if draws == 1 else "on average over what the data leave open"
    refuted = f"priors refuted on {number_of(check.people, 'person')}"
    around = refuted if draws == 1 else f"chains drawn for {refuted}"
    return f"if each person is within {_radius(check.within_nats)} nats of {around}"


def radius_note(radius: Radius) -> str:
    """When a ceiling within a declared radius holds: the condition that stands beside the number."""
    steps = radius.last - radius.first + 1
    known = []
    if radius.kl < inf:
        known.append(f"{_radius(radius.kl)} nats of the prior's (relative entropy, KL(person || prior))")
    if radius.tv < 1.0:
        known.append(f"{radius.tv:g} of the prior's (total variation)")
    near = " and ".join(known) or "the given distances of the prior's"
    return (
        f"if the law of a person's places, over all {steps:,} steps of the schedule together, is within "
        f"{near}, no method does better; no added risk is given, because the guess would rise, too"
    )


def crowd_note(adversary: CrowdAdversary, others: int | None, *, of_personas: bool = False) -> str:
    """When a ceiling against the crowd adversary holds: the condition that stands beside the number.

    ``others`` is None where not all of them are known here; ``of_personas`` says whether some of them are
    behind personas.
    """
    group = (
        f"; for a person who always moves in a group of {1 + adversary.companions:,}, the ceiling against an "
        "informed adversary is that of one person"
        if adversary.companions
        else ""
    )
    presumed = _crowd_assumption(adversary, others, of_personas=of_personas)
    return f"{presumed}, no adversary who does not know where they are does better; {NOT_ALONE}{group}"


NOT_ALONE = "couples, families and crowds at events do not move like that"
"""Of whom a ceiling in the crowd does not hold."""


def crowd_clause(adversary: CrowdAdversary, others: int | None, *, of_personas: bool = False) -> str:
    """What :func:`crowd_note` presumes, and against whom, before a sentence that goes on."""
    presumed = _crowd_assumption(adversary, others, of_personas=of_personas)
    return f"{presumed}, against an adversary who does not know where they are"


def _crowd_assumption(adversary: CrowdAdversary, others: int | None, *, of_personas: bool) -> str:
    """Such as "if the 99 others move independently ..., as their priors say"."""
    named = "the others" if others is None else f"the {others:,} others"
    who = named if adversary.alone == 1.0 else f"{adversary.alone:g} of {named}"
    known = f", except {adversary.known:,} whom the adversary may follow," if adversary.known else ""
    how = "as their priors say"
    if of_personas:
        least = "" if adversary.least == 1.0 else f"{adversary.least * 100:g} % of "
        how = f"as their personas say, of each at least {least}the people that it stands for"
    presumed = [f"{who}{known} move independently of each other and of the person, {how}"]
    if adversary.strangers:
        presumed = [] if others == 0 else presumed
        followed = "" if presumed else known
        presumed.append(f"{_strangers_note(adversary, followed)}")
    if adversary.counted_once:
        chance = adversary.counted_once
        sure = (
            "surely counted once" if chance == 1.0 else f"counted once with a chance of at least {chance:g}"
        )
        presumed.append(
            f"each of these, wherever a sensor may count a person again, is {sure}, however often others are"
        )
    return f"if {', and if '.join(presumed)}"


def _strangers_note(adversary: CrowdAdversary, followed: str) -> str:
    """What is assumed of people without a prior; ``followed`` says who of them may be known."""
    strangers, alone = adversary.strangers, adversary.alone
    who = "all of them" if alone == 1.0 else f"{alone:.3g} of them"
    each = [f"{line.people:,} at {line.sensor} {line.hours}" for line in strangers[:_MOST_LINES]]
    if len(strangers) > _MOST_LINES:
        each.append(f"{len(strangers) - _MOST_LINES:,} lines more")
    return (
        f"at least so many others without a prior ({'; '.join(each)}){followed or ','} chosen without regard "
        f"to where they went, may each be counted or not by the declared chances, {who} alone, whatever is "
        "known of their other steps"
    )


def posterior_note() -> str:
    """What a mean and a credible ceiling over drawn chains are, and what they are not."""
    return (
        "Mean ceiling: if habits do not change, and smoothing says what was believed before the data, an "
        "adversary who knows the person's own chain succeeds no more often, averaged over what the data "
        "leave open; in brackets the 95 % interval of drawing. Credible: with a probability of 90 % the "
        "person's own ceiling is not above it. Both are estimates, not certificates"
    )


def evidence_warning(check: PriorsVerdict | None, draws: int, *, is_fitted: bool) -> str | None:
    """What to say where fitted priors were refuted as too low and few data may be part of the reason."""
    if check is None or not check.is_too_low or draws > 1 or not is_fitted:
        return None
    return (
        "the priors were fitted to data and refuted as too low, perhaps partly because the data are few; "
        "name the file of `tallyguard priors fit --evidence` in the setting evidence, and ceilings become "
        "means over what it leaves open"
    )


def rule_warning(check: PriorsVerdict | None, limit: RiskBudget | None) -> str | None:
    """What to say of a limit on added risk under refuted priors; None where it may stand."""
    if check is None or not check.is_too_low or limit is None or limit.added is None:
        return None
    return (
        "release.budget.added limits the added risk by priors that were refuted, and nothing bounds it for "
        "people who differ from them; limit the ceiling with release.budget.risk"
    )


def places_note(
    population: Population, covered: Sequence[Sequence[int]], people: Iterable[int]
) -> str | None:
    """What is said of priors whose places look like states of one place; None where none do.

    ``covered`` are the locations of each sensor.
    """
    looked = (states_that_look_like_places(population.chain(person), covered) for person in people)
    found = next(filter(None, looked), None)
    if found is None:
        return None
    return (
        f"places {', '.join(map(str, found))} look like states of one place (habits of second order: what "
        "follows them is the same or apart, and no sensor tells them apart), but are guessed as places: if "
        "they are states, give them one place, or use second_order"
    )
