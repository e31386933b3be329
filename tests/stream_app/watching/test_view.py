"""One number is one number: every figure of the view, on every surface that shows it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from prometheus_client import CollectorRegistry

from accounting.decisions import BudgetReason
from accounting.settings import RiskBudget
from models.releases import Schedule
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.planning import plan_schedule
from stream_app.analysis.report import Asked, RunLog, make_annex, make_report, read_run
from stream_app.analysis.report.sections import HEADLINE_SCOPES
from stream_app.setup.run_folder.run_settings import settings_of_run
from stream_app.setup.settings import Settings
from stream_app.watching.events import Observers
from stream_app.watching.glossary import explain, explained
from stream_app.watching.metrics import HEADLINE, EngineMetrics
from stream_app.watching.view import (
    KINDS,
    About,
    Moment,
    View,
    error_in_words,
    left_out,
    spent,
)
from stream_app.watching.web.answers import state_json
from stream_app.watching.web.status import StatusBoard
from stream_app.watching.wording import NO_GUARANTEE, StepTimes
from stream_app.wire import DecisionReason, OverLimitCounts
from tests.stream_app.engine_support import (
    REGISTRY,
    lines_of,
    messages_of_a_day,
    population,
    run_on,
    settings,
)
from tests.watching.page_text import PageText, text_of_page

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
CHOSEN = {
    "release": {"mechanism": "gaussian", "sigma": 2.0, "budget": {"added": 0.1, "share": 0.4}},
    "origin": "2026-03-01T23:00:00Z",
    "timezone": "Europe/Vienna",
}


class Seen:
    """A run as page, metrics, log, report, annex and plan have it."""

    def __init__(self, folder: Path) -> None:
        chosen: Settings = settings(**CHOSEN)
        self.registry, board = CollectorRegistry(), StatusBoard(REGISTRY.sensors, about=chosen)
        metrics = EngineMetrics(self.registry, REGISTRY.sensors, (0.5,), 1e-6, settings=chosen)
        messages = [lines_of(messages_of_a_day(12, 8))]
        run_on(folder, messages, settings=CHOSEN, observer=Observers([metrics, board]))
        self.log: RunLog = read_run(folder)
        begun = datetime.fromisoformat(self.log.changes[0].at)
        self.begun = f"{begun.astimezone(ZoneInfo('Europe/Vienna')):%Y-%m-%d %H:%M %Z}"
        state = json.loads(state_json(board.read(), chosen, has_people=False))
        self.page = {each["name"]: each for each in state["figures"]}
        self.report = PageText(make_report(folder, now=NOON)).words
        self.annex = text_of_page(make_annex(folder, Asked(), is_public=False, now=NOON))
        self.public = text_of_page(make_annex(folder, Asked(review="2027-03-01"), is_public=True, now=NOON))
        self.public_report = PageText(make_report(folder, now=NOON, is_public=True)).words
        steps = tuple(read_decisions(folder / "decisions.jsonl", REGISTRY))
        self.plan = plan_schedule(chosen, Schedule(steps), population())


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return Seen(tmp_path_factory.mktemp("test-view-folder", numbered=False) / "run")


def test_every_figure_is_the_same_on_the_page_in_the_log_and_in_the_plan(seen: Seen) -> None:
    """Value, words, condition, steps and people; a plan knows nothing of who is over the limit."""
    figures = seen.log.view.figures
    assert len(figures) > 15
    assert [each.as_json() for each in figures] == list(seen.page.values())
    planned = {each["name"]: each for each in seen.plan.as_json()["figures"]}
    assert planned.keys() == {each.name for each in figures if not each.name.startswith("people.")}
    for each in figures:
        if each.name in planned:
            assert planned[each.name]["shown"] == each.shown, each.name
            assert planned[each.name]["value"] == pytest.approx(each.value, abs=1e-12)
            assert planned[each.name]["sentence"] == each.sentence


def test_report_and_annex_say_every_figure(seen: Seen) -> None:
    """The headline, the means and the last step in one table, people over the limit in sentences."""
    scopes = [seen.log.view.group(scope) for scope in HEADLINE_SCOPES]
    for row in zip(*scopes, strict=True):
        at = seen.report.index(row[0].label)
        assert seen.report[at + 1 :][:3] == [each.shown for each in row]
    words = " ".join(seen.report)
    for each in (*seen.log.view.group("people"), seen.log.view.figure("headline.ceiling")):
        assert each.sentence in words
        assert each.sentence in seen.annex
        assert each.sentence in seen.public
    for each in seen.log.view.group("most"):
        assert f"{each.label}, over all people and steps {each.shown}" in words
        assert each.shown in seen.annex
    for each in seen.log.errors.values():
        assert each.shown in seen.report


def test_the_metrics_have_the_headline(seen: Seen) -> None:
    value = seen.registry.get_sample_value
    for name in HEADLINE:
        figure = seen.log.view.figure(f"headline.{name}")
        assert value("tallyguard_headline", {"figure": name}) == figure.value
    assert value("tallyguard_headline_step") == seen.log.view.figure("headline.added").over.last
    last = {
        "risk_mean": "ceiling",
        "added_risk_mean": "added",
        "baseline_mean": "guess",
        "attack_mean": "attack",
    }
    for metric, name in last.items():
        assert value(f"tallyguard_{metric}") == seen.log.view.figure(f"last.{name}").value
    most = {"highest_risk": "ceiling", "highest_added_risk": "added"}
    for metric, name in most.items():
        assert value(f"tallyguard_{metric}") == seen.log.view.figure(f"most.{name}").value
    over = sum(value("tallyguard_people_over_limit", {"by": by}) or 0 for by in ("releases", "habits"))
    assert over == seen.log.view.figure("people.now").value
    assert value("tallyguard_people_ever_over_limit") == seen.log.view.figure("people.ever").value


def test_every_word_of_a_figure_is_explained_and_stands_in_the_report(seen: Seen) -> None:
    """Figures are called by the glossary's own words; `tallyguard explain` knows each of them."""
    assert [explain(kind.word).word for kind in KINDS.values()] == [kind.word for kind in KINDS.values()]
    told = {word.split(",")[0] for word, _ in explained()}
    assert {each.kind.word for each in seen.log.view.figures} <= told
    assert all(heading in seen.report for heading, _ in explained())


