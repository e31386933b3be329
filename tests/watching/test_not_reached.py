"""People for whom the work of a step did not suffice: the same number and sentence wherever it is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from models.prior_files import save_population
from stream_app.analysis.preflight import check_files
from stream_app.analysis.report import read_run, write_report
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import RunChangedError
from stream_app.setup.run_folder.durable import load_sealed, seal
from stream_app.setup.run_folder.run_settings import settings_of_run
from stream_app.setup.settings import Settings
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web.answers import render, state_json
from stream_app.watching.web.status import StatusBoard
from stream_app.watching.wording import not_reached_in_words
from tests.stream_app.engine_support import lines_of, messages_of_a_day, population, settings
from tests.stream_app.events_for_tests import SENSORS, closed


@pytest.mark.parametrize("missed", [0, 1, 1_234])
def test_page_plain_page_and_metric_say_how_many_have_the_fast_bound_only(missed: int) -> None:
    event = closed(0)
    assert event.summary is not None
    event = replace(event, summary=event.summary.model_copy(update={"not_reached": missed}))
    registry, board = CollectorRegistry(), StatusBoard()
    for observer in (EngineMetrics(registry, SENSORS, (0.01, 0.5), delta=1e-6), board):
        observer.closed(event)
    assert registry.get_sample_value("tallyguard_people_not_reached") == missed
    said = not_reached_in_words(missed)
    state = json.loads(state_json(board.read(), Settings(), has_people=False))
    assert state["not_reached"] == said
    page = render(board.read())
    assert ("higher than they need be, and none is too low" in page) == (missed > 0)
    if said is not None:
        assert f"{missed:,}" in said
        assert "sharpen_operations" in said
        assert f"Note: {said}." in page


@pytest.mark.slow
def test_a_run_with_too_little_work_says_so_in_its_log_and_report(tmp_path: Path) -> None:
    """And with enough it does not."""
    for work in (1, 10**9):
        folder = tmp_path / str(work)
        given = settings(sharpen_operations=work)
        run(given, RunOptions(folder), population(), chunks=[lines_of(messages_of_a_day(6, 1))])
        missed = max(summary.not_reached for summary in read_run(folder).summaries)
        assert (missed > 0) == (work == 1)
        write_report(folder, tmp_path / "report.html")
        report = (tmp_path / "report.html").read_text()
        assert (str(not_reached_in_words(missed)) in report) == (work == 1)
        assert ("sharpen_operations" in report) == (work == 1)


@pytest.mark.parametrize(("work", "level"), [(10, "warning"), (10**12, "ok")])
def test_check_says_what_everybody_takes_and_what_is_allowed(tmp_path: Path, work: int, level: str) -> None:
    save_population(population(), tmp_path / "priors.json")
    (tmp_path / "t.toml").write_text(f"horizon = 4\nsharpen_operations = {work}\n")
    findings = check_files(config=tmp_path / "t.toml", priors=tmp_path / "priors.json")
    (found,) = [finding for finding in findings if finding.subject == "sharpen_operations"]
    assert found.level == level
    assert "of one core a step" in found.sentence
    assert ("refine every bound" in found.remedy) == (level == "warning")


def test_check_warns_of_work_that_a_worker_or_its_asker_would_not_wait_for(tmp_path: Path) -> None:
    save_population(population(), tmp_path / "priors.json")
    budget = '[release]\nmechanism = "budget"\n[release.budget]\nadded = 0.1\n'
    for work, subjects in ((60_000_000_000, set()), (10**12, {"kafka.answer_seconds"})):
        (tmp_path / "t.toml").write_text(
            f'horizon = 4\nsharpen_operations = {work}\n{budget}[kafka]\nservers = ["a:9092"]\n'
        )
        findings = check_files(config=tmp_path / "t.toml", priors=tmp_path / "priors.json")
        assert {finding.subject for finding in findings if "kafka" in finding.subject} == subjects


def test_a_run_that_an_earlier_version_began_goes_on(tmp_path: Path) -> None:
    """It left open whether to refine, and recorded no work; readers take what is set now."""
    messages = messages_of_a_day(6, 1)
    run(settings(), RunOptions(tmp_path), population(), chunks=[lines_of(messages[: len(messages) // 2])])
    stored = json.loads((tmp_path / "run.json").read_text())
    del stored["sharpen_operations"]
    (tmp_path / "run.json").write_text(json.dumps({**stored, "sharpen": None}))
    (tmp_path / "record.jsonl").unlink()  # which it kept none of
    commit = load_sealed(tmp_path / "progress.json")
    earlier = {key: value for key, value in commit.items() if key not in {"record", "digests"}}
    (tmp_path / "progress.json").write_bytes(seal(earlier))
    assert settings_of_run(tmp_path, settings()).sharpen is True
    assert read_run(tmp_path).horizon().refines
    run(settings(), RunOptions(tmp_path), population(), chunks=[lines_of(messages)])
    assert json.loads((tmp_path / "run.json").read_text())["sharpen"] is True
    with pytest.raises(RunChangedError, match="sharpen"):
        run(settings(sharpen=False), RunOptions(tmp_path), population(), chunks=[lines_of(messages)])
