"""May this be published: the run held against the rule its officer chose, and the same in the PDF."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from accounting.continuous import ContinuousAccountant
from accounting.decisions import BudgetReason
from accounting.settings import HorizonSettings, RiskBudget
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.report import read_run, write, write_report
from stream_app.analysis.verdict import MayPublish, people_over, verdict_on
from stream_app.exceptions import OutputError
from stream_app.watching.wording import ceiling_in_words
from stream_app.wire.messages import DecisionReason
from tests.stream_app.engine_support import REGISTRY, lines_of, messages_of_a_day, population, run_on
from tests.stream_app.events_for_tests import summary
from tests.watching.page_text import PageText, text_of_page
from tests.watching.services import program
from tests.watching.test_report import NOON

STEPS = 16
PEOPLE = 6
FIXED = {"mechanism": "gaussian", "sigma": 2.0, "sensors": {"B": {"mechanism": "raw"}}}


def released(folder: Path, **release: object) -> Path:
    """A finished run with these release settings."""
    run_on(folder, [lines_of(messages_of_a_day(STEPS, 8))], settings={"release": release})
    return folder


def words_of(folder: Path, tmp_path: Path) -> str:
    """The text of the run's report."""
    write_report(folder, tmp_path / "report.html", now=NOON)
    return text_of_page((tmp_path / "report.html").read_text())


def most_over(folder: Path, limit: RiskBudget) -> list[int]:
    """People over the limit after each step, counted anew from everybody's risk, with as much work."""
    said = read_run(folder).settings
    rules = said["horizon"], said["mistakes"], tuple(said["thresholds"])
    horizon = HorizonSettings(*rules, operations=said["sharpen_operations"], decided=limit)
    accountant = ContinuousAccountant(population(PEOPLE), horizon)
    counts = []
    for step in read_decisions(folder / "decisions.jsonl", REGISTRY):
        accountant.apply(step)
        over = accountant.added() > (1.0 if limit.added is None else limit.added)
        over |= accountant.risk() > (1.0 if limit.risk is None else limit.risk)
        counts.append(int(over.sum()))
    return counts


def test_without_a_rule_it_says_neither_yes_nor_no_and_how_to_choose_one(tmp_path: Path) -> None:
    folder = released(tmp_path / "run", **FIXED)
    words = words_of(folder, tmp_path)
    assert "says neither yes nor no: if habits are as assumed" in words
    assert "[release.budget]" in words
    assert "Yes" not in words


@pytest.mark.slow
def test_a_run_under_a_budget_may_be_published_with_the_figures_it_rests_on(tmp_path: Path) -> None:
    folder = released(tmp_path / "run", mechanism="budget", budget={"added": 0.2, "share": 0.2})
    log, limit = read_run(folder), RiskBudget(share=0.2, added=0.2)
    assert log.limit == limit
    verdict = verdict_on(log.summaries, log.reasons, limit)
    assert verdict.answer is MayPublish.YES
    assert verdict.at is not None
    assert max(most_over(folder, limit)) <= verdict.at.most <= verdict.at.allowed == 1
    words = words_of(folder, tmp_path)
    assert "Yes, if habits are as assumed: 1 of 6 people may be over the limit" in words
    assert (
        f"Highest added risk, over all people and steps {ceiling_in_words(log.view.value('most.added'))}"
        in words
    )
    assert (
        f"Highest ceiling, over all people and steps {ceiling_in_words(log.view.value('most.ceiling'))}"
        in words
    )


def test_steps_without_records_are_no_yes() -> None:
    """A rule that was set for steps whose risks are not written yet."""
    assert verdict_on((), {}, RiskBudget(added=0.1)).answer is MayPublish.OPEN


@pytest.mark.parametrize(
    "limit", [{"added": 0.05}, {"risk": 0.3}, {"risk": 0.3, "added": 0.05, "share": 0.4}]
)
def test_raw_counts_held_against_a_rule_are_not_to_be_published(
    tmp_path: Path, limit: dict[str, float]
) -> None:
    """The rule did not decide the steps; the recorded risks say that it is broken, and never too often."""
    folder = released(tmp_path / "run", mechanism="raw", budget=limit)
    log = read_run(folder)
    assert log.limit is not None
    verdict = verdict_on(log.summaries, log.reasons, log.limit)
    assert (verdict.answer, verdict.at is None) == (MayPublish.NO, False)
    words = words_of(folder, tmp_path)
    assert "No: even if habits are as assumed" in words
    assert "and the run is only compared with the rule" in words


@pytest.mark.slow
@pytest.mark.usefixtures("all_the_work")
def test_what_the_records_tell_holds_the_true_number_of_people(tmp_path: Path) -> None:
    """Between ``least`` and ``most``, at every step; exact where nobody is over, or the limit is 0."""
    folder = released(tmp_path / "run", **FIXED)
    for added in (0.0, 0.03, 0.05, 0.1, 0.3, 1.0):
        limit = RiskBudget(added=added)
        true = most_over(folder, limit)
        found = [people_over(step, None, limit) for step in read_run(folder).summaries]
        assert all(over.least <= count <= over.most for over, count in zip(found, true, strict=True)), added
        assert all(over.most == 0 for over, count in zip(found, true, strict=True) if count == 0), added