def test_times_are_in_the_zone_of_the_deployment(seen: Seen) -> None:
    """Before and after the clock changes; without a zone UTC, and without an origin numbers."""
    assert "UTC" not in " ".join(seen.report).replace("Made 2026-03-02 12:00 UTC", "")
    assert "2026-03-02 00:00 CET (step 0)" in " ".join(seen.report)
    assert seen.begun in seen.annex and seen.log.changes[0].at not in seen.annex
    hourly = StepTimes(1774742400, 3600, "Europe/Vienna")
    assert [hourly.when(step) for step in (0, 1)] == [
        "2026-03-29 01:00 CET (step 0)",
        "2026-03-29 03:00 CEST (step 1)",
    ]
    assert StepTimes(1774742400, 3600).when(0).endswith("UTC (step 0)")
    assert StepTimes(0, 3600, "Europe/Vienna").when(7) == "step 7"
    assert "UTC-03" in StepTimes(1774742400, 3600, "America/Sao_Paulo").when(0)


def test_without_a_zone_times_are_by_the_offset_of_the_origin(tmp_path: Path) -> None:
    """In page, report and `serve` alike; a folder that began without it goes on, and its origin stays."""
    given = {"step_seconds": 3600, "origin": "2026-03-01T18:30:00Z"}
    changed = {**given, "origin": "2026-03-02T00:00:00+05:30"}
    for each, steps in ((given, 1), (changed, 2)):
        run_on(tmp_path / "out", [lines_of(messages_of_a_day(steps, 1))], settings=each)
    ahead = settings(**changed)
    facts = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (facts["origin"], facts["offset"]) == (given["origin"], "+05:30")
    shown = "2026-03-02 00:00 UTC+05:30 (step 0)"
    own = settings_of_run(tmp_path / "out", Settings())
    assert {About.of(each).times.when(0) for each in (ahead, own)} == {shown}
    assert read_run(tmp_path / "out").when(0) == shown
    page = json.loads(state_json(StatusBoard().read(), ahead, has_people=False))
    assert page["about"]["timezone"] == "+05:30"


