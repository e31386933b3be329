"""Stopping in order: the first SIGINT, SIGTERM or SIGHUP asks for it, a second one acts as without us.

A terminal that is closed sends SIGHUP, and so do rotations of logs. Whoever started us to live on (``nohup``)
has SIGHUP ignored, and it stays so. SIGINT is heard also where a script's ``&`` has it ignored: somebody has
sent it to us.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
        """Give the pipe back."""
        os.close(self.wake)
        os.close(self._write)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """A stop request that signals set while the block runs; only the main thread gets any."""
    request = StopRequest()
    in_main = threading.current_thread() is threading.main_thread()
    found = {number: signal.getsignal(number) for number in _SIGNALS} if in_main else {}
    before = {
        number: handler
        for number, handler in found.items()
        if handler is not signal.SIG_IGN or number != signal.SIGHUP
    }

    def handle(number: int, frame: FrameType | None) -> None:
        request.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        request.close()
