"""Late and corrected values of a run: ``revised.jsonl`` in its output folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from stream_app.exceptions import OutputError, restoring
from stream_app.setup.run_folder.durable import AppendFile, sync_folder
from stream_app.setup.run_folder.record import extended
from stream_app.wire import StepRelease

REVISED = "revised.jsonl"

_Key = tuple[int, str, int]


class RevisedLog:
    """Values of steps that were closed before, in the order of their publication.

    A complete line is a fact, as one of the releases is: what a killed run wrote after its last commit is
    not written again, with whatever key it would be drawn now. The file is made for the first value.
    """

    def __init__(self, folder: Path, committed: int) -> None:
        """``committed`` bytes belong to the last commit; a torn last line after them is cut."""
        self._path = folder / REVISED
        self._file: AppendFile | None = None
        self.digest = ""
        self._known: set[_Key] = set()
        if self._path.exists():
            self._file = AppendFile(self._path)
            content = self._path.read_bytes()
            kept = content.rfind(b"\n") + 1
            self.digest = extended("", content[:kept])
            if kept < committed:
                raise self._damaged(f"fewer than the {committed} bytes that were written to it")
            self._file.truncate(kept)
            with self._path.open("rb") as lines:
                lines.seek(committed)
                for line in lines:
                    self._known |= set(_keys(self._read(line)))
        elif committed:
            raise self._damaged("none")

    @property
    def length(self) -> int:
        """Durable bytes."""
        return 0 if self._file is None else self._file.length

    def publish(self, release: StepRelease, note: Callable[[bytes], object] = lambda line: None) -> None:
        """Make a message durable, without values that an earlier run has published.

        ``note`` is called with the line before it leaves.
        """
        new = tuple(
            entry
            for entry, key in zip(release.releases, _keys(release), strict=True)
            if key not in self._known
        )
        if not new:
            return
        if self._file is None:
            self._file = AppendFile(self._path)
            sync_folder(self._path.parent)
        line = release.model_copy(update={"releases": new}).line()
        note(line)
        self._file.append(line)
        self._file.sync()
        self.digest = extended(self.digest, line)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _read(self, line: bytes) -> StepRelease:
        try:
            return StepRelease.model_validate_json(line)
        except ValidationError as error:
            raise self._damaged(error.errors(include_url=False, include_input=False)[0]["msg"]) from error

    def _damaged(self, found: str) -> OutputError:
        return OutputError(f"{self._path} must be as it was written", found, restoring(REVISED))


def _keys(release: StepRelease) -> Iterator[_Key]:
    """By what a value is known: step, sensor and version."""
    return ((release.step, entry.sensor, entry.version or 1) for entry in release.releases)
