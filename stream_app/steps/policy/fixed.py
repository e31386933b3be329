"""One configured mechanism a sensor, whatever was released before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from models.mechanisms import CorrelatedSteps, Mechanism
from models.releases import SensorRegistry, SensorRelease, StepSchedule
from stream_app.steps.policy.base import Decided

if TYPE_CHECKING:
    from accounting.exposure.crowd import StepCrowd

StepMechanism: TypeAlias = Mechanism | CorrelatedSteps
"""The same mechanism at every step, or one that knows the step's place in its noise window."""


class FixedPolicy:
    """One mechanism for all sensors, with exceptions by sensor."""

    def __init__(
        self,
        registry: SensorRegistry,
        default: StepMechanism,
        exceptions: Mapping[str, StepMechanism] | None = None,
    ) -> None:
        self._registry = registry
        self._default = default
        self._exceptions = dict(exceptions or {})

    def decide(self, step: int, sensors: Sequence[str], crowds: StepCrowd | None = None) -> Decided:
        """The step with each sensor's configured mechanism."""
        releases = (
            SensorRelease(self._registry.get(name), at_step(self._exceptions.get(name, self._default), step))
            for name in sensors
        )
        return Decided(StepSchedule(step, tuple(releases)))

    def accounted(self, step: StepSchedule, crowds: StepCrowd | None = None) -> None:
        """Nothing depends on what was released before."""

    def in_windows(self) -> dict[str, Mechanism]:
        """The mechanism of each sensor with a window, the same at every step."""
        return {
            sensor.name: at_step(self._exceptions.get(sensor.name, self._default), 0)
            for sensor in self._registry.windowed
        }

    def mechanisms(self) -> tuple[StepMechanism, ...]:
        """Every mechanism that may be decided on."""
        return self._default, *self._exceptions.values()


def at_step(mechanism: StepMechanism, step: int) -> Mechanism:
    """The mechanism a sensor has in one step."""
    return mechanism.at_step(step) if isinstance(mechanism, CorrelatedSteps) else mechanism
