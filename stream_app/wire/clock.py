"""Time as the engine sees it: passed in, so that tests need not wait, and kept at a steady pace."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

logger = logging.getLogger(__name__)

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
TOLERANCE_SECONDS = 1.0
"""How far a clock may be set forward at once and still be followed."""


class Clock:
    """The machine's two kinds of time; tests pass in one of their own."""

    def now_seconds(self) -> float:
        """Unix time, for the grace by the clock."""
        return time.time()

    def monotonic_seconds(self) -> float:
        """Seconds since some moment, never jumping, for durations.

        With those in which the machine slept, if the system counts them.
        """
        return time.clock_gettime(_SINCE_BOOT)


class ClockOff(NamedTuple):
    """How far a clock is ahead of the accepted time, and how long steps still wait after it was set back."""

    ahead_seconds: float = 0.0
    behind_seconds: float = 0.0


class SteadyTime:
    """Unix time by a clock that may jump; never later than the start plus the elapsed time.

    A clock that is set back is followed: steps wait. One that jumps forward is not followed, until it comes
    back or something else confirms the new time: steps that close too early would lose counts still to come.
    """

    def __init__(self, seconds: float, elapsed_seconds: Callable[[], float]) -> None:
        """``seconds`` is the clock at the start, which is accepted."""
        self._elapsed_seconds = elapsed_seconds
        self._shown = self._most = seconds - elapsed_seconds()  # both minus the elapsed time
        self._held = self._shown  # the latest time accepted without a confirmation
        self._is_ahead = False
        self._latest_seconds = seconds

    def observe(self, seconds: float) -> None:
        """Take a reading of the clock."""
        elapsed_seconds = self._elapsed_seconds()
        self._shown = seconds - elapsed_seconds
        was_ahead, self._is_ahead = self._is_ahead, self._shown > self._most + TOLERANCE_SECONDS
        if not self._is_ahead:
            self._most = max(self._most, self._shown)
            self._held = max(self._held, self._shown)
        elif not was_ahead:
            ahead = self._shown - self._most
            logger.warning("the clock jumped %.0f s forward; steps close by the elapsed time instead", ahead)
        if was_ahead and not self._is_ahead:
            logger.warning("the clock agrees with the elapsed time again")
        self._latest_seconds = max(self._latest_seconds, elapsed_seconds + min(self._shown, self._most))

    def vouch(self, seconds: float) -> None:
        """Something other than the clock shows that it is at least this late."""
        self._most = max(self._most, seconds - self._elapsed_seconds())

    def now_seconds(self) -> float:
        """Unix time, as far as it is accepted."""
        return self._elapsed_seconds() + min(self._shown, self._most)

    def at_most_seconds(self) -> float:
        """The latest Unix time by the clock and its own past, to check that something is not in the future.

        A clock that is set back makes nothing early, and no sender can confirm a later time.
        """
        return self._elapsed_seconds() + max(self._shown, self._held)

    @property
    def off(self) -> ClockOff:
        """How far the clock is off by its last reading; one that was set back catches up as time passes."""
        ahead = max(0.0, self._shown - self._most) if self._is_ahead else 0.0
        return ClockOff(ahead, max(0.0, self._latest_seconds - self.now_seconds()))
