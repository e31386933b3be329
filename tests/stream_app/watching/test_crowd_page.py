"""What an officer sees of the crowd: metrics, status, both pages, people, and the verdict of a report."""

from __future__ import annotations

import dataclasses
import json
import re
from html import unescape
from math import inf
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from accounting.decisions import BudgetReason
from accounting.exposure.crowd import HidingCrowd
from accounting.settings import OPERATIONS, RiskBudget
from models.priors import Population
from models.releases import StepSchedule
from stream_app.analysis.report import read_run, write_report
from stream_app.analysis.served import answer_of_run
from stream_app.analysis.verdict import CeilingKind, MayPublish, verdict_on
from stream_app.embedded import RunOptions, run
from stream_app.watching.events import Observer, Observers, StepClosed
from stream_app.watching.metrics import CrowdMetrics, EngineMetrics, hour_of, with_step
from stream_app.watching.prior_notes import crowd_note
from stream_app.watching.web.answers import render, state_json
from stream_app.watching.web.status import PeopleBoard, StatusBoard
from stream_app.watching.wording import IN_CROWD, ceiling_in_words
from stream_app.wire import DecisionReason
from tests.stream_app.embedded.test_crowd_run import (
    BEHIND,
    BUDGET,
    CROWD,
    STRANGERS,
    last_summary,
    personas,
    population,
)
from tests.stream_app.engine_support import (
    NAMES,
    REGISTRY,
    TickingClock,
    lines_of,
    messages_of_a_day,
    settings,
)

HOURLY = {"step_seconds": 3600}


class Kept(Observer):
    """The last closed step."""

    def closed(self, event: StepClosed) -> None:
        """Keep it."""
        self.event = event


class Shown:
    """Everything that is shown of a run with these settings."""

    def __init__(
        self, output: Path, steps: int = 8, people: Population | None = None, **changed: object
    ) -> None:
        self.settings = settings(**changed)
        self.registry = CollectorRegistry()
        self.board = StatusBoard(REGISTRY.sensors, 1e-6, self.settings)
        self.people, self.kept = PeopleBoard("token"), Kept()
        metrics = EngineMetrics(
            self.registry, REGISTRY.sensors, self.settings.thresholds, 1e-6, settings=self.settings
        )
        run(
            self.settings,
            RunOptions(output, keep_open=True),
            people or population(),
            observer=Observers([metrics, self.board, self.people, self.kept]),
            clock=TickingClock(),
            chunks=[lines_of(messages_of_a_day(steps, 5))],
        )
        self.summary = last_summary(output)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    all_the_work = {"sharpen_operations": OPERATIONS}  # the fixture of that name is of one test
    return Shown(tmp_path_factory.mktemp("shown") / "out", **CROWD, **HOURLY, **all_the_work)


@pytest.mark.slow
def test_metrics_show_ceilings_in_the_crowd_and_what_each_sensor_hides(shown: Shown, tmp_path: Path) -> None:
    """As they stand in the files; infinite where they are not computed."""
    crowd = shown.summary.crowd
    assert crowd is not None
    assert shown.metric("tallyguard_crowd_risk_mean") == crowd.mean_risk
    assert shown.metric("tallyguard_crowd_added_risk_mean") == crowd.mean_added
    assert shown.metric("tallyguard_people_at_crowd_risk", threshold="0.5") == crowd.at_risk["0.5"]
    event = shown.kept.event
    adversary = shown.settings.crowd_adversary
    assert event.crowds is not None
    for release, found in zip(event.schedule.releases, event.crowds, strict=True):
        sigma = shown.metric("tallyguard_sensor_crowd_sigma", sensor=release.sensor.name)
        assert sigma == HidingCrowd(found, adversary).sigma
    metrics = CrowdMetrics(registry := CollectorRegistry(), REGISTRY.sensors, shown.settings)
    off = dataclasses.replace(event, schedule=StepSchedule(event.step, ()), accounted=None, crowds=())
    for each, least, most in ((event, 0.0, 99.9), (off, inf, inf)):  # 0 would be that it hides nobody
        metrics.closed(each)
        for release in event.schedule.releases:
            labels = {"sensor": release.sensor.name}
            sigma = registry.get_sample_value("tallyguard_sensor_crowd_sigma", labels)
            assert sigma is not None
            assert least <= sigma <= most
    plain = Shown(tmp_path / "plain", 3, release={"mechanism": "raw"})
    assert plain.metric("tallyguard_crowd_risk_mean") == inf
    assert plain.metric("tallyguard_people_at_crowd_risk", threshold="0.5") == inf
    assert plain.metric("tallyguard_sensor_crowd_sigma", sensor="A") == 0.0


