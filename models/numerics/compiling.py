"""Messages about compiling, which takes minutes once a machine: users should know why they wait."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from numba.core import event

from models.numerics.memory import SELDOM

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

logger = logging.getLogger(__name__)

_PATIENCE: Final = 1.0  # seconds of compiling before the first message
_AGAIN: Final = 30.0  # seconds between two messages where there is no terminal
_what = "compiling for this machine, once"
_WHAT_EACH_TIME: Final = "compiling, and nothing of it can be kept"


@contextmanager
def announced_compiling() -> Iterator[None]:
    """Report kernels that are compiled in the block: by a bar on a terminal, else by lines or in the log.

    Kernels from the cache are not reported, nor kernels outside tallyguard.
    """
    event.register("numba:compile", _notice)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", _notice)  # type: ignore[no-untyped-call]


@cache
def announce_waiting() -> None:
    """Say once that another process is compiling what this one needs."""
    _say("another process compiles what this one needs too: waiting for it (up to some minutes, once)")


@cache
def announce_unkept(folder: Path | None, reason: str, instead: Path | None) -> None:
    """Say once that kernels are not cached where they should be, and what to do."""
    global _what  # noqa: PLW0603 - it is true for all kernels of this process
    user = os.geteuid()
    if instead is None:
        _what = _WHAT_EACH_TIME
        meanwhile = "they are compiled again at every command, which takes minutes"
    else:
        meanwhile = f"they are kept in {str(instead)!r} until that is emptied"
    where = "a folder" if folder is None else repr(str(folder))
    _say(
        f"compiled kernels must be kept in a folder that user {user} can write to, got {where} ({reason}): "
        f"{meanwhile}; make it writable, see that its disk has room, or set NUMBA_CACHE_DIR to another",
        logging.WARNING,
    )


@cache
def announce_damaged(path: Path, reason: str) -> None:
    """Say once that compiled kernels beside the sources are not used."""
    _say(
        f"the compiled kernels in {str(path)!r} must be those that were written there, got {reason}: kernels "
        "are compiled on this machine instead; write the file again with `make kernels`, or remove it",
        logging.WARNING,
    )


class _Notice(event.Listener):
    """Counts kernels, and makes garbage collection rarer meanwhile.

    A kernel that another calls is compiled inside that one, so only the outermost is timed.
    """

    def __init__(self) -> None:
        self._depth = self._done = 0
        self._since = 0.0  # when the outermost kernel was begun
        self._seconds = 0.0  # spent on earlier ones
        self._collected = gc.get_threshold()  # of the process, restored afterwards
        self._announced_seconds = -_AGAIN
        self._bar: tuple[Progress, TaskID] | None = None

    def on_start(self, event: Any) -> None:
        """A kernel is begun."""
        if self._depth == 0:
            self._since = time.monotonic()
            self._collected = gc.get_threshold()
            gc.set_threshold(*SELDOM)  # collecting numba's objects took a seventh of the time
        self._depth += 1
        self._show()

    def on_end(self, event: Any) -> None:
        """A kernel is done."""
        self._depth -= 1
        self._done += 1
        if self._depth > 0:
            return
        gc.set_threshold(*self._collected)
        self._seconds += time.monotonic() - self._since
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def _show(self) -> None:
        seconds = self._seconds + time.monotonic() - self._since
        if seconds < _PATIENCE:
            return
        if sys.stderr.isatty():
            self._bar = self._bar or _bar()
            progress, task = self._bar
            progress.update(task, completed=self._done)
        elif seconds - self._announced_seconds >= _AGAIN:
            self._announced_seconds = seconds
            done = f", {self._done} kernels after {seconds:.0f} s" if self._done else ""
            _say(f"{_what} (up to some minutes){done}")


_notice: Final = _Notice()


def _say(text: str, level: int = logging.INFO) -> None:
    """Log it if the log takes it; else print it, unless the level of our own logger excludes it."""
    is_logged = logger.hasHandlers() and logger.isEnabledFor(level)
    if is_logged or logging.getLogger("models").level != logging.NOTSET:
        logger.log(level, "%s", text)
    else:
        print(text, file=sys.stderr, flush=True)


def _bar() -> tuple[Progress, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} kernels"),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.start()
    return progress, progress.add_task(_what, total=None)
