"""What the sections of a report say: rows of their tables, and the sentences that need a decision.

The templates lay them out and hold the sentences that are always the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import exp, isfinite
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from accounting.continuous import RiskSummary
from accounting.ledgers import EVERY_GROUP
from models.priors import PLACE
from models.releases import StepSchedule, in_single_steps
from models.text import DocumentError, parse_json
from stream_app.analysis.crowd import PlannedCrowd
from stream_app.analysis.report.lowering import NAMED_SENSORS, Change, Lowering, Priors, positions
from stream_app.analysis.run_log import RunLog
from stream_app.analysis.verdict import (
    PeopleOver,
    RunVerdict,
    limit_in_words,
    period_rule_in_words,
    rule_in_words,
    whole_rule_in_words,
)
from stream_app.exceptions import OutputError
from stream_app.setup.exclusions import Exclusion
from stream_app.setup.given_priors import PRIORS_REST_ON
from stream_app.setup.priors_verdict import CheckedGroup, PriorsVerdict
from stream_app.setup.release_settings import BudgetSettings
from stream_app.setup.run_folder.description import changes_in
from stream_app.setup.run_folder.manifest import EXCLUSIONS
from stream_app.setup.run_folder.record import Entry
from stream_app.watching.hindsight import Hindsight, PastHorizon, hindsight
from stream_app.watching.prior_notes import ceiling_condition
from stream_app.watching.view import ABOUT_NOTHING, Moment, View, error_in_words
from stream_app.watching.wording import (
    DOWN,
    NO_GUARANTEE,
    ceiling_in_words,
    duration,
    in_a_hundred,
    in_interval,
    not_reached_in_words,
    sentence_case,
    shortened,
    significant,
)

Rows = Iterable[Sequence[str]]
MOST_PEOPLE = 50  # in the table of an audit
MOST_SENSORS = 50  # in the table of what was published: thousands would be all that a report is
_MOST_ODDS = 1e6
_MOST_EXCLUDED = 20
_DARKEST_SIGMA = 5.0  # from which a cell is no darker


# May this be published: the verdict, what it rests on, and the record of the run.


def rules_of_periods(verdict: RunVerdict, log: RunLog) -> Rows:
    """Each rule with the steps that were published under it."""
    for period, part in verdict.parts:
        yield (
            f"{log.when(period.first)} to {log.when(period.until - 1)}",
            period_rule_in_words(period),
            "each step" if period.decides else "no step",
            part.answer.value,
        )


def what_the_verdict_rests_on(verdict: RunVerdict, log: RunLog) -> Rows:
    """Figures from the records that the tables and figures below show."""
    period, part = verdict.parts[-1]
    if part.limit is not None and part.at is not None:
        yield f"The rule{'' if len(verdict.parts) == 1 else ', the last one'}", rule_in_words(part.limit)
        yield "Over the limit", limit_in_words(part.limit)
        yield (
            "Decided by it",
            "each step, before it was published"
            if period.decides
            else "no step: another release.mechanism decided, and the run is only compared with the rule",
        )
        if period.adversary is not None:
            yield "Kept against", "an adversary who does not know where the others are (setting adversary)"
        yield "Most people over the limit at a step", _most_over(part.at, log)
        for each in log.view.group("people"):
            yield each.label, each.sentence
    for each in log.view.group("most"):
        by = f", {each.condition}" if each.kind.name == "added" and log.is_raised else ""
        yield f"{each.label}, over all people and steps{by}", each.shown
    if log.adversary is not None:
        highest = max(summary.risk["1.0"] for summary in log.judged_against(log.adversary))
        yield "Highest ceiling against that adversary, over all people and steps", ceiling_in_words(highest)
    first, last = log.summaries[0].step, log.summaries[-1].step
    yield "Steps the answer covers", f"{log.when(first)} to {log.when(last)}"
    yield "The run", sentence_case(log.checked.in_words())
    if by_steps := log.checked.priors():
        yield "Priors", sentence_case("; ".join(by_steps))


def _most_over(at: PeopleOver, log: RunLog) -> str:
    count = f"{at.most:,} of {at.people:,}"
    if at.least < at.most:
        count = f"between {at.least:,} and {at.most:,} of {at.people:,} (the records leave open how many)"
    may = "nobody" if at.allowed == 0 else f"at most {at.allowed:,}"
    return f"{count}, at {log.when(at.step)}; the rule allows {may}"


def headline_rows(log: RunLog) -> Rows:
    """Guess, attack, ceiling and added risk: at the worst step, over all steps, and after the last one."""
    scopes = [{each.kind.name: each for each in log.view.group(scope)} for scope in HEADLINE_SCOPES]
    for name, each in scopes[0].items():
        yield each.label, *(of_scope[name].shown if name in of_scope else "–" for of_scope in scopes)


HEADLINE_SCOPES = ("headline", "mean", "last")


RECORD_COLUMNS = ("From step", "Since", "By", "Why", "With")


def record_rows(log: RunLog) -> Rows:
    """Which rule held, from which step, who said so, and why."""
    for entry, changes in zip(log.changes, changes_in(log.changes), strict=True):
        facts = entry.facts
        release = facts.get("release") or {}
        limit = BudgetSettings.model_validate(release.get("budget") or {}).limit
        sigma, in_crowd = release.get("sigma"), bool((facts.get("crowd") or {}).get("decides"))
        noise = "" if sigma is None else f" with sigma {sigma:g}"
        changed = "".join(f"{each.words}; " for each in changes)
        yield (
            f"{entry.step:,}",
            log.times.moment(datetime.fromisoformat(entry.at).timestamp()),
            entry.by,
            entry.reason or ("begun" if entry.kind == "begun" else "no promise was weakened"),
            f"{changed}{whole_rule_in_words(limit, in_crowd=in_crowd)}; "
            f"released by {release.get('mechanism', 'gaussian')}{noise}; "
            f"horizon {facts.get('horizon')}, mistakes {facts.get('mistakes')}; {priors_of(entry)}; "
            f"tallyguard {entry.version}",
        )


def priors_of(entry: Entry) -> str:
    """Of an entry of the record: which priors, by digest, of how many people, and what they rest on."""
    facts, about = entry.facts, entry.about
    if not facts.get("people"):
        return "no priors"
    rests_on = facts.get("assumed_habits") or about.get(PRIORS_REST_ON)
    habits = ", ".join(filter(None, (about.get("priors_file"), rests_on)))
    priors = facts.get("priors")
    which = "priors that are in no copy" if priors is None else f"priors {priors[:12]}"
    return f"{which} of {facts['people']:,} people{f' ({habits})' if habits else ''}"


# What the priors rest on, and what real traces said of them: predicted and realised, by groups of people.


def groups_of_check(check: PriorsVerdict) -> Rows:
    """How often the best guess from habits alone should have been right, and how often it was."""
    yield _group_row("all people", check.everybody)
    last = len(check.groups) - 1
    ends = {0: "lowest predictions", last: "highest predictions"}
    for number, group in enumerate(check.groups):
        yield _group_row(ends.get(number, f"group {number + 1} of {last + 1}"), group)


def _group_row(name: str, group: CheckedGroup) -> tuple[str, ...]:
    return (
        name,
        f"{group.people:,}",
        in_a_hundred(group.predicted),
        in_interval(group.realised, group.low, group.high),
        group.verdict if group.verdict.startswith("ceilings") else "not refuted",
    )


# The risk of a run: at the worst step, over time, and of the most exposed people.


def setting_rows(log: RunLog, *, says_why: bool = True) -> Rows:
    """Who is protected, which steps, how many releases of each kind, what was rejected.

    ``says_why`` devices are not counted: not for the public.
    """
    settings, length = log.settings, duration(log.settings["step_seconds"])
    steps = range(log.account.steps if log.account else 0)
    if log.summaries:
        yield "People protected", f"{log.view.everybody}, each separately"
        steps = range(log.summaries[0].step, log.summaries[-1].step + 1)
    if steps:
        yield "Steps", f"{log.when(steps[0])} to {log.when(steps[-1])}, {length} each"
    if log.summaries:
        yield "Horizon", f"{settings['horizon']} steps, {settings['mistakes'] or 'none'} of them may be wrong"
        if log.view.about.question is not None:
            yield "What must not be told", f"{log.asked[0].what} (question {log.asked[0].name})"
        if log.asked[1:]:
            yield "Asked beside", "; ".join(f"{each.what} (question {each.name})" for each in log.asked[1:])
        yield "Assumed observer", "sees every release, knows the person's habits and where everybody else is"
    for mechanism, count in sorted(log.releases.items()):
        yield f"Decided, {mechanism}", f"{count:,} sensor-steps"
    if rows := settings.get(EXCLUSIONS):
        yield (
            "Devices that are not counted",
            _excluded_in_words(log, [Exclusion(*row) for row in rows], says_why=says_why),
        )
    yield "Messages rejected", f"{log.rejected:,}"


def _excluded_in_words(log: RunLog, rows: Sequence[Exclusion], *, says_why: bool) -> str:
    said = [
        f"{row.sensor} from {log.when(row.first)} "
        f"{'on' if row.until is None else f'until {log.when(row.until)}'}"
        f"{f' ({row.reason})' if says_why else ''}"
        for row in rows[:_MOST_EXCLUDED]
    ]
    more = len(rows) - len(said)
    return "; ".join([*said, *([f"and {more:,} more in run.json"] if more else [])])


def unrefined(log: RunLog) -> tuple[int, str] | None:
    """The step after which most people had the fast bound only, and what to say of it."""
    worst = max(log.summaries, key=lambda summary: summary.not_reached)
    note = not_reached_in_words(worst.not_reached)
    return None if note is None else (worst.step, note)


def exposed_columns(log: RunLog) -> Sequence[str]:
    """The headings over :func:`exposed_rows`."""
    return "Pseudonym", "Last step", "Guess", f"Ceiling, {log.condition}", f"Added risk{log.by_priors}"


def exposed_rows(log: RunLog) -> Rows:
    """The most exposed people, by pseudonym."""
    for record in log.exposed:
        ceilings = map(ceiling_in_words, (record.risk, record.added))
        yield record.person[:12], log.when(record.step), in_a_hundred(record.baseline), *ceilings


def exposed_in_hindsight(
    log: RunLog, priors: Priors, steps: Sequence[StepSchedule]
) -> tuple[Hindsight | None, ...]:
    """The worst moment of each exposed person of the log; None where it cannot be computed."""
    horizon, mistakes = int(log.settings["horizon"]), int(log.settings["mistakes"])
    run = log.horizon()
    shown = [in_single_steps(step, priors.registry) for step in steps]
    found = (
        hindsight(
            priors.population,
            person,
            shown,
            run.first_slot,
            PastHorizon.ending_at(each.step, horizon, mistakes),
            calendar=run.calendar,
        )
        for each, person in zip(log.exposed, positions(priors, log.exposed), strict=True)
    )
    return tuple(None if each is None else each.within(run.within_nats) for each in found)


def hindsight_rows(log: RunLog, found: Sequence[Hindsight]) -> Rows:
    """The same steps when the last of them was released, and given everything released later."""
    for record, each in zip(log.exposed, found, strict=True):
        yield (
            record.person[:12],
            log.when(each.first_step),
            log.when(each.last_step),
            in_a_hundred(each.baseline),
            *map(ceiling_in_words, (each.then, each.now)),
        )


# How the answer moves if the adversary does not know where the others are.


def crowd_rows(found: PlannedCrowd) -> Rows:
    """Ceilings of both adversaries at the step at which the most was added, and at the last."""
    view = View(ABOUT_NOTHING)
    for each in found.steps:
        view.note(Moment.planned(each, None))
    worst = next(i for i, each in enumerate(found.steps) if view.worst and each.step == view.worst.step)

    def row(index: int, which: str) -> tuple[str, ...]:
        own: RiskSummary = found.steps[index]
        ceilings = map(ceiling_in_words, (own.mean_risk, found.informed[index].mean_risk))
        return f"after step {own.step}, {which}", in_a_hundred(own.mean_baseline), *ceilings

    yield row(worst, "where the most was added")
    yield row(-1, "the last")


def heat_rows(
    found: PlannedCrowd, slots: Sequence[int]
) -> Iterable[tuple[str, list[tuple[str, float] | None]]]:
    """Each sensor with what is hidden in these slots: sigma in words, and how dark its cell is, or None."""
    sigmas = {(each.sensor, each.slot): each.sigma for each in found.hidden}
    for sensor in dict.fromkeys(each.sensor for each in found.hidden):
        of_slots = (sigmas.get((sensor, slot)) for slot in slots)
        yield (
            sensor,
            [
                None if s is None else (shortened(s, 1, DOWN), min(1.0, s / _DARKEST_SIGMA) * 0.45)
                for s in of_slots
            ],
        )


# What was published, what is promised of it, and what would lower the risk.


def published_columns(*, says_errors: bool = True) -> Sequence[str]:
    """The headings over :func:`published_rows`."""
    error = ("Mean error",) if says_errors else ()
    return "Sensor", "Published", "Exact", "Decided, how often", *error, "Epsilon of the whole log"


def published_rows(log: RunLog, *, says_errors: bool = True) -> Rows:
    """Each sensor with all its releases; of very many sensors those with the largest epsilon."""
    shown = log.sensors
    if len(shown) > MOST_SENSORS:
        shown = tuple(sorted(shown, key=lambda entry: -entry.epsilon)[:MOST_SENSORS])
    for entry in shown:
        kinds = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(entry.kinds.items()))
        yield (
            entry.sensor,
            f"{entry.published:,} of {entry.releases:,}",
            f"{entry.exact:,}",
            kinds,
            *((log.errors[entry.sensor].shown,) if says_errors else ()),
            NO_GUARANTEE if entry.exact and not isfinite(entry.epsilon) else entry.spent,
        )


def unlisted_alike(log: RunLog) -> int:
    """Sensors that are not listed and have the epsilon of the last one that is."""
    ranked = sorted((entry.epsilon for entry in log.sensors), reverse=True)
    return ranked[MOST_SENSORS:].count(ranked[MOST_SENSORS - 1])


def spent_rows(log: RunLog) -> Rows:
    """Epsilon of everything published so far, by group of sensors."""
    for each in log.spent:
        group = each.name.removeprefix("epsilon.")
        yield "all together" if group == EVERY_GROUP else group, each.shown, _odds(each.value or 0.0)


def _odds(epsilon: float) -> str:
    if not isfinite(epsilon):
        return "no factor: nothing is promised"
    odds = exp(min(epsilon, 700.0))
    return f"{odds:,.3g}" if odds < 1000 else f"{odds:,.0f}" if odds < _MOST_ODDS else "more than a million"


def who_revealed(found: Lowering, log: RunLog) -> Mapping[str, str]:
    """The sensors and the single releases that revealed most about the most exposed people."""
    sensors = (f"{share.sensor} ({share.share:.0%})" for share in found.shares[:NAMED_SENSORS])
    releases = (
        f"{release.sensor}, {log.when(release.step)} ({release.share:.0%})"
        for release in found.releases[:NAMED_SENSORS]
    )
    return {"sensors": ", ".join(sensors), "releases": "; ".join(releases)}


def what_less_does(found: Lowering) -> str:
    """As published, with less of the sensor that revealed most, and the least of all changes."""
    before, *others = found.changes
    helps = [change for change in others if change.added < before.added]
    as_published = f"As published, releases added {ceiling_in_words(before.added)} on average"
    if not helps:
        return f"{as_published}; none of these changes lowers it."
    best = min(helps, key=lambda change: (change.added, change.name))
    one = next((change for change in helps if change.name.startswith(found.shares[0].sensor)), None)
    first = "" if one is None else f"; {one.name}: {ceiling_in_words(one.added)}"
    return f"{as_published}{first}; the least here is {ceiling_in_words(best.added)} ({best.name})."


def share_rows(found: Lowering, listed: int = 8) -> Rows:
    """What each sensor revealed, most first."""
    for share in found.shares[:listed]:
        revealed = f"{share.bits:.2g} bits", f"{share.share:.0%}"
        yield share.sensor, share.mechanism, *revealed, f"{share.releases:,}", f"{share.people:,}"


def change_rows(changes: Sequence[Change]) -> Rows:
    """What other decisions would have done."""
    for change in changes:
        error = "–" if change.error is None else error_in_words(change.error)
        chances = map(ceiling_in_words, (change.ceiling, change.added, change.most_added))
        yield change.name, *chances, error


# The JSON of ``tallyguard audit --json``: its people are numbered, most exposed first, never named.

Probability = Annotated[float, Field(ge=0.0, le=1.0)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class TriedAttack(_Part):
    """How often an attack was right."""

    success: Probability


class AuditedRadius(_Part):
    """When ceilings within a radius hold."""

    nats: float
    condition: str


class AuditedPosterior(_Part):
    """Ceilings over drawn chains."""

    mean: Probability
    credible: Probability
    condition: str


class AuditedCondition(_Part):
    """A condition in words: of a check of the priors, or of the crowd adversary."""

    condition: str


class AuditedPerson(_Part):
    """What a report says of one person of an audit."""

    steps: Annotated[int, Field(ge=1)]
    mistakes: Annotated[int, Field(ge=0)]
    baseline: Probability
    certified: Probability
    certified_by: str
    attacks: Mapping[str, TriedAttack | None] | None = None
    certified_radius: Probability | None = None
    radius: AuditedRadius | None = None
    posterior: AuditedPosterior | None = None
    priors_check: AuditedCondition | None = None
    adversary: str = "informed"
    certified_informed: Probability | None = None
    crowd: AuditedCondition | None = None
    question: str = PLACE


_AUDIT = TypeAdapter(Annotated[list[AuditedPerson], Field(min_length=1, fail_fast=True)])


def read_audit(path: Path) -> list[AuditedPerson]:
    """The people of an audit; :class:`OutputError` where the file is none."""
    try:
        audits = _AUDIT.validate_python(parse_json(path.read_bytes()))
    except (DocumentError, ValidationError) as error:
        raise _no_audit(path, "another form" if isinstance(error, ValidationError) else error) from None
    first = audits[0]
    if len({(each.steps, each.mistakes) for each in audits}) > 1:
        raise _no_audit(path, "people of audits with other horizons or mistakes")
    if any(each.question != PLACE for each in audits):
        raise _no_audit(path, "audits of another question than which place, whose tables audit prints itself")
    if any((each.radius is None) != (first.radius is None) for each in audits) or any(
        (each.posterior is None) != (first.posterior is None) for each in audits
    ):
        raise _no_audit(path, "people of audits with other options")
    if first.radius is not None and any(each.certified_radius is None for each in audits):
        raise _no_audit(path, "a radius without its ceilings")
    against_crowd = [each.adversary != "informed" for each in audits]
    shown = [each.crowd is not None and each.certified_informed is not None for each in audits]
    if len(set(against_crowd)) > 1 or (against_crowd[0] and not all(shown)):
        raise _no_audit(path, "ceilings against a crowd without their condition")
    return audits


def _no_audit(path: Path, found: object) -> OutputError:
    return OutputError(
        f"{path} must be the JSON of `tallyguard audit --json`, of at least one person",
        found,
        "make it with audit --json, or name the folder of a run",
    )


def audit_columns(first: AuditedPerson) -> list[str]:
    """The headings, which depend on what was asked of everybody in the audit."""
    plain = ceiling_condition(None)  # of the plain ceiling; the raised one has a column of its own
    head = ["Person", "Guess", "Best attack tried", f"Ceiling, {plain}", "Ceiling by"]
    if first.crowd is not None:
        head.append("Ceiling if the others' places are known")
    if first.radius is not None:
        head.append(radius_column(first.radius))
    if first.posterior is not None:
        head += ["Mean ceiling", "Credible, 90 %"]
    return head


def radius_column(radius: AuditedRadius) -> str:
    """The heading over ceilings that hold within a radius."""
    return f"Within {significant(radius.nats, 3, DOWN)} nats"


def audit_rows(ranked: Sequence[AuditedPerson]) -> Rows:
    """A row for each of the most exposed people."""
    for number, audit in enumerate(ranked[:MOST_PEOPLE], start=1):
        attacks = (audit.attacks or {}).values()
        best = max((attack.success for attack in attacks if attack is not None), default=None)
        row = [
            f"person {number}",
            in_a_hundred(audit.baseline),
            "not tried" if best is None else in_a_hundred(best),
            ceiling_in_words(audit.certified),
            audit.certified_by,
        ]
        if ranked[0].crowd is not None:
            row.append(ceiling_in_words(audit.certified_informed or 1.0))
        if audit.certified_radius is not None:
            row.append(ceiling_in_words(audit.certified_radius))
        if audit.posterior is not None:
            row += [in_a_hundred(audit.posterior.mean), ceiling_in_words(audit.posterior.credible)]
        yield row
