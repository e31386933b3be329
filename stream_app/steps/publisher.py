"""Counts of a step become public values, with the deployment's key and the step's absolute interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from models.keys import NoiseKey
from models.releases import CountToPublish, PublishedValue, StepInterval, StepSchedule, publish_step
from stream_app.setup.settings import Settings


@dataclass(frozen=True)
class KeyedPublisher:
    """Publishes with keyed noise: the same reading always gives the same value.

    ``by_region`` has the keys of regions, where there are several: a sensor of any other is not published.
    """

    key: NoiseKey
    deployment: str
    origin_seconds: int
    step_seconds: int
    clamp_negative: bool = False
    by_region: Mapping[str | None, NoiseKey] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, key: NoiseKey, regions: Iterable[str] = ()) -> KeyedPublisher:
        """The publisher of a deployment whose sensors lie in several regions, or in none."""
        return cls(
            key,
            settings.deployment,
            settings.origin_seconds,
            settings.step_seconds,
            settings.release.clamp_negative,
            {region: key.of_region(region) for region in regions},
        )

    def publish(
        self, schedule: StepSchedule, counts: Sequence[int | None], version: int = 1
    ) -> list[PublishedValue]:
        """One value (or one per tier) per release, drawn in one batch; None for missing and suppressed.

        Counts over windows of several steps belong to the interval of their window: a batch for each length,
        and for each region.
        """
        values: dict[int, PublishedValue] = {}
        for (steps, region), positions in _batches(schedule).items():
            batch = [
                CountToPublish(
                    schedule.releases[each].sensor.name, schedule.releases[each].mechanism, counts[each]
                )
                for each in positions
            ]
            drawn = publish_step(
                self.by_region[region] if self.by_region else self.key,
                self.deployment,
                self.interval(schedule.step, steps),
                batch,
                clamp_negative=self.clamp_negative,
                version=version,
            )
            values |= dict(zip(positions, drawn, strict=True))
        return [values[each] for each in range(len(schedule.releases))]

    def interval(self, step: int, steps: int = 1) -> StepInterval:
        """When the ``steps`` that end with a step begin and end, unix seconds: part of noise messages."""
        end = self.origin_seconds + (step + 1) * self.step_seconds
        return StepInterval(end - steps * self.step_seconds, end)


def _batches(schedule: StepSchedule) -> dict[tuple[int, str | None], list[int]]:
    """Positions of the releases by how many steps they count over, and by region."""
    found: dict[tuple[int, str | None], list[int]] = {}
    for position, release in enumerate(schedule.releases):
        sensor = release.sensor
        steps = 1 if sensor.window is None else sensor.window.steps
        found.setdefault((steps, sensor.region), []).append(position)
    return found
