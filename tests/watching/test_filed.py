"""What is filed is true: each row of a report, the rule of each step, what is missing, whom it is about."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from models.mechanisms import parse
from models.priors import Population
from models.releases import SensorRegistry
from stream_app.analysis.checked_run import check_run
from stream_app.analysis.export import export_run
from stream_app.analysis.ledger_document import load_log
from stream_app.analysis.report import make_report, read_run, write_report
from stream_app.analysis.verdict import MayPublish, verdict_in_words, verdict_of
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import OutputError
from stream_app.setup.option_settings import ExportFormat
from stream_app.setup.run_folder.progress import ProgressLog
from stream_app.watching.events import RunStarted
from stream_app.watching.web.answers import render
from stream_app.watching.web.status import StatusBoard
from tests.stream_app.embedded.test_late import whole_day, with_late
from tests.stream_app.engine_support import (
    NAMES,
    TickingClock,
    activation,
    json_lines,
    lines_of,
    messages_of_a_day,
    reading,
    run_on,
    settings,
)
from tests.stream_app.events_for_tests import SENSORS, closed
from tests.watching.page_text import PageText, text_of_page
from tests.watching.services import program
from tests.watching.test_report import NOON
from tests.watching.test_verdict import command, most_over

BUDGET = {"mechanism": "budget", "budget": {"added": 0.2, "share": 0.2, "sigmas": [1, 3, 10]}}
STEPS = 12
DAY = messages_of_a_day(STEPS, 8)


def budget(**changed: object) -> dict[str, Any]:
    return {"mechanism": "budget", "budget": {"share": 0.2, "sigmas": [1, 3, 10], **changed}}


def ran(folder: Path, release: dict[str, Any], steps: int = STEPS, **options: object) -> Path:
    lines = lines_of(message for message in DAY if message.step < steps)
    run_on(folder, [lines], settings={"release": release}, **options)
    return folder


def said(folder: Path) -> str:
    log = read_run(folder)
    return verdict_in_words(verdict_of(log), log)


def test_every_row_of_what_was_published_counts_all_releases(tmp_path: Path) -> None:
    """Against the logs: a budget decides another mechanism at every step; the last stands for no other."""
    folder = ran(tmp_path / "run", budget(added=0.08))
    decided: dict[str, Counter[str]] = {name: Counter() for name in NAMES}
    errors: dict[str, list[float]] = {name: [] for name in NAMES}
    rows = zip(json_lines(folder / "decisions.jsonl"), json_lines(folder / "releases.jsonl"), strict=True)
    for decision, release in rows:
        pairs = zip(decision["decisions"], release["releases"], strict=True)  # type: ignore[call-overload]
        for each, out in pairs:
            decided[each["sensor"]][each["mechanism"]] += 1
            if out.get("value") is not None:
                mechanism = parse(each["mechanism"], each["parameters"])
                errors[each["sensor"]].append(mechanism.expected_absolute_error())
    logs = {log.sensor: log for log in read_run(folder).sensors}
    assert any(len(kinds) > 1 for kinds in decided.values()), "else the last would stand for all"
    for name, kinds in decided.items():
        log, found = logs[name], errors[name]
        assert log.releases == kinds.total()
        assert log.published == len(found)
        assert log.exact == sum(error == 0.0 for error in found)
        assert log.error == (pytest.approx(sum(found) / len(found)) if found else None)
        assert sum(log.kinds.values()) == log.releases
        assert log.kinds.get("nothing", 0) == kinds["suppressed"]


def test_a_count_that_never_came_is_not_called_published(tmp_path: Path) -> None:
    """It was decided, and is accounted as if it had been released; nobody has seen a value."""
    messages = [activation(0, "A", "B"), reading(0, "A", 3), activation(1, "A"), reading(1, "A", 4)]
    run_on(tmp_path / "run", [lines_of(messages)])
    logs = {log.sensor: log for log in read_run(tmp_path / "run").sensors}
    assert (logs["B"].releases, logs["B"].published, logs["B"].error) == (1, 0, None)
    assert logs["B"].kinds == {"no count came": 1}
    assert (logs["A"].releases, logs["A"].published) == (2, 2)


def test_a_relaxed_rule_is_told_with_both_rules_who_and_why(tmp_path: Path) -> None:
    """The verdict is by periods; a step is never judged by a rule that came later."""
    folder = ran(tmp_path / "run", budget(added=0.1), steps=6)
    ran(folder, budget(added=0.9), accept_changes=True, by="A. Officer", reason="the trial is over")
    log = read_run(folder)
    assert [(each.first, each.until, each.limit and each.limit.added) for each in log.periods] == [
        (0, 6, 0.1),
        (6, 12, 0.9),
    ]
    words = said(folder)
    assert words.startswith(
        "The rule was changed while the run went on: relaxed from step 6 on by A. Officer (the trial "
        "is over). "
    )
    public = verdict_in_words(verdict_of(log), log, says_who=False)
    assert public.startswith("The rule was changed while the run went on: relaxed from step 6 on. ")
    assert "an added risk above 10 percentage points" in words
    assert "an added risk above 90 percentage points" in words
    write_report(folder, tmp_path / "report.html", now=NOON)
    page = text_of_page((tmp_path / "report.html").read_text())
    assert "A. Officer" in page
    assert "the trial is over" in page
    public_page = text_of_page(make_report(folder, now=NOON, is_public=True))
    assert "relaxed from step 6 on. Steps 0 to 5" in public_page
    assert not any(each in public_page for each in ("A. Officer", "the trial is over"))
    assert read_run(folder).checked.head is not None
    assert str(read_run(folder).checked.head) in page


def test_a_step_that_broke_its_own_rule_stays_broken_when_the_rule_is_relaxed(tmp_path: Path) -> None:
    raw = {"mechanism": "raw", "budget": {"added": 0.01}}
    folder = ran(tmp_path / "run", raw, steps=6)
    assert verdict_of(read_run(folder)).answer is MayPublish.NO
    ran(folder, {**raw, "budget": {"added": 1.0}}, accept_changes=True, reason="we want a yes")
    verdict = verdict_of(read_run(folder))
    assert verdict.answer is MayPublish.NO
    assert [part.answer for _, part in verdict.parts] == [MayPublish.NO, MayPublish.YES]


def test_an_edited_run_json_gives_no_yes(tmp_path: Path) -> None:
    folder = ran(tmp_path / "run", {"mechanism": "raw", "budget": {"added": 0.01}})
    assert said(folder).startswith("No")
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"added": 0.01', '"added": 1.0'))
    assert "run.json was changed and is not as the record says (release)" in said(folder)
    assert verdict_of(read_run(folder)).answer is MayPublish.NO, "the rule is the record's"


@pytest.mark.parametrize(
    ("name", "kept", "expected"),
    [
        ("releases.jsonl", lambda lines: lines[:7] + lines[8:], "step 7 is missing in releases.jsonl"),
        ("releases.jsonl", lambda lines: lines[:-1], "releases.jsonl"),
        ("decisions.jsonl", lambda lines: lines[:3] + lines[4:], "step 3 is missing in decisions.jsonl"),
        ("risks.jsonl", lambda lines: lines[:-20], "risks.jsonl"),
        ("record.jsonl", lambda lines: [], "record.jsonl is missing"),
    ],
)
def test_with_lines_gone_there_is_no_yes(
    tmp_path: Path, name: str, kept: Callable[[list[bytes]], list[bytes]], expected: str
) -> None:
    folder = ran(tmp_path / "run", BUDGET)
    assert said(folder).startswith("Yes, if habits are as assumed")
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    (folder / name).write_bytes(b"".join(kept(lines)))
    assert said(folder).startswith("Not shown: the records are not whole")
    assert expected in said(folder)


@pytest.mark.slow
def test_a_killed_run_says_that_it_did_not_end_and_which_steps_it_covers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed is covered; after a restart the answer is about all of it.

    Released steps without risks, as an earlier version left them where it was killed, are no yes.
    """
    folder, write = tmp_path / "run", ProgressLog.write

    def killed(log: ProgressLog, fields: Any, *given: Any, **options: Any) -> None:
        write(log, fields, *given, **options)
        if fields["next_step"] == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressLog, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        ran(folder, BUDGET)
    monkeypatch.undo()
    assert said(folder).startswith("Yes so far, if habits are as assumed")
    assert "the run has not ended: it goes on, or was killed before step 6" in said(folder)
    shutil.copytree(folder, tmp_path / "later")
    shutil.copytree(tmp_path / "run-keys", tmp_path / "later-keys")
    ran(tmp_path / "later", BUDGET)
    for name in ("decisions.jsonl", "releases.jsonl"):
        shutil.copy(tmp_path / "later" / name, folder)
    assert said(folder).startswith("Not shown: the records are not whole: the risks of steps 6 to 11 are not")
    assert "the run has not ended: it goes on, or was killed before step 12" in said(folder)
    ran(folder, BUDGET)
    assert said(folder).startswith("Yes, if habits are as assumed")
    assert "not ended" not in said(folder)


