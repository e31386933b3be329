"""What would lower the risk of the most exposed people, in words and two tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import exp, isfinite
from typing import Any

from accounting.continuous import RiskSummary
from accounting.ledgers import EVERY_GROUP, PrivacyAccount
from accounting.settings import RiskBudget
from models.releases import StepSchedule
from stream_app.analysis.alternatives import EXPLAINED, VariedRisks
from stream_app.analysis.crowd import PlannedCrowd
from stream_app.analysis.report.lowering import (
    NAMED_SENSORS,
    Change,
    Lowering,
    Priors,
    RevealedBySensor,
    positions,
)
from stream_app.analysis.run_log import RulePeriod, RunLog
from stream_app.analysis.verdict import MayPublish, PeopleOver, Verdict, verdict_on
from stream_app.setup.priors_verdict import CheckedGroup, PriorsVerdict
from stream_app.setup.release_settings import BudgetSettings
from stream_app.watching.hindsight import SHARED_NOISE, Hindsight, PastHorizon, hindsight
from stream_app.watching.narrow_tables import headings, narrow_style
from stream_app.watching.wording import (
    DOWN,
    EXACT,
    ceiling_in_words,
    duration,
    in_a_hundred,
    in_interval,
    in_points,
    shortened,
    spent_in_words,
)

# Pieces of a report in HTML; every text is escaped.

_FIGURE = 28  # characters of a figure, or a moment, at most
Rows = Iterable[Sequence[str]]


def section(title: str, *content: str) -> str:
    """A heading and what belongs to it."""
    return f"<section><h2>{escape(title)}</h2>{''.join(content)}</section>"


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{escape(text)}</p>"


def table(head: Sequence[str], rows: Rows) -> str:
    """A table of which no column is cut off; without heading text its first column is the heading.

    A column with sentences stands left, one of figures right.
    """
    lines = [tuple(row) for row in rows]
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    start = f"<thead><tr>{cells}</tr></thead>" if any(head) else ""
    texts = [any(len(line[k]) > _FIGURE for line in lines) for k in range(len(head))]
    kind = headings(head, texts) if start else ' class="facts"'
    body = "".join(_row(line, not start) for line in lines)
    return f'<div class="scroll" tabindex="0"><table{kind}>{start}<tbody>{body}</tbody></table></div>'


def _row(row: Sequence[str], is_named: bool) -> str:
    first = escape(row[0])
    name = f'<th scope="row">{first}</th>' if is_named else f"<td>{first}</td>"
    return f"<tr>{name}{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"


# The words of the report that do not depend on a run, and its style sheet.

CHOOSING_A_RULE = (
    "To have the question answered, decide how much risk is acceptable, for how many people, and write it in "
    "the settings file under [release.budget]. With added = 0.05 and share = 0.01, for "
    "instance, the chance of being traced may rise by at most 5 percentage points for 99 people in 100; "
    'risk = 0.5 would limit the ceiling itself. With mechanism = "budget" under [release] every step is then '
    "released with the least noise that keeps the rule; under any other mechanism the report only compares "
    "the run with it. tallyguard plan tries a rule in advance."
)
CONDITION = (
    "Every ceiling holds {condition}, and only then. On real Foursquare check-ins the ceilings "
    "were 29 in 100 on average, and an attack was right on 46 in 100 of the real traces: people were more "
    "regular than the fitted priors said. tallyguard priors fit says how well priors predict."
)
ROUNDED = (
    "Ceilings and what was added are rounded up, guesses to the nearest, so ceiling less guess may differ "
    "from added by 1."
)
LOWERING = (
    "Noise: a larger sigma at the sensors with exact or nearly exact counts, first where few people pass.",
    "Fewer sensors or fewer steps: what is not released costs nobody anything.",
    "Larger areas: one sensor over several locations reveals less about a single person.",
    "Try it: tallyguard run on the same messages with other settings.",
)
LIMITS = (
    "Habits are those of the movement prior. The ceiling does not cover a person whose habits differ from "
    "it, nor an observer who knows more than habits; epsilon is the figure for any observer.",
    "People who move together are each accounted on their own.",
    "Only counts are accounted: images, sounds or radio traces a sensor may take are not.",
    "The ceiling is a bound, not an attack: the best known attack may be far below it.",
    "The running ceiling covers the last steps only, given everything released before and during them. For "
    "the most exposed people the report adds what everything released later reveals about the same steps.",
)
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif;
  --ink: #16202a; --quiet: #4d5a66; --line: #ccd4dc; --ceiling: #0063a0; --guess: #a84300; --added: #5c6b2f;
  --attack: #7a2d8f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf2; --quiet: #a9b6c2; --line: #38444f;
  --ceiling: #62b8f0; --guess: #f0a04b; --added: #b7c96a; --attack: #d59be8; } body { background: #11171d; } }
body { margin: 0 auto; max-width: 52rem; padding: 1rem; color: var(--ink); }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
.note, figcaption, dd { color: var(--quiet); } figure { margin: 1rem 0; } dd { margin: 0 0 .5rem; }
dt { font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, .facts td { text-align: left; padding-left: 0; } th { color: var(--quiet); }
table.facts { --a2: left; --w1: anywhere; --w2: anywhere; } .facts th { min-width: 6rem; }
p, dd { overflow-wrap: anywhere; }
.dense { font-size: .7rem; } .dense th, .dense td { padding: .1rem .15rem; }
.scroll { overflow-x: auto; }
svg { width: 100%; height: auto; } svg text { fill: var(--quiet); font-size: 12px; }
.grid { stroke: var(--line); } polyline { fill: none; stroke-width: 2.5; }
.ceiling { stroke: var(--ceiling); } .guess { stroke: var(--guess); stroke-dasharray: 7 4; }
.added { stroke: var(--added); stroke-dasharray: 2 4; }
.attack { stroke: var(--attack); stroke-dasharray: 2 3; } svg .name-attack { fill: var(--attack); }
polygon { fill: var(--attack); }
svg .name-ceiling { fill: var(--ceiling); } svg .name-guess { fill: var(--guess); }
svg .name-added { fill: var(--added); }
"""
STYLE += narrow_style("var(--line)")
STYLE += """
@media screen and (max-width: 44rem) { .dense tr { display: flex; flex-wrap: wrap; gap: .2rem .6rem; }
  .dense tr > :first-child { width: 100%; } table.dense td { gap: .3rem; }
  .dense td:empty { display: none; } }
.verdict { border-left: .3rem solid var(--ceiling); padding: .25rem 0 .25rem 1rem; font-size: 1.15rem;
  font-weight: 600; }
@page { size: A4; margin: 18mm 16mm 20mm; @bottom-right { content: counter(page) " of " counter(pages); } }
@media print { :root { font-size: 10.5pt; } body { padding: 0; max-width: none; }
  th, td { padding: 2pt 4pt; font-size: 8.5pt; } .facts th { width: 32%; }
  .dense th, .dense td { padding: 1pt; font-size: 6pt; } .dense th[scope=row] { max-width: 60pt; }
  tr, figure { break-inside: avoid; } h2, dt { break-after: avoid; } p:has(+ .scroll) { break-after: avoid; }
  .scroll { overflow: visible; } }
"""


