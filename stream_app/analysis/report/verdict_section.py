"""May this be published: the verdict in a sentence with its condition, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from accounting.settings import RiskBudget
from stream_app.analysis.report.html import Rows, paragraph, table
from stream_app.analysis.report.texts import CHOOSING_A_RULE
from stream_app.analysis.run_log import RunLog
from stream_app.analysis.verdict import MayPublish, PeopleOver, Verdict, verdict_on
from stream_app.setup.release_settings import BUDGET
from stream_app.watching.wording import EXACT, ceiling_in_words, in_a_hundred, in_points


def may_i_publish(log: RunLog) -> Iterable[str]:
    """The verdict, its figures, and how a rule is chosen where there is none."""
    verdict = verdict_on(
        log.judged,
        log.reasons,
        log.limit,
        is_refuted=log.is_raised,
        ceilings=log.ceilings,
    )
    yield f'<p class="verdict">{escape(sentence(verdict, log))}</p>'
    yield table(("", ""), _figures(verdict, log))
    if verdict.answer is MayPublish.NO_RULE:
        yield paragraph(CHOOSING_A_RULE)
    elif verdict.answer is MayPublish.OPEN and not verdict.is_unbounded:
        yield paragraph(
            'Add the limit to thresholds, so that people above it are counted, or set mechanism = "budget" '
            "under [release], so that every step is decided by the rule; then run again."
        )


def sentence(verdict: Verdict, log: RunLog) -> str:
    """Yes or no in one sentence, with the condition it holds under."""
    by = "by priors that were refuted" if log.is_raised else log.condition
    if verdict.at is None:
        return (
            f"No rule was chosen for this run, so this report says neither yes nor no: {by}, the releases "
            f"added at most {ceiling_in_words(log.most_added)} to the most affected of "
            f"{log.summaries[-1].people:,} people."
        )
    when, may = log.when(verdict.at.step), f"{verdict.at.allowed:,} of {verdict.at.people:,} people may be"
    if verdict.answer is MayPublish.YES:
        over = f"at most {verdict.at.most:,} were over the limit" if verdict.at.most else "nobody was over it"
        return f"Yes, {log.judged_condition}: {may} over the limit, and at every step {over}."
    steps = f"{verdict.steps:,} of {verdict.of_steps:,} steps"
    if verdict.answer is MayPublish.NO:
        return (
            f"No: even {log.judged_condition}, at {when} at least {verdict.at.least:,} people were over "
            f"the limit, and {may}; the rule is broken at {steps}."
        )
    if verdict.is_unbounded:
        return (
            "Not shown: the priors were refuted, and for people who differ from them nothing bounds what "
            "releases add. A rule on the ceiling itself (risk) can be answered."
        )
    return (
        f"Not by what was recorded: even {log.judged_condition}, at {when} between {verdict.at.least:,} "
        f"and {verdict.at.most:,} people were over the limit, and {may}; {steps} are open."
    )


def _figures(verdict: Verdict, log: RunLog) -> Rows:
    """What the sentence rests on, from the records that the tables and figures below show."""
    if verdict.limit is not None and verdict.at is not None:
        decides = log.settings["release"].get("mechanism") == BUDGET
        yield "The rule", rule_in_words(verdict.limit)
        yield "Over the limit", limit_in_words(verdict.limit)
        yield (
            "Decided by it",
            "each step, before it was published; steps before a change of the rule (--accept-changes) keep "
            "the rule of their time"
            if decides
            else "no step: another release.mechanism decided, and the run is only compared with the rule",
        )
        if log.adversary is not None:
            yield "Kept against", "whoever does not know where everybody else is (setting adversary)"
        yield "Most people over the limit", _most(verdict.at, log.when)
    yield f"Most that releases added to anybody{log.by_priors}", ceiling_in_words(log.most_added)
    yield "Highest ceiling of anybody", ceiling_in_words(log.most_risk)
    if log.adversary is not None:
        highest = max(summary.risk["1.0"] for summary in log.judged)
        yield "Highest ceiling of anybody, against that adversary", ceiling_in_words(highest)
    first, last = log.summaries[0].step, log.summaries[-1].step
    yield "Steps the answer covers", f"{log.when(first)} to {log.when(last)}"


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
