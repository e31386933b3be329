"""The report as one HTML file: no script, nothing loaded from anywhere, fit for a browser and for print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any, NamedTuple

from stream_app.analysis.alternatives import VariedRisks
from stream_app.analysis.audit_file import AuditedPerson
from stream_app.analysis.crowd import PlannedCrowd
from stream_app.analysis.report.lowering import Lowering
from stream_app.analysis.report.sections import (
    CONDITION,
    LIMITS,
    LOWERING,
    NOT_COVERED,
    ROUNDED,
    STYLE,
    Rows,
    among_the_others,
    if_habits_are_otherwise,
    in_hindsight,
    may_i_publish,
    paragraph,
    section,
    setting_of,
    table,
    the_record,
    what_habits_rest_on,
    what_is_promised,
    what_would_lower_it,
)
from stream_app.analysis.run_log import RunLog
from stream_app.watching.glossary import REPORT_WORDS, for_report
from stream_app.watching.hindsight import Hindsight
from stream_app.watching.prior_notes import ceiling_condition
from stream_app.watching.wording import (
    DISTANCE,
    DOWN,
    EXACT,
    attack_in_words,
    ceiling_in_words,
    confidence_in_words,
    duration,
    in_a_hundred,
    not_reached_in_words,
    significant,
)
from stream_app.wire import Attack

# Figures as inline SVG: lines differ by colour, dash and label; axes with units; readable in print.

WIDTH, HEIGHT = 680, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 150, 30, 40
QUIET, GRID = "#4d5a66", "#ccd4dc"
LOOKS = {  # colour and dash by style: what a page's style sheet does not say otherwise, and what is printed
    "ceiling": ("#0063a0", "none"),
    "guess": ("#a84300", "7 4"),
    "added": ("#5c6b2f", "2 4"),
    "attack": ("#7a2d8f", "2 3"),
}


class Line(NamedTuple):
    """A named series of values, one a step; ``ends`` are those of their intervals."""

    name: str
    style: str  # class in the report's style sheet: ceiling, guess, added, attack
    values: Sequence[float]
    ends: Sequence[tuple[float, float]] = ()


def line_chart(
    lines: Sequence[Line], ends: tuple[str, str], unit: str, factor: float, description: str
) -> str:
    """Values over steps, the first and last called ``ends``; ``factor`` turns them into ``unit``."""
    top, ticks = axis(max(max(line.values) for line in lines) * factor)
    count = len(lines[0].values)

    def x(index: int) -> float:
        return LEFT + index * (WIDTH - LEFT - RIGHT) / max(count - 1, 1)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM) / top

    drawn = [_grid(y(tick), f"{tick:g}") for tick in ticks]
    names = _apart([y(line.values[-1] * factor) for line in lines])
    for line, name_y in zip(lines, names, strict=True):
        points = " ".join(f"{x(i):.1f},{y(v * factor):.1f}" for i, v in enumerate(line.values))
        colour, dash = LOOKS[line.style]
        if line.ends:
            upper = [f"{x(i):.1f},{y(high * factor):.1f}" for i, (_, high) in enumerate(line.ends)]
            lower = [f"{x(i):.1f},{y(low * factor):.1f}" for i, (low, _) in enumerate(line.ends)]
            around = " ".join([*upper, *reversed(lower)])
            drawn.append(f'<polygon fill="{colour}" fill-opacity="0.2" points="{around}"/>')
        look = f'fill="none" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"'
        drawn.append(f'<polyline class="{line.style}" {look} points="{points}"/>')
        drawn.append(_text(WIDTH - RIGHT + 8, name_y + 4, line.name, "start", line.style))
    drawn.append(_text(LEFT, HEIGHT - 18, ends[0], "start"))
    drawn.append(_text(WIDTH - RIGHT, HEIGHT - 18, ends[1], "end"))
    drawn.append(_text(4, 12, unit, "start"))
    body = "".join(drawn)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(description)}">{body}</svg>'


def axis(most: float) -> tuple[float, list[float]]:
    """A round top at or above ``most`` and at most six ticks from 0."""
    if most <= 0.0:
        return 1.0, [0.0, 1.0]
    size = 10.0 ** floor(log10(most))
    step = next(part * size for part in (0.2, 0.5, 1.0, 2.0) if most / (part * size) <= 5.0)
    count = max(1, ceil(most / step - 1e-9))
    return count * step, [round(index * step, 12) for index in range(count + 1)]


def _apart(heights: list[float], distance: float = 16.0) -> list[float]:
    """Heights of the names, moved so that none covers another."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    moved = list(heights)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + distance)
    return moved


