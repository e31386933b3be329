"""May this be published? The run held against the rule its officer chose, from the run's own records.

The rule is the limit in ``release.budget``. Where it decided each step, the decisions say who was over it;
where it did not, the recorded risks do. What the records leave open counts against publishing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from accounting.bounds.radius import budget_within
from accounting.decisions import BudgetReason
from accounting.settings import RiskBudget
from models.text import number_of
from stream_app.analysis.run_log import CeilingKind, RulePeriod, RunLog
from stream_app.setup.run_folder.manifest import is_no_looser
from stream_app.watching.prior_notes import NOT_ALONE
from stream_app.watching.wording import EXACT, in_a_hundred, in_points, sentence_case
from stream_app.wire import DecisionReason, OverLimitCounts, RiskSummary


class MayPublish(Enum):
    """May this be published? The value is what exports say."""

    YES = "yes"
    NO = "no"
    OPEN = "not shown"  # by the records
    NO_RULE = "no rule"


class PeopleOver(NamedTuple):
    """People over the limit after a step: at ``least`` and at ``most`` so many; ``allowed`` may be."""

    step: int
    people: int
    least: int
    most: int
    allowed: int


AS_RECORDED = CeilingKind()


class RuleVerdict(NamedTuple):
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
) -> RuleVerdict:
    """The run held against the limit; ``reasons`` are those of the steps that a risk budget decided.

    Where the priors ``is_refuted`` as too low, ceilings are raised, but nothing bounds what releases add. The
    answer is about ``ceilings`` of that kind: steps recorded before are judged by what they would be.
    """
    if limit is None:
        return RuleVerdict(MayPublish.NO_RULE, of_steps=len(summaries))
    if not summaries:
        return RuleVerdict(MayPublish.OPEN, limit)
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
        return RuleVerdict(MayPublish.NO, limit, worst, len(broken), len(found), by_habits)
    worst = max(unclear or found, key=lambda over: over.most)
    answer = MayPublish.OPEN if unclear else MayPublish.YES
    is_unbounded = is_unbounded and bool(unclear)
    return RuleVerdict(answer, limit, worst, len(unclear), len(found), is_unbounded=is_unbounded)


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
    """Between nobody and everybody, because other ceilings were recorded."""
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


# The verdict on a whole run, and its sentence: the same in report and export.

_OTHER_LIMIT = (
    "Limit the added risk instead (added = 0.05, say), or do not count people who are over the limit because "
    """of habits alone (habits = "apart")."""
)


@dataclass(frozen=True)
class RunVerdict:
    """The answer for a run: that of each period of one rule, and what else stands against a yes.

    ``doubts`` are sentences of what is missing or was changed in the run's files, ``limits`` of what the
    answer does not cover.
    """

    answer: MayPublish
    parts: tuple[tuple[RulePeriod, RuleVerdict], ...]
    doubts: tuple[str, ...]
    limits: tuple[str, ...]

    @property
    def asks_for_records(self) -> bool:
        """Whether a run that counts or decides by the rule would record what is missing for an answer."""
        parts = [part for _, part in self.parts]
        return MayPublish.OPEN in {part.answer for part in parts} and not any(p.is_unbounded for p in parts)


def verdict_of(log: RunLog) -> RunVerdict:
    """The run held against the rule of each of its periods, from its own records."""
    parts = tuple((period, _verdict_in(log, period)) for period in log.periods)
    doubts = (*log.checked.faults, *_not_recorded(log, parts))
    answers = {verdict.answer for _, verdict in parts}
    if MayPublish.NO in answers:
        answer = MayPublish.NO
    elif answers == {MayPublish.NO_RULE}:
        answer = MayPublish.NO_RULE
    elif not log.summaries or doubts or answers != {MayPublish.YES}:
        answer = MayPublish.OPEN
    else:
        answer = MayPublish.YES
    return RunVerdict(answer, parts, doubts, tuple(_limits(log)))


def _verdict_in(log: RunLog, period: RulePeriod) -> RuleVerdict:
    """What is known of the priors now counts for every period; the rule is that of the period."""
    return verdict_on(
        tuple(each for each in log.judged_against(period.adversary) if period.has(each.step)),
        log.reasons,
        period.limit,
        is_refuted=log.is_raised,
        ceilings=log.ceilings._replace(in_crowd=period.adversary is not None),
    )


def _not_recorded(log: RunLog, parts: Sequence[tuple[RulePeriod, RuleVerdict]]) -> Iterable[str]:
    """Released steps whose risks or rule the records do not say."""
    checked = log.checked
    if checked.accounted < checked.released and not checked.faults:
        missing = _steps(checked.accounted, checked.released)
        yield f"the risks of {missing} are not recorded yet: start the run once more, it writes them"
    if checked.entries:
        for period, _ in parts:
            if period.entry is None:
                yield f"no record says which rule {_steps(period.first, period.until)} were published under"


def _limits(log: RunLog) -> Iterable[str]:
    if log.checked.end is None and log.checked.entries:
        yield f"{log.checked.in_words()}: the answer is about these steps only"
    if log.beyond is not None:
        yield (
            f"the counts published at {log.when(log.beyond.step)} add up to some {log.beyond.counted:,} "
            f"people, and the priors stand for {log.beyond.people:,}: nothing here is about the others. "
            "Are these the priors of this place?"
        )


def _steps(first: int, until: int) -> str:
    return f"step {first:,}" if until == first + 1 else f"steps {first:,} to {until - 1:,}"


def verdict_in_words(verdict: RunVerdict, log: RunLog, *, says_who: bool = True) -> str:
    """Yes or no in one sentence for each rule, with its condition, and what stands against it.

    ``says_who`` changed a rule, and why: not for the public.
    """
    if len(verdict.parts) == 1:
        said = _answer_in_words(verdict.parts[0][1], log, verdict.parts[0][0])
    else:
        changes = "; ".join(_changes_of_rule([each for each, _ in verdict.parts], says_who=says_who))
        said = f"The rule was changed while the run went on: {changes}."
        for period, part in verdict.parts:
            steps = sentence_case(_steps(period.first, period.until))
            said += f" {steps} ({period_rule_in_words(period)}): {_answer_in_words(part, log, period)}"
    if verdict.doubts:
        doubts = "; ".join(verdict.doubts)
        is_no = verdict.answer is MayPublish.NO
        said = (
            f"{said} Moreover, the records are not whole: {doubts}."
            if is_no
            else f"Not shown: the records are not whole: {doubts}. By what is left of them: {said}"
        )
    for limit in verdict.limits:
        said += f" But {limit}{'' if limit.endswith('?') else '.'}"
    return said


def _changes_of_rule(parts: Sequence[RulePeriod], *, says_who: bool) -> Iterable[str]:
    for before, after in pairwise(parts):
        is_kept = before.decides <= after.decides and before.adversary == after.adversary
        how = "made stricter" if is_kept and is_no_looser(before.limit, after.limit) else "relaxed"
        if before.entry is None or after.entry is None:
            how = "not known from the record"
        who = ""
        if says_who and after.entry is not None:
            why = f" ({after.entry.reason})" if after.entry.reason else ""
            who = f" by {after.entry.by}{why}"
        yield f"{how} from step {after.first:,} on{who}"


def _answer_in_words(verdict: RuleVerdict, log: RunLog, period: RulePeriod) -> str:
    if not log.summaries:
        return "No ceiling of persons was computed, so no rule was kept by it."
    by = "by priors that were refuted" if log.is_raised else log.condition
    if verdict.at is None and verdict.limit is not None:
        return "Not shown: no risk is recorded for these steps."
    if verdict.at is None or verdict.limit is None:
        if len(log.periods) > 1:
            return "no rule was chosen for these steps, so neither yes nor no."
        return (
            f"No rule was chosen for this run, so this report says neither yes nor no: {by}, the added risk "
            f"of the most affected of {number_of(log.summaries[-1].people, 'person')} is at most "
            f"{log.view.figure('most.added').shown}."
        )
    so_far = log.checked.end is None and period.until >= log.checked.released
    condition, in_crowd = log.presumed_against(period.adversary), period.adversary is not None
    return answer_in_words(verdict, condition, log.when, in_crowd=in_crowd, so_far=so_far)


def answer_in_words(
    verdict: RuleVerdict,
    condition: str,
    when: Callable[[int], str],
    *,
    in_crowd: bool,
    so_far: bool = False,
    of_plan: bool = False,
) -> str:
    """The answer for some steps under a rule, in a run or a plan; ``when`` says when a step is."""
    at = verdict.at
    assert at is not None
    was, were, rests_on = ("is", "are", "the plan") if of_plan else ("was", "were", "the records")
    may = f"{at.allowed:,} of {number_of(at.people, 'person')} may be"
    if verdict.answer is MayPublish.YES:
        over = (
            f"at most {number_of(at.most, was, were)} over the limit" if at.most else f"nobody {was} over it"
        )
        alone = f" {sentence_case(NOT_ALONE)}." if in_crowd else ""
        yes = "Yes so far" if so_far else "Yes"
        return f"{yes}, {condition}: {may} over the limit, and at every step {over}.{alone}"
    steps = f"{verdict.steps:,} of {number_of(verdict.of_steps, 'step')}"
    if verdict.answer is MayPublish.NO and verdict.by_habits == verdict.steps:
        return (
            f"No, because of habits alone: even with nothing published, {condition}, at {when(at.step)} at "
            f"least {number_of(at.least, 'person is', 'people are')} over the limit, and {may}; the rule "
            f"is broken at {steps}, and publishing less cannot change that. {_OTHER_LIMIT}"
        )
    if verdict.answer is MayPublish.NO:
        habits = (
            f" At {verdict.by_habits:,} of these steps habits alone break it, which publishing less cannot "
            f"change. {_OTHER_LIMIT}"
            if verdict.by_habits
            else ""
        )
        return (
            f"No: even {condition}, at {when(at.step)} at least "
            f"{number_of(at.least, f'person {was}', f'people {were}')} over the limit, and {may}; the rule "
            f"is broken at {steps}.{habits}"
        )
    if verdict.is_unbounded:
        return (
            "Not shown: the priors were refuted, and nothing bounds the added risk of people who differ from "
            "them. A rule on the ceiling itself (risk) can be answered."
        )
    up_to = number_of(at.most, f"person {was}", f"people {were}")
    return (
        f"Not shown by {rests_on}: even {condition}, at {when(at.step)} between {at.least:,} and {up_to} "
        f"over the limit, and {may}; {steps} {'is' if verdict.steps == 1 else 'are'} open."
    )


def rule_in_words(limit: RiskBudget) -> str:
    """How many people may be over the limit."""
    habits = (
        "; people over it because of habits alone count only if releases add to their risk"
        if limit.habits_apart
        else ""
    )
    later = "; also for past steps, given everything released since" if limit.in_hindsight else ""
    who = f"At most {in_a_hundred(limit.share, EXACT)} people" if limit.share else "Nobody"
    return f"{who} may be over the limit{habits}{later}"


def limit_in_words(limit: RiskBudget) -> str:
    """When a person is over the limit."""
    risk = None if limit.risk is None else f"a ceiling above {in_a_hundred(limit.risk, EXACT)}"
    added = None if limit.added is None else f"an added risk above {in_points(limit.added, EXACT)}"
    return " or ".join(part for part in (risk, added) if part)


def whole_rule_in_words(limit: RiskBudget | None, *, in_crowd: bool = False) -> str:
    """Who may be over which limit, for a cell of a table, and whom it is kept against."""
    against = ", against an adversary who does not know where the others are" if in_crowd else ""
    return "no rule" if limit is None else f"{rule_in_words(limit)}: {limit_in_words(limit)}{against}"


def period_rule_in_words(period: RulePeriod) -> str:
    """The rule of a period, and whether the record names it."""
    rule = whole_rule_in_words(period.limit, in_crowd=period.adversary is not None)
    return rule if period.entry is not None else f"not recorded; run.json says: {rule}"
