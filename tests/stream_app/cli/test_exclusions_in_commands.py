"""`check`, `audit` and `ledger` know the table of exclusions that the settings name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.prior_files import save_population
from stream_app.analysis.preflight import Finding, check_files
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.engine_support import NAMES, population

LONG_AGO, HOUR = 1_772_409_600, 3600  # 2 March 2026
STEPS = 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Priors, a table, settings that name it, and a schedule with and without what it excludes."""
    monkeypatch.chdir(tmp_path)
    save_population(population(), tmp_path / "priors.json")
    (tmp_path / "t.toml").write_text(
        'step_seconds = 3600\norigin = "2026-03-02T00:00Z"\nlisten = ""\n'
        '[quality]\nexclusions = "exclusions.csv"\n'
    )
    table(tmp_path, "A,2026-03-02T01:00Z,2026-03-02T03:00Z,maintenance")
    whole = [{"sensors": list(NAMES), "mechanism": "gaussian", "sigma": 2.0}] * STEPS
    less = [
        {**step, "sensors": [name for name in NAMES if name != "A" or number not in (1, 2)]}
        for number, step in enumerate(whole)
    ]
    (tmp_path / "whole.json").write_text(json.dumps({"steps": whole}))
    (tmp_path / "less.json").write_text(json.dumps({"steps": less}))
    return tmp_path


def table(folder: Path, *lines: str) -> None:
    (folder / "exclusions.csv").write_text("\n".join(["sensor,from,to,reason", *lines, ""]))


def findings(folder: Path, now_seconds: float, schedule: str | None = None) -> list[Finding]:
    """What `check` says of the table."""
    found = check_files(
        config=folder / "t.toml",
        priors=folder / "priors.json",
        schedule=None if schedule is None else folder / schedule,
        now_seconds=now_seconds,
    )
    return [each for each in found if each.subject.endswith("exclusions.csv")]


@pytest.mark.slow
def test_an_audit_with_the_settings_is_that_of_the_schedule_without_the_device(
    tallyguard: Tallyguard, folder: Path
) -> None:
    common = ("audit", "priors.json", "--person", "person 1", "--json", "--schedule")
    excluded = tallyguard(*common, "whole.json", "--config", "t.toml")
    assert excluded.code == 0
    assert json.loads(excluded.out) == json.loads(tallyguard(*common, "less.json").out)
    assert json.loads(excluded.out) != json.loads(tallyguard(*common, "whole.json").out)


@pytest.mark.slow
def test_a_ledger_of_a_schedule_leaves_the_device_out(tallyguard: Tallyguard, folder: Path) -> None:
    common = ("--priors", "priors.json", "--json")
    excluded = tallyguard("ledger", "whole.json", "--config", "t.toml", *common)
    (folder / "plain.toml").write_text('step_seconds = 3600\norigin = "2026-03-02T00:00Z"\n')
    less = tallyguard("ledger", "less.json", "--config", "plain.toml", *common)
    assert excluded.code == less.code == 0
    assert json.loads(excluded.out) == json.loads(less.out)
    assert json.loads(excluded.out)["releases"] == {"gaussian": 4 * STEPS - 2}


def test_check_finds_what_a_run_would_refuse(folder: Path) -> None:
    """Of a sensor that is not there a warning: a deployment may have had it, and its record is not asked."""
    table(folder, "Z,2026-03-02T01:00Z,,broken")
    found, _ = findings(folder, LONG_AGO)
    assert (found.level, "does not have, such as 'Z'" in found.sentence) == ("warning", True)
    table(folder, "A,2026-03-02T01:00Z,,broken", "A,2026-04-02T01:00Z,,broken")
    (found,) = findings(folder, LONG_AGO)
    assert (found.level, "must not overlap line 2" in found.sentence) == ("problem", True)


def test_check_warns_of_exclusions_that_begin_in_the_past(folder: Path) -> None:
    """At midnight the device is not excluded yet; an hour later counts of the hour could be known."""
    assert [each.level for each in findings(folder, LONG_AGO)] == ["ok"]
    ok, warning = findings(folder, LONG_AGO + HOUR)
    assert (ok.level, warning.level) == ("ok", "warning")
    assert "1 exclusion begins in the past, such as that of 'A' from step 1" in warning.sentence
    assert "looked at counts" in warning.sentence


def test_check_warns_of_exclusions_outside_the_schedule(folder: Path) -> None:
    assert [each.level for each in findings(folder, LONG_AGO, "whole.json")] == ["ok"]
    table(folder, "A,2026-03-02T04:00Z,2026-03-02T09:00Z,an hour late", "B,2026-03-02T03:00Z,,in time")
    _, warning = findings(folder, LONG_AGO, "whole.json")
    assert warning.level == "warning"
    assert "1 exclusion covers no step in which the schedule announces their sensor" in warning.sentence
    assert "'A' from step 4" in warning.sentence
