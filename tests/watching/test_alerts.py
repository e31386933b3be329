"""Alerts fire when they should and not otherwise, each with a runbook that exists."""

from __future__ import annotations

import re
import subprocess
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from prometheus_client import CollectorRegistry

from stream_app.setup.settings import Settings
from stream_app.watching.web import StatusBoard
from stream_app.watching.web.answers import Site, respond
from tests import ROOT
from tests.deploy.generated import generated
from tests.documents import metric_rows
from tests.watching.services import program

FOLDER = ROOT / "deploy" / "prometheus"
REQUIRED = {
    "TallyguardRiskBudgetExceeded",
    "TallyguardRiskRisingFast",
    "TallyguardAccountantBehind",
    "TallyguardNoReleases",
    "TallyguardRejectedSpike",
    "TallyguardWorkerStuck",
    "TallyguardPartitionsUnowned",
    "TallyguardRegionsUnowned",
    "TallyguardNoReleaseWorker",
    "TallyguardNoAnswer",
    "TallyguardRecordsWaiting",
    "TallyguardContradiction",
    "TallyguardClockOff",
    "TallyguardPriorsRefuted",
}
METRIC = re.compile(r"\b(?:tallyguard|process)_[a-z_]+")
RUNBOOK_LINK = re.compile(
    r"\{\{ with \$externalLabels\.runbooks \}\}\{\{ \. \}\}"
    r"\{\{ else \}\}http://127\.0\.0\.1:9464/runbooks\{\{ end \}\}/([a-z-]+\.md)"
)
RUNBOOK_SECTIONS = ("## Meaning", "## Impact", "## Diagnosis", "## Action")


def rules() -> list[dict[str, Any]]:
    """All rules of the file."""
    document = yaml.safe_load((FOLDER / "alerts.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """All alerts of the file."""
    return [rule for rule in rules() if "alert" in rule]


def known_metrics() -> set[str]:
    """Names a query may use."""
    names = {row.name for row in metric_rows()}
    names |= {f"{row.name}_bucket" for row in metric_rows() if row.kind == "histogram"}
    return names | {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool beside the rules."""
    command = [program("promtool"), *arguments]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments", [("check", "config", "prometheus.yml"), ("check", "rules", "alerts.yml")]
)
def test_prometheus_accepts_the_files(arguments: tuple[str, ...]) -> None:
    done = promtool(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout + done.stderr


@pytest.mark.parametrize(("path", "text"), generated().items())
def test_what_repeats_alerts_and_runbooks_is_current(path: str, text: str) -> None:
    """``python -m tests.deploy.generated`` writes it."""
    assert (ROOT / path).read_text() == text


def test_the_rule_of_the_prometheus_operator_is_the_same() -> None:
    document = yaml.safe_load((FOLDER.parent / "kubernetes/prometheus-operator/rules.yaml").read_text())
    assert document["kind"] == "PrometheusRule"
    assert document["spec"] == yaml.safe_load((FOLDER / "alerts.yml").read_text())


@pytest.mark.slow
def test_every_alert_fires_and_does_not_fire_as_promised() -> None:
    """``promtool test rules`` on series that cross each limit and series that stay below."""
    done = promtool("test", "rules", "alerts_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    tested = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
    cases = [case for test in tested for case in test["alert_rule_test"]]
    fired = {case["alertname"] for case in cases if case["exp_alerts"]}
    assert fired == {alert["alert"] for alert in alerts()} >= REQUIRED


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_how_bad_and_what_to_do(alert: dict[str, Any]) -> None:
    """Summary, description, severity, and a runbook that exists with all its sections."""
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert alert["for"]
    notes = alert["annotations"]
    assert len(notes["summary"]) > 20
    assert re.search(r"\$labels\.(instance|job)\b", notes["description"])
    link = RUNBOOK_LINK.fullmatch(notes["runbook_url"])
    assert link, notes["runbook_url"]
    runbook = (ROOT / "docs" / "runbooks" / link[1]).read_text()
    assert alert["alert"] in runbook.splitlines()[0] or alert["alert"] == "TallyguardDown"
    assert all(section in runbook for section in RUNBOOK_SECTIONS)


def test_alerts_and_runbooks_ask_only_for_metrics_that_exist() -> None:
    """A renamed metric would silence an alert, or send whoever is woken by it to an empty query."""
    expressions = [rule["expr"] for rule in rules()]
    runbooks = [path.read_text() for path in (ROOT / "docs" / "runbooks").glob("*.md")]
    metrics = {name for text in [*expressions, *runbooks] for name in METRIC.findall(text)}
    assert len(metrics) > 10
    assert metrics <= known_metrics()


def test_runbooks_name_only_reasons_that_exist() -> None:
    """The action list of the rejected spike uses the labels an operator sees."""
    from stream_app.wire.messages import Reason

    text = (ROOT / "docs" / "runbooks" / "rejected-spike.md").read_text()
    named = set(re.findall(r"`([a-z_]+)`:", text))
    assert len(named) >= 4
    assert named <= {reason.value for reason in Reason}


@pytest.mark.parametrize("file", ["prometheus.yml", "compose.yml"])
def test_alerts_link_to_the_page_an_engine_serves(file: str) -> None:
    """As the settings have it unless somebody changes them; every link opens there, under the file's name."""
    configured = yaml.safe_load((FOLDER / file).read_text())["global"]["external_labels"]["runbooks"]
    assert configured == f"http://{Settings.model_construct().listen}/runbooks"
    site = Site(CollectorRegistry(), StatusBoard(()), None, None)
    names = respond("/runbooks/", "", site).body.decode().split()
    assert names == sorted(path.name for path in (ROOT / "docs" / "runbooks").glob("*.md"))
    for alert in alerts():
        link = RUNBOOK_LINK.fullmatch(alert["annotations"]["runbook_url"])
        assert link
        opened = respond(f"{urlsplit(configured).path}/{link[1]}", "", site)
        assert opened.status == HTTPStatus.OK
        assert opened.content_type == "text/plain; charset=utf-8"
        assert opened.body == (ROOT / "docs" / "runbooks" / link[1]).read_bytes()
    assert respond("/runbooks/../page.html", "", site).status == HTTPStatus.NOT_FOUND
