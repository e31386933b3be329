"""Which mechanisms each sensor may be released with under a risk budget, and what each is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from accounting.decisions import SensorChoice
from models.mechanisms import Gaussian, Mechanism, Raw
from models.releases import Sensor
from stream_app.setup.release_settings import RawWish
from stream_app.steps.policy.fixed import StepMechanism, at_step

_CONTRADICTION = 1e6
"""People of error a sensor that must be raw is thought to lose by silence: all others go first."""


@dataclass(frozen=True, slots=True)
class SensorWishes:
    """What is wanted of a sensor.

    ``noised`` are the mechanisms beside raw. ``max_sigma`` is the noise at which its count is worth nothing
    (None: that of the noisiest mechanism). ``weight`` is its importance, ``only`` the one mechanism allowed.
    """

    noised: tuple[Gaussian, ...] = ()
    max_sigma: float | None = None
    raw: RawWish = "allowed"
    weight: float = 1.0
    only: StepMechanism | None = None


@dataclass(frozen=True)
class Menu:
    """Each sensor's choice in a step: the deployment's wishes, with exceptions by sensor."""

    standard: SensorWishes
    exceptions: Mapping[str, SensorWishes] = field(default_factory=dict)

    def choice(self, sensor: Sensor, step: int, at_best: Mechanism | None = None) -> SensorChoice:
        """The options of a sensor; with ``at_best`` (from a schedule) none with a smaller error than that."""
        wishes = self._wishes(sensor.name)
        most = wishes.max_sigma
        kept = tuple(option for option in wishes.noised if most is None or option.sigma <= most)
        options = self._options(wishes, kept, step)
        if at_best is not None:
            options = _no_better_than(at_best, options)
        return SensorChoice.of(
            sensor, options, weight=wishes.weight, cost_of_silence=_cost_of_silence(wishes, kept)
        )

    def must_be_raw(self, sensors: Iterable[Sensor]) -> frozenset[str]:
        """Names of those that the settings want raw whatever comes."""
        return frozenset(s.name for s in sensors if self._wishes(s.name).raw == "always")

    def mechanisms(self) -> tuple[StepMechanism, ...]:
        """Every mechanism beside noise and raw that may be decided on."""
        return tuple(w.only for w in (self.standard, *self.exceptions.values()) if w.only is not None)

    def _wishes(self, name: str) -> SensorWishes:
        return self.exceptions.get(name, self.standard)

    def _options(
        self, wishes: SensorWishes, noised: tuple[Gaussian, ...], step: int
    ) -> tuple[Mechanism, ...]:
        if wishes.only is not None:
            only = at_step(wishes.only, step)
            return (only,) if only.is_released else ()
        if wishes.raw == "always":
            return (Raw(),)
        return noised if wishes.raw == "never" else (Raw(), *noised)


def _no_better_than(at_best: Mechanism, options: tuple[Mechanism, ...]) -> tuple[Mechanism, ...]:
    """The scheduled mechanism and the options that err more."""
    if not at_best.is_released:
        return ()
    least = at_best.expected_absolute_error()
    return (at_best, *(option for option in options if option.expected_absolute_error() > least))


def _cost_of_silence(wishes: SensorWishes, noised: tuple[Gaussian, ...]) -> float:
    """The expected error at which a count is worth nothing any more."""
    if wishes.raw == "always" and wishes.only is None:
        return _CONTRADICTION
    if wishes.max_sigma is not None:
        return Gaussian(wishes.max_sigma).expected_absolute_error()
    return max((option.expected_absolute_error() for option in noised), default=1.0)
