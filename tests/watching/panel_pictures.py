"""Each dashboard's panels drawn from a real Prometheus' answers: what Grafana gets, without Grafana."""

from __future__ import annotations

import json
import time
import urllib.parse
from pathlib import Path
from typing import Any

from stream_app.dashboards.__main__ import DASHBOARDS
from stream_app.dashboards.panels import Dashboard, Panel, Query
from tests.watching.live_engine import LiveEngine
from tests.watching.services import get
from tests.watching.test_dashboards import running_prometheus, with_everything

SECONDS = 20
COLUMNS = 3


def panel_pictures(engine: LiveEngine, scratch: Path, folder: Path) -> None:
    """One picture a dashboard, from an engine that goes on while it is scraped."""
    with running_prometheus(scratch, engine.port) as address:
        begin = time.time()
        for _ in range(SECONDS):
            engine.send(2)
            time.sleep(1.0)
        for dashboard in DASHBOARDS:
            draw(dashboard, address, begin, folder / f"{dashboard.uid.removeprefix('tallyguard-')}.png")


def draw(dashboard: Dashboard, address: str, begin: float, path: Path) -> None:
    """All panels on one sheet, labelled as what they are."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = -(-len(dashboard.panels) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(13, 2.7 * rows), layout="constrained")
    figure.suptitle(f"{dashboard.title}: panels drawn from Prometheus' answers (not a picture of Grafana)")
    for axis, panel in zip(axes.flat, dashboard.panels, strict=False):
        axis.set_title(f"{panel.title} ({panel.unit})", fontsize=9, loc="left")
        axis.tick_params(labelsize=7)
        draw_panel(axis, panel, address, begin)
    for axis in list(axes.flat)[len(dashboard.panels) :]:
        axis.axis("off")
    figure.savefig(path, dpi=70)
    plt.close(figure)


def draw_panel(axis: Any, panel: Panel, address: str, begin: float) -> None:
    """Bars for the last values of a bar gauge, a number for a single stat, else lines over time."""
    answers = [(query, series) for query in panel.queries for series in ask_range(address, query, begin)]
    if panel.kind == "bargauge":
        names = [legend(query, series)[:28] for query, series in answers]
        axis.barh(names[::-1], [float(series["values"][-1][1]) for _, series in answers][::-1])
    elif panel.kind == "stat":
        axis.axis("off")
        axis.text(0.1, 0.4, f"{float(answers[0][1]['values'][-1][1]):,.3g}", fontsize=24)
    else:
        for query, series in answers[:10]:
            seconds, values = zip(*series["values"], strict=True)
            axis.plot([s - begin for s in seconds], [float(v) for v in values], label=legend(query, series))
        axis.set_xlabel("seconds", fontsize=7)
        axis.legend(fontsize=6)


def ask_range(address: str, query: Query, begin: float) -> list[dict[str, Any]]:
    """Series of a range query since ``begin``."""
    asked = {"query": with_everything(query), "start": begin, "end": time.time(), "step": 1}
    answer = json.loads(get(f"{address}/api/v1/query_range?{urllib.parse.urlencode(asked)}")[1])
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def legend(query: Query, series: dict[str, Any]) -> str:
    """The legend as Grafana writes it."""
    text = query.legend
    for name, value in series["metric"].items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text