@pytest.mark.slow
def test_the_page_says_what_is_presumed_of_personas_and_strangers(tmp_path: Path) -> None:
    """The condition of the report, with the numbers behind personas; what strangers hide at their hours."""
    shown = Shown(tmp_path / "out", people=personas(), **BEHIND, **HOURLY)
    status, adversary = shown.board.read(), shown.settings.crowd_adversary
    assert status.crowd == crowd_note(adversary, personas().everybody - 1, of_personas=True)
    assert status.crowd in read_run(tmp_path / "out").condition_against(adversary)
    assert status.crowd[1:] in unescape(render(status, shown.settings))
    sigmas = status.hidden[STRANGERS["sensor"]]
    by_hour = {hour: sigma for hour, sigma in enumerate(sigmas) if sigma is not None}
    assert {hour for hour in by_hour if 2 <= hour < 6}
    bare = {**BEHIND, "crowd": {"known": 1, "least": 0.9}}
    fewer = Shown(tmp_path / "bare", people=personas(), **bare, **HOURLY).board.read()
    others = fewer.hidden[STRANGERS["sensor"]]
    for hour, sigma in by_hour.items():
        assert (sigma > (others[hour] or 0.0)) is (2 <= hour < 6)


def test_both_pages_show_the_ceilings_their_condition_and_the_hours(shown: Shown, tmp_path: Path) -> None:
    """The condition once beside each; without a crowd nothing of it."""
    status, crowd = shown.board.read(), shown.summary.crowd
    assert crowd is not None
    condition = crowd_note(shown.settings.crowd_adversary, len(population()) - 1)
    assert status.crowd == condition
    picture = json.loads(state_json(status, shown.settings, has_people=True))
    assert picture["crowd"] == condition
    assert picture["summary"]["crowd"]["mean_risk"] == picture["history"][-1]["mean_crowd"] == crowd.mean_risk
    hidden = {line["sensor"]: line["sigmas"] for line in picture["hidden"]}
    assert set(hidden) <= set(NAMES)
    known = [sigma for sigmas in hidden.values() for sigma in sigmas if sigma is not None]
    assert 0 < len(known) < 24 * len(NAMES)
    assert max(known) > 0.3
    page = render(status, shown.settings)
    section = page.split("against an adversary who does not know where the others are</h2>")[1]
    assert condition[1:] in section
    said = [ceiling_in_words(mean) for mean in (crowd.mean_risk, shown.summary.mean_risk)]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", section)[:2] == said
    assert "How much the crowd hides" in section
    exposed = shown.people.exposed(0.0)["people"]
    assert all(each["crowd"] <= each["risk"] for each in exposed)
    assert any(each["crowd"] < each["risk"] for each in exposed)
    plain = Shown(tmp_path / "plain", 3, release={"mechanism": "raw"})
    assert "crowd" not in render(plain.board.read(), plain.settings)
    assert plain.people.exposed(0.0)["people"][0]["crowd"] is None


def test_the_question_the_rule_and_the_answer_are_about_the_adversary_the_rule_is_kept_against(
    tmp_path: Path,
) -> None:
    """Only a rule in the crowd asks of somebody who does not know the others, and the answer says when."""
    for adversary, asks in (("crowd", "those of all others, but not where they are"), ("informed", "where")):
        shown = Shown(tmp_path / adversary, 3, **{**BUDGET, "adversary": adversary})
        found = answer_of_run(tmp_path / adversary)
        is_crowd = adversary == "crowd"
        question = json.loads(state_json(shown.board.read(), shown.settings, has_people=True))["about"][
            "question"
        ]
        assert question.startswith(
            f"Could somebody who sees everything published, knows a person's habits and {asks}"
        )
        against = "against an adversary who does not know where"
        assert (f"{against} the others are" in found["rule"]) is is_crowd
        assert (f"as their priors say, {against} they are: " in found["sentence"]) is is_crowd
        if found["state"] == "yes":
            assert found["sentence"].endswith("at events do not move like that.") is is_crowd


