"""What a run releases, followed as it grows, for connectors that send it on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stream_app.exceptions import OutputError
from stream_app.setup.run_folder.durable import load_document, parsed_line, replace_file
from stream_app.setup.run_folder.run_settings import RunTimes
from stream_app.steps import Intervals, public_release
from stream_app.wire import LineReader, SensorValue, StepRelease

# The releases of an output folder, followed while a run continues, from where an earlier process stopped.

_CHUNK_BYTES = 1 << 18
_RELEASES, _REVISED = "releases.jsonl", "revised.jsonl"


class PublishedLog:
    """All that a run has published, as it comes: its releases, and behind them late and corrected values.

    Of tiered readings it is the least informed tier's, what everybody may read. ``place`` is the file that
    says how far an earlier process came, with both; None where nobody keeps it. The log of another run is
    taken from its beginning. :class:`OutputError` for a folder that is none of a run.
    """

    def __init__(self, folder: Path, place: Path | None) -> None:
        self.times = RunTimes(folder)
        saved: dict[str, Any] = load_document(place) if place is not None and place.is_file() else {}
        if "line_count" in saved:  # as it was kept before late values were sent
            saved = {_RELEASES: saved}
        self._folder, self._place, self._at = folder, place, _RELEASES
        self._logs = {
            name: LineReader(name, _growing(folder / name), saved.get(name), keep_torn=True)
            for name in (_RELEASES, _REVISED)
        }
        self._waiting = {name: iter(log) for name, log in self._logs.items()}
        self.intervals = Intervals.of_run(folder)

    @property
    def is_late(self) -> bool:
        """Whether the last one given out was of late or corrected values."""
        return self._at == _REVISED

    @property
    def reached(self) -> dict[str, dict[str, int]]:
        """Where the next process continues, once the last one given out is where it should be."""
        return {name: asdict(log.reached) for name, log in self._logs.items()}

    def next(self) -> StepRelease | None:
        """The next one; None where the run has written none yet."""
        for name, waiting in self._waiting.items():
            line = next(waiting)
            if line.data is not None:
                self._at = name
                return public_release(parsed_line(StepRelease, self._folder / name, line.data))
        return None

    def keep(self, reached: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """Keep the place behind the last one that was given out, or behind an earlier one."""
        if self._place is not None:
            replace_file(self._place, json.dumps(reached or self.reached).encode())


def interval_in(entry: SensorValue, intervals: Intervals) -> dict[str, float | int]:
    """The interval of a published value and its probability; nothing where none is known."""
    low, high = intervals.of(entry)
    if low is None or high is None:
        return {}
    return {"low": low, "high": high, "confidence": intervals.level}


def _growing(path: Path) -> Iterator[bytes]:
    """Whole lines of a file that another process appends to; an empty chunk where none wait, without end.

    A torn last line is not read: the run that wrote it may be started again and cut it.
    """
    while not path.exists():
        yield b""
    with path.open("rb") as file:
        read = 0
        while True:
            chunk = file.read(_CHUNK_BYTES)
            if len(chunk) < _CHUNK_BYTES:
                chunk = chunk[: chunk.rfind(b"\n") + 1]
            read += len(chunk)
            file.seek(read)
            if not chunk and path.stat().st_size < read:
                raise OutputError(
                    f"{path} must only grow", "a shorter file", "start again with the run's own folder"
                )
            yield chunk
