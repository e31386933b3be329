"""Which mechanism for which sensor: decided from schedule and settings only, never from a count.

So a decision says nothing about anybody and needs no accounting of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from models import mechanisms
from models.correlated_noise import CorrelatedNoise
from models.exceptions import MechanismError
from models.mechanisms import Correlated, Mechanism, Tiered
from models.mechanisms.correlated import CorrelatedSteps, know_design
from models.schedule import Schedule, SensorRelease, StepSchedule
from models.sensors import SensorRegistry
from stream_app.exceptions import SettingsError
from stream_app.settings import ReleaseSettings, SensorPolicy, policy_parameters


class Policy(Protocol):
    """Decides how the announced sensors of a step are released."""

    def decide(self, step: int, sensors: Sequence[str]) -> StepSchedule:
        """The step's schedule: each sensor once, in the order of announcement."""


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

    def decide(self, step: int, sensors: Sequence[str]) -> StepSchedule:
        """The step with each sensor's configured mechanism."""
        return StepSchedule(
            step,
            tuple(
                SensorRelease(
                    self._registry.get(name), _at_step(self._exceptions.get(name, self._default), step)
                )
                for name in sensors
            ),
        )

    def mechanisms(self) -> tuple[StepMechanism, ...]:
        """Every mechanism that may be decided on."""
        return self._default, *self._exceptions.values()


class ScheduledPolicy:
    """A schedule file's mechanisms for the steps it covers, another policy for all others."""

    def __init__(self, schedule: Schedule, otherwise: Policy) -> None:
        self._steps = {step.step: step for step in schedule.steps}
        self._otherwise = otherwise

    def decide(self, step: int, sensors: Sequence[str]) -> StepSchedule:
        """The step as the file has it."""
        scheduled = self._steps.get(step)
        return self._otherwise.decide(step, sensors) if scheduled is None else scheduled


def policy_from(settings: ReleaseSettings, registry: SensorRegistry) -> FixedPolicy:
    """The policy of the settings; :class:`SettingsError` for unknown sensors, mechanisms and parameters."""
    if settings.covariance is not None:  # a schedule may name the design too
        know_design(_covariance(settings.covariance))
    exceptions = {}
    for name, exception in settings.sensors.items():
        registry.get(name)
        exceptions[name] = _mechanism(f"release.sensors.{name}", exception, settings)
    return FixedPolicy(registry, _mechanism("release", settings, settings), exceptions)


def announced_sensors(schedule: Schedule | None) -> dict[int, tuple[str, ...]]:
    """The sensors of each step of a schedule, by name."""
    if schedule is None:
        return {}
    return {step.step: tuple(release.sensor.name for release in step.releases) for step in schedule.steps}


def _at_step(mechanism: StepMechanism, step: int) -> Mechanism:
    return mechanism.at_step(step) if isinstance(mechanism, CorrelatedSteps) else mechanism


def _covariance(path: Path) -> CorrelatedNoise:
    try:
        return CorrelatedNoise.load(path)
    except MechanismError as error:
        raise SettingsError(f"release.covariance: {error.must}", error.got, error.remedy) from error


def _mechanism(where: str, policy: ReleaseSettings | SensorPolicy, release: ReleaseSettings) -> StepMechanism:
    """The mechanism a section of the settings names; tiers and covariance are the deployment's."""
    name, parameters = policy_parameters(policy)
    try:
        if name == Correlated.name and release.covariance is not None and not parameters:
            return CorrelatedSteps(_covariance(release.covariance))
        if name == Tiered.name and not parameters:
            return Tiered(tuple(release.tiers.items()))
        return mechanisms.parse(name, parameters)
    except MechanismError as error:
        raise SettingsError(f"{where}: {error.must}", error.got, error.remedy) from error