def test_the_public_version_names_nobody(seen: Seen) -> None:
    """No pseudonym, no name of the record, no error; the internal one has the record."""
    people = [each.person[:12] for each in seen.log.exposed]
    assert people
    assert all(person in seen.annex for person in people)
    assert not any(person in seen.public for person in people)
    parts = seen.public.partition(" Glossary ")[0]
    assert not any(each.shown in parts for each in seen.log.errors.values())
    assert "The record" in seen.annex and "Since By Why" not in seen.public
    assert "2027-03-01" in seen.public
    assert "Not stated. Fill this in before filing: --review." in seen.annex
    for question in ("singled out?", "be linked?", "be inferred?"):
        assert question in seen.public
    assert str(seen.log.checked.head) in seen.public


def test_the_public_report_has_the_same_figures_and_nobody_in_it(seen: Seen) -> None:
    """No pseudonym, who, when, error or folder; every figure as in the internal one."""
    own, public = " ".join(seen.report), " ".join(seen.public_report)
    own_parts, parts = (each[each.index(" Made ") : each.index(" Glossary ")] for each in (own, public))
    hidden = [each.person[:12] for each in seen.log.exposed]
    hidden += [each.shown for each in seen.log.errors.values()]
    hidden += ["Mean error", "The most exposed people", "Since By Why"]
    hidden += [seen.log.changes[0].by, seen.begun, "test-view-folder/"]
    assert all(each in own_parts for each in hidden)
    assert [each for each in hidden if each in parts] == []
    assert "Public version: without persons" in parts
    assert "Public version" not in own
    added = [each for each in seen.public_report if each not in seen.report]
    assert [each.split()[0] for each in added] == [
        "Made",
        "Public",
        "No:",
        "For",
    ]  # the answer without: are these priors of this place?


def moment(step: int, added: float, ceiling: float) -> Moment:
    return Moment(step, 100, ceiling - added, ceiling, added, None, ceiling, added)


def view_of(*over: OverLimitCounts | None, why: DecisionReason | None = None) -> View:
    found = View(About("if habits are as assumed", limit=RiskBudget(share=0.05, added=0.1)))
    for step, (counts, added) in enumerate(zip(over, (0.1, 0.3, 0.2), strict=False)):
        found.note(moment(step, added, 0.2 + added), counts, why)
    return found


def counts(by_releases: int, by_habits: int, ever: int) -> OverLimitCounts:
    return OverLimitCounts(added=0.1, by_releases=by_releases, by_habits=by_habits, ever=ever)


def test_the_headline_is_the_step_where_releases_added_most_and_says_so() -> None:
    view = view_of(None, None, None)
    shown = [view.figure(f"{scope}.ceiling").shown for scope in HEADLINE_SCOPES]
    assert shown == ["50 in 100", "40 in 100", "40 in 100"]
    assert view.figure("headline.ceiling").sentence == (
        "If habits are as assumed, no method is right in more than 50 in 100 cases, on average over 100 "
        "people at step 1, where releases added most."
    )
    assert view.figure("headline.attack").shown == "not measured"
    assert view.figure("headline.attack").sentence == "Attack: not measured."
    assert view.figure("most.added").label == "Highest added risk"


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ((counts(0, 0, 0), counts(0, 0, 0)), "at every step; so far nobody was over the limit"),
        ((counts(3, 0, 3), counts(2, 0, 3)), "so far always the same 3 were over the limit"),
        (
            (counts(3, 0, 3), counts(3, 0, 5)),
            "so far at most 3 were over the limit at once and 5 ever, so not always the same people",
        ),
    ],
)
def test_it_says_whom_the_share_leaves_out(over: tuple[OverLimitCounts, ...], words: str) -> None:
    """How many at once, how many ever, and whether they are always the same."""
    assert words in view_of(*over).figure("people.allowed").sentence
    assert "at most 5 of 100 people" in view_of(*over).figure("people.allowed").sentence
    assert left_out(0, 100, 0, 0) == "The rule leaves nobody out."


