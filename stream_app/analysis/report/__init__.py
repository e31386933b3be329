"""The report an officer can file: one self-contained page made from what a run or an audit wrote."""

# mypy: implicit-reexport
# ruff: noqa: F401

from stream_app.analysis.report.dpia import Asked
from stream_app.analysis.report.lowering import Priors, load_priors
from stream_app.analysis.report.write import (
    is_pdf,
    make_annex,
    make_report,
    save_report,
    weasyprint,
    write_report,
)
from stream_app.analysis.run_log import RunLog, read_run