def test_habits_that_break_the_rule_alone_are_said_and_what_to_limit_instead(tmp_path: Path) -> None:
    """Everything is suppressed, and a no to that helps nobody."""
    folder = ran(tmp_path / "run", budget(risk=0.02, share=0.0))
    assert {
        each["value"]
        for step in json_lines(folder / "releases.jsonl")
        for each in step["releases"]
        if "value" in each
    } == set()  # type: ignore[attr-defined]
    words = said(folder)
    assert words.startswith("No, because of habits alone: even with nothing published")
    assert "Limit the added risk instead (added = 0.05, say)" in words
    raw = ran(tmp_path / "raw", {"mechanism": "raw", "budget": {"added": 0.05}})
    assert said(raw).startswith("No: even if habits")
    assert "because of habits alone" not in said(raw), "what releases add is no habit"


def test_more_people_counted_than_the_priors_stand_for_are_said(tmp_path: Path) -> None:
    """Six people in the priors; ninety counted. Noise, and as many as there are, are no reason to say it."""
    crowd = [activation(0, "A", "C"), reading(0, "A", 50), reading(0, "C", 40)]
    few = [activation(0, "A", "C"), reading(0, "A", 3), reading(0, "C", 2)]
    noise = {"mechanism": "gaussian", "sigma": 3.0, "budget": {"added": 1.0}}
    for name, messages, is_said in (("crowd", crowd, True), ("few", few, False)):
        folder = tmp_path / name
        run_on(folder, [lines_of(messages)], settings={"release": noise})
        assert ("and the priors stand for 6: nothing here is about the others" in said(folder)) == is_said
    assert "and the priors stand for 6" not in str(
        export_run(tmp_path / "crowd", tmp_path / "od", [ExportFormat.CSV], {}, {})
    )