def _grid(y: float, text: str) -> str:
    ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
    line = f'<line class="grid" stroke="{GRID}" {ends}/>'
    return line + _text(LEFT - 6, y + 4, text, "end")


def _text(x: float, y: float, text: str, anchor: str, style: str = "") -> str:
    kind = f' class="name-{style}"' if style else ""
    look = f'font-family="sans-serif" font-size="12" fill="{LOOKS[style][0] if style else QUIET}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {look}{kind}>{escape(text)}</text>'


MOST_PEOPLE = 50  # in the table of an audit
MOST_SENSORS = 50
"""In the table of what was published: thousands would be all that a report is."""


def run_report(
    log: RunLog,
    made: str,
    lower: Lowering | None = None,
    later: Sequence[Hindsight | None] | None = None,
    varied: Sequence[VariedRisks] = (),
    crowd: PlannedCrowd | None = None,
) -> str:
    """The report of a run; ``made`` says when and with which version, ``lower`` what would lower the risk.

    ``later`` are the exposed people's worst moments in hindsight; None where the priors are not at hand.
    ``varied`` is what other habits make of the same releases, ``crowd`` how they stand against whoever does
    not know where the others are, where that was asked.
    """
    if not log.summaries:
        return _without_people(log, made)
    basis = [] if log.note is None else [section("What the habits rest on", *what_habits_rest_on(log))]
    condition = CONDITION.format(condition=log.condition)
    return document(
        f"Reconstruction risk: {log.settings['deployment']}",
        made,
        [
            *basis,
            section("May I publish this?", *may_i_publish(log)),
            section("The question", paragraph(_question(log.settings))),
            section("The answer in short", *map(paragraph, _answer(log)), levels_table(log)),
            section("The setting", table(("", ""), _setting(log)), paragraph(condition)),
            section("How the risk moved", *_figures(log)),
            *([section("If habits are otherwise", *if_habits_are_otherwise(varied))] if varied else []),
            *([] if crowd is None else [section("Among the others", *among_the_others(crowd))]),
            section("The most exposed people", *_exposed(log)),
            *([section("What was released later", *in_hindsight(log, later))] if log.exposed else []),
            section("What was published", *_published(log)),
            *closing(*([] if lower is None else what_would_lower_it(lower, log.when))),
        ],
    )


def _without_people(log: RunLog, made: str) -> str:
    return document(
        f"Published counts: {log.settings['deployment']}",
        made,
        [
            section("What this report can say", paragraph(f"Note: {log.note}.")),
            section("What is promised", *what_is_promised(log)),
            section("The record", *the_record(log)),
            section("The setting", table(("", ""), setting_of(log))),
            section("What was published", *_published(log)),
            section("What is not covered", _list(NOT_COVERED)),
            glossary(("sigma", "epsilon")),
        ],
    )


