"""What the crowd hides of each sensor's counts, and what it does to the ceilings, for metrics and page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge

from models.releases import Sensor
from stream_app.setup.settings import Settings
from stream_app.watching.events import StepClosed
from stream_app.wire import CrowdSummary

if TYPE_CHECKING:
    from accounting.exposure.crowd import CrowdAdversary

HOURS = 24
MOST_SIGMA = 99.9
"""What more is shown as: nobody needs to know how much more."""


@dataclass(frozen=True)
class HiddenLine:
    """One sensor by hour of the day: noise, in people, that would hide as much as the crowd did at its least.

    0 where nobody is hidden, None for an hour that has not come yet.
    """

    sensor: str
    sigmas: tuple[float | None, ...] = (None,) * HOURS


def adversary_of(settings: Settings | None) -> CrowdAdversary | None:
    """The crowd adversary whom ceilings are computed against; None where they are not."""
    return settings.crowd.adversary if settings is not None and settings.has_crowd else None


def sigmas_of(event: StepClosed, adversary: CrowdAdversary | None) -> dict[str, float]:
    """Noise that would hide as much as the crowd does in this step, in people, by sensor."""
    if event.crowds is None or adversary is None:
        return {}
    from accounting.exposure.crowd import equivalent_sigma

    names = (release.sensor.name for release in event.schedule.releases)
    return {
        name: min(equivalent_sigma(crowd, adversary), MOST_SIGMA)
        for name, crowd in zip(names, event.crowds, strict=True)
    }


def with_step(lines: Sequence[HiddenLine], sigmas: Mapping[str, float], hour: int) -> tuple[HiddenLine, ...]:
    """The lines after a step that began in this hour of the day: the least that was hidden then."""
    found = {line.sensor: line for line in lines}
    for name, sigma in sigmas.items():
        known = list(found.get(name, HiddenLine(name)).sigmas)
        before = known[hour]
        known[hour] = sigma if before is None else min(before, sigma)
        found[name] = HiddenLine(name, tuple(known))
    return tuple(found[name] for name in sorted(found))


def hour_of(step: int, settings: Settings) -> int:
    """The hour of the day, UTC, that a step begins in."""
    return (settings.origin_seconds + step * settings.step_seconds) // 3600 % HOURS


class CrowdMetrics:
    """Gauges of the ceilings in the crowd; +Inf where they are not computed."""

    def __init__(
        self, registry: CollectorRegistry, sensors: Sequence[Sensor], settings: Settings | None
    ) -> None:
        self._adversary = adversary_of(settings)
        self._mean = Gauge(
            "tallyguard_crowd_risk_mean",
            "Mean ceiling against an adversary who does not know where the others are; +Inf if not computed",
            registry=registry,
        )
        self._added = Gauge(
            "tallyguard_crowd_added_risk_mean",
            "Mean risk that the releases added, against that adversary; +Inf if not computed",
            registry=registry,
        )
        self._at_risk = Gauge(
            "tallyguard_people_at_crowd_risk",
            "People whose ceiling against that adversary is at or above the threshold; +Inf if not computed",
            ["threshold"],
            registry=registry,
        )
        self._sigma = Gauge(
            "tallyguard_sensor_crowd_sigma",
            "Noise, in people, that would hide as much as the crowd at the sensor's count of the last step; "
            "0 = nobody is hidden or no crowd computed, +Inf where it counted nothing",
            ["sensor"],
            registry=registry,
        )
        self._levels: tuple[str, ...] = ()
        self._sensors = tuple(sensor.name for sensor in sensors)
        for name in self._sensors:
            self._sigma.labels(name).set(0.0)

    def show_nobody(self, levels: Iterable[str]) -> None:
        """Before the first step, or where nobody is accounted."""
        self._levels = tuple(levels)
        self.accounted(None)

    def closed(self, event: StepClosed) -> None:
        """A step's counts hid among others; a sensor without one hid nobody and gave nobody away."""
        if event.crowds is None or self._adversary is None:
            return
        for name, sigma in (dict.fromkeys(self._sensors, inf) | sigmas_of(event, self._adversary)).items():
            self._sigma.labels(name).set(sigma)

    def accounted(self, summary: CrowdSummary | None) -> None:
        """What a step did to the ceilings; None where they are not computed."""
        self._mean.set(inf if summary is None else summary.mean_risk)
        self._added.set(inf if summary is None else summary.mean_added)
        for level in self._levels:
            people = inf if summary is None else _at(summary, level)
            self._at_risk.labels(level).set(people)


def _at(summary: CrowdSummary, level: str) -> float:
    return float(next((count for text, count in summary.at_risk.items() if float(text) == float(level)), 0))
