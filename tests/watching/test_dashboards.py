"""The committed dashboards follow the linter's rules, and a real Prometheus answers each query."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_app.analysis.report.write import LOOKS
from stream_app.watching.wording import DISTANCE
from tests import ROOT
from tests.watching.boards import COLUMNS, DASHBOARDS, FOLDER, Dashboard, Panel, Query
from tests.watching.live_engine import LiveEngine, live_engine
from tests.watching.services import free_port, get, program, running, wait_until
from tests.watching.test_alerts import METRIC, known_metrics, promtool

ALL_PANELS = [panel for dashboard in DASHBOARDS for panel in dashboard.panels]
PANELS = [
    pytest.param(panel, id=f"{dashboard.name}: {panel.title}")
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
]
UNITS = {"short", "none", "percentunit", "s", "ops", "bytes"}
RANGES = re.compile(r"\b(?:rate|increase|irate)\((?:[^\[\]]*)\[([^\]]+)\]")


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_explains_itself(panel: Panel) -> None:
    """Title, description in a sentence, unit, at least one query, a legend for each."""
    assert panel.title
    assert panel.description.endswith(".")
    assert len(panel.description) > 20
    assert panel.unit in UNITS
    assert panel.queries
    assert all(query.legend for query in panel.queries)


@pytest.mark.parametrize("panel", PANELS)
def test_a_query_follows_the_linters_rules(panel: Panel) -> None:
    """Each selector takes job and instance from the variables; rates use Grafana's interval."""
    for query in panel.queries:
        selectors = re.findall(r"\b(?:tallyguard|process)_\w+(\{[^}]*\})?", query.promql)
        assert selectors
        assert all('job=~"$job"' in chosen and 'instance=~"$instance"' in chosen for chosen in selectors)
        assert set(RANGES.findall(query.promql)) <= {"$__rate_interval", "1h"}
        for counter in re.findall(r"\b\w+_total\b", query.promql):
            assert re.search(rf"(rate|increase)\({counter}", query.promql), "counters are shown as rates"


def test_prometheus_reads_every_query_and_each_metric_exists(tmp_path: Path) -> None:
    """``promtool`` parses the queries as recording rules; a renamed metric would leave a panel empty."""
    notes = [
        Query(each["expr"], each["name"])
        for dashboard in DASHBOARDS
        for each in dashboard.document["annotations"]["list"]
    ]
    queries = [with_everything(query) for panel in ALL_PANELS for query in panel.queries]
    queries += map(with_everything, notes)
    assert {each.legend for each in notes} == {"Rule changed", "Priors or people changed", "Software changed"}
    assert {name for query in queries for name in METRIC.findall(query)} <= known_metrics()
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", str(tmp_path / "rules.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_gap_between_attack_and_ceiling_is_explained_as_everywhere() -> None:
    described = [panel.description for panel in ALL_PANELS if panel.title == "Guess, attack and ceiling"]
    assert len(described) == len(DASHBOARDS)
    assert all(DISTANCE in description for description in described)


def test_the_panels_answer_an_officers_questions_in_their_order() -> None:
    """May we go on? Who is at risk? Which sensor? Can habits be trusted? No bar of a 1, no line a sensor."""
    privacy = DASHBOARDS[0].document["panels"]
    rows = [panel["title"] for panel in privacy if panel["type"] == "row"]
    assert rows[:4] == ["May we go on?", "Who is at risk?", "Which sensor?", "Can habits be trusted?"]
    assert privacy[1]["title"] == "May we go on?"
    for panel in ALL_PANELS:
        assert not (panel.kind == "bargauge" and any("_info{" in query.promql for query in panel.queries))
        assert not (
            panel.kind == "timeseries" and any("{{sensor}}" in query.legend for query in panel.queries)
        )


def test_a_colour_means_one_thing_on_page_report_and_dashboards() -> None:
    """Ceiling, attack and guess have the page's colours in the report, and their own names in Grafana."""
    style = (ROOT / "stream_app/watching/web/static/page.css").read_text()
    named = {"ceiling": "blue", "attack": "purple", "guess": "orange"}
    for name, colour in named.items():
        assert f"--{name}: {LOOKS[name][0]};" in style
        for panel in ALL_PANELS:
            assert all(
                panel.colour(query.legend) == colour
                for query in panel.queries
                if panel.title == "Guess, attack and ceiling" and query.legend.startswith(name)
            )
    shades = {panel.title: panel.defaults["color"] for panel in ALL_PANELS if panel.kind == "timeseries"}
    for title in (
        "People by ceiling, over time",
        "Distribution of the ceiling",
        "People by ceiling in the crowd",
    ):
        assert shades[title] == {"mode": "shades", "fixedColor": "blue"}