def audit_report(audits: Sequence[AuditedPerson], made: str) -> str:
    """The report of ``tallyguard audit --json``; people are numbered, most exposed first, never named."""
    ranked = sorted(audits, key=lambda audit: -audit.certified)
    steps, mistakes = ranked[0].steps, ranked[0].mistakes
    radius, sure, check = ranked[0].radius, ranked[0].posterior, ranked[0].priors_check
    crowd = ranked[0].crowd
    rows = [
        (
            f"person {number}",
            in_a_hundred(audit.baseline),
            _best_attack(audit),
            ceiling_in_words(audit.certified),
            audit.certified_by,
            *([] if crowd is None else [ceiling_in_words(audit.certified_informed or 1.0)]),
            *([] if audit.certified_radius is None else [ceiling_in_words(audit.certified_radius)]),
            *(
                []
                if (own := audit.posterior) is None
                else (in_a_hundred(own.mean), ceiling_in_words(own.credible))
            ),
        )
        for number, audit in enumerate(ranked[:MOST_PEOPLE], start=1)
    ]
    condition = ceiling_condition(None)  # of the plain ceiling; the raised one has a column of its own
    head = ["Person", "Guess by habit", "Best attack tried", f"Ceiling, {condition}", "Ceiling by"]
    notes = [paragraph(CONDITION.format(condition=condition))]
    if check is not None:
        notes.insert(0, paragraph(f"Note: {check.condition}."))
    if crowd is not None:
        head.append("Ceiling if the others' places are known")
        notes.append(paragraph(f"In the crowd: {crowd.condition}."))
    if radius is not None:
        head.append(f"Within {significant(radius.nats, 3, DOWN)} nats")
        notes.append(paragraph(f"{head[-1]}: {radius.condition}."))
    if sure is not None:
        head += ["Mean ceiling", "Credible, 90 %"]
        notes.append(paragraph(f"{sure.condition}."))
    return document(
        "Reconstruction risk: an audit",
        made,
        [
            section(
                "The question",
                paragraph(_question({"horizon": steps, "mistakes": mistakes}, crowd is not None)),
            ),
            section(
                "The people audited",
                paragraph(_how_many(len(audits), ranked[0].certified)),
                table(head, rows),
                *notes,
            ),
            *closing(),
        ],
    )


def _how_many(people: int, highest: float) -> str:
    """How many people were audited, and that not all of them are listed, where that is so."""
    listed = (
        "most exposed first"
        if people <= MOST_PEOPLE
        else f"of whom the {MOST_PEOPLE} most exposed are listed"
    )
    return f"{people:,} people, {listed}; the highest ceiling of anybody is {ceiling_in_words(highest)}."


