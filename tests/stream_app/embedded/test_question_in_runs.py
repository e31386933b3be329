"""A run that is asked about a clinic: every figure is about that, and the question stays what it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accounting.continuous import ContinuousAccountant
from models.priors import Question
from models.releases import Schedule
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.planning import plan_schedule
from stream_app.analysis.report import read_run
from stream_app.analysis.report.sections import setting_rows
from stream_app.exceptions import RunChangedError
from stream_app.kafka.deployment.deployment import accounts_basis
from stream_app.setup.run_folder.run_settings import settings_of_run
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.watching.web.answers import _about
from tests.stream_app.engine_support import (
    NAMES,
    lines_of,
    messages_of_a_day,
    outputs_of,
    population,
    run_on,
    settings,
)

CARE = {"question": "care", "questions": {"care": {"at": ["B"]}, "other": {"at": ["A"]}}}
DAY = lines_of(messages_of_a_day(12, 5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The day in two parts, as after a restart."""
    output = tmp_path_factory.mktemp("care") / "out"
    cut = DAY.index(b"\n", len(DAY) // 2) + 1
    run_on(output, [DAY[:cut]], settings=CARE)
    run_on(output, [DAY], settings=CARE)
    return output


def test_the_figures_of_a_run_are_about_its_question(folder: Path, tmp_path: Path) -> None:
    """The same as an account of its log that asks the same; about places others."""
    log = read_run(folder)
    horizon = log.horizon()
    assert horizon.question == Question("care", {"care": ("B",)})
    highest = {}
    for name, asked in (("care", horizon.question), ("place", None)):
        again = ContinuousAccountant(population(), settings(**CARE).horizon_settings(0))
        if asked is None:
            again = ContinuousAccountant(population(), settings().horizon_settings(0))
        registry = load_registry(None, NAMES)
        again.apply_all(each.schedule for each in read_decisions(folder / "decisions.jsonl", registry))
        highest[name] = again.risk().max()
    assert log.summaries[-1].risk["1.0"] == highest["care"]
    assert highest["care"] > highest["place"], "to be there or not is easier to guess than where"
    assert ("What must not be told", "whether a person was at care (question care)") in list(
        setting_rows(log)
    )
    run_on(tmp_path / "whole", [DAY], settings=CARE)
    whole, parts = outputs_of(tmp_path / "whole"), outputs_of(folder)
    assert {name: whole[name] for name in ("releases.jsonl", "risks.jsonl")} == {
        name: parts[name] for name in ("releases.jsonl", "risks.jsonl")
    }


def test_a_run_keeps_its_question_and_others_may_be_added(folder: Path) -> None:
    recorded = json.loads((folder / "run.json").read_text())
    assert recorded["question"] == "care"
    assert recorded["questions"] == {"care": {"at": ["B"]}}
    changed = {"question": "other", "questions": CARE["questions"]}
    with pytest.raises(RunChangedError, match=r"question was .*care.*, is .*other.*put back"):
        run_on(folder, [DAY], settings=changed)
    run_on(folder, [DAY], settings={**CARE, "questions": {**CARE["questions"], "more": {"at": ["C"]}}})
    found = settings_of_run(folder, Settings())
    assert found.asked(found.question) == Question("care", {"care": ("B",)})
    with pytest.raises(RunChangedError, match="question must be what"):
        settings_of_run(folder, settings(**changed))


def test_workers_on_kafka_and_the_page_know_the_question() -> None:
    """A worker with another question belongs to another deployment; without one nothing is changed."""
    registry = load_registry(None, NAMES)
    plain, care = (accounts_basis(each, registry) for each in (settings(), settings(**CARE)))
    assert {name: care[name] for name in care.keys() - plain.keys()} == {
        "question": "care",
        "questions": {"care": {"at": ["B"]}},
    }
    assert _about(settings(**CARE))["question"] == "whether a person was at care"
    assert "question" not in _about(settings())


def test_a_risk_budget_is_about_the_question() -> None:
    """What is released under the budget keeps the ceiling of the question, not that of places."""
    schedule = Schedule.raw([[0], [1], [2], [1], [0], [1]])
    budget = {"mechanism": "budget", "budget": {"risk": 0.9}}
    released = {}
    for name, question in (("place", {}), ("care", CARE)):
        chosen = settings(release=budget, horizon=3, mistakes=0, **question)
        planned = plan_schedule(chosen, schedule, population())
        released[name] = sum(each.released for each in planned.sensors())
        assert all(step.risks.risk["1.0"] <= 0.9 for step in planned.steps)
    assert released["care"] < released["place"] == 6


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ({"question": "care"}, "question must be one of place, got care"),
        ({"questions": {"place": {}}}, "questions must have names other than place"),
        ({"questions": {"q": {"at": ["A"], "groups": {"n": ["B"]}}}}, "at and groups are two questions"),
        ({"questions": {"q": {"from_hour": 3}}}, "from_hour and until_hour belong together"),
        ({"questions": {"q": {"from_hour": 3, "until_hour": 3.001}}}, "a whole step of 60 seconds must lie"),
        ({"questions": {"q": {"weights": [0, 0]}}}, "some above 0"),
    ],
)
def test_settings_refuse_what_is_no_question(questions: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        settings(**questions)


def test_hours_are_steps_of_a_day() -> None:
    night = settings(
        step_seconds=3600, question="night", questions={"night": {"from_hour": 22, "until_hour": 6}}
    )
    weights = night.asked("night").weights
    assert [hour for hour in range(24) if weights[hour]] == [0, 1, 2, 3, 4, 5, 22, 23]
