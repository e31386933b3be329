"""A run that is asked about a clinic: every figure is about that, and the question stays what it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from models.priors import Question
from models.releases import Schedule
from stream_app.analysis.planning import plan_schedule
from stream_app.analysis.report import make_report, read_run
from stream_app.analysis.report.sections import setting_rows
from stream_app.exceptions import RunChangedError
from stream_app.kafka.deployment.deployment import accounts_basis
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.run_folder.run_settings import settings_of_run
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.steps import Accounts, PeopleAccounts
from stream_app.steps.policy import Decided
from stream_app.watching.events import Observers
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web.answers import _about, render, state_json
from stream_app.watching.web.status import StatusBoard
from stream_app.wire import RiskSummary, StepDecision
from tests.stream_app.engine_support import (
    NAMES,
    REGISTRY,
    lines_of,
    messages_of_a_day,
    outputs_of,
    population,
    run_on,
    settings,
)
from tests.watching.page_text import PageText

CARE = {"question": "care", "questions": {"care": {"at": ["B"]}, "other": {"at": ["A"]}}}
DAY = lines_of(messages_of_a_day(12, 5))
SEVERAL = {
    "question": "care",
    "also_asked": ["place", "late"],
    "questions": {"care": {"at": ["B"]}, "late": {"weights": [0, 1, 1]}, "other": {"at": ["A"]}},
    "release": {"mechanism": "budget", "budget": {"risk": 0.99}},
    "crowd": {"on": True, "known": 1},
    "attack_draws": 64,
    "snapshot_seconds": 0.1,
}
"""A limit on one of three questions; each has another cycle, label or cost."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("care") / "out"
    run_on(output, [DAY], settings=CARE)
    return output


def test_the_figures_of_a_run_are_about_its_question(folder: Path, tmp_path: Path) -> None:
    """To be at a place or not is easier to guess than where."""
    log = read_run(folder)
    assert log.horizon().question == Question("care", {"care": ("B",)})
    asked = "What must not be told", "whether a person was at care (question care)"
    assert asked in list(setting_rows(log))
    run_on(tmp_path / "places", [DAY])
    places = read_run(tmp_path / "places")
    for care, place in zip(log.summaries, places.summaries, strict=True):
        assert care.baseline["0.5"] > place.baseline["0.5"]
        assert care.risk["1.0"] >= place.risk["1.0"]
    assert log.summaries[0].risk["0.5"] > places.summaries[0].risk["0.5"] + 0.1


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


