"""May this be published? The run held against the rule its officer chose, from the run's own records.

The rule is the limit in ``release.budget``. Where it decided each step, the decisions say who was over it;
where it did not, the recorded risks do. What the records leave open counts against publishing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from accounting.bounds.radius import budget_within
from accounting.decisions import BudgetReason
from accounting.settings import RiskBudget
from stream_app.wire import DecisionReason, OverLimitCounts, RiskSummary


class MayPublish(Enum):
    """May this be published?"""

    YES = "yes"
    NO = "no"
    OPEN = "the records do not show it"
    NO_RULE = "no rule was chosen"


class PeopleOver(NamedTuple):
    """People over the limit after a step: at ``least`` and at ``most`` so many; ``allowed`` may be."""

    step: int
    people: int
    least: int
    most: int
    allowed: int


class CeilingKind(NamedTuple):
    """The ceilings that the answer is about: within a radius, means over these chains of each person.

    ``in_crowd``: those against the crowd adversary; a summary without a crowd then has the informed ones,
    which are higher.
    """

    within_nats: float = 0.0
    chains: str | None = None
    in_crowd: bool = False


AS_RECORDED = CeilingKind()


class Verdict(NamedTuple):
    """The answer for all steps, and the step it rests on: the first that breaks the rule, or the worst."""

    answer: MayPublish
    limit: RiskBudget | None = None
    at: PeopleOver | None = None
    steps: int = 0  # that stand against a yes
    of_steps: int = 0
    by_habits: int = 0  # of these steps, at which habits alone break the rule, whatever is published
    is_unbounded: bool = False  # a limit on added risk, and the priors were refuted: nothing bounds that


def verdict_on(
    summaries: tuple[RiskSummary, ...],
    reasons: Mapping[int, DecisionReason],
    limit: RiskBudget | None,
    *,
    is_refuted: bool = False,
    ceilings: CeilingKind = AS_RECORDED,
) -> Verdict:
    """The run held against the limit; ``reasons`` are those of the steps that a risk budget decided.

    Where the priors ``is_refuted`` as too low, ceilings are raised, but nothing bounds what releases add. The
    answer is about ``ceilings`` of that kind: steps recorded before are judged by what they would be.
    """
    if limit is None:
        return Verdict(MayPublish.NO_RULE, of_steps=len(summaries))
    is_unbounded = is_refuted and limit.added is not None
    found = [_over_within(ceilings, summary, reasons.get(summary.step), limit) for summary in summaries]
    if is_unbounded:
        found = [_without_added(ceilings, summary, limit) for summary in summaries]
    broken = [over for over in found if over.least > over.allowed]
    unclear = [over for over in found if over.most > over.allowed]
    if broken:
        worst = max(broken, key=lambda over: over.least - over.allowed)
        steps = {over.step for over in broken}
        own = [each for each in summaries if each.step in steps]
        by_habits = sum(_breaks_by_habits(each, reasons.get(each.step), limit) for each in own)
        return Verdict(MayPublish.NO, limit, worst, len(broken), len(found), by_habits)
    worst = max(unclear or found, key=lambda over: over.most)
    answer = MayPublish.OPEN if unclear else MayPublish.YES
    is_unbounded = is_unbounded and bool(unclear)
    return Verdict(answer, limit, worst, len(unclear), len(found), is_unbounded=is_unbounded)


def _breaks_by_habits(summary: RiskSummary, why: DecisionReason | None, limit: RiskBudget) -> bool:
    """Whether more people than may be are over the limit even if nothing had been published."""
    found = [0 if why is None or why.reason is BudgetReason.NO_ANSWER else why.natural]
    if limit.risk is not None and not limit.habits_apart:
        counts = summary.at_baseline
        found.append(_above(limit.risk, summary.baseline["1.0"], counts, summary.people)[0])
    if (over := summary.over_limit) is not None and _is_of(over, limit):
        found.append(over.by_habits)
    return max(found) > limit.allowed(summary.people)


def _is_of(over: OverLimitCounts, limit: RiskBudget) -> bool:
    """Whether the counts are of this limit."""
    return (over.risk, over.added, over.habits_apart) == (limit.risk, limit.added, limit.habits_apart)


def _over_within(
    ceilings: CeilingKind, summary: RiskSummary, why: DecisionReason | None, limit: RiskBudget
) -> PeopleOver:
    """Between how many people were over the limit by the ceilings asked for; lower ones may be recorded.

    A risk that is raised above the limit is above the lowered limit as it is: exactly where it was not raised
    at all, and at most where it was raised by less. A decision knew nothing of the lowered limit. Of means
    over other chains nothing is known.
    """
    if summary.chains != ceilings.chains:
        return _not_known(summary, limit)
    in_crowd = ceilings.in_crowd and summary.crowd is not None
    if why is not None and (why.adversary == "crowd") != in_crowd:
        why = None  # it counted people over the limit by other ceilings
    if (summary.over_limit is not None) and (summary.over_limit.adversary == "crowd") != in_crowd:
        summary = summary.model_copy(update={"over_limit": None})
    recorded = people_over(summary, why, limit)
    if ceilings.in_crowd and not in_crowd:
        recorded = recorded._replace(least=0)
    if summary.within_nats >= ceilings.within_nats:
        return recorded
    lowered = people_over(summary, None, budget_within(ceilings.within_nats, limit))
    is_higher = summary.within_nats > 0.0 or (ceilings.in_crowd and not in_crowd)
    least = max(recorded.least, 0 if is_higher else lowered.least)
    return recorded._replace(least=least, most=max(least, lowered.most))


def _not_known(summary: RiskSummary, limit: RiskBudget) -> PeopleOver:
    """Nobody or everybody: other ceilings were recorded."""
    return PeopleOver(summary.step, summary.people, 0, summary.people, limit.allowed(summary.people))


def _without_added(ceilings: CeilingKind, summary: RiskSummary, limit: RiskBudget) -> PeopleOver:
    """Who is over the limit on the ceiling at least; what releases add may put anybody over the other."""
    if summary.chains != ceilings.chains:
        return _not_known(summary, limit)
    is_higher = ceilings.in_crowd and summary.crowd is None
    on_risk = limit.risk is not None and not is_higher
    least = people_over(summary, None, replace(limit, added=None)).least if on_risk else 0
    return PeopleOver(summary.step, summary.people, least, summary.people, limit.allowed(summary.people))


def people_over(summary: RiskSummary, why: DecisionReason | None, limit: RiskBudget) -> PeopleOver:
    """Between how many people were over the limit after a step, as far as its records show.

    Counts at thresholds below the limit bound from above, those beyond it from below; the decision of a risk
    budget knows who is over, in hindsight too, unless somebody's accounts did not answer. Where the step's
    record counted people over this very limit, that is the number.
    """
    allowed = limit.allowed(summary.people)
    least, most = _by_risks(summary, limit)
    if why is not None and why.reason is not BudgetReason.NO_ANSWER:
        least = max(least, why.natural)
        if why.over <= why.allowed:  # more are not counted to the end
            most = min(most, why.over + why.natural)
    if (over := summary.over_limit) is not None and _is_of(over, limit):
        least = max(least, over.now)
        if not limit.in_hindsight:  # later releases may reveal more
            most = over.now
    return PeopleOver(summary.step, summary.people, least, max(least, most), allowed)


def _by_risks(summary: RiskSummary, limit: RiskBudget) -> tuple[int, int]:
    """The bounds that the step's recorded risks give."""
    parts = (
        (limit.risk, summary.risk["1.0"], summary.at_risk),
        (limit.added, summary.added["1.0"], summary.at_added_risk),
    )
    bounds = [
        _above(level, highest, counts, summary.people)
        for level, highest, counts in parts
        if level is not None
    ]
    least = max(low for low, _ in bounds)
    most = min(summary.people, sum(high for _, high in bounds))
    if limit.in_hindsight:  # later releases reveal more, which the step's own risks cannot show
        most = summary.people
    if limit.habits_apart:  # some of those above are so by habit and may stay
        least = 0
    return least, most


def _above(level: float, highest: float, counts: Mapping[str, int], people: int) -> tuple[int, int]:
    """Between how many people are above a level: from the highest figure and the counts at thresholds."""
    if highest <= level:
        return 0, 0
    beyond = [count for threshold, count in counts.items() if float(threshold) > level]
    before = [count for threshold, count in counts.items() if float(threshold) <= level]
    return max([1, *beyond]), min([people, *before])
