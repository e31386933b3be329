"""This process: what it logs, how it is asked to stop, which version of the program it runs."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import FrameType
from typing import TYPE_CHECKING

from models.numerics.memory import give_memory_back

if TYPE_CHECKING:
    from structlog.typing import Processor

    from stream_app.setup.settings import LogSettings

# Logging on stderr, set up here for every command and worker.
#
# Nothing at ``info`` and above names a person, by id or pseudonym, or a count of a sensor.

_OURS = ("stream_app", "accounting", "models")
_NOT_OURS = ("stream_app.kafka.broker.connection",)  # the logger that Faust uses


class _Stderr(logging.Handler):
    """Writes to whatever stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def start_logging(settings: LogSettings) -> None:
    """Log as the settings say: our own modules at one level, libraries at another."""
    import structlog

    steps: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper("iso", utc=True),
    ]
    if settings.format == "json":
        steps.append(structlog.processors.format_exc_info)
    last: Processor = (
        structlog.processors.JSONRenderer()
        if settings.format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=False,
            pad_event_to=0,
            exception_formatter=structlog.dev.plain_traceback,  # no values of variables: they may be counts
        )
    )
    handler = _Stderr()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
            foreign_pre_chain=steps,
        )
    )
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each, _Stderr)] + [handler]
    root.setLevel(settings.libraries.upper())
    for name in _OURS:
        logging.getLogger(name).setLevel(settings.level.upper())
    for name in _NOT_OURS:
        logging.getLogger(name).setLevel(settings.libraries.upper())


def only_errors_of(library: str) -> None:
    """Leave out a library's warnings that do not concern the operator."""
    logging.getLogger(library).setLevel(logging.ERROR)


# Orderly stops: the first SIGINT, SIGTERM or SIGHUP asks for one, a second signal has its default effect.
#
# Closing a terminal sends SIGHUP, and so do log rotations. A process started with ``nohup`` ignores SIGHUP,
# and it stays ignored. SIGINT is handled even where a script's ``&`` has it ignored: it was sent to us.


class StopRequest:
    """Whether somebody asked to stop. ``wake`` becomes readable then, to end a wait for input."""

    def __init__(self) -> None:
        self.is_set = False
        self.wake, self._write = os.pipe()

    def set(self) -> None:
        """Ask to stop."""
        if not self.is_set:
            self.is_set = True
            os.write(self._write, b"x")

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.wake)
        os.close(self._write)


def stop_signals() -> list[signal.Signals]:
    """The signals that ask this process to stop."""
    return [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """A stop request that signals set while the block runs; only the main thread receives signals.

    Who must be asked to stop may go on for years.
    """
    request = StopRequest()
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in stop_signals()} if in_main else {}

    def handle(number: int, frame: FrameType | None) -> None:
        request.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, handle)
    give_memory_back()
    try:
        yield request
    finally:
        gc.unfreeze()
        for number, handler in before.items():
            signal.signal(number, handler)
        request.close()


NOT_INSTALLED = "unknown"


@cache
def own_version() -> str:
    """The installed version; :data:`NOT_INSTALLED` in a checkout that was never installed."""
    try:
        return version("tallyguard")
    except PackageNotFoundError:
        return NOT_INSTALLED