def test_an_export_says_the_verdict_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the command's output, in the data package, in GeoJSON and in NGSI-LD."""
    folder = ran(tmp_path / "run", {"mechanism": "raw", "budget": {"added": 0.01}})
    command(["export", str(folder), "--output", str(tmp_path / "out")], monkeypatch)
    printed = " ".join(capsys.readouterr().out.split())
    assert "The verdict on this run is No" in printed
    answer = said(folder).partition(" But ")[0]  # what was counted is for the report alone
    assert answer in printed
    described = json.loads((tmp_path / "out" / "datapackage.json").read_text())
    assert described["verdict"] == {"answer": "no", "sentence": answer}
    places = dict.fromkeys(NAMES, (0.0, 0.0))
    export_run(folder, tmp_path / "map", [ExportFormat.GEOJSON, ExportFormat.NGSI_LD], places, {})
    collection = json.loads((tmp_path / "map" / "last-step.geojson").read_text())
    assert collection["verdict"]["answer"] == "no"
    entities = json.loads((tmp_path / "map" / "last-step.jsonld").read_text())
    assert {each["privacyVerdict"]["value"] for each in entities} == {"no"}
    kept = ran(tmp_path / "kept", BUDGET)
    command(["export", str(kept), "--output", str(tmp_path / "kept-out")], monkeypatch)
    assert "verdict on this run is No" not in capsys.readouterr().out


@pytest.mark.slow
def test_over_now_ever_and_forecast_are_three_figures_and_the_first_is_the_accounts(tmp_path: Path) -> None:
    """In the records and in the report: now is counted anew from everybody's risk and agrees."""
    folder = ran(tmp_path / "run", BUDGET)
    log = read_run(folder)
    limit = log.limit
    assert limit is not None
    now = [each.over_limit.now for each in log.summaries if each.over_limit is not None]
    assert now == most_over(folder, limit)
    ever = [each.over_limit.ever for each in log.summaries if each.over_limit is not None]
    assert ever == sorted(ever)
    assert all(one >= other for one, other in zip(ever, now, strict=True))
    (part,) = verdict_of(log).parts
    assert part[1].at is not None
    assert part[1].at.least == part[1].at.most == max(now)
    write_report(folder, tmp_path / "report.html", now=NOON)
    page = text_of_page((tmp_path / "report.html").read_text())
    figures = {each.kind.name: each for each in log.view.group("people")}
    assert figures.keys() == {"now", "forecast", "ever", "allowed"}
    assert all(f"{each.label} {each.sentence}" in page for each in figures.values())