# May this be published: the verdict in a sentence with its condition, and what it rests on.

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


# The report of a run without people: what is promised then, and what was published.

NOT_COVERED = (
    "No chance of being traced is given, as nobody's habits are known: fit priors to check-ins, or assume "
    "some and say so, to compute it (docs/how-to/get-a-prior.md).",
    "Who is counted by several sensors in one step is less protected than epsilon says.",
    "A group that moves together is protected less the larger it is.",
    "Only counts are covered: images, sounds or radio traces a sensor may take are not.",
)
_PROMISE = (
    "Differential privacy: whatever anybody concludes from the releases, they would have concluded nearly as "
    "likely had a given person stayed at home all the time, and whatever else they know. Epsilon says how "
    "nearly: odds differ by at most the factor beside it, but for a chance of delta. It grows."
)
_MOST_ODDS = 1e6


def what_is_promised(log: RunLog) -> Iterable[str]:
    """Epsilon of everything published so far, by group of sensors."""
    yield paragraph(_PROMISE)
    if log.account is None:
        yield paragraph("This run's records hold no account of it: see tallyguard ledger.")
        return
    yield table(
        ("Sensors", f"Epsilon at delta {log.delta:g}", "Odds differ by at most"), _spent(log, log.account)
    )


def setting_of(log: RunLog) -> Rows:
    """Which steps, how many releases of each kind, what was rejected."""
    steps = 0 if log.account is None else log.account.steps
    if steps:
        length = duration(log.settings["step_seconds"])
        yield "Steps", f"{log.when(0)} to {log.when(steps - 1)}, {length} each"
    for mechanism, count in sorted(log.releases.items()):
        yield f"Decided, {mechanism}", f"{count:,} sensor-steps"
    yield "Messages rejected", f"{log.rejected:,}"


