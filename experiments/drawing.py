"""How the figures look: one colour and marker a quantity everywhere, distinct for the colour-blind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from experiments.measure import Point

DOTS_PER_INCH = 100


class LineStyle(NamedTuple):
    """How one quantity is drawn; colours are Okabe and Ito's."""

    label: str
    colour: str
    line: str
    marker: str


LINES = {
    "loose": LineStyle("bound: loose (paper)", "#999999", "-", "v"),
    "tight": LineStyle("bound: tight (paper)", "#D55E00", "-", "^"),
    "moment": LineStyle("bound: moment", "#56B4E9", "-", "s"),
    "certified": LineStyle("bound: certified", "#0072B2", "-", "o"),
    "map": LineStyle("attack: MAP", "#000000", "--", "x"),
    "marginal": LineStyle("attack: marginal", "#009E73", "--", "+"),
    "prior": LineStyle("attack: prior", "#E69F00", "--", "1"),
    "constant": LineStyle("attack: constant", "#CC79A7", "--", "2"),
    "lucky constant": LineStyle("attack: constant, same for all", "#CC79A7", ":", "."),
}


@dataclass(frozen=True)
class Panel:
    """One pair of axes: the points called ``name``, up to 1 from 0 or, logarithmic, from ``floor``.

    ``levels`` names points that are drawn as horizontal lines for reference. Means below the floor are left
    out, among them attacks that no draw of a simulation succeeded with.
    """

    name: str
    title: str
    x_label: str
    y_label: str = "probability of success"
    x_log: bool = False
    x_ticks: Sequence[float] = ()
    floor: float | None = None
    levels: str | None = None


def draw_lines(
    panels: Sequence[Panel], points: Sequence[Point], title: str, output: Path, columns: int = 2
) -> None:
    """A grid of panels with one legend below them, written as a small PNG."""
    figure, axes_of = grid(len(panels), columns)
    for axes, panel in zip(axes_of, panels, strict=True):
        _draw_panel(axes, panel, points)
    handles, labels = _legend(axes_of)
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=12)
    save(figure, output)


def _draw_panel(axes: Any, panel: Panel, points: Sequence[Point]) -> None:
    for series, style in LINES.items():
        floor = panel.floor or 0.0
        shown = [point for point in _of(points, panel.name, series) if point.mean >= floor]
        if shown:
            axes.plot(
                [point.x for point in shown],
                [point.mean for point in shown],
                color=style.colour,
                linestyle=style.line,
                marker=style.marker,
                markersize=5,
                linewidth=1.6,
                label=style.label,
            )
        for level in _of(points, panel.levels, series) if panel.levels else ():
            axes.axhline(level.mean, color=style.colour, linewidth=0.8, linestyle=(0, (1, 3)))
    _finish(axes, panel)


def _of(points: Sequence[Point], panel: str | None, series: str) -> list[Point]:
    """One curve's points from left to right."""
    found = [point for point in points if (point.panel, point.series) == (panel, series)]
    return sorted(found, key=lambda point: point.x)


def _finish(axes: Any, panel: Panel) -> None:
    """Labels, scales and a light grid."""
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.set_title(panel.title, fontsize=10)
    if panel.x_log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter("")
    if panel.x_ticks:
        axes.set_xticks(panel.x_ticks, [f"{tick:g}" for tick in panel.x_ticks])
        axes.xaxis.minorticks_off()
    if panel.floor is not None:
        axes.set(yscale="log", ylim=(panel.floor, 1.5))
    else:
        axes.set_ylim(-0.02, 1.04)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def _legend(axes_of: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Every curve once, in the order of ``LINES``."""
    found: dict[str, Any] = {}
    for axes in axes_of:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    labels = [style.label for style in LINES.values() if style.label in found]
    return [found[label] for label in labels], labels


class Cloud(NamedTuple):
    """One panel of dots, one a person at ``x`` and ``y`` (N,), both between 0 and 1."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str


def draw_clouds(clouds: Sequence[Cloud], title: str, output: Path, columns: int = 3) -> None:
    """A grid of scatter plots."""
    figure, axes_of = grid(len(clouds), columns)
    for axes, cloud in zip(axes_of, clouds, strict=True):
        axes.scatter(cloud.x, cloud.y, s=9, alpha=0.5, color=cloud.colour, linewidths=0)
        _finish(axes, Panel("", cloud.title, cloud.x_label, cloud.y_label))
        axes.set_xlim(-0.02, 1.04)
    figure.suptitle(title, fontsize=12)
    save(figure, output)


def grid(count: int, columns: int, width: float = 4.6, height: float = 3.3) -> tuple[Any, list[Any]]:
    """A figure and its axes, row by row, each of a width and height in inches."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    rows = -(-count // columns)
    size = (width * columns, height * rows + 0.9)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    return figure, list(axes.flat)[:count]


def save(figure: Any, output: Path) -> None:
    """The figure as a PNG with a palette, a third of the size, and without a date.

    An octree keeps the colours of thin lines; a median cut would merge the rare ones.
    """
    from matplotlib import pyplot as plt
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DOTS_PER_INCH)
    plt.close(figure)
    output.parent.mkdir(parents=True, exist_ok=True)
    palette = Image.open(drawn).convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE)
    palette.save(output, optimize=True)
