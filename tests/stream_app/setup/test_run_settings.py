"""Whoever reads a run reads it with the settings it was made with, or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hex_keys import hex_key
from tests.stream_app.cli.test_cli import TWO_PEOPLE
from tests.stream_app.command_line import Tallyguard

SETTINGS = """
deployment = "north"
horizon = 3
mistakes = 0
delta = 1e-4
noise_key = "noise.key"
pseudonym_key = "pseudonym.key"
listen = ""
[release]
mechanism = "gaussian"
sigma = 4.0
"""


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tallyguard: Tallyguard) -> Path:
    """A finished run of two people over four steps; the folder is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "priors.json").write_text(json.dumps(TWO_PEOPLE))
    (tmp_path / "t.toml").write_text(SETTINGS)
    for name in ("noise.key", "pseudonym.key"):
        (tmp_path / name).write_text(hex_key("ab"))
        (tmp_path / name).chmod(0o600)
    lines = []
    for step in range(4):
        lines.append({"v": 1, "type": "activation", "step": step, "sensors": ["work"]})
        lines.append({"v": 1, "type": "reading", "step": step, "sensor": "work", "count": 5 + step})
    (tmp_path / "day.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ["--priors", "priors.json", "--input", "day.jsonl", "--output", "out", "--config", "t.toml"]
    assert tallyguard("run", *options).code == 0
    return tmp_path


def last_summary(folder: Path) -> dict[str, dict[str, float]]:
    """The run's own last summary."""
    lines = (folder / "out" / "risks.jsonl").read_text().splitlines()
    summaries = [json.loads(line) for line in lines if '"risk_summary"' in line]
    return dict(summaries[-1])


def test_the_ledger_of_a_run_needs_no_settings(tallyguard: Tallyguard, run_folder: Path) -> None:
    """Horizon, mistakes and delta are the run's, and so is the risk."""
    result = tallyguard("ledger", "out", "--priors", "priors.json", "--json")
    assert result.code == 0, result.err
    found = result.document["reconstruction"]
    assert (found["horizon"], found["mistakes"]) == (3, 0)
    assert found["risk"]["1"] == last_summary(run_folder)["risk"]["1.0"]
    assert {each["delta"] for each in result.document["differential_privacy"]} == {1e-4}
    assert tallyguard(
        "ledger", "out", "--priors", "priors.json", "--config", "t.toml", "--json"
    ).document == (result.document)


@pytest.mark.parametrize(
    "flags", [("--horizon", "4"), ("--mistakes", "1"), ("--delta", "1e-6")], ids=lambda flags: flags[0]
)
def test_a_flag_that_contradicts_the_run_is_refused_in_words(
    tallyguard: Tallyguard, run_folder: Path, flags: tuple[str, str]
) -> None:
    """What the run has, what was asked, and what to do."""
    result = tallyguard("ledger", "out", "--priors", "priors.json", *flags)
    assert result.code == 1
    assert f"{flags[0][2:]} must be what out was made with" in result.err
    assert "leave" in result.err


@pytest.mark.parametrize(
    "command",
    [
        ("ledger", "out", "--priors", "priors.json"),
        ("report", "out"),
        ("report", "out", "--priors", "priors.json"),
        ("keys", "advance", "--output", "out"),
    ],
    ids=" ".join,
)
def test_every_reader_of_a_run_refuses_other_settings(
    tallyguard: Tallyguard, run_folder: Path, command: tuple[str, ...]
) -> None:
    """A settings file that says another horizon belongs to another run."""
    (run_folder / "other.toml").write_text(SETTINGS.replace("horizon = 3", "horizon = 9"))
    result = tallyguard(*command, "--config", "other.toml")
    assert result.code == 1
    assert "horizon must be what out was made with, 3, got 9" in result.err
    assert tallyguard(*command, "--config", "t.toml").code == 0


def test_other_priors_or_sensors_are_refused(tallyguard: Tallyguard, run_folder: Path) -> None:
    """A ledger of other people is no ledger of this run."""
    one = {**TWO_PEOPLE, "people": TWO_PEOPLE["people"][:1]}
    (run_folder / "one.json").write_text(json.dumps(one))
    assert "priors must be those of the run" in tallyguard("ledger", "out", "--priors", "one.json").err
    (run_folder / "s.json").write_text(json.dumps([{"name": "work", "locations": ["home"]}]))
    (run_folder / "s.toml").write_text('sensors = "s.json"\n' + SETTINGS)
    result = tallyguard("ledger", "out", "--priors", "priors.json", "--config", "s.toml")
    assert "sensors must be those of the run" in result.err


def test_the_report_speaks_of_the_runs_delta(tallyguard: Tallyguard, run_folder: Path) -> None:
    """Its epsilon is at the delta that the run recorded."""
    assert tallyguard("report", "out", "--output", "r.html").code == 0
    assert "at delta 0.0001" in (run_folder / "r.html").read_text()


def test_a_run_may_go_on_with_another_delta(tallyguard: Tallyguard, run_folder: Path) -> None:
    """No account depends on it; readers take the newest. A larger one promises less, and needs a reason."""
    (run_folder / "t.toml").write_text(SETTINGS.replace("1e-4", "1e-3"))
    options = ["--priors", "priors.json", "--input", "day.jsonl", "--output", "out", "--config", "t.toml"]
    refused = tallyguard("run", *options)
    assert refused.code == 1
    assert "delta was 0.0001, is 0.001; give one: --reason" in refused.err
    assert tallyguard("run", *options, "--reason", "as in the notice").code == 0
    assert json.loads((run_folder / "out" / "run.json").read_text())["delta"] == 1e-3
    (run_folder / "t.toml").write_text(SETTINGS.replace("1e-4", "1e-5"))
    assert tallyguard("run", *options).code == 0


def test_a_misspelt_sensor_of_a_question_fails_at_once(tallyguard: Tallyguard, run_folder: Path) -> None:
    """With a suggestion, before anything is accounted."""
    result = tallyguard("ledger", "out", "--priors", "priors.json", "--sensor", "wrok", "--secret", "1")
    assert result.code == 1
    assert "did you mean 'work'?" in result.err
