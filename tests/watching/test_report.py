"""The report: from a run or an audit, self-contained, in words, never by name."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from accounting.ledgers import epsilon_from_zcdp
from models.mechanisms import parse
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.analysis.report import read_run, write_report
from stream_app.analysis.report.write import axis
from stream_app.exceptions import OutputError
from stream_app.steps.engine import release_of
from stream_app.watching.wording import DISTANCE
from stream_app.wire.messages import WorstMoment, decision_of
from tests.stream_app.events_for_tests import SCHOOL, STATION, STREET, summary
from tests.watching.page_text import PageText

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STEPS = 30


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An output folder as the journal writes it: two people, thirty steps, the last line torn."""
    settings = {
        "deployment": "harbour <town>",
        "horizon": 10,
        "mistakes": 5,
        "step_seconds": 3600,
        "origin": "2026-03-01T00:00:00Z",
    }
    (tmp_path / "run.json").write_text(json.dumps(settings))
    releases = (
        SensorRelease(STATION, parse("raw", {})),
        SensorRelease(STREET, parse("gaussian", {"sigma": 2.0})),
        SensorRelease(SCHOOL, parse("suppressed", {})),
    )
    decisions = [decision_of(StepSchedule(step, releases)).line() for step in range(STEPS)]
    (tmp_path / "decisions.jsonl").write_bytes(b"".join(decisions))
    values = (7, 9, None)
    released = [release_of(StepSchedule(step, releases), values).line() for step in range(STEPS)]
    (tmp_path / "releases.jsonl").write_bytes(b"".join(released))
    worst = tuple(
        WorstMoment(person=person, step=step, risk=0.3 + added, baseline=0.3, added=added)
        for step, person, added in ((7, "bbbb", 0.4), (9, "aaaa", 0.2))
    )
    risks = [summary(step).model_copy(update={"worst": worst}).line() for step in range(STEPS)]
    (tmp_path / "risks.jsonl").write_bytes(b"".join(risks) + b'{"v":1,"type":"ri')
    (tmp_path / "rejected.jsonl").write_bytes(b"{}\n{}\n")
    return tmp_path


def test_a_run_is_read_back_with_each_persons_worst_moment_first(run: Path) -> None:
    """As the last summary names them; a torn last line is no fact yet."""
    log = read_run(run)
    assert [(record.person, record.step) for record in log.exposed] == [("bbbb", 7), ("aaaa", 9)]
    assert len(log.summaries) == STEPS
    assert dict(log.releases) == {"raw": STEPS, "gaussian": STEPS, "suppressed": STEPS}
    errors = {entry.sensor: entry.error for entry in log.sensors}
    assert errors["station"] == 0.0
    assert errors["school"] is None
    assert 1.5 < (errors["mill street"] or 0.0) < 1.7
    epsilons = {entry.sensor: entry.epsilon for entry in log.sensors}
    assert epsilons["station"] == math.inf
    assert epsilons["mill street"] == pytest.approx(epsilon_from_zcdp(STEPS / 8, 1e-6))
    assert epsilons["school"] == 0.0
    assert log.rejected == 2


def test_the_report_of_a_run_says_everything_an_officer_files(run: Path, tmp_path: Path) -> None:
    """Question, answer, setting, figures, people, what would lower it, limits, glossary; in words."""
    output = tmp_path / "report.html"
    assert write_report(run, output, now=NOON) == output.stat().st_size < 200_000
    page = PageText(output.read_text())
    for heading in (
        "The question",
        "The setting",
        "How the risk moved",
        "The most exposed people",
        "What would lower it",
        "Limits of the method",
        "Glossary",
    ):
        assert heading in page.words
    assert "Reconstruction risk: harbour <town>" in page.words
    assert "50 in 100 or more" in page.words
    assert page.tags.count("svg") == page.tags.count("figcaption") == 2
    when = "2026-03-01 07:00 UTC (step 7)"
    assert page.words[page.words.index("bbbb") + 1 :][:4] == [when, "30 in 100", "70 in 100", "40 in 100"]
    assert page.words[page.words.index("50 in 100 or more") + 1 :][:4] == ["7", "4", "3", "3"]


def test_of_many_sensors_the_report_lists_those_with_the_largest_epsilon(run: Path, tmp_path: Path) -> None:
    """It says how many there are, and where the others stand."""
    noisy, exact = parse("gaussian", {"sigma": 2.0}), parse("raw", {})
    releases = tuple(
        SensorRelease(Sensor(f"gate {number}", (0,)), exact if number == 70 else noisy)
        for number in range(80)
    )
    (run / "decisions.jsonl").write_bytes(decision_of(StepSchedule(0, releases)).line())
    output = tmp_path / "report.html"
    write_report(run, output, now=NOON)
    words = PageText(output.read_text()).words
    listed = [word for word in words if word.startswith("gate ")]
    assert len(listed) == 50
    assert listed[0] == "gate 70"
    said = next(word for word in words if word.startswith("The 50 of 80 sensors with the largest epsilon"))
    assert "Of the others, 30 have the same epsilon as the last one listed, and the rest have less" in said