def _spent(log: RunLog, account: PrivacyAccount) -> Rows:
    spends = account.spends
    has_one_group = len(spends) == 2  # one group, and every sensor: the same
    for group, spend in spends.items():
        if group == EVERY_GROUP or not has_one_group:
            epsilon = spend.epsilon(log.delta)
            name = "all together" if group == EVERY_GROUP else group
            yield name, spent_in_words(spend, log.delta), _odds(epsilon)


def _odds(epsilon: float) -> str:
    if not isfinite(epsilon):
        return "any factor"
    odds = exp(min(epsilon, 700.0))
    return f"{odds:,.3g}" if odds < 1000 else f"{odds:,.0f}" if odds < _MOST_ODDS else "more than a million"


# What the habits rest on, and what real traces said of them: predicted and realised, by groups of people.


def what_habits_rest_on(log: RunLog) -> Iterable[str]:
    """The note that every output has, and the check it comes from; nothing for habits nobody checked."""
    if log.note is None:
        return
    yield paragraph(f"Note: {log.note}.")
    if log.check is not None:
        yield from checked_groups(log.check)
    if log.raised_from > 0:
        are_others = any(summary.chains != log.ceilings.chains for summary in log.summaries)
        answered = "leaves them open" if are_others else "raises them"
        yield paragraph(
            f"Ceilings before {log.when(log.raised_from)} were computed before that was known, under another "
            f"condition; the answer to the question below {answered}."
        )


def checked_groups(check: PriorsVerdict) -> Iterable[str]:
    """How often the best guess from habits alone should have been right, and how often it was."""
    yield paragraph(
        f"How often the best guess from habits alone names at least {check.steps - check.mistakes} of "
        f"{check.steps} steps that the priors were not fitted to:"
    )
    rows = [_priors_row("everybody", check.everybody)]
    rows += [
        _priors_row(_place(number, len(check.groups)), group) for number, group in enumerate(check.groups)
    ]
    yield table(("People, by what is predicted", "Number", "The priors say", "It happened", "Verdict"), rows)
    yield paragraph("In brackets the 95 % interval of what happened. The verdict is the worst group's.")


def _place(number: int, groups: int) -> str:
    """Where a group stands among all."""
    ends = {0: "lowest predictions", groups - 1: "highest predictions"}
    return ends.get(number, f"group {number + 1} of {groups}")


def _priors_row(name: str, group: CheckedGroup) -> tuple[str, ...]:
    return (
        name,
        f"{group.people:,}",
        in_a_hundred(group.predicted),
        in_interval(group.realised, group.low, group.high),
        group.verdict if group.verdict.startswith("ceilings") else "not refuted",
    )


# How the answer moves if habits are otherwise, a table to sign, or if nobody knows where the others are.

_DARKEST = 5.0  # sigma from which a cell is no darker