def test_more_people_over_the_limit_than_may_be_are_not_shown_in_a_calm_colour() -> None:
    """103 over the limit where 4 may be is red; none too many is a green yes; without a rule neither."""
    (go_on,) = [panel for panel in ALL_PANELS if panel.title == "May we go on?"]
    assert [go_on.threshold(value) for value in (-4.0, 0.0, 99.0)] == ["green", "green", "red"]
    assert go_on.said == [(0, "yes")]
    assert go_on.defaults["noValue"] == "no rule"


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_a_dashboard_is_ready_for_provisioning(dashboard: Dashboard) -> None:
    """Laid out as Grafana exports it; variables for source, job and instance; unique ids; a valid grid."""
    document = dashboard.document
    text = (FOLDER / f"{dashboard.name}.json").read_text()
    assert text == json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    assert document["uid"] == f"tallyguard-{dashboard.name}"
    assert document["schemaVersion"] == 39
    variables = {variable["name"]: variable for variable in document["templating"]["list"]}
    assert set(variables) == {"datasource", "job", "instance"}
    assert all(variables[name]["allValue"] == ".+" for name in ("job", "instance"))
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        assert panel["type"] in {"row", "stat", "timeseries", "bargauge"}
        if panel["type"] != "row":
            assert [target["refId"] for target in panel["targets"]] == list(
                "ABCDEFGH"[: len(panel["targets"])]
            )
            assert panel["datasource"]["uid"] == "${datasource}"
            assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < COLUMNS
        assert not cells & taken
        taken |= cells


SCHEMA = ("@grafana/schema@11.6.0", "typescript@5.6.3")
TYPES = "@grafana/schema/dist/esm/raw"
OF_PROMETHEUS = ("expr", "step", "titleFormat", "textFormat")  # of a note: the data source's own
IMPORTS = f"""
import type {{ AnnotationQuery, Dashboard, Panel, RowPanel }} from "{TYPES}/dashboard/x/dashboard_types.gen";
import type {{ DataQuery }} from "@grafana/schema";
import type {{ Options as stat }} from "{TYPES}/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type {{
  FieldConfig as Lines, Options as timeseries
}} from "{TYPES}/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
import type {{
  Options as bargauge
}} from "{TYPES}/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
type Query = DataQuery & {{ expr: string; legendFormat: string; instant: boolean; range: boolean }};
type Json<T> = T extends string ? `${{T}}` : T extends object ? {{ [K in keyof T]: Json<T[K]> }} : T;
"""


def typed(document: dict[str, Any]) -> str:
    """A dashboard as TypeScript: each part said to be of Grafana's own type, where no other field may be."""
    document = json.loads(json.dumps(document))
    parts = [("AnnotationQuery", each) for each in document["annotations"]["list"]]
    for _, note in parts:
        assert all(isinstance(note.pop(name), str) for name in OF_PROMETHEUS)
    document["annotations"]["list"] = []
    for panel in document.pop("panels"):
        if panel["type"] == "row":
            parts.append(("RowPanel", panel))
            continue
        parts += [("Query", target) for target in panel.pop("targets")]
        parts.append((f"Partial<{panel['type']}>", panel.pop("options")))
        parts.append(("Lines", panel["fieldConfig"]["defaults"].pop("custom", {})))
        parts.append(("Partial<Panel>", panel))
    parts.append(("Dashboard", document))
    return IMPORTS + "".join(
        f"export const part{number}: Json<{kind}> = {json.dumps(part)};\n"
        for number, (kind, part) in enumerate(parts)
    )


