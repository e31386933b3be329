"""May this be published: the verdict in a sentence with its condition, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from accounting.settings import RiskBudget
from stream_app.analysis.report.html import Rows, paragraph, table
from stream_app.analysis.report.texts import CHOOSING_A_RULE
from stream_app.analysis.run_log import RulePeriod, RunLog
from stream_app.analysis.verdict import MayPublish, PeopleOver, Verdict, verdict_on
from stream_app.setup.release_settings import BudgetSettings
from stream_app.watching.wording import EXACT, ceiling_in_words, in_a_hundred, in_points

_OTHER_LIMIT = (
    "Limit what releases add instead (added = 0.05, say), or leave out whom habits alone put over it "
    """(habits = "apart")."""
)
ANSWERS = {
    MayPublish.YES: "yes",
    MayPublish.NO: "no",
    MayPublish.OPEN: "not shown",
    MayPublish.NO_RULE: "no rule",
}


@dataclass(frozen=True)
class RunVerdict:
    """The answer for a run: that of each period of one rule, and what else stands against a yes.

    ``doubts`` are sentences of what is missing or was changed in the run's files, ``limits`` of what the
    answer does not cover.
    """

    answer: MayPublish
    parts: tuple[tuple[RulePeriod, Verdict], ...]
    doubts: tuple[str, ...]
    limits: tuple[str, ...]


def verdict_of(log: RunLog) -> RunVerdict:
    """The run held against the rule of each of its periods, from its own records."""
    parts = tuple((period, _verdict_in(log, period)) for period in log.periods)
    doubts = (*log.checked.faults, *_not_recorded(log, parts))
    answers = {verdict.answer for _, verdict in parts}
    if MayPublish.NO in answers:
        answer = MayPublish.NO
    elif answers == {MayPublish.NO_RULE}:
        answer = MayPublish.NO_RULE
    elif doubts or answers != {MayPublish.YES}:
        answer = MayPublish.OPEN
    else:
        answer = MayPublish.YES
    return RunVerdict(answer, parts, doubts, tuple(_limits(log)))


def _verdict_in(log: RunLog, period: RulePeriod) -> Verdict:
    """What is known of the priors now counts for every period; the rule is that of the period."""
    return verdict_on(
        tuple(each for each in log.judged_against(period.adversary) if period.has(each.step)),
        log.reasons,
        period.limit,
        is_refuted=log.is_raised,
        ceilings=log.ceilings._replace(in_crowd=period.adversary is not None),
    )


def _not_recorded(log: RunLog, parts: Sequence[tuple[RulePeriod, Verdict]]) -> Iterable[str]:
    """Steps that were released and of which the records do not say what the rule asks about."""
    checked = log.checked
    if checked.accounted < checked.released and not checked.faults:
        missing = _steps(checked.accounted, checked.released)
        yield f"the risks of {missing} are not recorded yet: start the run once more, it writes them"
    if checked.entries:
        for period, _ in parts:
            if period.entry is None:
                yield f"no record says which rule {_steps(period.first, period.until)} were published under"


def _limits(log: RunLog) -> Iterable[str]:
    """What a yes does not cover."""
    if log.checked.end is None and log.checked.entries:
        yield f"{log.checked.in_words()}: the answer is about these steps only"
    if log.beyond is not None:
        yield (
            f"at {log.when(log.beyond.step)} some {log.beyond.counted:,} people were counted, by what was "
            f"published, and the priors stand for {log.beyond.people:,}: nothing here is about the others. "
            "Are these the priors of this place?"
        )


def _steps(first: int, until: int) -> str:
    return f"step {first:,}" if until == first + 1 else f"steps {first:,} to {until - 1:,}"


def may_i_publish(log: RunLog) -> Iterable[str]:
    """The verdict, its figures, and how a rule is chosen where there is none."""
    verdict = verdict_of(log)
    yield f'<p class="verdict">{escape(sentence(verdict, log))}</p>'
    if len(verdict.parts) > 1:
        yield paragraph("Each rule with the steps that were published under it:")
        yield table(("Steps", "Rule", "Decided by it", "Answer"), _part_rows(verdict, log))
    yield table(("", ""), _figures(verdict, log))
    answers = {part.answer for _, part in verdict.parts}
    if verdict.answer is MayPublish.NO_RULE:
        yield paragraph(CHOOSING_A_RULE)
    elif MayPublish.OPEN in answers and not any(part.is_unbounded for _, part in verdict.parts):
        yield paragraph(
            'Add the limit to thresholds, so that people above it are counted, or set mechanism = "budget" '
            "under [release], so that every step is decided by the rule; then run again."
        )
    yield from _record(log)


def the_record(log: RunLog) -> Iterable[str]:
    """How far a run without people came, what is not whole, and its record: there is no verdict on it."""
    words = log.checked.in_words()
    yield paragraph(f"{words[:1].upper()}{words[1:]}.")
    if log.checked.faults:
        faults = "; ".join(log.checked.faults)
        yield f'<p class="verdict">{escape(f"The records are not whole: {faults}.")}</p>'
    yield from _record(log)


def _record(log: RunLog) -> Iterable[str]:
    yield paragraph("The record of the run: which rule held, from which step, who said so, and why.")
    yield table(("From step", "Since", "By", "Why", "With"), _record_rows(log))
    yield paragraph(
        "tallyguard verify RUN holds the logs against this record. "
        + (f"Its last entry is {log.checked.head}." if log.checked.head else "There is none.")
    )


def sentence(verdict: RunVerdict, log: RunLog) -> str:
    """Yes or no in one sentence for each rule, with its condition, and what stands against it."""
    if len(verdict.parts) == 1:
        said = _sentence(verdict.parts[0][1], log, verdict.parts[0][0])
    else:
        each = (
            f"{_steps(period.first, period.until)} ({_rule_of(period)}): {_sentence(part, log, period)}"
            for period, part in verdict.parts
        )
        said = " ".join(
            ["The rule was changed while the run went on.", *(f"{one[0].upper()}{one[1:]}" for one in each)]
        )
    if verdict.doubts:
        doubts = "; ".join(verdict.doubts)
        is_no = verdict.answer is MayPublish.NO
        said = (
            f"{said} The records are not whole, too: {doubts}."
            if is_no
            else (f"Not shown: the records are not whole: {doubts}. By what is left of them: {said}")
        )
    for limit in verdict.limits:
        said += f" But {limit}{'' if limit.endswith('?') else '.'}"
    return said


def _sentence(verdict: Verdict, log: RunLog, period: RulePeriod) -> str:
    by = "by priors that were refuted" if log.is_raised else log.condition
    if verdict.at is None or verdict.limit is None:
        if len(log.periods) > 1:
            return "no rule was chosen for these steps, so neither yes nor no."
        return (
            f"No rule was chosen for this run, so this report says neither yes nor no: {by}, the releases "
            f"added at most {ceiling_in_words(log.most_added)} to the most affected of "
            f"{log.summaries[-1].people:,} people."
        )
    condition = log.condition_against(period.adversary)
    when, may = log.when(verdict.at.step), f"{verdict.at.allowed:,} of {verdict.at.people:,} people may be"
    if verdict.answer is MayPublish.YES:
        over = f"at most {verdict.at.most:,} were over the limit" if verdict.at.most else "nobody was over it"
        so_far = " so far" if log.checked.end is None and period.until >= log.checked.released else ""
        return f"Yes{so_far}, {condition}: {may} over the limit, and at every step {over}."
    steps = f"{verdict.steps:,} of {verdict.of_steps:,} steps"
    if verdict.answer is MayPublish.NO and verdict.by_habits == verdict.steps:
        return (
            f"No, by habits alone: even with nothing published, {condition}, at {when} at least "
            f"{verdict.at.least:,} people are over the limit, and {may}; the rule is broken at {steps}, and "
            f"publishing less cannot change that. {_OTHER_LIMIT}"
        )
    if verdict.answer is MayPublish.NO:
        habits = (
            f" At {verdict.by_habits:,} of them habits alone break it, which publishing less cannot change. "
            f"{_OTHER_LIMIT}"
            if verdict.by_habits
            else ""
        )
        return (
            f"No: even {condition}, at {when} at least {verdict.at.least:,} people were over "
            f"the limit, and {may}; the rule is broken at {steps}.{habits}"
        )
    if verdict.is_unbounded:
        return (
            "Not shown: the priors were refuted, and for people who differ from them nothing bounds what "
            "releases add. A rule on the ceiling itself (risk) can be answered."
        )
    return (
        f"Not by what was recorded: even {condition}, at {when} between {verdict.at.least:,} "
        f"and {verdict.at.most:,} people were over the limit, and {may}; {steps} are open."
    )


def _part_rows(verdict: RunVerdict, log: RunLog) -> Rows:
    for period, part in verdict.parts:
        rule = (
            "none"
            if period.limit is None
            else f"{rule_in_words(period.limit)}: {limit_in_words(period.limit)}"
        )
        yield (
            f"{log.when(period.first)} to {log.when(period.until - 1)}",
            rule if period.entry is not None else f"not recorded; run.json says: {rule}",
            "each step" if period.decides else "no step",
            ANSWERS[part.answer],
        )


def _rule_of(period: RulePeriod) -> str:
    limit = period.limit
    rule = "no rule" if limit is None else f"{rule_in_words(limit)}: {limit_in_words(limit)}"
    return rule if period.entry is not None else f"not recorded; run.json says: {rule}"


def _record_rows(log: RunLog) -> Rows:
    for entry in log.changes:
        facts = entry.facts
        habits = ", ".join(filter(None, (entry.about.get("priors_file"), facts.get("assumed_habits"))))
        priors = (
            f"priors {str(facts.get('priors'))[:12]} of {facts.get('people', 0):,} people"
            f"{f' ({habits})' if habits else ''}"
        )
        setting = f"horizon {facts.get('horizon')}, mistakes {facts.get('mistakes')}"
        policy = _policy_in_words(facts)
        yield (
            f"{entry.step:,}",
            entry.at,
            entry.by,
            entry.reason or ("begun" if entry.kind == "begun" else "no promise was weakened"),
            f"{policy}; {setting}; {priors}; tallyguard {entry.version}",
        )


def _policy_in_words(facts: Mapping[str, Any]) -> str:
    """The rule, and what counts are released with."""
    release = facts.get("release") or {}
    limit = BudgetSettings.model_validate(release.get("budget") or {}).limit
    rule = "no rule" if limit is None else f"{rule_in_words(limit)}: {limit_in_words(limit)}"
    sigma = release.get("sigma")
    noise = "" if sigma is None else f" with sigma {sigma:g}"
    return f"{rule}; released by {release.get('mechanism', 'gaussian')}{noise}"


def _figures(verdict: RunVerdict, log: RunLog) -> Rows:
    """What the sentence rests on, from the records that the tables and figures below show."""
    period, part = verdict.parts[-1]
    if part.limit is not None and part.at is not None:
        now = "" if len(verdict.parts) == 1 else ", the last one"
        yield f"The rule{now}", rule_in_words(part.limit)
        yield "Over the limit", limit_in_words(part.limit)
        yield (
            "Decided by it",
            "each step, before it was published"
            if period.decides
            else "no step: another release.mechanism decided, and the run is only compared with the rule",
        )
        if period.adversary is not None:
            yield "Kept against", "whoever does not know where everybody else is (setting adversary)"
        yield "Most people over the limit", _most(part.at, log.when)
        yield from _people_over(log, period)
    yield f"Most that releases added to anybody{log.by_priors}", ceiling_in_words(log.most_added)
    yield "Highest ceiling of anybody", ceiling_in_words(log.most_risk)
    if log.adversary is not None:
        highest = max(summary.risk["1.0"] for summary in log.judged)
        yield "Highest ceiling of anybody, against that adversary", ceiling_in_words(highest)
    first, last = log.summaries[0].step, log.summaries[-1].step
    yield "Steps the answer covers", f"{log.when(first)} to {log.when(last)}"
    words = log.checked.in_words()
    yield "The run", f"{words[:1].upper()}{words[1:]}"


def _people_over(log: RunLog, period: RulePeriod) -> Rows:
    """Now, ever and forecast are three figures: by the ceilings that decide, or as a decision foresaw it."""
    last = log.summaries[-1].over_limit
    if last is not None:
        yield (
            "Over the limit now, after the last step",
            f"{last.by_releases:,} by releases, {last.by_habits:,} by habit alone",
        )
        yield "Ever over the limit, after any step", f"{last.ever:,} people, by releases or by habit"
    foreseen = [why for step, why in log.reasons.items() if period.has(step) and why.people]
    if foreseen:
        most = max(foreseen, key=lambda why: why.over + why.natural)
        more = " or more" if most.over > most.allowed else ""
        yield (
            "Forecast when deciding, at most",
            f"{most.over:,}{more} by releases, {most.natural:,} by habit alone: then or in silence after it, "
            "largely by the fast bound, so more than were over it",
        )


def rule_in_words(limit: RiskBudget) -> str:
    """How many people may be over the limit."""
    habits = "; people over it by habit alone count only if releases add to it" if limit.habits_apart else ""
    later = "; also for past steps, given everything released since" if limit.in_hindsight else ""
    who = f"At most {in_a_hundred(limit.share, EXACT)} people" if limit.share else "Nobody"
    return f"{who} may be over the limit{habits}{later}"


def limit_in_words(limit: RiskBudget) -> str:
    """When a person is over the limit."""
    risk = None if limit.risk is None else f"a ceiling above {in_a_hundred(limit.risk, EXACT)}"
    added = (
        None
        if limit.added is None
        else (f"a chance of being traced that releases raise by more than {in_points(limit.added, EXACT)}")
    )
    return " or ".join(part for part in (risk, added) if part)


def _most(at: PeopleOver, when: Callable[[int], str]) -> str:
    count = f"{at.least:,} to {at.most:,}" if at.least < at.most else f"{at.most:,}"
    return f"{count} of {at.people:,}, at {when(at.step)}; {at.allowed:,} may be"