def if_habits_are_otherwise(found: Sequence[VariedRisks]) -> Iterable[str]:
    """The priors at hand and each alternative, a row each; then who has taken note of it."""
    yield paragraph(EXPLAINED)
    head = (
        *("Habits", "Guess", "Ceiling", "Highest ceiling", "Most added", "People over the limit"),
        "Rule kept",
    )
    yield table(head, (each.in_words() for each in found))
    for each in found:
        yield paragraph(f"{each.name}: ceilings hold {each.rests_on}.")
    yield table(("", ""), [("Taken note of by", ""), ("Date", ""), ("Signature", "")])


def among_the_others(found: PlannedCrowd) -> Iterable[str]:
    """Both ceilings over the run, under which condition, and where raw counts hide people."""
    yield paragraph(
        "All other ceilings of this report hold against somebody who knows where everybody else is. In the "
        f"crowd: {found.condition}."
    )
    worst = max(range(len(found.steps)), key=lambda index: found.steps[index].mean_added)
    rows = [
        (name, in_a_hundred(own.mean_baseline), *map(ceiling_in_words, (own.mean_risk, other.mean_risk)))
        for name, own, other in (
            (f"after step {found.steps[worst].step}, where the most was added", *_both(found, worst)),
            (f"after step {found.steps[-1].step}, the last", *_both(found, -1)),
        )
    ]
    head = ("Mean over all people", "Guess", "Ceiling in the crowd", "Ceiling if others' places are known")
    yield table(head, rows)
    yield paragraph(
        "What the crowd hides of a raw count, by sensor and slot of the priors' cycle (hours of the day if "
        "it has 24): as if noised with so many people of Gaussian noise, at the worst step; 0: it hides "
        "nobody; empty: not counted then."
    )
    yield _heat_map(found)


def _both(found: PlannedCrowd, index: int) -> tuple[RiskSummary, RiskSummary]:
    return found.steps[index], found.informed[index]


