"""``totals.jsonl``: the totals of a run while it goes on."""

from __future__ import annotations

from pathlib import Path

from stream_app.setup.run_folder.durable import replace_file
from stream_app.steps import RunTotals
from stream_app.watching.events import Observer, RunStarted, StepClosed

TOTALS_FILE = "totals.jsonl"


class TotalsFile(Observer):
    """Keeps ``totals.jsonl`` beside a run's logs.

    It is made anew from the logs of the committed steps when a run starts, and goes on from there: after a
    kill at any moment it is as if there had been none.
    """

    may_lag = True

    def __init__(self, folder: Path, totals: RunTotals) -> None:
        self._path, self._totals = folder / TOTALS_FILE, totals

    def started(self, event: RunStarted) -> None:
        """Write what is known before the first step of this process."""
        replace_file(self._path, b"".join(each.line() for each in self._totals.until(event.next_step)))

    def closed(self, event: StepClosed) -> None:
        """Add what the step completes."""
        lines = b"".join(each.line() for each in self._totals.until(event.step + 1))
        if lines:
            with self._path.open("ab") as file:
                file.write(lines)
