"""Figures as inline SVG: lines differ by colour, dash and label; axes with units; readable in print."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import NamedTuple

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
