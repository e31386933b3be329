"""The report an officer can file: one self-contained page made from what a run or an audit wrote."""

from stream_app.analysis.report.dpia import Asked
from stream_app.analysis.report.lowering import Priors, load_priors
from stream_app.analysis.report.write import (
    check_can_print,
    is_pdf,
    make_annex,
    make_report,
    save_report,
    write_report,
)
from stream_app.analysis.run_log import RunLog, read_run

__all__ = [
    "Asked",
    "Priors",
    "RunLog",
    "check_can_print",
    "is_pdf",
    "load_priors",
    "make_annex",
    "make_report",
    "read_run",
    "save_report",
    "write_report",
]
