"""The ceiling of an exported period, with the condition it holds under, and whether its rule was kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from stream_app.analysis.report import ANSWERS, sentence, verdict_of
from stream_app.analysis.run_lines import complete_lines, record_of
from stream_app.analysis.run_log import read_run
from stream_app.setup.priors_verdict import priors_check_of
from stream_app.setup.run_folder.run_settings import load_run
from stream_app.watching.prior_notes import basis_note
from stream_app.wire import RiskSummary

_SUMMARY = b'"risk_summary"'


def period_ceiling(folder: Path, last_step: int) -> dict[str, Any]:
    """The highest ceiling of anybody up to a step, as it stands in ``risks.jsonl``; null if not computed.

    A figure without its condition means nothing, so they stand together.
    """
    run = load_run(folder)
    summary = _last_summary(folder / "risks.jsonl", last_step)
    people = int(run.get("people", 0))
    horizon, mistakes = run["horizon"], run["mistakes"]
    found: dict[str, Any] = {
        "highest": None if summary is None or people == 0 else summary.most_risk,
        "until_step": None if summary is None else summary.step,
        "people": people,
        "horizon_steps": horizon,
        "mistakes": mistakes,
    }
    drawn = (run.get("drawn") or {}).get("draws", 1)
    note = basis_note(people, run.get("assumed_habits"), priors_check_of(run), drawn)
    condition = "no ceiling of persons was computed"
    if people and found["highest"] is not None:
        condition = (
            f"nobody who knows how each of the {people:,} people lives, as the priors of the deployment say, "
            f"and where everybody else is, and who reads all that was released, names the places of any of "
            f"them in {horizon} consecutive steps with at most {mistakes} wrong more often than this; it "
            "holds for people counted as the deployment's sensors declare, and not for people who live "
            "otherwise or move together"
        )
    found["condition"] = "; ".join(filter(None, (condition, note)))
    return found


def run_verdict(folder: Path) -> dict[str, Any]:
    """Whether the rule was kept: ``yes``, ``no``, ``not shown`` or ``no rule``, with the report's sentence.

    What the report says of counts beside the priors' people is not for the public, and left out.
    """
    run, is_accounted = (
        load_run(folder),
        any(_SUMMARY in line for line in complete_lines(folder / "risks.jsonl")),
    )
    if run.get("people") != 0 and not is_accounted:
        return {"answer": "not shown", "sentence": "no step of the run has its risks recorded"}
    log = read_run(folder)
    if not log.summaries:
        return {
            "answer": "no rule",
            "sentence": "no ceiling of persons was computed, so no rule was kept by it",
        }
    verdict = verdict_of(replace(log, beyond=None))
    return {"answer": ANSWERS[verdict.answer], "sentence": sentence(verdict, log)}


def _last_summary(path: Path, last_step: int) -> RiskSummary | None:
    found = None
    for line in complete_lines(path):
        if _SUMMARY not in line:
            continue
        summary = record_of(RiskSummary, path, line)
        if summary.step > last_step:
            break
        found = summary
    return found
