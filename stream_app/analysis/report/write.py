"""Finding out what a report is to be made from, laying it out, and writing it.

It is one HTML file: no script, nothing loaded from anywhere, fit for a browser and for print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from itertools import pairwise
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment

from models.exceptions import TallyguardError
from models.mechanisms import NO_DESIGNS, Designs
from models.priors import Question
from models.private_files import private_file
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.alternatives import EXPLAINED, VariedRisks
from stream_app.analysis.crowd import PlannedCrowd
from stream_app.analysis.report import sections
from stream_app.analysis.report.dpia import Asked, annex_of, texts
from stream_app.analysis.report.lowering import Priors, lowering
from stream_app.analysis.report.sections import exposed_in_hindsight, read_audit
from stream_app.analysis.run_log import RunLog, read_run
from stream_app.analysis.verdict import verdict_in_words, verdict_of
from stream_app.exceptions import OutputError
from stream_app.setup.this_process import only_errors_of, own_version
from stream_app.watching.glossary import explained
from stream_app.watching.hindsight import SHARED_NOISE
from stream_app.watching.html_pages import rendered, templates_of
from stream_app.watching.prior_notes import ceiling_condition
from stream_app.watching.wording import confidence_in_words

_ARCHIVAL = "pdf/a-3u"  # fonts embedded, text that can be searched: what archives ask for
_REMEDY = (
    "pip install 'tallyguard[pdf]', and Pango (on Debian: apt install libpango-1.0-0 libpangoft2-1.0-0 "
    "fonts-dejavu-core); or print report.html to a PDF from a browser"
)


# Figures as inline SVG: lines differ by colour, dash and label; axes with units; readable in print.

WIDTH, HEIGHT = 680, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 150, 30, 40
LOOKS = {  # colour and dash by style: what a page's style sheet does not say otherwise, and what is printed
    "ceiling": ("#0063a0", "none"),
    "guess": ("#a84300", "7 4"),
    "added": ("#5c6b2f", "2 4"),
    "attack": ("#7a2d8f", "2 3"),
}


class _Line(NamedTuple):
    """A named series of chances, one a step; ``ends`` are those of their intervals."""

    name: str
    style: str  # class in the report's style sheet: ceiling, guess, added, attack
    values: Sequence[float]
    ends: Sequence[tuple[float, float]] = ()


def _chart(lines: Sequence[_Line], log: RunLog, description: str) -> dict[str, Any]:
    """Chances over steps, in 100, as the template draws them; ``around`` are the corners of intervals."""
    top, ticks = axis(max(max(line.values) for line in lines) * 100.0)
    count = len(log.summaries)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM) / top

    def points(values: Sequence[float]) -> list[str]:
        width = (WIDTH - LEFT - RIGHT) / max(count - 1, 1)
        return [f"{LEFT + i * width:.1f},{y(value * 100.0):.1f}" for i, value in enumerate(values)]

    names = _apart([y(line.values[-1] * 100.0) for line in lines])
    drawn = []
    for line, name_y in zip(lines, names, strict=True):
        lows, highs = points([low for low, _ in line.ends]), points([high for _, high in line.ends])
        colour, dash = LOOKS[line.style]
        own = {"name": line.name, "style": line.style, "colour": colour, "dash": dash, "name_y": name_y}
        around = " ".join([*highs, *reversed(lows)])
        drawn.append({**own, "points": " ".join(points(line.values)), "around": around})
    ends = log.when(log.summaries[0].step), log.when(log.summaries[-1].step)
    heights = [(y(tick), f"{tick:g}") for tick in ticks]
    return {"lines": drawn, "ticks": heights, "ends": ends, "description": description}


def axis(most: float) -> tuple[float, list[float]]:
    """A round top at or above ``most`` and at most six ticks from 0."""
    if most <= 0.0:
        return 1.0, [0.0, 1.0]
    size = 10.0 ** floor(log10(most))
    step = next(part * size for part in (0.2, 0.5, 1.0, 2.0) if most / (part * size) <= 5.0)
    count = max(1, ceil(most / step - 1e-9))  # 0.14 / 0.02 is above 7 in floats
    return count * step, [round(index * step, 12) for index in range(count + 1)]


def _apart(heights: list[float], distance: float = 16.0) -> list[float]:
    order = sorted(range(len(heights)), key=heights.__getitem__)
    moved = list(heights)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + distance)
    return moved


def means_chart(log: RunLog) -> dict[str, Any]:
    """Guess, attack and ceiling; the attack only where it was measured at every step."""
    attacks = [summary.attack for summary in log.summaries if summary.attack is not None]
    lines = [
        _Line("ceiling", "ceiling", [summary.mean_risk for summary in log.summaries]),
        _Line("guess", "guess", [summary.mean_baseline for summary in log.summaries]),
    ]
    if len(attacks) == len(log.summaries):
        ends = [(each.low, each.high) for each in attacks]
        lines.insert(1, _Line("attack", "attack", [each.success for each in attacks], ends))
    return _chart(lines, log, "Mean ceiling, attack and guess by step")


def added_chart(log: RunLog) -> dict[str, Any]:
    """The added risk of the most affected person, the upper tenth and the upper half."""
    lines = [
        _Line(name, style, [summary.added[quantile] for summary in log.summaries])
        for name, style, quantile in (
            ("most affected", "ceiling", "1.0"),
            ("1 in 10 above", "guess", "0.9"),
            ("half above", "added", "0.5"),
        )
    ]
    sampled = [summary.sampled for summary in log.summaries if summary.sampled is not None]
    if len(sampled) == len(log.summaries):
        sure = confidence_in_words(min(each.confidence for each in sampled))
        lines.insert(1, _Line(f"by sampling, {sure}", "attack", [each.most_added for each in sampled]))
    return _chart(lines, log, "Added risk of the most affected, the upper tenth and half")


@cache
def _templates() -> Environment:
    found = templates_of("stream_app.analysis.report")
    found.filters |= {"confidence": confidence_in_words, "varied_in_words": VariedRisks.in_words}
    functions = (means_chart, added_chart, verdict_of, verdict_in_words, explained, texts)
    found.globals |= {each.__name__: each for each in functions}
    found.globals |= {
        "sections": sections,
        "EXPLAINED": EXPLAINED,
        "Question": Question,
        "SHARED_NOISE": SHARED_NOISE,
        "size": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT},
    }
    return found


def page(template: str, **given: Any) -> str:
    """A page of the report; ``made`` says when it was made and with which version."""
    return rendered(_templates(), f"{template}.html.j2", **given)


def weasyprint() -> Any:
    """What sets the page as a PDF; :class:`OutputError` that says what to install where it is missing."""
    try:
        return import_module("weasyprint")
    except (ImportError, OSError) as error:  # OSError: the package is there, Pango is not
        found = " ".join(str(error).split())[:200]
        raise OutputError("a PDF needs WeasyPrint and Pango", found, _REMEDY) from error


def pdf_of(html: str) -> bytes:
    """The page as a PDF; nothing is loaded from anywhere."""
    only_errors_of("weasyprint")  # it warns of styles that are for screens
    document: bytes = weasyprint().HTML(string=html).write_pdf(pdf_variant=_ARCHIVAL)
    return document


def write_report(
    source: Path,
    output: Path,
    most_exposed: int = 10,
    now: datetime | None = None,
    priors: Priors | None = None,
) -> int:
    """Make the report and write it to one file; returns its size in bytes."""
    return save_report(make_report(source, most_exposed, now, priors), output)


def make_annex(
    source: Path, asked: Asked, *, is_public: bool, now: datetime | None = None, designs: Designs = NO_DESIGNS
) -> str:
    """The annex of a data protection impact assessment about a run's folder, as HTML."""
    log = _read(source, 10, designs, is_public=is_public)
    annex = annex_of(log, asked, is_public=is_public)
    return page("dpia", made=_made(source, now, log, is_public=is_public), log=log, annex=annex)


