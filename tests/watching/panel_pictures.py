"""Each dashboard's panels drawn from a real Prometheus' answers: what Grafana gets, without Grafana.

Places and sizes are those of the dashboard's own grid; values are shown in the panel's unit.
"""

from __future__ import annotations

import json
import math
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.watching.boards import COLUMNS, DASHBOARDS, Dashboard, Panel, Query
from tests.watching.live_engine import LiveEngine
from tests.watching.services import get
from tests.watching.test_dashboards import ask, running_prometheus, with_everything

SECONDS, HOURS_A_SECOND = 45, 2
WIDTH, ROW_HEIGHT, HEAD = 12.0, 0.36, 0.7  # inches: a sheet, one row of the grid, the title
COLOURS = ("#0063a0", "#c45500", "#5c6b2f", "#8a3ea8", "#16202a", "#b8860b", "#0f8a7d", "#a8200d")
DASHES = ("-", "--", ":", "-.")
QUIET = "#4d5a66"
NAMED = {  # Grafana's colours by name, as page and report have them
    "blue": "#0063a0",
    "purple": "#7a2d8f",
    "orange": "#a84300",
    "red": "#a8200d",
    "light-red": "#c9574a",
    "green": "#17693a",
    "text": "#16202a",
    "dark-yellow": "#5c6b2f",
}


class Unit(NamedTuple):
    """How values of a unit are said: times ``factor``, then ``name``."""

    factor: float
    name: str


UNITS = {
    "percentunit": Unit(100.0, "%"),
    "s": Unit(1.0, "s"),
    "ops": Unit(1.0, "a second"),
    "bytes": Unit(2.0**-20, "MiB"),
}


class Answer(NamedTuple):
    """One series: its legend and its values in the panel's unit."""

    name: str
    seconds: list[float]
    values: list[float]


def panel_pictures(engine: LiveEngine, scratch: Path, folder: Path) -> None:
    """One picture a dashboard, from an engine that goes on while it is scraped."""
    with running_prometheus(scratch, engine.port) as address:
        begin = time.time()
        for _ in range(SECONDS):
            engine.send(HOURS_A_SECOND)
            time.sleep(1.0)
        for dashboard in DASHBOARDS:
            draw(dashboard, address, begin, folder / f"dashboard-{dashboard.name}.png")