def document(title: str, made: str, sections: Iterable[str]) -> str:
    """A whole page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f'<h1>{escape(title)}</h1><p class="note">{escape(made)}</p>'
        f"{''.join(sections)}</main></body></html>\n"
    )


def closing(*specific: str) -> list[str]:
    """What would lower the risk (what is ``specific`` to a run first), what is not covered, the words."""
    return [
        section("What would lower it", *specific, _list(LOWERING)),
        section("Limits of the method", _list(LIMITS)),
        glossary(),
    ]


def glossary(words: Sequence[str] = REPORT_WORDS) -> str:
    """The words."""
    entries = for_report(words)
    listed = "".join(f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in entries)
    return section("Glossary", f"<dl>{listed}</dl>")


def levels_table(log: RunLog) -> str:
    """People at or above each threshold at the worst step: by ceiling, by habit, and by the difference."""
    worst = log.worst
    rows = [
        (
            f"{in_a_hundred(float(level), EXACT)} or more",
            f"{count:,}",
            f"{worst.at_baseline[level]:,}" if level in worst.at_baseline else "not recorded",
            _put_there(log, level, count),
            f"{worst.at_added_risk.get(level, 0):,}",
        )
        for level, count in worst.at_risk.items()
    ]
    head = (
        "Chance",
        f"Ceiling there, {log.condition}",
        "Guess there, by habit alone",
        "Put there by releases",
        f"Added that much{log.by_priors}",
    )
    return paragraph(f"People, of {worst.people:,}, at that step:") + table(head, rows)


def _begin(words: str) -> str:
    """Words as they begin a sentence."""
    return words[:1].upper() + words[1:]


def _put_there(log: RunLog, level: str, count: int) -> str:
    """How many people reach a level by releases; raised ceilings do not say."""
    if log.worst.within_nats:
        return "not known"
    habits = log.worst.at_baseline
    return f"{count - habits[level]:,}" if level in habits else "not recorded"


def _question(settings: Mapping[str, Any], in_crowd: bool = False) -> str:
    others = "and everybody else's, but not where they are" if in_crowd else "and where everybody else is"
    right = settings["horizon"] - settings["mistakes"]
    how_many = "each" if settings["mistakes"] == 0 else f"at least {right}"
    return (
        f"Could somebody who sees everything published, knows a person's habits {others}, "
        f"tell where that person was in {how_many} of the last {settings['horizon']} steps?"
    )


def _answer(log: RunLog) -> Iterable[str]:
    worst, when = log.worst, log.when(log.worst.step)
    guess = in_a_hundred(worst.mean_baseline)
    ceiling, added = map(ceiling_in_words, (worst.mean_risk, worst.mean_added))
    so = (
        "By how much the releases raised that, nobody knows for people who differ from the priors; by the "
        f"refuted priors it is at most {added}."
        if log.is_raised
        else f"So the releases added at most {added}."
    )
    yield (
        f"{when[:1].upper()}{when[1:]}, when the releases added most on average over {worst.people:,} "
        f"people, habits alone let somebody guess right in {guess} cases. With everything published, "
        f"{log.condition}, no method is right in more than {ceiling}. {so}"
    )
    yield _attack(worst.attack)
    if log.exposed:
        most = log.exposed[0]
        yield (
            f"To the most affected person they added at most {ceiling_in_words(most.added)}, "
            f"at {log.when(most.step)}{log.by_priors}."
        )
    missed = max(log.summaries, key=lambda summary: summary.not_reached)
    if (note := not_reached_in_words(missed.not_reached)) is not None:
        yield f"At {log.when(missed.step)}, {note}. No other step left more."
    if not log.is_raised:
        yield ROUNDED


def _attack(attack: Attack | None) -> str:
    """What was achieved, beside what nobody exceeds."""
    if attack is None:
        return "No attack was measured at that step: how much of the ceiling is real is not known."
    return (
        f"An attack was tried at that step in {attack.draws:,} draws, with trajectories from people's habits "
        f"and releases from the schedule, never with a count: it was right in {attack_in_words(attack)} on "
        f"average, the interval with a confidence of {confidence_in_words(attack.confidence)}. {DISTANCE}"
    )


def _setting(log: RunLog) -> Rows:
    settings, first, last = log.settings, log.summaries[0], log.summaries[-1]
    yield "People protected", f"{last.people:,}, each on their own"
    yield (
        "Steps",
        f"{log.when(first.step)} to {log.when(last.step)}, {duration(settings['step_seconds'])} each",
    )
    yield "Horizon", f"{settings['horizon']} steps, {settings['mistakes'] or 'none'} of them may be wrong"
    yield "Assumed observer", "sees every release, knows the person's habits and where everybody else is"
    for mechanism, count in sorted(log.releases.items()):
        yield f"Decided, {mechanism}", f"{count:,} sensor-steps"
    yield "Messages rejected", f"{log.rejected:,}"


def _figures(log: RunLog) -> Iterable[str]:
    summaries = log.summaries
    ends = log.when(summaries[0].step), log.when(summaries[-1].step)
    attacks = [summary.attack for summary in summaries if summary.attack is not None]
    attack = Line(
        "attack", "attack", [each.success for each in attacks], [(each.low, each.high) for each in attacks]
    )
    means = (
        Line("ceiling", "ceiling", [summary.mean_risk for summary in summaries]),
        *([attack] if len(attacks) == len(summaries) else []),
        Line("guess by habit", "guess", [summary.mean_baseline for summary in summaries]),
    )
    distance = (
        "Guess and attack are as the refuted priors say: its distance from them is not what releases added."
        if log.is_raised
        else "Its distance from the guess is the most that the releases added."
    )
    yield _figure(
        line_chart(means, ends, "in 100", 100.0, "Mean ceiling, attack and guess by step"),
        f"Mean over all people. {_begin(log.condition)}, no method is right more often than the ceiling. "
        f"{distance} {DISTANCE}",
    )
    added = (
        Line("most affected", "ceiling", [summary.added["1.0"] for summary in summaries]),
        Line("1 in 10 above", "guess", [summary.added["0.9"] for summary in summaries]),
        Line("half above", "added", [summary.added["0.5"] for summary in summaries]),
    )
    yield _figure(
        line_chart(added, ends, "in 100", 100.0, "Added risk of the most affected, the upper tenth and half"),
        "Most that the releases added, step by step: to the most affected person, what 1 person in 10 "
        f"exceeds, and what half of the people exceed{log.by_priors}. The highest point is "
        f"{ceiling_in_words(log.most_added)}.",
    )


def _exposed(log: RunLog) -> Iterable[str]:
    if not log.exposed:
        yield paragraph("This run's summaries name nobody (setting most_exposed), or nothing was added.")
        return
    yield paragraph("By pseudonym, each at the step at which the releases added most to that person.")
    rows = [
        (
            record.person[:12],
            log.when(record.step),
            in_a_hundred(record.baseline),
            ceiling_in_words(record.risk),
            ceiling_in_words(record.added),
        )
        for record in log.exposed
    ]
    ceiling = f"Ceiling, {log.condition}"
    yield table(("Pseudonym", "Last step", "Guess by habit", ceiling, f"Added at most{log.by_priors}"), rows)
    if not log.is_raised:
        yield paragraph(ROUNDED)


def _published(log: RunLog) -> Iterable[str]:
    yield paragraph(
        "Each sensor with all its releases: how many values were published, how many of these were exact, "
        "how often each mechanism was decided, by how many people a published value is expected to be off on "
        "average over them, and the "
        f"differential-privacy epsilon of all its releases at delta {log.delta:g}, for any observer. Of "
        "tiered counts these are the figures of the best-informed tier."
    )
    shown = log.sensors
    if len(shown) > MOST_SENSORS:
        ranked = sorted(shown, key=lambda entry: -entry.epsilon)
        shown = tuple(ranked[:MOST_SENSORS])
        alike = sum(entry.epsilon == shown[-1].epsilon for entry in ranked[MOST_SENSORS:])
        yield paragraph(
            f"Of {len(log.sensors):,} sensors {MOST_SENSORS} with the largest epsilon are listed; of the "
            f"others {alike:,} have the same as the last of them, the rest less. decisions.jsonl has what "
            "was decided of each in every step."
        )
    rows = [
        (
            entry.sensor,
            f"{entry.published:,} of {entry.releases:,}",
            f"{entry.exact:,}",
            _kinds(entry.kinds),
            _error(entry.error),
            entry.spent,
        )
        for entry in shown
    ]
    yield table(("Sensor", "Published", "Exact", "Decided, how often", "Mean error", "Epsilon"), rows)


def _kinds(kinds: Mapping[str, int]) -> str:
    """How often each mechanism was decided: "gaussian sigma 1: 3, nothing: 2"."""
    return ", ".join(f"{kind}: {count:,}" for kind, count in sorted(kinds.items()))


def _error(error: float | None) -> str:
    if error is None:
        return "nothing published"
    return "exact" if error == 0.0 else f"{error:.1f} people"


def _best_attack(audit: AuditedPerson) -> str:
    attacks = (audit.attacks or {}).values()
    best = max((attack.success for attack in attacks if attack is not None), default=None)
    return "not tried" if best is None else in_a_hundred(best)


def _figure(drawing: str, caption: str) -> str:
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