def test_the_report_says_what_an_attack_achieved_and_what_is_not_known(run: Path, tmp_path: Path) -> None:
    """With its interval, as sentence and as a line; where none was measured, so it says."""
    output = tmp_path / "report.html"
    write_report(run, output, now=NOON)
    words = " ".join(PageText(output.read_text()).words)
    assert "in 200 draws" in words
    assert "right in 6 in 100 (5 to 8) cases, on average over 200 people" in words
    assert "confidence of 95%" in words
    assert DISTANCE in words
    assert '<polyline class="attack"' in output.read_text()
    lines = (run / "risks.jsonl").read_bytes().splitlines(keepends=True)
    bare = [re.sub(rb',"attack":.*', b"}", line) if line.endswith(b"\n") else line for line in lines]
    (run / "risks.jsonl").write_bytes(b"".join(bare))
    write_report(run, output, now=NOON)
    assert "No attack was measured at that step" in " ".join(PageText(output.read_text()).words)
    assert '<polyline class="attack"' not in output.read_text()


def test_a_ceiling_never_comes_without_its_condition(run: Path, tmp_path: Path) -> None:
    """In the answer, the table of people, the glossary; with the example where it failed."""
    write_report(run, tmp_path / "report.html", now=NOON)
    page = PageText((tmp_path / "report.html").read_text())
    words = " ".join(page.words)
    assert "Ceiling, if habits are as assumed" in page.words
    assert words.lower().count("if habits are as assumed, no method") >= 3
    assert "an attack was right on 46 in 100 of the real traces" in words
    assert "uaranteed" not in words


def test_the_report_loads_nothing_and_runs_nothing(run: Path, tmp_path: Path) -> None:
    """One file: no script, no picture, font or style from elsewhere, and no forbidden promise."""
    write_report(run, tmp_path / "report.html", now=NOON)
    text = (tmp_path / "report.html").read_text()
    page = PageText(text)
    assert page.loads == page.links == []
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert "url(" not in text
    assert not any(word in text.lower() for word in ("anonymous", "gdpr-exempt", "zero risk", "impossible"))


def test_an_audit_is_reported_without_names(tmp_path: Path) -> None:
    """People are numbered by their ceiling; ids of the priors file do not appear."""
    audits = [
        {
            "person": name,
            "steps": 10,
            "mistakes": 5,
            "baseline": 0.1,
            "certified": certified,
            "certified_by": "moment",
            "attacks": {"map": {"success": 0.15, "low": 0.15, "high": 0.15}},
        }
        for name, certified in (("ada", 0.2), ("bob", 0.4))
    ]
    (tmp_path / "audit.json").write_text(json.dumps(audits))
    write_report(tmp_path / "audit.json", tmp_path / "audit.html", now=NOON)
    page = PageText((tmp_path / "audit.html").read_text())
    assert page.words[page.words.index("person 1") + 1 :][:3] == ["10 in 100", "15 in 100", "40 in 100"]
    assert not {"ada", "bob"} & set(page.words)


@pytest.mark.parametrize("content", ["[]", "no json", '{"certified": 1}'])
def test_what_is_neither_run_nor_audit_is_an_error_with_a_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(OutputError, match="audit --json"):
        write_report(tmp_path / "other.json", tmp_path / "report.html")
    with pytest.raises(OutputError, match="output folder of a run"):
        write_report(tmp_path, tmp_path / "report.html")


@pytest.mark.parametrize("most", [0.0, 1e-9, 0.03, 1.0, 7.0, 42.0, 99.9, 100.0, 123456.0])
def test_an_axis_ends_at_or_above_the_highest_value_with_few_round_ticks(most: float) -> None:
    top, ticks = axis(most)
    assert top >= most
    assert ticks[0] == 0.0
    assert ticks[-1] == pytest.approx(top)
    assert 2 <= len(ticks) <= 6


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_fits_a_phone_and_a_desk(run: Path, tmp_path: Path, width: int) -> None:
    """Nothing sticks out sideways; a wide table scrolls within itself."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from tests.watching.browser import WatchedPage, chromium

    write_report(run, tmp_path / "report.html", now=NOON)
    with chromium() as browser:
        viewport = {"width": width, "height": 844}
        watched = WatchedPage(browser, (tmp_path / "report.html").as_uri(), viewport=viewport)
        assert watched.page.evaluate("document.documentElement.scrollWidth") == width
        watched.close()


@pytest.mark.parametrize(
    "content",
    [
        "[" * 50_000,
        "[1]",
        '[{"certified": "much"}]',
        '[{"steps": 4, "mistakes": 1, "baseline": 0.1, "certified": 7.0, "certified_by": "moment"}]',
        '[{"steps": 4, "mistakes": 1, "baseline": NaN, "certified": 0.5, "certified_by": "moment"}]',
    ],
)
def test_a_damaged_audit_is_an_error_with_a_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / "audit.json").write_text(content)
    with pytest.raises(OutputError, match="audit --json"):
        write_report(tmp_path / "audit.json", tmp_path / "report.html")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("run.json", '"horizon": 10', '"horizon": "4810397"'),
        ("run.json", '"origin": "2026', '"origin": "soon'),
        ("run.json", '"step_seconds": 3600', '"step_seconds": null'),
        ("decisions.jsonl", '"step":3', '"step":"4810397"'),
        ("risks.jsonl", '"step":3', '"step":"4810397"'),
        ("risks.jsonl", '"0.9":', '"0.8":'),
        ("risks.jsonl", '"mean_risk":', '"mean_risk":NaN,"x":'),
    ],
)
def test_a_damaged_log_is_an_error_that_quotes_nothing(run: Path, name: str, before: str, after: str) -> None:
    text = (run / name).read_text()
    assert before in text
    (run / name).write_text(text.replace(before, after))
    with pytest.raises(OutputError, match=rf"{name}.*(as it was written|quantiles).*restore") as raised:
        write_report(run, run / "report.html")
    assert "4810397" not in str(raised.value)
