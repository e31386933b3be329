"""Time as the engine sees it: passed in, so that tests need not wait."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two kinds of time."""

    def now_seconds(self) -> float:
        """Unix time, for the grace by the clock."""

    def monotonic_seconds(self) -> float:
        """Time that never jumps, for durations."""


class SystemClock:
    """The machine's clock."""

    def now_seconds(self) -> float:
        """Unix time."""
        return time.time()

    def monotonic_seconds(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()
