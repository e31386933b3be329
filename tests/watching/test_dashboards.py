"""Dashboards: current, complete by the linter's rules, and every query answered by a real Prometheus."""

from __future__ import annotations

import json
import math
import re
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_app.dashboards.__main__ import DASHBOARDS, generated
from stream_app.dashboards.panels import Panel, Query
from tests import ROOT
from tests.watching.live_engine import LiveEngine, live_engine
from tests.watching.services import free_port, get, program, running, wait_until

PANELS = [
    pytest.param(panel, id=f"{dashboard.uid}: {panel.title}")
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
]
UNITS = {"short", "none", "percentunit", "s", "ops", "bytes"}
RANGES = re.compile(r"\b(?:rate|increase|irate)\((?:[^\[\]]*)\[([^\]]+)\]")


def test_regeneration_changes_nothing() -> None:
    """``python -m stream_app.dashboards`` writes what is committed."""
    for path, text in generated().items():
        assert (ROOT / path).read_text() == text, path


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


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_a_dashboard_is_ready_for_provisioning(dashboard: Any) -> None:
    """Variables for source, job and instance; ids are unique, panels neither overlap nor leave the grid."""
    document = json.loads((ROOT / "deploy/grafana/dashboards" / f"{dashboard.uid[11:]}.json").read_text())
    variables = {variable["name"]: variable for variable in document["templating"]["list"]}
    assert set(variables) == {"datasource", "job", "instance"}
    assert all(variables[name]["allValue"] == ".+" for name in ("job", "instance"))
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


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
