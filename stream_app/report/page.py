"""The report as one HTML file: no script, nothing loaded from anywhere, fit for a browser and for print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isfinite
from typing import Any

from stream_app.report.charts import Line, line_chart
from stream_app.report.html import Rows, paragraph, section, table
from stream_app.report.lowering import Lowering
from stream_app.report.lowering_section import what_would_lower_it
from stream_app.report.run_log import DELTA, RunLog
from stream_app.report.texts import GLOSSARY, LIMITS, LOWERING, STYLE
from stream_app.wording import in_a_hundred


def run_report(log: RunLog, made: str, lower: Lowering | None = None) -> str:
    """The report of a run; ``made`` says when and with which version, ``lower`` what would lower the risk."""
    return document(
        f"Reconstruction risk: {log.settings['deployment']}",
        made,
        [
            section("The question", paragraph(_question(log.settings))),
            section("The answer in short", paragraph(_answer(log)), levels_table(log)),
            section("The setting", table(("", ""), _setting(log))),
            section("How the risk moved", *_figures(log)),
            section("The most exposed people", *_exposed(log)),
            section("What was published", *_published(log)),
            *closing(*([] if lower is None else what_would_lower_it(lower))),
        ],
    )


def audit_report(audits: Sequence[Mapping[str, Any]], made: str) -> str:
    """The report of ``tallyguard audit --json``; people are numbered, most exposed first, never named."""
    ranked = sorted(audits, key=lambda audit: -float(audit["certified"]))
    steps, mistakes = ranked[0]["steps"], ranked[0]["mistakes"]
    rows = [
        (
            f"person {number}",
            in_a_hundred(audit["baseline"]),
            _best_attack(audit),
            in_a_hundred(audit["certified"]),
            f"{audit['certified_by']}",
        )
        for number, audit in enumerate(ranked[:50], start=1)
    ]
    head = ("Person", "Guess without us", "Best attack tried", "Guaranteed ceiling", "Ceiling by")
    return document(
        "Reconstruction risk: an audit",
        made,
        [
            section("The question", paragraph(_question({"horizon": steps, "mistakes": mistakes}))),
            section(
                "The people audited",
                paragraph(f"{len(audits):,} people, most exposed first."),
                table(head, rows),
            ),
            *closing(),
        ],
    )


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
    words = "".join(f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in GLOSSARY)
    return [
        section("What would lower it", *specific, _list(LOWERING)),
        section("Limits of the method", _list(LIMITS)),
        section("Glossary", f"<dl>{words}</dl>"),
    ]


def levels_table(log: RunLog) -> str:
    """People at or above each threshold at the worst step."""
    worst = log.worst
    rows = [
        (f"{in_a_hundred(float(level))} or more", f"{count:,}", f"{worst.at_added_risk.get(level, 0):,}")
        for level, count in worst.at_risk.items()
    ]
    return table(("Chance of a reconstruction", "People: ceiling", "People: added by the releases"), rows)


def _question(settings: Mapping[str, Any]) -> str:
    right = settings["horizon"] - settings["mistakes"]
    how_many = "each" if settings["mistakes"] == 0 else f"at least {right}"
    return (
        "Could somebody who sees everything published, knows a person's habits and where everybody else is, "
        f"tell where that person was in {how_many} of the last {settings['horizon']} steps?"
    )


def _answer(log: RunLog) -> str:
    worst = log.worst
    return (
        f"At the worst step ({worst.step:,}), on average over {worst.people:,} people, the best guess from "
        f"habits alone is right in {in_a_hundred(worst.mean_baseline)} cases. With everything published no "
        f"method is right in more than {in_a_hundred(worst.mean_risk)}: the releases added at most "
        f"{in_a_hundred(worst.mean_added)}."
    )


def _setting(log: RunLog) -> Rows:
    settings, first, last = log.settings, log.summaries[0], log.summaries[-1]
    yield "People protected", f"{last.people:,}, each on their own"
    yield "Steps", f"{first.step:,} to {last.step:,}, {settings['step_seconds']:,} seconds each"
    yield "Horizon", f"{settings['horizon']} steps, {settings['mistakes'] or 'none'} of them may be wrong"
    yield "Assumed observer", "sees every release, knows the person's habits and where everybody else is"
    for mechanism, count in sorted(log.releases.items()):
        yield f"Released, {mechanism}", f"{count:,} sensor-steps"
    yield "Messages rejected", f"{log.rejected:,}"


def _figures(log: RunLog) -> Iterable[str]:
    summaries = log.summaries
    first = summaries[0].step
    means = (
        Line("guaranteed ceiling", "ceiling", [summary.mean_risk for summary in summaries]),
        Line("guess without us", "guess", [summary.mean_baseline for summary in summaries]),
    )
    yield _figure(
        line_chart(means, first, "in 100", 100.0, "Mean ceiling and mean guess by step"),
        "Mean over all people, in chances of 100. The distance of the lines is at most what the releases "
        "added.",
    )
    added = (
        Line("most affected", "ceiling", [summary.added["1.0"] for summary in summaries]),
        Line("1 in 10 above", "guess", [summary.added["0.9"] for summary in summaries]),
        Line("half above", "added", [summary.added["0.5"] for summary in summaries]),
    )
    yield _figure(
        line_chart(
            added, first, "in 100", 100.0, "Added risk of the most affected, the upper tenth and half"
        ),
        "Risk added by the releases, in chances of 100: the most affected person, what 1 person in 10 "
        "exceeds, and what half of the people exceed.",
    )


def _exposed(log: RunLog) -> Iterable[str]:
    if not log.exposed:
        yield paragraph(
            "Records of single people are in Parquet files beside this run; this report has none."
        )
        return
    yield paragraph("By pseudonym, each at the recorded step at which the releases added most.")
    rows = [
        (
            record.person[:12],
            f"{record.step:,}",
            in_a_hundred(record.baseline),
            in_a_hundred(record.risk),
            in_a_hundred(record.added),
        )
        for record in log.exposed
    ]
    yield table(("Pseudonym", "Step", "Guess without us", "Guaranteed ceiling", "Added at most"), rows)


def _published(log: RunLog) -> Iterable[str]:
    yield paragraph(
        "Each sensor with its mechanism, by how many people its counts are expected to be off, and the "
        f"differential-privacy epsilon of all its releases at delta {DELTA:g}, for any observer. Of tiered "
        "counts these are the figures of the best-informed tier."
    )
    rows = [
        (entry.sensor, f"{entry.releases:,}", entry.mechanism, _error(entry.error), _spent(entry.epsilon))
        for entry in log.sensors
    ]
    yield table(("Sensor", "Releases", "Mechanism", "Expected error", "Epsilon"), rows)


def _error(error: float | None) -> str:
    if error is None:
        return "nothing published"
    return "exact" if error == 0.0 else f"{error:.1f} people"


def _spent(epsilon: float) -> str:
    return f"{epsilon:.2g}" if isfinite(epsilon) else "no limit"


def _best_attack(audit: Mapping[str, Any]) -> str:
    attacks = (audit["attacks"] or {}).values()
    best = max((attack["success"] for attack in attacks if attack), default=None)
    return "not tried" if best is None else in_a_hundred(best)


def _figure(drawing: str, caption: str) -> str:
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