def test_over_now_forecast_and_ever_are_three_figures_with_their_reasons() -> None:
    why = DecisionReason(
        reason=BudgetReason.BUDGET, people=100, allowed=5, natural=4, over=6, cleared=0, rounds=1
    )
    view = view_of(counts(2, 1, 3), counts(1, 1, 4), why=why)
    assert [view.figure(f"people.{name}").shown for name in ("now", "forecast", "ever")] == [
        "2",
        "10 or more",
        "4",
    ]
    assert "1 because of releases and 1 because of habits alone" in view.figure("people.now").sentence


def test_an_infinite_epsilon_is_no_guarantee_and_never_no_limit(seen: Seen) -> None:
    """Nothing is promised: words that could be read as nothing spent, or nothing to fear, are not used."""
    assert seen.log.account is not None
    for each in seen.log.spent:
        assert each.shown.startswith(NO_GUARANTEE) == (each.value == inf)
    raw = spent({"all": seen.log.account.spends["all"]}, 1e-6, 12)[0]
    assert raw.as_json()["value"] == (None if raw.value == inf else raw.value)


@pytest.mark.parametrize(
    ("error", "typical", "words"),
    [
        (None, None, "nothing published"),
        (0.0, 5.0, "exact"),
        (2.4, 5.0, "off by 2.4 of 5 on average (48 %)"),
        (0.73, 340.0, "off by 0.73 of 340 on average (0.21 %)"),
        (2.4, 1.0, "off by 2.4 of 1 on average (more than the count)"),
        (2.4, -3.0, "off by 2.4 people on average"),
    ],
)
def test_an_error_is_said_with_the_part_of_the_count_that_it_is(
    error: float | None, typical: float | None, words: str
) -> None:
    """And as a mean: beside a plus and a minus it would read as a bound."""
    assert error_in_words(error, typical) == words


def test_no_surface_makes_a_figure_of_its_own() -> None:
    """Means over steps and worst steps are taken in the view alone."""
    root = Path(__file__).parents[3] / "stream_app"
    own = re.compile(r"\b(max|min|sum|mean)\(.*\.(mean_risk|mean_added|mean_baseline|most_risk|most_added)\b")
    found = [
        f"{path.name}: {line.strip()}"
        for folder in ("watching", "analysis", "cli", "starting")
        for path in (root / folder).rglob("*.py")
        for line in path.read_text().splitlines()
        if path.name != "view.py" and own.search(line)
    ]
    assert found == []


def test_figures_of_all_steps_say_how_many_people_there_were_in_each() -> None:
    """People leave: at earlier steps there were more, and the share of the rule left out more of them."""
    found = View(About("if habits are as assumed", limit=RiskBudget(share=0.05, added=0.1)))
    for step, people in enumerate((300, 300, 250)):
        found.note(moment(step, 0.1, 0.5)._replace(people=people), counts(4, 0, 9))
    assert "over 250 to 300 people and steps 0 to 2" in found.figure("mean.ceiling").sentence
    assert "for the most affected of 250 to 300 people" in found.figure("most.added").sentence
    assert "over 250 people after step 2" in found.figure("last.ceiling").sentence
    assert "at most 12 of 250 people now; so far at most 4 were" in found.figure("people.allowed").sentence