def test_verify_exits_with_1_and_a_sentence_where_something_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ran(tmp_path / "run", BUDGET, by="ada")
    command(["verify", str(folder)], monkeypatch)
    printed = capsys.readouterr().out
    head = re.search(r"last entry is (\w+)\.", printed)
    assert head is not None
    assert "by ada" in printed
    command(["verify", str(folder), "--head", head[1][:12]], monkeypatch)
    with pytest.raises(SystemExit) as ended:
        command(["verify", str(folder), "--head", "abc"], monkeypatch)
    assert ended.value.code == 1
    lines = (folder / "releases.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "releases.jsonl").write_bytes(b"".join(lines[:4] + lines[5:]))
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        command(["verify", str(folder), "--json"], monkeypatch)
    assert ended.value.code == 1
    assert "step 4 is missing in releases.jsonl" in json.loads(capsys.readouterr().out)["faults"]
    with pytest.raises(SystemExit):
        command(["verify", str(tmp_path)], monkeypatch)


CUT_OFF = """() => [...document.querySelectorAll('th, td, p, dd, li, svg')].filter(each => {
  const box = each.getBoundingClientRect();
  const scroll = each.closest('.scroll');
  const right = scroll ? Math.min(scroll.getBoundingClientRect().right, innerWidth) : innerWidth;
  return box.width > 1 && (box.right > right + 1 || box.left < -1);
}).map(each => each.textContent)"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_no_column_of_a_report_leaves_a_phone_or_a_desk(tmp_path: Path, width: int) -> None:
    """Each cell is within the page without scrolling, and on a phone beside its heading."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from tests.watching.browser import WatchedPage, chromium

    report = long_report(tmp_path)
    with chromium() as browser:
        watched = WatchedPage(browser, report.as_uri(), viewport={"width": width, "height": 844})
        assert watched.page.evaluate("document.documentElement.scrollWidth") == width
        assert watched.page.evaluate(CUT_OFF) == []
        if width == 390:
            shown = watched.page.evaluate(
                "getComputedStyle(document.querySelector('table:not(.facts) td:nth-child(2)'), '::before')"
                ".content"
            )
            assert "Rule" in shown
        watched.close()


@pytest.mark.slow
def test_no_column_of_a_report_leaves_the_paper(tmp_path: Path) -> None:
    """Every word of every table is on its page, within the margins."""
    pytest.importorskip("weasyprint", reason="WeasyPrint or Pango is missing", exc_type=Exception)
    from stream_app.analysis.report.write import pdf_of

    report = long_report(tmp_path)
    printed = tmp_path / "report.pdf"
    printed.write_bytes(pdf_of(report.read_text()))
    listing = [program("pdftotext"), "-bbox", str(printed), "-"]
    text = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    widths = {float(width) for width in re.findall(r'<page width="([\d.]+)"', text)}
    words = re.findall(r'xMin="([\d.-]+)" yMin="[\d.-]+" xMax="([\d.-]+)" yMax="[\d.-]+">([^<]*)', text)
    margin = 16.0 / 25.4 * 72.0  # of the page's style
    assert len(words) > 300
    assert [word for left, right, word in words if float(right) > min(widths) - margin + 2.0] == []
    assert [word for left, right, word in words if float(left) < margin - 2.0] == []
    there = {word for _, _, word in words}
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)', report.read_text())
    assert len(heads) > 20
    assert {word for head in heads for word in unescape(head).split()} <= there


def long_report(tmp_path: Path) -> Path:
    """A report with sensors of long names, two rules and long reasons."""
    folder = ran(tmp_path / "run", budget(added=0.1), steps=6)
    why = "because the council of the municipality has decided so in its meeting, with all votes but one"
    ran(folder, budget(added=0.9), accept_changes=True, by="Donaudampfschifffahrtsgesellschaft", reason=why)
    for name in ("decisions.jsonl", "releases.jsonl"):
        text = (folder / name).read_text().replace('"A"', '"Donaudampfschifffahrtsgesellschaftskapitaen"')
        (folder / name).write_text(text)
    write_report(folder, tmp_path / "report.html", now=NOON)
    return tmp_path / "report.html"


def test_a_folder_that_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="output folder of a run"):
        read_run(tmp_path)


