"""One run, four places: terminal, page, report and metrics show the same figures, over the whole run."""

from __future__ import annotations

import json

import pytest
from prometheus_client import CollectorRegistry

from stream_app.analysis.report import RunLog, read_run
from stream_app.starting.demo import DemoReport, run_demo
from stream_app.watching.events import Observer, Observers, RunStarted, StepClosed
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web.answers import state_json
from stream_app.watching.web.status import PeopleBoard, StatusBoard
from stream_app.watching.wording import ceiling_in_words, in_a_hundred
from tests.watching.page_text import PageText

STEPS, PEOPLE = 12, 40

pytestmark = pytest.mark.slow


class Places(Observer):
    """Page and metrics of a run, as they stood at its end."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.status, self.people = StatusBoard(), PeopleBoard("token")
        self.most: list[float] = []  # added to the most affected, step by step, as the page's summary says
        metrics = EngineMetrics(self.registry, [], (0.5,), delta=1e-6)
        self._all = Observers([self.status, self.people, metrics])

    def started(self, event: RunStarted) -> None:
        """Tell all."""
        self._all.started(event)

    def closed(self, event: StepClosed) -> None:
        """Tell all, and keep the summary's figure."""
        assert event.summary is not None
        assert event.summary.worst == ()
        self.most.append(event.summary.added["1.0"])
        self._all.closed(event)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[DemoReport, RunLog, Places]:
    """A demo with what was seen of it everywhere."""
    places = Places()
    report = run_demo(
        output=tmp_path_factory.mktemp("d") / "o",
        steps=STEPS,
        people=PEOPLE,
        seconds_per_step=0,
        listen="",
        announce=lambda text: None,
        observer=places,
    )
    return report, read_run(report.scenario.output), places


Seen = tuple[DemoReport, RunLog, Places]


def test_the_maximum_is_the_same_in_the_chart_the_table_the_terminal_the_page_and_the_metric(
    seen: Seen,
) -> None:
    report, log, places = seen
    highest = max(places.most)
    assert highest > max(0.1, places.most[-1])  # that of the run, which is not the last step's
    assert log.view.value("most.added") == highest, "the report's chart"
    assert log.exposed[0].added == highest, "the report's table"
    assert report.exposed[0].added == highest, "the terminal"
    assert places.registry.get_sample_value("tallyguard_highest_added_risk") == highest
    state = json.loads(state_json(places.status.read(), None, has_people=True))
    assert state["summary"]["most_added"] == highest, "the page for everybody"
    rows = places.people.exposed(0.0)["people"]
    assert max(row["most_added"] for row in rows) == highest, "the page behind the token"


def test_the_same_people_at_the_same_steps(seen: Seen) -> None:
    """The terminal's table is the beginning of the report's; the page knows the same moments."""
    report, log, places = seen
    exposed = [(each.person, each.step, each.baseline, each.risk, each.added) for each in log.exposed]
    terminal = [(each.pseudonym, each.step, each.baseline, each.risk, each.added) for each in report.exposed]
    assert terminal == exposed[: len(terminal)]
    rows = {row["person"]: row for row in places.people.exposed(0.0)["people"]}
    assert [
        (rows[each.person]["most_added_step"], rows[each.person]["most_added"]) for each in log.exposed
    ] == [(each.step, each.added) for each in log.exposed]
    page = report.scenario.report.read_text()
    first = log.exposed[0]
    words = PageText(page).words
    assert words[words.index(first.person[:12]) + 1 :][:4] == [
        log.when(first.step),
        in_a_hundred(first.baseline),
        *map(ceiling_in_words, (first.risk, first.added)),
    ]


def test_the_attack_is_the_same_everywhere(seen: Seen) -> None:
    """The file, the page, the metrics; below the ceiling, but for luck within the interval."""
    _, log, places = seen
    attack = log.summaries[-1].attack
    assert attack is not None
    state = json.loads(state_json(places.status.read(), None, has_people=True))
    shown = state["summary"]["attack"]
    assert shown == {
        "success": attack.success,
        "low": attack.low,
        "high": attack.high,
        "confidence": attack.confidence,
    }
    assert state["history"][-1]["attack"] == [attack.success, attack.low, attack.high]
    names = ("", "_low", "_high")
    metrics = [places.registry.get_sample_value(f"tallyguard_attack_mean{name}") for name in names]
    assert metrics == [attack.success, attack.low, attack.high]
    for summary in log.summaries:
        assert summary.attack is not None
        assert summary.mean_baseline - 1e-9 <= summary.attack.low <= summary.attack.success
        assert summary.attack.low <= summary.mean_risk


def test_people_on_the_page_are_sorted_by_what_was_added(seen: Seen) -> None:
    """Whoever has a high ceiling by habit alone does not stand first."""
    _, _, places = seen
    rows = places.people.exposed(0.0)["people"]
    added = [row["added"] for row in rows]
    assert added == sorted(added, reverse=True)
    assert [row["risk"] for row in rows] != sorted((row["risk"] for row in rows), reverse=True)


def test_nobody_is_named_to_those_without_the_token(seen: Seen) -> None:
    report, log, places = seen
    state = state_json(places.status.read(), None, has_people=True)
    assert not any(each.person in state for each in log.exposed)
    assert report.exposed[0].pseudonym not in state


def test_habit_and_releases_add_up_to_everybody_at_a_threshold(seen: Seen) -> None:
    """Whom habits alone put there are among those whose ceiling is there."""
    _, log, _ = seen
    for summary in log.summaries:
        assert all(summary.at_baseline[level] <= count for level, count in summary.at_risk.items())
    assert any(log.worst.at_baseline[level] < count for level, count in log.worst.at_risk.items())