def _heat_map(found: PlannedCrowd) -> str:
    slots = sorted({each.slot for each in found.hidden})
    sigma = {(each.sensor, each.slot): each.sigma for each in found.hidden}
    head = "".join(f'<th scope="col">{slot}</th>' for slot in slots)
    rows = "".join(
        f'<tr><th scope="row">{escape(sensor)}</th>'
        f"{''.join(_cell(sigma.get((sensor, slot))) for slot in slots)}</tr>"
        for sensor in dict.fromkeys(each.sensor for each in found.hidden)
    )
    return (
        '<div class="scroll" tabindex="0"><table class="dense"'
        f"{headings(('Sensor', *map(str, slots)))}"
        '><thead><tr><th scope="col">Sensor</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(sigma: float | None) -> str:
    if sigma is None:
        return "<td></td>"
    shade = min(1.0, sigma / _DARKEST) * 0.45
    return f'<td style="background: rgba(40, 120, 60, {shade:.2f})">{shortened(sigma, 1, DOWN)}</td>'


# What became of the most exposed people's worst moments with everything that was released later.

IN_HINDSIGHT = "In hindsight"
NEEDS_PRIORS = (
    "Not computed: what was released later can give earlier steps away, too. By how much follows from the "
    "run's priors; name them (tallyguard report --priors)."
)
WHAT_IT_SAYS = (
    "What is released later can give earlier steps away, too. For the people above, the same steps up to "
    "their worst moments: the ceiling when the last of them was released, and the ceiling given everything "
    "released until {until}. {condition}, no method was or is right more often. Both come from "
    "slower, mostly tighter bounds than the running ceiling above: compare them with each other, not with it."
)


def exposed_in_hindsight(
    log: RunLog, priors: Priors, steps: Sequence[StepSchedule]
) -> tuple[Hindsight | None, ...]:
    """The worst moment of each exposed person of the log; None where it cannot be computed."""
    horizon, mistakes = int(log.settings["horizon"]), int(log.settings["mistakes"])
    first_slot = int(log.settings.get("first_slot", 0))
    found = (
        hindsight(
            priors.population, person, steps, first_slot, PastHorizon.ending_at(each.step, horizon, mistakes)
        )
        for each, person in zip(log.exposed, positions(priors, log.exposed), strict=True)
    )
    nats = log.horizon().within_nats
    return tuple(None if each is None else each.within(nats) for each in found)


def in_hindsight(log: RunLog, found: Sequence[Hindsight | None] | None) -> Iterable[str]:
    """A sentence and a table; ``found`` None where the priors are not at hand."""
    if found is None:
        yield paragraph(NEEDS_PRIORS)
        return
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        yield paragraph(f"{SHARED_NOISE.capitalize()}.")
        return
    condition = log.condition[:1].upper() + log.condition[1:]
    yield paragraph(WHAT_IT_SAYS.format(until=log.when(known[0].until_step), condition=condition))
    rows = [
        (
            record.person[:12],
            log.when(each.first_step),
            log.when(each.last_step),
            in_a_hundred(each.baseline),
            ceiling_in_words(each.then),
            ceiling_in_words(each.now),
        )
        for record, each in zip(log.exposed, known, strict=True)
    ]
    head = ("Pseudonym", "First step", "Last step", "Guess by habit", "Ceiling then", IN_HINDSIGHT)
    yield table(head, rows)


LISTED_SENSORS = 8


def what_would_lower_it(found: Lowering, when: Callable[[int], str]) -> Iterable[str]:
    """Which sensors revealed most about the people listed above, then what other decisions would do."""
    if not found.shares:
        yield paragraph("No release of their last steps concerns the most exposed people.")
        return
    yield paragraph(_who_revealed(found, when))
    head = ("Sensor", "Mechanism", "Revealed", "Share of all", "Steps", "People concerned")
    yield table(head, map(_share_row, found.shares[:LISTED_SENSORS]))
    yield paragraph(_what_less_does(found))
    otherwise = (
        "If released otherwise",
        "Mean ceiling",
        "Added, mean",
        "Added, highest",
        "A changed count errs by",
    )
    yield table(otherwise, map(_change_row, found.changes))


def _who_revealed(found: Lowering, when: Callable[[int], str]) -> str:
    sensors = [f"{share.sensor} ({share.share:.0%})" for share in found.shares[:NAMED_SENSORS]]
    releases = [
        f"{release.sensor}, {when(release.step)} ({release.share:.0%})"
        for release in found.releases[:NAMED_SENSORS]
    ]
    return (
        f"What each release revealed about the {found.people} people listed above, in {found.steps} steps up "
        f"to their worst moments. Sensors that revealed most: {', '.join(sensors)}. Single releases: "
        f"{'; '.join(releases)}. The shares add up to 100%."
    )


def _what_less_does(found: Lowering) -> str:
    before = found.changes[0]
    helps = [change for change in found.changes[1:] if change.added < before.added]
    explained = (
        "The whole run, computed again for these people with other decisions and without any count; each "
        "person at the step where most would be added. A run with these settings would report the same about "
        "them, though somebody else may then be the most exposed. As published, releases added "
        f"{ceiling_in_words(before.added)} on average"
    )
    if not helps:
        return f"{explained}; none of these changes lowers it."
    best = min(helps, key=lambda change: (change.added, change.name))
    one = next((change for change in helps if change.name.startswith(found.shares[0].sensor)), None)
    first = "" if one is None else f"; {one.name}: {ceiling_in_words(one.added)}"
    return f"{explained}{first}; the least here is {ceiling_in_words(best.added)} ({best.name})."


def _share_row(share: RevealedBySensor) -> tuple[str, ...]:
    return (
        share.sensor,
        share.mechanism,
        f"{share.bits:.2g} bits",
        f"{share.share:.0%}",
        f"{share.releases:,}",
        f"{share.people:,}",
    )


def _change_row(change: Change) -> tuple[str, ...]:
    error = "–" if change.error is None else f"{change.error:.1f} people"
    chances = map(ceiling_in_words, (change.ceiling, change.added, change.most_added))
    return change.name, *chances, error
