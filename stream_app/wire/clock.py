"""Time as the engine sees it: passed in, so that tests need not wait, and held to a steady pace."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

logger = logging.getLogger(__name__)

TOLERANCE_SECONDS = 1.0
"""How far a clock may be set forward at once and be followed."""


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
        """Seconds since some moment; where the system can tell, those in which it slept too."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ClockOff(NamedTuple):
    """How far a clock is ahead of what is believed, and how long steps wait since it was set behind."""

    ahead_seconds: float = 0.0
    behind_seconds: float = 0.0


class SteadyTime:
    """Unix time by a clock that may jump, never ahead of where the elapsed time since the start leads.

    A clock that is set back is followed: steps wait. One that jumps forward is not, until it comes back or
    something else vouches for the new time: closing steps too early would lose what is still to come.
    """

    def __init__(self, seconds: float, elapsed_seconds: Callable[[], float]) -> None:
        """``seconds`` is what the clock says at the start, and believed."""
        self._elapsed_seconds = elapsed_seconds
        self._shown = self._most = seconds - elapsed_seconds()  # both less the elapsed time
        self._held = self._shown  # as the clock was believed without anybody vouching
        self._is_ahead = False
        self._latest_seconds = seconds

    def observe(self, seconds: float) -> None:
        """What the clock says now."""
        self._shown = seconds - self._elapsed_seconds()
        was_ahead, self._is_ahead = self._is_ahead, self._shown > self._most + TOLERANCE_SECONDS
        if not self._is_ahead:
            self._most = max(self._most, self._shown)
            self._held = max(self._held, self._shown)
        elif not was_ahead:
            ahead = self._shown - self._most
            logger.warning("the clock jumped %.0f s forward; steps close by the elapsed time instead", ahead)
        if was_ahead and not self._is_ahead:
            logger.warning("the clock agrees with the elapsed time again")
        self._latest_seconds = max(self._latest_seconds, self.now_seconds())

    def vouch(self, seconds: float) -> None:
        """Something other than the clock shows that it is at least so late."""
        self._most = max(self._most, seconds - self._elapsed_seconds())

    def now_seconds(self) -> float:
        """Unix time, as far as it is believed."""
        return self._elapsed_seconds() + min(self._shown, self._most)

    def at_most_seconds(self) -> float:
        """Unix time, as late as it may be by the clock and its own past: for what must not lie ahead of it.

        A clock that is set back makes nothing early, and nobody who sends can vouch for a later time.
        """
        return self._elapsed_seconds() + max(self._shown, self._held)

    @property
    def off(self) -> ClockOff:
        """Whether the clock is followed, by its last reading. One set back makes up for it as time passes."""
        ahead = max(0.0, self._shown - self._most) if self._is_ahead else 0.0
        return ClockOff(ahead, max(0.0, self._latest_seconds - self.now_seconds()))
