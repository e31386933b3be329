"""What a connector refuses of its settings `check` refuses in the same sentence, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from stream_app.analysis.preflight import Finding
from stream_app.starting.connect.connectors import check_connectors
from tests.stream_app.command_line import Tallyguard

HEAD = """
origin = "2026-01-05T00:00:00Z"
step_seconds = 3600
locations = "places.txt"
sensors = "sensors.json"

[release]
mechanism = "gaussian"
sigma = 2.0
"""
MAP = 'sensor = ["device"]\nstart = ["from"]\ninterval_seconds = 3600\ncount = ["in"]\n'


class Case(NamedTuple):
    """Settings of one connector, and what it says of them; None where it takes them."""

    connector: str
    section: str
    refused: str | None


CASES = (
    Case("http", f"[connect.http]\ntoken_file = 'token'\n[connect.http.map]\n{MAP}", None),
    Case("http", f"[connect.http]\n[connect.http.map]\n{MAP}", "token"),
    Case("http", f"[connect.http]\ntoken_file='token'\nlisten='nowhere'\n[connect.http.map]\n{MAP}", "port"),
    Case("http", "[connect.http]\ntoken_file = 'token'\n", "no start, no count"),
    Case(
        "http", f"[connect.http]\ntoken_file='token'\n[connect.http.map]\n{MAP}largest_factor=3.0\n", "most_c"
    ),
    Case("mqtt", f"[connect.mqtt]\ntopics=['a/+']\n[connect.mqtt.map]\n{MAP}", "broker"),
    Case(
        "mqtt",
        f"[connect.mqtt]\nbroker='mqtt://localhost:1'\ntopics=['a/+']\n[connect.mqtt.map]\n{MAP}",
        None,
    ),
    Case(
        "mqtt",
        f"[connect.mqtt]\nbroker='ftp://localhost'\ntopics=['a']\n[connect.mqtt.map]\n{MAP}",
        "mqtt://",
    ),
    Case("sensorthings", "[connect.sensorthings]\n[connect.sensorthings.datastreams]\n7 = 'door'\n", "url"),
    Case(
        "sensorthings",
        "[connect.sensorthings]\nurl='http://localhost:1/v1.1'\ndatastreams = {7 = 'gate'}\n",
        None,
    ),
    Case("files", "[connect.files]\npreset = 'melbourne'\n", None),
    Case("files", "[connect.files]\npreset = 'melborne'\n", "melbourne"),
    Case("files", "[connect.files]\nuptime='up'\nleast_uptime=0.5\nlargest_factor=1.0\n", "1 / least_uptime"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.connector} {case.refused}")
def test_check_says_what_a_connector_says(
    case: Case, tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = tmp_path / "token"
    secret.touch(0o600)
    secret.write_text("a token of many characters")
    (tmp_path / "places.txt").write_text("a\n")
    (tmp_path / "sensors.json").write_text(json.dumps({"sensors": [{"name": "gate", "locations": ["a"]}]}))
    config = tmp_path / "tallyguard.toml"
    config.write_text(HEAD + case.section)
    (tmp_path / "counts.csv").write_text("x\n1\n")
    findings = check_connectors(config, [])
    problems = [each for each in findings if each.level == "problem"]
    if case.refused is None:
        assert findings == [Finding("ok", f"tallyguard connect {case.connector}", "takes these settings")]
        return
    checked = tallyguard("check", "--config", config, "--json")
    assert checked.code == 1
    said = json.dumps(checked.document, ensure_ascii=False)
    assert case.refused in said
    given = ["counts.csv"] if case.connector == "files" else []
    started = tallyguard(
        "connect", case.connector, *given, "--config", config, "--output", tmp_path / "out.jsonl"
    )
    assert started.code != 0
    for each in problems:
        assert each.sentence in " ".join(started.err.split())


def test_check_says_that_a_file_of_evidence_is_not_there_before_people_are_loaded(
    tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers take people from a topic; whoever loads them needs the evidence."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "places.txt").write_text("a\n")
    (tmp_path / "sensors.json").write_text(json.dumps({"sensors": [{"name": "gate", "locations": ["a"]}]}))
    config = tmp_path / "tallyguard.toml"
    config.write_text(f"evidence = 'traces.parquet'\n{HEAD}[kafka]\nservers = ['localhost:1']\n")
    found = tallyguard("check", "--config", config, "--json").document
    said = [each["sentence"] for each in found if each["subject"] == "evidence"]
    assert said == [f"the file of evidence must exist, got {tmp_path / 'traces.parquet'}"]