def test_a_ledger_of_logs_that_are_not_whole_is_refused(tmp_path: Path) -> None:
    """With a step gone every guarantee would be too good."""
    noised = {"mechanism": "gaussian", "sigma": 2.0}
    folder = ran(tmp_path / "run", noised)
    registry = SensorRegistry.one_per_location(NAMES)
    assert len(load_log(folder, registry).steps) == STEPS
    for name in ("decisions.jsonl", "releases.jsonl"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(b"".join(whole.splitlines(keepends=True)[:-3]))
        with pytest.raises(OutputError, match="or every guarantee would be too good"):
            load_log(folder, registry)
        (folder / name).write_bytes(whole)
    (folder / "record.jsonl").unlink()
    assert len(load_log(folder, registry).steps) == STEPS, "runs of earlier versions have no record"


def _audited(certified: float, **more: object) -> dict[str, object]:
    whole = {"steps": 4, "mistakes": 1, "baseline": 0.01, "certified_by": "moment"}
    return {**whole, "certified": certified, **more}


def test_an_audit_says_that_not_everybody_is_listed(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(json.dumps([_audited(k / 100) for k in range(20, 90)]))
    write_report(tmp_path / "audit.json", tmp_path / "audit.html", now=NOON)
    words = PageText((tmp_path / "audit.html").read_text()).words
    assert (
        "70 people, of whom the 50 most exposed are listed; the highest ceiling of any person is 89 in 100."
        in words
    )
    assert "person 50" in words
    assert "person 51" not in words


@pytest.mark.parametrize("other", [{"steps": 10}, {"mistakes": 2}])
def test_an_audit_of_two_questions_is_not_reported_as_one(tmp_path: Path, other: dict[str, object]) -> None:
    """The report has one question, and every row is an answer to it."""
    (tmp_path / "audit.json").write_text(json.dumps([_audited(0.9), _audited(0.8, **other)]))
    with pytest.raises(OutputError, match="other horizons or mistakes"):
        write_report(tmp_path / "audit.json", tmp_path / "audit.html")


def test_a_report_without_people_says_what_is_missing_too(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = RunOptions(folder, by="ada")
    given = settings(release={"mechanism": "gaussian", "sigma": 2.0})
    run(given, options, Population.pack((), NAMES), clock=TickingClock(), chunks=[lines_of(DAY)])
    write_report(folder, tmp_path / "report.html", now=NOON)
    words = text_of_page((tmp_path / "report.html").read_text())
    assert "Steps 0 to 11 are released; the run ended before step 12" in words
    assert "ada" in words
    lines = (folder / "releases.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "releases.jsonl").write_bytes(b"".join(lines[:5] + lines[6:]))
    write_report(folder, tmp_path / "report.html", now=NOON)
    assert "The records are not whole: step 5 is missing" in (tmp_path / "report.html").read_text()
    assert export_run(folder, tmp_path / "od", [ExportFormat.CSV], {}, {}).verdict["answer"] == "no rule"


def test_a_tier_file_with_a_line_gone_is_named(tmp_path: Path) -> None:
    release = {"mechanism": "tiered", "tiers": {"public": 0.2, "partner": 1.0}}
    folder = tmp_path / "run"
    run_on(folder, [lines_of(DAY)], settings={"release": release, "sharpen": False, "attack_draws": 0})
    assert check_run(folder).faults == ()
    path = folder / "releases-partner.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3] + lines[4:]))
    assert "step 3 is missing in releases-partner.jsonl" in check_run(folder).faults
    path.write_bytes(b"".join(lines[:6]))
    assert "releases-partner.jsonl holds 6 steps of 12 released" in check_run(folder).faults


def test_a_lost_late_value_is_named(tmp_path: Path) -> None:
    """revised.jsonl holds facts as the releases are."""
    folder = tmp_path / "run"
    late = with_late(whole_day(), 2, "C", after=4)
    run_on(folder, [lines_of(late)], settings={"late": 3, "grace": 0})
    path = folder / "revised.jsonl"
    assert path.exists()
    assert check_run(folder).faults == ()
    path.write_bytes(b"")
    assert any("revised.jsonl does not hold" in fault for fault in check_run(folder).faults)


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 800])
def test_no_column_of_the_plain_page_leaves_a_phone(tmp_path: Path, width: int) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from tests.watching.browser import WatchedPage, chromium

    board = StatusBoard(SENSORS)
    board.started(RunStarted(200, 0))
    for step in range(3):
        board.closed(closed(step))
    about = settings(origin="2026-03-02T00:00:00Z")
    (tmp_path / "plain.html").write_text(render(replace(board.read(), phase="stopped"), about))
    with chromium() as browser:
        viewport = {"width": width, "height": 844}
        watched = WatchedPage(browser, (tmp_path / "plain.html").as_uri(), viewport=viewport)
        assert watched.page.evaluate("document.documentElement.scrollWidth") == width
        assert watched.page.evaluate(CUT_OFF) == []
        watched.close()