def _read(source: Path, most_exposed: int, designs: Designs, *, is_public: bool) -> RunLog:
    """The run's records; for the public without persons, and without what is for the officer alone."""
    log = read_run(source, 0 if is_public else most_exposed, designs)
    return replace(log, beyond=None) if is_public else log


def _made(source: Path, now: datetime | None, log: RunLog | None = None, *, is_public: bool = False) -> str:
    moment, folder = now or datetime.now(UTC), source.resolve()
    made = f"Made {moment:%Y-%m-%d %H:%M} UTC by tallyguard {own_version()} from "
    if log is None:
        return f"{made}the audit in {source.name}."
    where = "" if is_public else f" in {folder.parent.name}/{folder.name}"
    return f"{made}the run of {log.settings['deployment']}{where}."


def make_report(
    source: Path,
    most_exposed: int = 10,
    now: datetime | None = None,
    priors: Priors | None = None,
    designs: Designs = NO_DESIGNS,
    varied: Sequence[VariedRisks] = (),
    crowd: PlannedCrowd | None = None,
    *,
    missing: str | None = None,
    is_public: bool = False,
) -> str:
    """The report of a run's folder or of an audit's JSON, as HTML; of an audit people are never named.

    With the run's ``priors`` it says how the most exposed people's moments stand in hindsight, which sensors
    revealed most about them, and what less would do; ``missing`` says why there are none. ``designs`` of
    noise are those that the log may name beside the run's own; ``varied`` is what other habits make of the
    same releases, ``crowd`` their ceilings against an adversary who does not know where the others are. With
    ``is_public`` a run's report has the same figures and nobody in it. :class:`OutputError` where ``source``
    is neither.
    """
    if not source.is_dir():
        ranked = sorted(read_audit(source), key=lambda audit: -audit.certified)
        return page("audit", made=_made(source, now), ranked=ranked, condition=ceiling_condition(None))
    log = _read(source, most_exposed, designs, is_public=is_public)
    lower = later = None
    there = log
    if priors is not None and not is_public:  # what the priors add is about the most exposed people
        there = replace(log, exposed=priors.still_there(log.exposed))
        steps = read_decisions(source / "decisions.jsonl", priors.registry)
        try:
            later, lower = exposed_in_hindsight(there, priors, steps) or None, lowering(there, priors, steps)
        except TallyguardError as error:
            if not priors.is_own:
                raise
            missing = str(error)
    return page(
        "run" if log.summaries else "without_people",
        made=_made(source, now, log, is_public=is_public),
        log=log,
        is_public=is_public,
        lower=lower,
        later=later,
        there=there,
        missing=missing,
        varied=varied,
        crowd=crowd,
    )


def save_report(html: str, output: Path) -> int:
    """Write the page, as a PDF where the file's name ends so; returns its size in bytes."""
    made = pdf_of(html) if is_pdf(output) else html.encode()
    with private_file(output) as file:  # it names the most exposed people by pseudonym
        file.write(made)
    return len(made)


def is_pdf(output: Path) -> bool:
    """Whether this file is to be a PDF."""
    return output.suffix.lower() == ".pdf"
