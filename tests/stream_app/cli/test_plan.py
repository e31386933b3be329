"""`tallyguard plan`: the decisions of tomorrow, as the run will make them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.prior_files import save_population
from stream_app.analysis.planning import plan_releases
from stream_app.cli import main
from stream_app.embedded import RunOptions, run
from stream_app.steps.risk_output import summary_message
from stream_app.wire.messages import StepDecision
from tests.accounting.decisions import deciding
from tests.stream_app.engine_support import NAMES, activation, lines_of, population, reading, run_on, settings

STEPS, LOCATIONS = 14, 8


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Priors, a schedule and settings with a budget."""
    random = np.random.default_rng(3)
    save_population(population(), tmp_path / "priors.json")
    chosen = [random.choice(NAMES, random.integers(0, 4), replace=False).tolist() for _ in range(STEPS)]
    steps = [{"sensors": names, "mechanism": "raw"} if names else {"sensors": []} for names in chosen]
    (tmp_path / "schedule.json").write_text(json.dumps({"steps": steps}))
    (tmp_path / "settings.toml").write_text(
        'horizon = 4\nmistakes = 1\n[release]\nmechanism = "budget"\n'
        "[release.budget]\nshare = 0.2\nadded = 0.25\n"
    )
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The command's exit code."""
    monkeypatch.setattr(sys, "argv", ["tallyguard", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def plan(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: object
) -> dict[str, Any]:
    """The document the command prints."""
    own = ("plan", files / "schedule.json", "--priors", files / "priors.json", "--json")
    assert call(monkeypatch, *own, *more) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_plan_is_what_the_run_decides(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = plan(files, monkeypatch, capsys, "--config", files / "settings.toml")
    schedule = json.loads((files / "schedule.json").read_text())["steps"]
    messages = [activation(t, *step["sensors"]) for t, step in enumerate(schedule)]
    messages += [reading(t, name, 7) for t, step in enumerate(schedule) for name in step["sensors"]]
    budget = {"mechanism": "budget", "budget": {"share": 0.2, "added": 0.25}}
    run_on(
        files / "out",
        [lines_of(messages)],
        settings={"release": budget},
        schedule=files / "schedule.json",
    )
    decided = [StepDecision.model_validate_json(line) for line in (files / "out/decisions.jsonl").open("rb")]
    assert len(decided) == len(planned["steps"]) == STEPS
    for step, decision in zip(planned["steps"], decided, strict=True):
        told = [(r["sensor"], r["mechanism"], r.get("sigma")) for r in step["releases"]]
        assert told == [(d.sensor, d.mechanism, d.parameters.get("sigma")) for d in decision.decisions]
        assert decision.why is not None
        assert step["why"] == decision.why.model_dump(mode="json")
    assert {step["why"]["because"] for step in planned["steps"]} >= {"budget"}


def test_limits_on_the_command_line_ask_for_a_budget(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tight = plan(files, monkeypatch, capsys, "--mistakes", 1, "--horizon", 4, "--added", 0.1)
    loose = plan(files, monkeypatch, capsys, "--mistakes", 1, "--horizon", 4, "--added", 1.0)
    assert {step["why"]["because"] for step in loose["steps"]} == {"free"}
    assert all(r["mechanism"] == "raw" for step in loose["steps"] for r in step["releases"])
    released = [sum(sensor["released"] for sensor in each["sensors"]) for each in (tight, loose)]
    assert released[0] < released[1]
    assert all(step["risk"]["1"] <= 1.0 for step in tight["steps"])


def test_without_a_budget_the_schedules_own_mechanisms_are_planned(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = plan(files, monkeypatch, capsys)
    assert all(step["why"] is None for step in planned["steps"])
    assert {sensor["mean_error"] for sensor in planned["sensors"]} == {0.0}


def test_the_table_and_the_picture_are_for_people(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("plan", files / "schedule.json", "--priors", files / "priors.json")
    assert call(monkeypatch, *own, "--config", files / "settings.toml", "--plot", files / "plan.png") == 0
    printed = capsys.readouterr().out
    assert "Because" in printed
    assert "budget" in printed
    assert (files / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_an_error(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("plan", files / "schedule.json", "--priors", files / "priors.json")
    assert call(monkeypatch, *own, "--plot", files / "none" / "plan.png") == 1
    assert "must be written" in capsys.readouterr().err


@pytest.mark.parametrize(("servers", "work"), [((), 2_400_000_000), (("nowhere:9092",), 3_000_000)])
def test_a_plan_has_the_risks_of_the_run_bit_for_bit_where_work_is_scarce(
    tmp_path: Path, servers: tuple[str, ...], work: int
) -> None:
    """Who gets the refined bounds goes by pseudonym: the plan must split people as the run does."""
    random = np.random.default_rng(3)
    people = deciding.people(random, 70, LOCATIONS)
    sensors = [[s.name[1:] for s in deciding.random_sensors(random, LOCATIONS, most=4)] for _ in range(STEPS)]
    steps = [{"sensors": names, "mechanism": "raw"} if names else {"sensors": []} for names in sensors]
    (tmp_path / "schedule.json").write_text(json.dumps({"steps": steps}))
    budget = {"share": 0.4, "added": 0.3, "exact_up_to": 20}
    given = settings(
        release={"mechanism": "budget", "budget": budget},
        sharpen_operations=work,
        kafka={"servers": servers},
        most_exposed=0,  # a plan names nobody, and does not try an attack
        attack_draws=0,
    )
    planned = plan_releases(given, tmp_path / "schedule.json", people)
    messages = [activation(t, *names) for t, names in enumerate(sensors)]
    messages += [reading(t, name, 7) for t, names in enumerate(sensors) for name in names]
    options = RunOptions(tmp_path / "out", schedule=tmp_path / "schedule.json")
    run(given, options, people, chunks=[lines_of(messages)])
    lines = (tmp_path / "out/risks.jsonl").read_bytes().splitlines()
    told = [line for line in lines if b'"type":"risk_summary"' in line]
    assert [summary_message(step.risks, attack=step.attack).line().rstrip() for step in planned.steps] == told
    assert planned.as_run
    cleared = sum(step.decided.why.dear for step in planned.steps if step.decided.why)
    not_reached = sum(step.risks.not_reached for step in planned.steps)
    assert (cleared > 0, not_reached > 0) == (work > 10**8, work < 10**8)
    without = given.model_copy(update={"pseudonym_key_secret": None})
    assert not plan_releases(without, tmp_path / "schedule.json", people).as_run
