"""What may be decided for each sensor, in falling order of usefulness, and what each choice costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from accounting.exceptions import SettingsError
from models.mechanisms import Mechanism, Suppressed
from models.releases import Sensor, SensorRelease, StepSchedule

Assignment: TypeAlias = tuple[int, ...]
"""One option for each sensor, by index."""


@dataclass(frozen=True, slots=True)
class SensorChoice:
    """A sensor's options, the most useful first; the last one publishes nothing.

    ``costs`` are what each option loses: the sensor's weight times the expected absolute error, in people;
    suppressing costs as much as the largest error that is still thought better than nothing.
    """

    sensor: Sensor
    options: tuple[Mechanism, ...]
    costs: tuple[float, ...]

    def __post_init__(self) -> None:
        """:class:`~accounting.exceptions.SettingsError` unless costs rise and the last option is silence."""
        if len(self.options) != len(self.costs) or list(self.costs) != sorted(self.costs):
            raise SettingsError(
                f"costs of the options of sensor {self.sensor.name!r} must rise, one for each option",
                self.costs,
                "sort the options by what they lose",
            )
        if not self.options or self.options[-1].is_released:
            raise SettingsError(
                f"the last option of sensor {self.sensor.name!r} must publish nothing",
                [option.name for option in self.options],
                "add suppression at the end",
            )

    @classmethod
    def of(
        cls, sensor: Sensor, released: Sequence[Mechanism], *, weight: float, cost_of_silence: float
    ) -> SensorChoice:
        """Choose among these mechanisms, the least error first, and silence."""
        errors = sorted((option.expected_absolute_error(), k) for k, option in enumerate(released))
        costs = [weight * error for error, _ in errors]
        options = (*(released[k] for _, k in errors), Suppressed())
        return cls(sensor, options, (*costs, max([weight * cost_of_silence, *costs])))


def schedule_of(step: int, choices: Sequence[SensorChoice], assignment: Assignment) -> StepSchedule:
    """The step with each sensor's chosen option."""
    return StepSchedule(
        step,
        tuple(
            SensorRelease(choice.sensor, choice.options[k])
            for choice, k in zip(choices, assignment, strict=True)
        ),
    )


def cost_of(choices: Sequence[SensorChoice], assignment: Assignment) -> float:
    """What an assignment loses, summed over the sensors."""
    return sum(choice.costs[k] for choice, k in zip(choices, assignment, strict=True))


def released_by(choices: Sequence[SensorChoice], assignment: Assignment) -> int:
    """How many sensors publish something."""
    return sum(choice.options[k].is_released for choice, k in zip(choices, assignment, strict=True))