def why(reason: BudgetReason, over: int, natural: int) -> DecisionReason:
    return DecisionReason(
        reason=reason, people=200, allowed=20, natural=natural, over=over, cleared=0, rounds=1
    )


@pytest.mark.parametrize(
    ("reason", "limit", "answer"),
    [
        (why(BudgetReason.BUDGET, 9, 8), RiskBudget(0.1, added=0.4), MayPublish.YES),
        (why(BudgetReason.HABITS, 0, 25), RiskBudget(0.1, added=0.4), MayPublish.NO),
        (
            why(BudgetReason.SPENT, 21, 0),
            RiskBudget(0.1, added=0.4),
            MayPublish.OPEN,
        ),  # not counted beyond 21
        (why(BudgetReason.NO_ANSWER, 0, 0), RiskBudget(0.1, added=0.4), MayPublish.OPEN),
        (None, RiskBudget(0.1, added=0.4), MayPublish.OPEN),  # 3 to 90 of 200
        (None, RiskBudget(0.5, added=0.4), MayPublish.YES),  # 90 of 100 allowed
        (None, RiskBudget(0.01, added=0.4), MayPublish.NO),  # 3 of 2 allowed
        (None, RiskBudget(0.0, added=0.45), MayPublish.YES),  # the most is no more than the limit
        (None, RiskBudget(0.0, added=0.45, in_hindsight=True), MayPublish.OPEN),
        (why(BudgetReason.BUDGET, 0, 0), RiskBudget(0.0, added=0.45, in_hindsight=True), MayPublish.YES),
        (None, RiskBudget(0.01, risk=0.4, habits_apart=True), MayPublish.OPEN),
    ],
)
def test_what_is_not_known_counts_against_publishing(
    reason: DecisionReason | None, limit: RiskBudget, answer: MayPublish
) -> None:
    """Thresholds 0.01 and 0.5, at or above which releases added to 90 and 3 of 200 people."""
    reasons = {} if reason is None else {0: reason}
    assert verdict_on((summary(0),), reasons, limit).answer is answer


@pytest.mark.slow
def test_the_pdf_holds_the_verdict_the_worst_figure_and_the_pictures(tmp_path: Path) -> None:
    """On its first page, in figures equal to the report's."""
    pytest.importorskip("weasyprint", reason="WeasyPrint or Pango is missing", exc_type=Exception)
    folder = released(tmp_path / "run", **FIXED, budget={"added": 0.95})
    assert write_report(folder, tmp_path / "report.pdf", now=NOON) > 10_000
    text = text_of(tmp_path / "report.pdf")
    pages = text.split("\f")[:-1]
    assert len(pages) > 1
    write_report(folder, tmp_path / "report.html", now=NOON)
    words = PageText((tmp_path / "report.html").read_text()).words
    said = words[words.index("May I publish this?") + 1]
    assert said.startswith("Yes, if habits are as assumed")
    assert said in pages[0]
    log = read_run(folder)
    assert ceiling_in_words(log.view.value("most.added")) in pages[0]
    assert f"The highest point is {ceiling_in_words(log.view.value('most.added'))}." in text
    assert " guess" in text, "the names of the lines stand in the pictures"
    assert f"1 of {len(pages)}" in pages[0]
    assert not any(person in text for person in population(PEOPLE).people)


def text_of(document: Path) -> str:
    """The text of a PDF, spaces and line breaks as single spaces, pages apart."""
    command = [program("pdftotext"), "-layout", str(document), "-"]
    pages = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\f")
    return "\f".join(re.sub(r"\s+", " ", page) for page in pages)


def command(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `tallyguard` in this process."""
    from stream_app.cli import main

    monkeypatch.setattr(sys, "argv", ["tallyguard", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    if ended.value.code:
        raise SystemExit(ended.value.code)


@pytest.mark.slow
def test_the_command_writes_html_and_pdf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weasyprint", reason="WeasyPrint or Pango is missing", exc_type=Exception)
    folder = released(tmp_path / "run", **FIXED)
    html, printed = tmp_path / "report.html", tmp_path / "report.pdf"
    command(["report", str(folder), "--output", str(html), "--pdf", str(printed), "--json"], monkeypatch)
    sizes = {str(html): html.stat().st_size, str(printed): printed.stat().st_size}
    assert json.loads(capsys.readouterr().out)["files"] == sizes
    assert printed.read_bytes().startswith(b"%PDF-")
    with pytest.raises(SystemExit):
        command(["report", str(folder), "--pdf", str(tmp_path / "report.txt")], monkeypatch)


@pytest.mark.parametrize(
    "missing", [ImportError("no module"), OSError("cannot load library\n 'libpango-1.0-0'")]
)
def test_without_weasyprint_or_pango_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: Exception
) -> None:
    """In one sentence, before anything is computed or written; HTML needs neither."""

    def fail(name: str) -> None:
        raise missing

    monkeypatch.setattr(write, "import_module", fail)
    with pytest.raises(OutputError, match="libpangoft2") as error:
        write.weasyprint()
    assert "\n" not in str(error.value)
    with pytest.raises(SystemExit):
        command(["report", str(tmp_path), "--pdf", str(tmp_path / "report.pdf")], monkeypatch)
    assert not list(tmp_path.iterdir())
