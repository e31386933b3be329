"""Counts of a step become public values, with the deployment's key and the step's absolute interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.keys import NoiseKey
from models.releases import CountToPublish, PublishedValue, StepInterval, StepSchedule, publish_step
from stream_app.setup.settings import Settings


@dataclass(frozen=True)
class KeyedPublisher:
    """Publishes with keyed noise: the same reading always gives the same value."""

    key: NoiseKey
    deployment: str
    origin_seconds: int
    step_seconds: int
    clamp_negative: bool = False

    @classmethod
    def of(cls, settings: Settings, key: NoiseKey) -> KeyedPublisher:
        """The publisher of a deployment."""
        return cls(
            key,
            settings.deployment,
            settings.origin_seconds,
            settings.step_seconds,
            settings.release.clamp_negative,
        )

    def publish(
        self, schedule: StepSchedule, counts: Sequence[int | None], version: int = 1
    ) -> list[PublishedValue]:
        """One value (or one per tier) per release, drawn in one batch; None for missing and suppressed."""
        batch = [
            CountToPublish(release.sensor.name, release.mechanism, count)
            for release, count in zip(schedule.releases, counts, strict=True)
        ]
        return publish_step(
            self.key,
            self.deployment,
            self.interval(schedule.step),
            batch,
            clamp_negative=self.clamp_negative,
            version=version,
        )

    def interval(self, step: int) -> StepInterval:
        """When a step begins and ends, in unix seconds: part of every noise message."""
        start = self.origin_seconds + step * self.step_seconds
        return StepInterval(start, start + self.step_seconds)
