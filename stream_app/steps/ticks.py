"""When steps close by the clock: on their ticks, once what waited in the input has been read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stream_app.exceptions import SettingsError
from stream_app.setup.settings import Settings

QUIET_SECONDS = 1.0
"""Silence after which a pipe is assumed to hold no earlier message."""


_CLOCKS_ARE_SET = 1_577_836_800  # 2020, before this program existed: an earlier clock is not set yet


@dataclass(frozen=True)
class StepClock:
    """The tick of a step comes ``grace_seconds`` after its end; None means that there are no ticks.

    In both cases a step is over once its end is at most ``ahead_seconds`` ahead of the clock; with infinity
    every step is over, whatever the clock says.
    """

    origin_seconds: int
    step_seconds: int
    grace_seconds: float | None
    max_ahead: int
    ahead_seconds: float = math.inf

    @classmethod
    def of(cls, settings: Settings) -> StepClock:
        """The clock of a deployment."""
        return cls(
            settings.origin_seconds,
            settings.step_seconds,
            settings.grace_seconds,
            settings.max_ahead,
            settings.max_ahead_seconds,
        )

    @property
    def has_ticks(self) -> bool:
        """Whether steps close by the clock."""
        return self.grace_seconds is not None

    def due_step(self, now_seconds: float) -> int:
        """The last step whose tick has come; -1 for none."""
        if self.grace_seconds is None:
            return -1
        return int((now_seconds - self.grace_seconds - self.origin_seconds) // self.step_seconds) - 1

    def over_step(self, now_seconds: float) -> float:
        """The last step that is over: counts of later ones cannot be final.

        Infinity where that cannot be said, as before a machine without a battery has set its clock.
        """
        if now_seconds < _CLOCKS_ARE_SET or math.isinf(self.ahead_seconds):
            return math.inf
        return int((now_seconds + self.ahead_seconds - self.origin_seconds) // self.step_seconds) - 1

    def end_of(self, step: int) -> float:
        """When a step ends, in unix seconds."""
        return float(self.origin_seconds + (step + 1) * self.step_seconds)

    def wait_seconds(self, now_seconds: float) -> float:
        """How long to wait for input at a time."""
        return min(QUIET_SECONDS, self.seconds_to_tick(now_seconds))

    def seconds_to_tick(self, now_seconds: float) -> float:
        """How long until the next step is due."""
        if self.grace_seconds is None:
            return math.inf
        tick = self.end_of(self.due_step(now_seconds) + 1) + self.grace_seconds
        return max(0.0, tick - now_seconds)

    def check(self, now_seconds: float, next_step: int) -> None:
        """Refuse to close years of empty steps at once."""
        due = self.due_step(now_seconds)
        if due - next_step >= self.max_ahead:
            raise SettingsError(
                f"with grace_seconds the clock must be within {self.max_ahead} steps of step {next_step}",
                f"step {due}",
                "set the clock, or origin to the true start of step 0; raise max_ahead if all sensors were "
                "silent for so long; or leave grace_seconds out",
            )


class Backlog:
    """Whether the backlog of an input has been read, so that silence means that the sensors are silent.

    It has been read once nothing came for a while, or once most sensors report steps whose tick has not come.
    This is established again after the input was not looked at for more than a step. An input that has sent
    nothing yet is given ``first_seconds``.
    """

    def __init__(self, now_seconds: float, first_seconds: float) -> None:
        self._heard_seconds = now_seconds
        self._patience_seconds = max(QUIET_SECONDS, first_seconds)
        self._is_read = False
        self._due = -1

    def received(self, now_seconds: float) -> None:
        """A message has come."""
        self._heard_seconds, self._patience_seconds = now_seconds, QUIET_SECONDS

    def looked_at(self, due: int) -> None:
        """Note that the input is looked at while ``due`` is the last step whose tick has come."""
        self._is_read = self._is_read and due <= self._due + 1
        self._due = due

    def is_read(self, now_seconds: float, watermark: int) -> bool:
        """Whether the backlog has been read, called when no message is waiting."""
        is_quiet = now_seconds - self._heard_seconds >= self._patience_seconds
        self._is_read = self._is_read or is_quiet or watermark > self._due
        return self._is_read
