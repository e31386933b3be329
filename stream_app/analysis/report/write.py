"""Finding out what a report is to be made from, and writing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from models.exceptions import TallyguardError
from models.mechanisms import NO_DESIGNS, Designs
from models.private_files import private_file
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.alternatives import VariedRisks
from stream_app.analysis.audit_file import read_audit
from stream_app.analysis.crowd import PlannedCrowd
from stream_app.analysis.report.dpia import Asked, annex_of
from stream_app.analysis.report.lowering import Priors, lowering
from stream_app.analysis.report.page import page
from stream_app.analysis.report.sections import exposed_in_hindsight
from stream_app.analysis.run_log import RunLog, read_run
from stream_app.exceptions import OutputError
from stream_app.setup.this_process import only_errors_of, own_version
from stream_app.watching.prior_notes import ceiling_condition

_ARCHIVAL = "pdf/a-3u"  # fonts embedded, text that can be searched: what archives ask for
_REMEDY = (
    "pip install 'tallyguard[pdf]', and Pango (on Debian: apt install libpango-1.0-0 libpangoft2-1.0-0 "
    "fonts-dejavu-core); or print report.html to a PDF from a browser"
)


def weasyprint() -> Any:
    """What sets the page as a PDF; :class:`OutputError` that says what to install where it is missing."""
    try:
        return import_module("weasyprint")
    except (ImportError, OSError) as error:  # OSError: the package is there, Pango is not
        found = " ".join(str(error).split())[:200]
        raise OutputError("a PDF needs WeasyPrint and Pango", found, _REMEDY) from error


def pdf_of(html: str) -> bytes:
    """The page as a PDF; nothing is loaded from anywhere."""
    only_errors_of("weasyprint")  # it warns of styles that are for screens
    document: bytes = weasyprint().HTML(string=html).write_pdf(pdf_variant=_ARCHIVAL)
    return document


def write_report(
    source: Path,
    output: Path,
    most_exposed: int = 10,
    now: datetime | None = None,
    priors: Priors | None = None,
) -> int:
    """Make the report and write it to one file; returns its size in bytes."""
    return save_report(make_report(source, most_exposed, now, priors), output)


def make_annex(
    source: Path, asked: Asked, *, is_public: bool, now: datetime | None = None, designs: Designs = NO_DESIGNS
) -> str:
    """The annex of a data protection impact assessment about a run's folder, as HTML."""
    log = _read(source, 10, designs, is_public=is_public)
    annex = annex_of(log, asked, is_public=is_public)
    return page("dpia", made=_made(source, now, log, is_public=is_public), log=log, annex=annex)


def _read(source: Path, most_exposed: int, designs: Designs, *, is_public: bool) -> RunLog:
    """The run's records; for the public without persons, and without what is for the officer alone."""
    log = read_run(source, 0 if is_public else most_exposed, designs)
    return replace(log, beyond=None) if is_public else log


def _made(source: Path, now: datetime | None, log: RunLog | None = None, *, is_public: bool = False) -> str:
    moment, folder = now or datetime.now(UTC), source.resolve()
    made = f"Made {moment:%Y-%m-%d %H:%M} UTC by tallyguard {own_version()} from "
    if log is None:
        return f"{made}the audit in {source.name}."
    where = "" if is_public else f" in {folder.parent.name}/{folder.name}"
    return f"{made}the run of {log.settings['deployment']}{where}."


def make_report(
    source: Path,
    most_exposed: int = 10,
    now: datetime | None = None,
    priors: Priors | None = None,
    designs: Designs = NO_DESIGNS,
    varied: Sequence[VariedRisks] = (),
    crowd: PlannedCrowd | None = None,
    *,
    missing: str | None = None,
    is_public: bool = False,
) -> str:
    """The report of a run's folder or of an audit's JSON, as HTML; of an audit people are never named.

    With the run's ``priors`` it says how the most exposed people's moments stand in hindsight, which sensors
    revealed most about them, and what less would do; ``missing`` says why there are none. ``designs`` of
    noise are those that the log may name beside the run's own; ``varied`` is what other habits make of the
    same releases, ``crowd`` their ceilings against an adversary who does not know where the others are. With
    ``is_public`` a run's report has the same figures and nobody in it. :class:`OutputError` where ``source``
    is neither.
    """
    if not source.is_dir():
        ranked = sorted(read_audit(source), key=lambda audit: -audit.certified)
        return page("audit", made=_made(source, now), ranked=ranked, condition=ceiling_condition(None))
    log = _read(source, most_exposed, designs, is_public=is_public)
    lower = later = None
    there = log
    if priors is not None and not is_public:  # what the priors add is about the most exposed people
        there = replace(log, exposed=priors.still_there(log.exposed))
        steps = read_decisions(source / "decisions.jsonl", priors.registry)
        try:
            later, lower = exposed_in_hindsight(there, priors, steps) or None, lowering(there, priors, steps)
        except TallyguardError as error:
            if not priors.is_own:
                raise
            missing = str(error)
    return page(
        "run" if log.summaries else "without_people",
        made=_made(source, now, log, is_public=is_public),
        log=log,
        is_public=is_public,
        lower=lower,
        later=later,
        there=there,
        missing=missing,
        varied=varied,
        crowd=crowd,
    )


def save_report(html: str, output: Path) -> int:
    """Write the page, as a PDF where the file's name ends so; returns its size in bytes."""
    made = pdf_of(html) if is_pdf(output) else html.encode()
    with private_file(output) as file:  # it names the most exposed people by pseudonym
        file.write(made)
    return len(made)


def is_pdf(output: Path) -> bool:
    """Whether this file is to be a PDF."""
    return output.suffix.lower() == ".pdf"
