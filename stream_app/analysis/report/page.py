"""The report as one HTML file: no script, nothing loaded from anywhere, fit for a browser and for print."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any, NamedTuple

from jinja2 import Environment

from models.priors import Question
from stream_app.analysis.alternatives import EXPLAINED, VariedRisks
from stream_app.analysis.report import sections
from stream_app.analysis.report.dpia import texts
from stream_app.analysis.run_log import RunLog
from stream_app.analysis.verdict import verdict_in_words, verdict_of
from stream_app.watching.glossary import explained
from stream_app.watching.hindsight import SHARED_NOISE
from stream_app.watching.html_pages import rendered, templates_of
from stream_app.watching.wording import confidence_in_words

# Figures as inline SVG: lines differ by colour, dash and label; axes with units; readable in print.

WIDTH, HEIGHT = 680, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 150, 30, 40
LOOKS = {  # colour and dash by style: what a page's style sheet does not say otherwise, and what is printed
    "ceiling": ("#0063a0", "none"),
    "guess": ("#a84300", "7 4"),
    "added": ("#5c6b2f", "2 4"),
    "attack": ("#7a2d8f", "2 3"),
}


class DrawnLine(NamedTuple):
    """A series as the template draws it; ``around`` are the corners of its intervals, "" for none."""

    name: str
    style: str  # class in the report's style sheet: ceiling, guess, added, attack
    colour: str
    dash: str
    points: str
    around: str
    name_y: float


class Chart(NamedTuple):
    """Chances over steps, in 100: ``ticks`` are heights with their labels, ``ends`` the names of the ends."""

    lines: tuple[DrawnLine, ...]
    ticks: tuple[tuple[float, str], ...]
    ends: tuple[str, str]
    description: str


class _Line(NamedTuple):
    """A named series of chances, one a step; ``ends`` are those of their intervals."""

    name: str
    style: str
    values: Sequence[float]
    ends: Sequence[tuple[float, float]] = ()


def _chart(lines: Sequence[_Line], log: RunLog, description: str) -> Chart:
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
        around = " ".join([*highs, *reversed(lows)])
        drawn.append(
            DrawnLine(
                line.name, line.style, *LOOKS[line.style], " ".join(points(line.values)), around, name_y
            )
        )
    ends = log.when(log.summaries[0].step), log.when(log.summaries[-1].step)
    return Chart(tuple(drawn), tuple((y(tick), f"{tick:g}") for tick in ticks), ends, description)


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


def means_chart(log: RunLog) -> Chart:
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


def added_chart(log: RunLog) -> Chart:
    """The added risk of the most affected person, the upper tenth and the upper half."""
    lines = [
        _Line(name, style, [summary.added[quantile] for summary in log.summaries])
        for name, style, quantile in (
            ("most affected", "ceiling", "1.0"),
            ("1 in 10 above", "guess", "0.9"),
            ("half above", "added", "0.5"),
        )
    ]
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