@pytest.mark.slow
def test_grafanas_own_types_take_every_part_of_the_dashboards(tmp_path: Path) -> None:
    """Those of the npm package (Apache 2.0), which is fetched; a misspelt or missing field is an error."""
    npm = [program("npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps"]
    done = subprocess.run([*npm, *SCHEMA], cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            f"npm could not fetch {' and '.join(SCHEMA)}: {done.stderr[-200:]}"
        )

    def faults(*documents: dict[str, Any]) -> str:
        for number, document in enumerate(documents):
            (tmp_path / f"board{number}.ts").write_text(typed(document))
        names = [f"board{number}.ts" for number in range(len(documents))]
        options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext"]
        tsc = [str(tmp_path / "node_modules/.bin/tsc"), *options, "--moduleResolution", "node10", *names]
        return subprocess.run(tsc, cwd=tmp_path, capture_output=True, text=True, check=False).stdout

    assert faults(*(dashboard.document for dashboard in DASHBOARDS)) == ""
    wrong = json.loads(json.dumps(DASHBOARDS[0].document))
    wrong["panels"][1]["options"]["colorMode"] = "vlaue"
    wrong["panels"][1]["fieldConfig"]["defaults"]["treshold"] = {}
    found = faults(wrong)
    assert found.count("error TS") == 2, found
    assert '"vlaue"' in found
    assert "treshold" in found


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEngine]:
    """An engine that has closed a day and goes on."""
    program("prometheus")
    with live_engine(tmp_path_factory.mktemp("engine") / "city") as running_engine:
        yield running_engine


@pytest.fixture(scope="module")
def prometheus(engine: LiveEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus that scrapes the engine each second and evaluates the committed rules."""
    folder = tmp_path_factory.mktemp("prometheus")
    with running_prometheus(folder, engine.port) as address:
        engine.send(12)
        engine.wait_for_step(9)
        wait_for_scrapes(address)
        engine.send(12)
        engine.wait_for_step(21)
        wait_for_scrapes(address)
        yield address


@contextmanager
def running_prometheus(folder: Path, port: int) -> Iterator[str]:
    """Prometheus with the committed configuration, only faster and with the engine's port."""
    committed = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
    faster = committed.replace("interval: 15s", "interval: 1s").replace("127.0.0.1:9464", f"127.0.0.1:{port}")
    assert faster.count("interval: 1s") == 2
    (folder / "prometheus.yml").write_text(faster)
    (folder / "alerts.yml").write_text((ROOT / "deploy/prometheus/alerts.yml").read_text())
    listen = f"127.0.0.1:{free_port()}"
    command = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={listen}",
    ]
    with running(command, folder / "prometheus.log"):
        address = f"http://{listen}"
        wait_until("Prometheus", lambda: get(f"{address}/-/ready")[0] == 200)
        yield address


def ask(address: str, query: str) -> list[dict[str, Any]]:
    """Series of an instant query."""
    status, body = get(f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    answer = json.loads(body)
    assert status == 200, (query, answer)
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def wait_for_scrapes(address: str, more: int = 3) -> None:
    """Until the engine was scraped a few times more."""

    def scrapes() -> float:
        found = ask(address, "count_over_time(up[1h])")
        return float(found[0]["value"][1]) if found else 0.0

    before = scrapes()
    wait_until("scrapes", lambda: scrapes() >= before + more)


@pytest.mark.slow
@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_shows_data_from_a_running_engine(panel: Panel, prometheus: str) -> None:
    """Each query, with the variables at "All", returns at least one series and never NaN."""
    for query in panel.queries:
        series = ask(prometheus, with_everything(query))
        assert series, query.promql
        assert not any(math.isnan(float(one["value"][1])) for one in series), query.promql


@pytest.mark.slow
def test_a_healthy_engine_sets_off_no_operations_alert(prometheus: str) -> None:
    """Prometheus has loaded the rules, evaluates them, and none of them is in trouble."""
    rules = json.loads(get(f"{prometheus}/api/v1/rules")[1])["data"]["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}
    firing = json.loads(get(f"{prometheus}/api/v1/alerts")[1])["data"]["alerts"]
    names = {alert["labels"]["alertname"] for alert in firing if alert["state"] == "firing"}
    assert names == set()


def with_everything(query: Query) -> str:
    """The query as Grafana sends it with all jobs and instances chosen."""
    text = query.promql.replace("$job", ".+").replace("$instance", ".+")
    return text.replace("$__rate_interval", "1m").replace("$__range", "1h")