def draw(dashboard: Dashboard, address: str, begin: float, path: Path) -> None:
    """All panels where the dashboard has them, labelled as what they are."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    places = dashboard.document["panels"]
    rows = max(place["gridPos"]["y"] + place["gridPos"]["h"] for place in places)
    height = rows * ROW_HEIGHT + HEAD
    figure = plt.figure(figsize=(WIDTH, height))
    figure.text(0.012, 1 - 0.28 / height, dashboard.title, fontsize=14, weight="bold", va="center")
    caption = f"drawn from Prometheus' answers over {SECONDS} seconds; not a picture of Grafana"
    figure.text(0.988, 1 - 0.28 / height, caption, fontsize=8.5, color=QUIET, va="center", ha="right")
    panels = iter(dashboard.panels)
    for place in places:
        grid = place["gridPos"]
        left, top = grid["x"] / COLUMNS, 1 - (HEAD + grid["y"] * ROW_HEIGHT) / height
        if place["type"] == "row":
            figure.text(0.012, top - 0.18 / height, place["title"], fontsize=11, weight="bold", va="center")
            continue
        box = (left + 0.008, top, grid["w"] / COLUMNS - 0.016, grid["h"] * ROW_HEIGHT / height)
        draw_panel(figure, box, height, next(panels), address, begin)
    figure.savefig(path, dpi=90, metadata={"Software": None})
    plt.close(figure)


def draw_panel(
    figure: Any,
    box: tuple[float, float, float, float],
    height: float,
    panel: Panel,
    address: str,
    begin: float,
) -> None:
    """A frame and a title; bars for a bar gauge, a number for a single stat, else lines over time."""
    left, top, width, tall = box
    unit = UNITS.get(panel.unit, Unit(1.0, ""))
    frame = figure.add_axes((left, top - tall + 0.06 / height, width, tall - 0.08 / height))
    frame.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    frame.spines[:].set_color("#ccd4dc")
    title = f"{panel.title}, {unit.name}" if unit.name else panel.title
    figure.text(left + 0.006, top - 0.19 / height, title, fontsize=9, va="center")
    if panel.kind == "stat":
        draw_numbers(frame, last_values(panel, address, unit), panel)
        return
    answers = (
        last_values(panel, address, unit)
        if panel.kind == "bargauge"
        else list(ask_range(panel, address, begin, unit))
    )
    longest = max(len(answer.name) for answer in answers)
    names = 0.02 + 0.0052 * longest if panel.kind == "bargauge" else 0.035
    axes = figure.add_axes(
        (left + names, top - tall + 0.72 / height, width - names - 0.02, tall - 1.1 / height)
    )
    axes.tick_params(labelsize=7, length=2, color=QUIET)
    axes.spines[["top", "right"]].set_visible(False)
    (draw_bars if panel.kind == "bargauge" else draw_lines)(axes, answers, panel)


def draw_numbers(frame: Any, answers: list[Answer], panel: Panel) -> None:
    """The last value of each series, side by side; several have their names below."""
    for number, answer in enumerate(answers):
        place = (number + 0.5) / len(answers)
        value = answer.values[-1]
        said = next((text for most, text in panel.said if value <= most), say(value))
        colour = NAMED.get(panel.threshold(value), panel.threshold(value))
        frame.text(place, 0.45, said, fontsize=22, color=colour, ha="center", va="center")
        if len(answers) > 1:
            low = 0.15 if number % 2 == 0 else 0.05  # neighbours' names do not overlap
            frame.text(place, low, answer.name, fontsize=7, color=QUIET, ha="center", va="center")


def draw_bars(axes: Any, answers: list[Answer], panel: Panel) -> None:
    """One bar a series with its value; the first on top."""
    values = [answer.values[-1] for answer in answers][::-1]
    colours = [NAMED.get(panel.threshold(value), panel.threshold(value)) for value in values]
    axes.barh([answer.name for answer in answers][::-1], values, color=colours, height=0.62)
    axes.set_xlim(0, panel.most or (max(values, default=0.0) or 1.0) * 1.18)
    for place, value in enumerate(values):
        axes.text(value, place, f" {say(value)}", fontsize=7, va="center")


def draw_lines(axes: Any, answers: list[Answer], panel: Panel) -> None:
    """Lines told apart by colour and dash; those that stay at 0 or are infinite are said in words."""
    shown = [answer for answer in answers if any(0.0 < value < math.inf for value in answer.values)]
    shown.sort(key=lambda answer: -answer.values[-1])
    highest = 1e-9
    for number, answer in enumerate(shown):
        then = ", then infinite" if math.isinf(answer.values[-1]) else ""
        colour = colour_of(panel, answer.name, number)
        style = {"color": colour, "linestyle": DASHES[number % len(DASHES)]}
        axes.plot(answer.seconds, answer.values, label=answer.name + then, linewidth=1.4, **style)
        highest = max(highest, *(value for value in answer.values if value < math.inf))
    axes.set(xlim=(0, SECONDS + 3), ylim=(0.0, 1.08 * highest if shown else 1.0))
    axes.set_xlabel("; ".join(["seconds", *in_words(answers)]), fontsize=7, color=QUIET, labelpad=1)
    if shown:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17), "ncols": 4, "columnspacing": 1.2}
        axes.legend(fontsize=6.5, frameon=False, **place)
    else:
        axes.set_yticks([0.0])


def colour_of(panel: Panel, name: str, number: int) -> str:
    """A series' own colour; of a panel of shades the lighter the later it comes, else one of a palette."""
    own = panel.colour(name)
    if own is not None:
        return NAMED[own]
    shades = panel.defaults["color"]
    if shades["mode"] != "shades":
        return COLOURS[number % len(COLOURS)]
    full = NAMED[shades["fixedColor"]]
    parts = (int(full[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * 0.15 * min(number, 4)):02x}" for part in parts)


def in_words(answers: list[Answer]) -> Iterator[str]:
    """The series that a line would not show."""
    unseen = {
        "at 0": [answer.name for answer in answers if not any(answer.values)],
        "infinite": [answer.name for answer in answers if min(answer.values) == math.inf],
    }
    for text, names in unseen.items():
        if names:
            yield f"{text}: {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def say(value: float) -> str:
    """A number with three digits that count."""
    return "infinite" if math.isinf(value) else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def last_values(panel: Panel, address: str, unit: Unit) -> list[Answer]:
    """What a panel of single values shows."""
    return [
        Answer(legend(query, series), [0.0], [float(series["value"][1]) * unit.factor])
        for query in panel.queries
        for series in ask(address, for_picture(query))
    ]


def ask_range(panel: Panel, address: str, begin: float, unit: Unit) -> Iterator[Answer]:
    """Series of a panel's queries since ``begin``."""
    for query in panel.queries:
        parameters = {"query": for_picture(query), "start": begin, "end": time.time(), "step": 1}
        answer = json.loads(get(f"{address}/api/v1/query_range?{urllib.parse.urlencode(parameters)}")[1])
        for series in answer["data"]["result"]:
            seconds, values = zip(*series["values"], strict=True)
            yield Answer(
                legend(query, series),
                [float(second) - begin for second in seconds],
                [float(value) * unit.factor for value in values],
            )


def for_picture(query: Query) -> str:
    """The query with everything chosen, and rates over a time that fits a minute of scrapes."""
    return with_everything(query).replace("[1m]", "[10s]")


def legend(query: Query, series: dict[str, Any]) -> str:
    """The legend as Grafana writes it."""
    text = query.legend
    for name, value in series["metric"].items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text
