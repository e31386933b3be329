"""One line a step, with the time it took; and the error that ends a rehearsal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RehearsalError(Exception):
    """What did not go as it must."""


class Clock:
    """Seconds that a block took."""

    seconds = 0.0


_BEGAN = time.monotonic()


def say(text: str) -> None:
    """A line with the seconds since the start."""
    sys.stdout.write(f"{time.monotonic() - _BEGAN:6.0f} s  {text}\n")
    sys.stdout.flush()


@contextmanager
def step(text: str) -> Iterator[Clock]:
    """Say what was done once the block has ended, and how long it took."""
    clock, began = Clock(), time.monotonic()
    yield clock
    clock.seconds = time.monotonic() - began
    say(f"{text} ({clock.seconds:.1f} s)")


def wait_until(what: str, is_so: Callable[[], bool], seconds: float) -> float:
    """Ask every half second until it is so; how long it took."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > seconds:
            raise RehearsalError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.5)
    return time.monotonic() - began
