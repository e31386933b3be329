"""The report as a PDF to file: the same page, set by WeasyPrint, which needs Pango from the system."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stream_app.exceptions import OutputError
from stream_app.setup.logs import only_errors_of

SUFFIX = ".pdf"
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
