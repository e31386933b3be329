"""The annex of a data protection impact assessment: what the records of a run say to its questions.

Every sentence stands in ``templates/dpia.toml``, so that it can be translated; here is only what fills it
in. What tallyguard does not measure is left open there, in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from models.text import number_of
from stream_app.analysis.report import sections
from stream_app.analysis.run_log import RunLog
from stream_app.analysis.verdict import verdict_in_words, verdict_of
from stream_app.watching import glossary
from stream_app.watching.html_pages import Part
from stream_app.watching.prior_notes import check_note
from stream_app.watching.wording import duration, sentence_case

TEXTS = "dpia.toml"


class Asked(NamedTuple):
    """What no record says: the purpose, who decides and when again; None where it was not stated."""

    purpose: str | None = None
    decides: str | None = None
    review: str | None = None


def texts() -> Mapping[str, Any]:
    """Every sentence of the annex."""
    return glossary.texts(TEXTS, "stream_app.analysis.report")


def annex_of(log: RunLog, asked: Asked, *, is_public: bool) -> dict[str, Any]:
    """What the template lays out: title, which version it is, and the parts."""
    said = texts()
    known = _known(log, asked, said["not_stated"], is_public=is_public)
    version = "public" if is_public else "internal"
    return {
        "title": said["title"].format_map(known),
        "version": said[version],
        "parts": tuple(
            _part(part, known, log)
            for part in said["sections"]
            if part.get("only", version) == version
            and part.get("needs") in (None, "people" if log.summaries else "nobody")
        ),
    }


def _part(part: Mapping[str, Any], known: Mapping[str, str], log: RunLog) -> Part:
    paragraphs = [*part.get("paragraphs", ()), *([part["open"]] if "open" in part else [])]
    paragraphs = [each.format_map(known) for each in paragraphs]
    if part.get("lines") == "over":
        paragraphs += [each.sentence for each in log.view.group("people")]
    tables = {
        None: ((), ()),
        "exposed": (sections.exposed_columns(log), tuple(sections.exposed_rows(log))),
        "record": (sections.RECORD_COLUMNS, tuple(sections.record_rows(log))),
    }
    head, rows = tables[part.get("table")] if log.summaries or part.get("table") != "exposed" else ((), ())
    facts = [(name, text.format_map(known)) for name, text in part.get("facts", ())]
    return Part(part["heading"].format_map(known), paragraphs, facts, head, rows)


def _known(log: RunLog, asked: Asked, not_stated: str, *, is_public: bool) -> dict[str, str]:
    facts, last = log.settings, max(0, log.checked.released - 1)
    network = facts.get("network") or {}
    removed = network.get("removed", ())
    sensors = [each for each in network.get("sensors", ()) if each["name"] not in removed]
    groups = sorted({each.get("group", "default") for each in sensors})
    tiers = sorted((facts.get("release") or {}).get("tiers") or ())
    stated = {name: text or not_stated.format(option=f"--{name}") for name, text in asked._asdict().items()}
    verdict = verdict_of(log)
    whole = "" if log.checked.is_whole else f"Its records are not whole: {'; '.join(log.checked.faults)}."
    return {
        **stated,
        **dict(_risks(log)),
        "deployment": str(facts["deployment"]),
        "sensors": f"{len(sensors):,}",
        "places": f"{len(network.get('places', ())):,}",
        "groups": f"groups: {', '.join(groups)}" if groups != ["default"] and groups else "one group",
        "step": duration(facts["step_seconds"]),
        "released": _released(log),
        "recipients": f"Everybody; with less noise, those in {', '.join(tiers)}" if tiers else "Everybody",
        "priors": sections.priors_of(log.changes[-1]) if log.changes else "not recorded",
        "software": ", then ".join(
            dict.fromkeys(f"tallyguard {each.version}" for each in log.checked.entries)
        ),
        "span": f"{log.when(0)} to {log.when(last)}",
        "ended": f"{sentence_case(log.checked.in_words())}.",
        "exact": f"{sum(each.exact for each in log.sensors):,}",
        "counts": f"{sum(each.published for each in log.sensors):,}",
        "delta": f"{log.delta:g}",
        "epsilon": next((each.shown for each in log.spent if each.name == "epsilon.all"), "not recorded"),
        "horizon": str(facts["horizon"]),
        "right": f"at least {facts['horizon'] - facts['mistakes']}" if facts["mistakes"] else "each",
        "condition": sentence_case(log.condition_against(log.adversary)),
        "check": "None was made" if log.check is None else sentence_case(check_note(log.check, log.draws)),
        "verdict": verdict_in_words(verdict, log, says_who=not is_public)
        if log.summaries
        else sentence_case(f"{log.note}."),
        "head": log.checked.head or "(there is no record)",
        "whole": whole,
    }


def _risks(log: RunLog) -> Iterator[tuple[str, str]]:
    if not log.summaries:
        return
    for each in log.view.group("headline"):
        yield each.kind.name, each.sentence
    yield "highest", log.view.figure("most.ceiling").shown
    yield "highest_added", f"{log.view.figure('most.added').shown}{log.by_priors}"
    yield "people", number_of(log.summaries[-1].people, "person")


def _released(log: RunLog) -> str:
    total = sum(log.releases.values())
    how = ", ".join(f"{name} {count:,} times" for name, count in sorted(log.releases.items()))
    what = "For each sensor and step a count, exact (raw) or with noise, or nothing (suppressed)"
    return f"{what}: of {total:,}, {how}"