def test_of_many_sensors_the_plain_page_shows_those_where_the_crowd_hides_least(shown: Shown) -> None:
    hidden = {f"gate {number}": (None, 1.0 + number) for number in reversed(range(60))}
    page = render(dataclasses.replace(shown.board.read(), hidden=hidden), shown.settings)
    table = page.split("How much the crowd hides</h2>")[1].split("</table>")[0]
    assert "The 50 of 60 sensors where it hides least." in table
    assert ">gate 0</td>" in table
    assert ">gate 59</td>" not in table


def test_hours_keep_the_least_that_was_hidden() -> None:
    """By the hour of the day in UTC that a step begins in."""
    hidden = with_step({}, {"B": 2.0, "A": 1.0}, 3)
    hidden = with_step(hidden, {"B": 0.5}, 3)
    hidden = with_step(hidden, {"B": 4.0}, 4)
    assert list(hidden) == ["A", "B"]
    assert hidden["B"][3:5] == [0.5, 4.0]
    assert hidden["A"] == [None] * 3 + [1.0] + [None] * 20
    assert hour_of(25, settings(step_seconds=3600)) == 1
    assert hour_of(2, settings(step_seconds=1800, origin="1970-01-01T22:30:00Z")) == 23


@pytest.mark.slow
@pytest.mark.usefixtures("all_the_work")
def test_a_decision_in_the_crowd_says_so(tmp_path: Path) -> None:
    """On the page, in the log, and in a watched limit's counts."""
    decided = Shown(tmp_path / "decided", 6, **BUDGET)
    assert IN_CROWD in (decided.board.read().decision or "")
    informed = Shown(tmp_path / "informed", 6, **{**BUDGET, "adversary": "informed"})
    assert IN_CROWD not in (informed.board.read().decision or "")
    watched = {"mechanism": "raw", "budget": {"share": 0.1, "risk": 0.8}}
    over = {}
    for adversary in ("informed", "crowd"):
        seen = Shown(tmp_path / adversary / "watched", 6, adversary=adversary, release=watched)
        over[adversary] = seen.metric("tallyguard_people_over_limit", by="releases")
    assert over["crowd"] < over["informed"]


@pytest.mark.slow
def test_a_report_judges_by_the_adversary_that_the_rule_is_kept_against(tmp_path: Path) -> None:
    """Yes in the crowd with its condition, by its ceilings, and the informed ones beside."""
    Shown(tmp_path / "out", 8, **{**BUDGET, "sharpen_operations": OPERATIONS})
    log = read_run(tmp_path / "out")
    write_report(tmp_path / "out", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "Yes, if habits are as assumed, and if the 29 others move independently" in text
    assert "an adversary who does not know where the others are (setting adversary)" in text
    assert "Highest ceiling against that adversary, over all people and steps" in text
    judged, informed = (
        max(each.risk["1.0"] for each in some) for some in (log.judged_against(log.adversary), log.summaries)
    )
    assert judged < informed
    assert f"<td>{ceiling_in_words(judged)}</td>" in text


def test_steps_without_a_crowd_neither_break_a_rule_in_the_crowd_nor_show_that_it_is_kept(
    tmp_path: Path,
) -> None:
    """The informed ceilings are above those asked for; a decision by other ceilings counts for nothing."""
    summary = Shown(tmp_path / "out", 6, **CROWD).summary
    limit = RiskBudget(0.0, risk=0.5)
    assert summary.at_risk["0.5"] > 0
    without = summary.model_copy(update={"crowd": None})
    assert verdict_on((without,), {}, limit).answer is MayPublish.NO
    assert verdict_on((without,), {}, limit, ceilings=CeilingKind(in_crowd=True)).answer is MayPublish.OPEN
    why = DecisionReason(
        reason=BudgetReason.BUDGET,
        people=30,
        allowed=0,
        natural=0,
        over=0,
        cleared=0,
        rounds=1,
        adversary="crowd",
    )
    assert verdict_on((without,), {5: why}, limit).answer is MayPublish.NO
    low = {"at_risk": dict.fromkeys(summary.at_risk, 0), "risk": dict.fromkeys(summary.risk, 0.4)}
    least = summary.model_copy(update=low)
    assert verdict_on((least,), {5: why}, limit, ceilings=CeilingKind(in_crowd=True)).answer is MayPublish.YES