class Several:
    """A run that is asked several questions, what watched it, and the decisions it made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.registry, self.settings = folder, CollectorRegistry(), settings(**SEVERAL)
        self.board = StatusBoard(REGISTRY.sensors, about=self.settings)
        metrics = EngineMetrics(self.registry, REGISTRY.sensors, (0.5,), 1e-6, settings=self.settings)
        run_on(folder, [DAY], settings=SEVERAL, observer=Observers([metrics, self.board]))
        self.log = read_run(folder)
        decisions = map(StepDecision.model_validate_json, (folder / "decisions.jsonl").open())
        self.decided = [Decided.logged(each, REGISTRY, has_crowd=True) for each in decisions]
        self.pseudonyms = load_pseudonym_key(self.settings, folder).pseudonyms(population().people)

    def accounted(self, chosen: Settings) -> list[RiskSummary]:
        """The same steps by these settings."""
        horizon = chosen.horizon_settings(0)
        people = PeopleAccounts(chosen, Accounts.of(chosen, horizon, population(), self.pseudonyms))
        found = []
        for each in self.decided:
            people.apply(each)
            found.append(people.summary())
        return found


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Several:
    return Several(tmp_path_factory.mktemp("several") / "out")


@pytest.mark.slow
def test_the_ceilings_of_each_question_are_those_of_a_run_with_it_alone(several: Several) -> None:
    """Guess, attack, ceilings against both adversaries; the limit is about the first alone."""
    assert len({each.schedule for each in several.decided}) > 1
    for name in SEVERAL["also_asked"]:
        alone = settings(**{**SEVERAL, "question": name, "also_asked": [], "release": {"sigma": 1.0}})
        for found, each in zip(several.accounted(alone), several.log.summaries, strict=True):
            assert each.questions is not None
            assert each.questions[name].line() == found.line()
            assert each.questions[name].attack is not None
            assert each.questions[name].crowd is not None
            assert each.questions[name].over_limit is None
    first = several.accounted(settings(**{**SEVERAL, "also_asked": []}))
    worst = {"worst": (), "questions": None}
    assert first == [each.model_copy(update=worst) for each in several.log.summaries]
    assert max(each.most_risk for each in several.log.summaries) <= 0.99
    assert {tuple(each.questions) for each in several.log.summaries} == {("place", "late")}
    highest = {name: several.log.summaries[-1].questions[name].most_risk for name in ("place", "late")}
    assert len({several.log.summaries[-1].most_risk, *highest.values()}) == 3


@pytest.mark.slow
def test_a_run_with_several_questions_goes_on_from_a_snapshot_and_from_its_log(
    several: Several, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cut = len(DAY) // 2
    for name in ("snapshot", "log"):
        folder = tmp_path / name
        run_on(folder, [DAY[: DAY.rindex(b"\n", 0, cut) + 1]], keep_open=True, settings=SEVERAL)
        if name == "log":
            (folder / "accountant.snapshot").unlink()
        run_on(folder, [DAY], settings=SEVERAL)
        assert outputs_of(folder) == outputs_of(several.folder), name
    assert not [said for said in caplog.messages if "not used" in said]
    with pytest.raises(RunChangedError, match=r"also_asked was .*place.*late.*no figures of others"):
        run_on(tmp_path / "log", [DAY], settings={**SEVERAL, "also_asked": ["place"]})
    found = settings_of_run(several.folder, Settings())
    assert (found.question, found.also_asked) == ("care", ("place", "late"))
    assert "other" not in json.loads((several.folder / "run.json").read_text())["questions"]


def test_every_surface_says_which_question_a_figure_is_about(several: Several, tmp_path: Path) -> None:
    """Report, page, plain page, metrics, terminal and plan have the same figures of each question."""
    asked = several.log.view.by_question
    assert [each.name for each in asked] == ["care", "place", "late"]
    rows = [each.row for each in asked]
    assert len({row[4] for row in rows}) == 3
    assert all("question care: whether a person was at care" in each.sentence for each in asked[0].figures)
    state = json.loads(state_json(several.board.read(), several.settings, has_people=False))
    assert state["questions"]["rows"] == [list(row) for row in rows]
    report = " ".join(PageText(make_report(several.folder)).words)
    plain = " ".join(PageText(render(several.board.read(), several.settings)).words)
    for row in rows:
        assert " ".join(row) in report
        assert " ".join(row) in plain
    assert "tell whether that person was at care in at least 3 of the last 4 steps?" in report
    last = several.log.summaries[-1]
    for name, each in {"care": last, **last.questions}.items():
        for figure, value in (("guess", each.mean_baseline), ("ceiling", each.mean_risk)):
            labels = {"question": name, "figure": figure}
            assert several.registry.get_sample_value("tallyguard_question_mean", labels) == value
    steps = tuple(each.schedule for each in several.decided)
    planned = plan_schedule(
        several.settings.model_copy(update={"release": settings().release}), Schedule(steps), population()
    )
    assert [each["row"] for each in planned.as_json()["questions"]] == [
        each.row for each in planned.view.by_question
    ]
    assert [each.row[2] for each in planned.view.by_question] == [row[2] for row in rows]


def test_workers_on_kafka_and_the_page_know_the_question() -> None:
    """A worker with another question belongs to another deployment; without one nothing is changed."""
    registry = load_registry(None, NAMES)
    plain, care = (accounts_basis(each, registry) for each in (settings(), settings(**CARE)))
    assert {name: care[name] for name in care.keys() - plain.keys()} == {
        "question": "care",
        "questions": {"care": {"at": ["B"]}},
    }
    several = accounts_basis(settings(**{**SEVERAL, "crowd": {}, "release": settings().release}), registry)
    assert several["also_asked"] == ["place", "late"]
    assert several["questions"] == {"care": {"at": ["B"]}, "late": {"weights": [0, 1, 1]}}
    asked = [_about(settings(**each)) for each in ({}, CARE, {**CARE, "question": "other"})]
    adversary = "somebody who sees everything published, knows a person's habits and where everybody else is"
    assert [each and each["question"] for each in asked] == [
        f"Could {adversary}, tell where that person was in at least 3 of the last 4 steps?",
        f"Could {adversary}, tell whether that person was at care in at least 3 of the last 4 steps?",
        f"Could {adversary}, tell whether that person was at other in at least 3 of the last 4 steps?",
    ]


def test_a_risk_budget_is_about_the_question() -> None:
    """What is released keeps the ceiling of the question; nothing is where the guess is above it."""
    schedule = Schedule.raw([[0], [1], [2], [1], [0], [1]])
    planned = {}
    for risk in (0.7, 0.9):
        for name, question in (("place", {}), ("care", CARE)):
            release = {"mechanism": "budget", "budget": {"risk": risk}}
            chosen = settings(release=release, horizon=3, mistakes=0, **question)
            planned[name, risk] = plan_schedule(chosen, schedule, population())
    assert planned["place", 0.7].steps[-1].risks.most_risk <= 0.7
    assert sum(each.released for each in planned["place", 0.7].sensors()) == 6
    assert sum(each.released for each in planned["care", 0.7].sensors()) == 0
    assert planned["care", 0.9].steps[-1].risks.most_risk <= 0.9
    errors = {name: [each.mean_error for each in planned[name, 0.9].sensors()] for name in ("place", "care")}
    assert all(care > place for place, care in zip(errors["place"], errors["care"], strict=True))


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ({"question": "care"}, "question must be one of place, got care"),
        ({"also_asked": ["care"]}, "also_asked must be one of place, got care"),
        ({"also_asked": ["place"]}, "must name each question once, got place twice"),
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
