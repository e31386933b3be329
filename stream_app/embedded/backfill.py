"""Checks an archive of messages before it is published: which steps it has, and that none was released."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stream_app.exceptions import InputError, OutputError
from stream_app.setup.run_folder.manifest import refuse_copy
from stream_app.setup.run_folder.progress import load_progress
from stream_app.wire import Activation, Rejected, parse

_MESSAGES = ".jsonl"
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Archive:
    """An archive's first and last step; by ``head``, the CRC-32 of its first line, a run knows it again."""

    path: Path
    first_step: int
    last_step: int
    head: int


def read_archive_steps(
    path: Path, advance: Callable[[int], None] = lambda size: None, *, late: int = 0
) -> Archive:
    """The steps of an archive; ``advance`` is called with the number of bytes read.

    :class:`InputError` for a file without messages, or whose readings go back in time by more than ``late``
    steps: a step closes when later ones begin, so such a reading would be refused.
    """
    if path.suffix.lower() != _MESSAGES:
        raise InputError(
            f"an archive to publish must hold messages ({_MESSAGES})",
            path.name,
            f"tallyguard connect files {path.name} --config tallyguard.toml --output messages{_MESSAGES}",
        )
    first: int | None = None
    last = latest_reading = head = unreported = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                head = zlib.crc32(line) if number == 1 else head
                unreported += len(line)
                if unreported >= _MEGABYTE:
                    advance(unreported)
                    unreported = 0
                message = parse(line.rstrip(b"\r\n"), path.name)
                if isinstance(message, Rejected):
                    continue  # a dead letter of the run
                if not isinstance(message, Activation):
                    _check_order(path, number, message.step, latest_reading, late)
                    latest_reading = max(latest_reading, message.step)
                first = message.step if first is None else min(first, message.step)
                last = max(last, message.step)
    except OSError as error:
        raise InputError("the archive must be readable", f"{path}: {error.strerror}", "name a file") from None
    advance(unreported)
    if first is None:
        raise InputError(
            "an archive must hold activations and readings",
            f"none in {path.name}",
            "docs/how-to/run.md#an-archive",
        )
    return Archive(path, first, last, head)


def _check_order(path: Path, line: int, step: int, latest: int, late: int) -> None:
    if step + late < latest:
        raise InputError(
            "readings of an archive must be in the order of their steps",
            f"{path.name}, line {line}: step {step} after step {latest}",
            "write it with tallyguard connect files, sort it by step, or let late counts be published (late)",
        )


def check_unreleased(archive: Archive, output: Path, *, max_ahead: int) -> int:
    """The next step that ``output`` closes with the archive.

    :class:`OutputError` where another input, such as a live run, released steps of the archive already.
    :class:`InputError` where the archive begins so late that its messages would be refused.
    """
    refuse_copy(output)
    commit = load_progress(output)
    next_step = int(commit.get("next_step", 0))
    is_known = (commit.get("position") or {}).get("head") == archive.head
    if archive.first_step < next_step and not is_known:
        raise OutputError(
            f"an archive must follow what {output} has released: a step is released once",
            f"steps before {next_step} are released from another input, and {archive.path.name} has steps "
            f"{archive.first_step} to {archive.last_step}",
            f"give only steps from {next_step} on; what is released stays as it is",
        )
    if archive.first_step > next_step + max_ahead:
        raise InputError(
            f"an archive must begin at most max_ahead = {max_ahead} steps after the next step to close",
            f"step {archive.first_step}, where step {next_step} is next",
            f"set origin {archive.first_step} steps later before anything is released, or raise max_ahead",
        )
    return next_step
