"""Finding out what a report is to be made from, and writing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from models.mechanisms import NO_DESIGNS, Designs
from models.private_files import private_file
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.alternatives import VariedRisks
from stream_app.analysis.audit_file import read_audit
from stream_app.analysis.crowd import PlannedCrowd
from stream_app.analysis.report.dpia import Asked
from stream_app.analysis.report.lowering import Priors, lowering
from stream_app.analysis.report.page import audit_report, dpia_report, run_report
from stream_app.analysis.report.sections import exposed_in_hindsight
from stream_app.analysis.run_log import RunLog, read_run
from stream_app.exceptions import OutputError
from stream_app.setup.this_process import only_errors_of, own_version

# The report as a PDF to file: the same page, set by WeasyPrint, which needs Pango from the system.

SUFFIX = ".pdf"
_MOST_EXPOSED = 10
_ARCHIVAL = "pdf/a-3u"  # fonts embedded, text that can be searched: what archives ask for
_REMEDY = (
    "pip install 'tallyguard[pdf]', and Pango (on Debian: apt install libpango-1.0-0 libpangoft2-1.0-0 "
    "fonts-dejavu-core); or print report.html to a PDF from a browser"
)


def check_can_print() -> None:
    """:class:`OutputError` that says what to install where WeasyPrint or Pango is missing."""
    _weasyprint()


def pdf_of(html: str) -> bytes:
    """The page as a PDF; nothing is loaded from anywhere."""
    weasyprint = _weasyprint()
    only_errors_of("weasyprint")  # it warns of styles that are for screens
    document: bytes = weasyprint.HTML(string=html).write_pdf(pdf_variant=_ARCHIVAL)
    return document


def _weasyprint() -> Any:
    try:
        return import_module("weasyprint")
    except (ImportError, OSError) as error:  # OSError: the package is there, Pango is not
        found = " ".join(str(error).split())[:200]
        raise OutputError("a PDF needs WeasyPrint and Pango", found, _REMEDY) from error


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
    log = _read(source, _MOST_EXPOSED, designs, is_public=is_public)
    return dpia_report(log, _made(source, now, log, is_public=is_public), asked, is_public=is_public)


def _read(source: Path, most_exposed: int, designs: Designs, *, is_public: bool) -> RunLog:
    """The run's records; for the public without persons, and without what is for the officer alone."""
    if is_public:
        return replace(read_run(source, 0, designs), beyond=None)
    return read_run(source, most_exposed, designs)


def _made(source: Path, now: datetime | None, log: RunLog | None = None, *, is_public: bool = False) -> str:
    """When the report was made, with which version, and of what."""
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
    is_public: bool = False,
) -> str:
    """The report of a run's folder or of an audit's JSON, as HTML.

    With the run's ``priors`` it says how the most exposed people's moments stand in hindsight, which sensors
    revealed most about them, and what less would do. ``designs`` of noise are those that the log may name
    beside the run's own; ``varied`` is what other habits make of the same releases, ``crowd``
    their ceilings against an adversary who does not know where the others are. With ``is_public`` a run's
    report has the same figures and nobody in it. :class:`OutputError` where ``source`` is neither.
    """
    if not source.is_dir():
        return audit_report(read_audit(source), _made(source, now))
    log = _read(source, most_exposed, designs, is_public=is_public)
    made = _made(source, now, log, is_public=is_public)
    if priors is None or is_public:  # what the priors add is about the most exposed people
        return run_report(log, made, varied=varied, crowd=crowd, is_public=is_public)
    steps = read_decisions(source / "decisions.jsonl", priors.registry)
    later = exposed_in_hindsight(log, priors, steps)
    return run_report(log, made, lowering(log, priors, steps), later, varied, crowd)


def save_report(html: str, output: Path) -> int:
    """Write the page, as a PDF where the file's name ends so; returns its size in bytes."""
    page = pdf_of(html) if is_pdf(output) else html.encode()
    with private_file(output) as file:  # it names the most exposed people by pseudonym
        file.write(page)
    return len(page)


def is_pdf(output: Path) -> bool:
    """Whether this file is to be a PDF."""
    return output.suffix.lower() == SUFFIX
