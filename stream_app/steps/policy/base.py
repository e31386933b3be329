"""What every policy answers, and the policy of a schedule file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from models.releases import Schedule, StepSchedule
from stream_app.wire import DecisionReason


class Decided(NamedTuple):
    """A step's schedule, and why it is so where that was found rather than configured."""

    schedule: StepSchedule
    why: DecisionReason | None = None


class Policy(Protocol):
    """Decides how the announced sensors of a step are released."""

    def decide(self, step: int, sensors: Sequence[str]) -> Decided:
        """The step's schedule: each sensor once, in the order of announcement."""

    def accounted(self, step: StepSchedule) -> None:
        """Hear of a step that is about to be accounted, whoever decided it."""


class ScheduledPolicy:
    """A schedule file's mechanisms for the steps it covers, another policy for all others."""

    def __init__(self, schedule: Schedule, otherwise: Policy) -> None:
        self._steps = {step.step: step for step in schedule.steps}
        self.otherwise = otherwise

    def decide(self, step: int, sensors: Sequence[str]) -> Decided:
        """The step as the file has it."""
        scheduled = self._steps.get(step)
        return self.otherwise.decide(step, sensors) if scheduled is None else Decided(scheduled)

    def accounted(self, step: StepSchedule) -> None:
        """Passed on."""
        self.otherwise.accounted(step)


def announced_sensors(schedule: Schedule | None) -> dict[int, tuple[str, ...]]:
    """The sensors of each step of a schedule, by name."""
    if schedule is None:
        return {}
    return {step.step: tuple(release.sensor.name for release in step.releases) for step in schedule.steps}
