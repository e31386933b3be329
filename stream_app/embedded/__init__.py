"""One process that reads messages, runs the engine and keeps the output folder."""

# mypy: implicit-reexport
# ruff: noqa: F401

from stream_app.embedded.assembly import RunOptions, prepared, run
from stream_app.embedded.backfill import Archive, check_unreleased, read_archive_steps
from stream_app.embedded.panel import panel_of, watch_panel
from stream_app.embedded.runner import RunReport
