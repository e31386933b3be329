"""What every policy answers, and the policy of a schedule file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from models.releases import Schedule, StepSchedule
from stream_app.wire import DecisionReason

if TYPE_CHECKING:
    from accounting.exposure.crowd import StepCrowd


class Decided(NamedTuple):
    """A step's schedule, and why it is so where that was found rather than configured.

    ``crowds`` are what each of its counts hides among, where risks in the crowd are accounted.
    """

    schedule: StepSchedule
    why: DecisionReason | None = None
    crowds: StepCrowd | None = None


class Policy(Protocol):
    """Decides how the announced sensors of a step are released.

    ``crowds`` are what each of the sensors hides among, where that is known.
    """

    def decide(self, step: int, sensors: Sequence[str], crowds: StepCrowd | None = None) -> Decided:
        """The step's schedule: each sensor once, in the order of announcement."""

    def accounted(self, step: StepSchedule, crowds: StepCrowd | None = None) -> None:
        """Hear of a step that is about to be accounted, whoever decided it."""


class ScheduledPolicy:
    """A schedule file's mechanisms for the steps it covers, another policy for all others."""

    def __init__(self, schedule: Schedule, otherwise: Policy) -> None:
        self._steps = {step.step: step for step in schedule.steps}
        self.otherwise = otherwise

    def decide(self, step: int, sensors: Sequence[str], crowds: StepCrowd | None = None) -> Decided:
        """The step as the file has it."""
        scheduled = self._steps.get(step)
        return self.otherwise.decide(step, sensors, crowds) if scheduled is None else Decided(scheduled)

    def accounted(self, step: StepSchedule, crowds: StepCrowd | None = None) -> None:
        """Passed on."""
        self.otherwise.accounted(step, crowds)


def announced_sensors(schedule: Schedule | None) -> dict[int, tuple[str, ...]]:
    """The sensors of each step of a schedule, by name."""
    if schedule is None:
        return {}
    return {step.step: tuple(release.sensor.name for release in step.releases) for step in schedule.steps}
