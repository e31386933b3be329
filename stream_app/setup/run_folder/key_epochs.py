"""The noise key's next epoch: what was released stays, and the key that it was drawn with is gone.

A key that is stolen later then opens no count of the steps before. It cannot be undone: values of an earlier
epoch can neither be drawn again nor be continued for a tier added later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from models.keys import NoiseKey
from models.noise import CorrelatedNoise
from stream_app.exceptions import OutputError, RunChangedError
from stream_app.setup.keys import noise_key_file
from stream_app.setup.run_folder.durable import FolderLock
from stream_app.setup.run_folder.key_record import carry_record
from stream_app.setup.run_folder.manifest import load_document, replace_noise_key
from stream_app.setup.run_folder.record import Author
from stream_app.setup.settings import Settings


class Advanced(NamedTuple):
    """The key's file and its epoch from now on; ``first_step`` drawn with it, None where it is not known."""

    file: Path
    epoch: int
    first_step: int | None


def advance_noise_key(settings: Settings, output: Path | None, author: Author | None = None) -> Advanced:
    """Put the next epoch's key in the place of the noise key; of a stopped run where ``output`` is given.

    The run's record (with the ``author``) and ``run.json`` are written first: a call that was interrupted is
    completed by the next. With a run, :class:`OutputError` while a step may be out that its log does not
    hold.
    """
    file = noise_key_file(settings, output)
    key = NoiseKey.load(file)
    later = key.at_epoch(key.epoch + 1)
    if output is None:
        carry_record(settings, file.parent, key, later)
        key.advance_file(file, later.epoch)
        return Advanced(file, later.epoch, None)
    with _stopped(output):
        first = whole_steps(output)
        _hand_over(output, key, later, first, author)
        carry_record(settings, output, key, later)
        key.advance_file(file, later.epoch)
    return Advanced(file, later.epoch, first)


@contextmanager
def _stopped(output: Path) -> Iterator[None]:
    """No run writes to the folder while the block runs."""
    if not (output / "run.json").is_file():
        raise OutputError(
            f"{output} must be the output folder of a run",
            "no run.json in it",
            "correct --output; on Kafka leave it out",
        )
    lock = FolderLock(output)
    try:
        yield
    finally:
        lock.release()


def _hand_over(output: Path, key: NoiseKey, later: NoiseKey, first_step: int, author: Author | None) -> None:
    """Let the run go on with the later key from its next step on."""
    run = load_document(output / "run.json")
    noted = run.get("noise_key")
    if noted == later.fingerprint():
        return  # an earlier call was interrupted between the two files
    if noted != key.fingerprint():
        raise RunChangedError(
            f"the noise key must be the one that {output} is drawn with",
            "another key",
            "name the run's key: the settings must be those of the run",
        )
    check_between_windows(run["release"]["covariance"], first_step)
    replace_noise_key(output, later.fingerprint(), first_step, author)


def check_between_windows(covariance: Path | str | None, first_step: int) -> None:
    """:class:`OutputError` for a key that would begin within a noise window.

    A window's vector comes from one key, or it does not hide what it was designed to hide.
    """
    if covariance is None:
        return
    steps = CorrelatedNoise.load(Path(covariance)).steps
    position = first_step % steps
    if position:
        raise OutputError(
            f"a noise window of {steps} steps must end before its key does",
            f"step {first_step}, position {position} of a window",
            f"go on to step {first_step - position + steps} with the key in use and stop there",
        )


def whole_steps(output: Path) -> int:
    """How many steps are out; :class:`OutputError` while one may be out in part and needs its key again."""
    decided, released = (_lines(output / name) for name in ("decisions.jsonl", "releases.jsonl"))
    if not decided.ends_whole or not released.ends_whole or decided.lines != released.lines:
        raise OutputError(
            "every step that was started must be released before its noise key is erased",
            f"step {released.lines} started and not released, as the run was killed there",
            "start the run once more with the key it has, let it end or stop it (SIGTERM), then change it",
        )
    return released.lines


class _Lines(NamedTuple):
    lines: int
    ends_whole: bool


def _lines(path: Path) -> _Lines:
    """The lines of a file, durable from now on; none where it was not begun."""
    lines, last = 0, b"\n"
    if not path.exists():
        return _Lines(lines, ends_whole=True)
    with path.open("rb") as content:
        for last in content:
            lines += last.endswith(b"\n")
        os.fsync(content.fileno())
    return _Lines(lines, last.endswith(b"\n"))
