"""Past values for a tier that was added later: the same chains of noise, read at one more level.

A fresh draw at the new level would be a second look at every count. Continuing the chain instead makes all
tiers together look as if they had been fixed from the start, so a coalition still knows what its
best-informed member does, and nobody's accounts change. Only levels below the best one that was published can
be had: above it the noise would depend on the count, which is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from models.keys import NoiseKey, batch_message, continuation_message
from models.mechanisms import PublishesTiers
from models.noise import continued_value
from models.releases import StepSchedule
from stream_app.exceptions import TierContinuationError
from stream_app.setup.settings import Settings
from stream_app.steps.publisher import KeyedPublisher
from stream_app.wire import ContinuedStep, SensorValue, StepRelease, TierValue

_CONTINUED = "tiered, continued"  # names no mechanism: its words meet no first draw


@dataclass(frozen=True)
class TierLevels:
    """The epsilon each tier has: where the schedule names a reading as it says, else the deployment's."""

    deployment: Mapping[str, float] = field(default_factory=dict)
    scheduled: Mapping[tuple[int, str], Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, deployment: Mapping[str, float], schedule: Iterable[StepSchedule] = ()) -> TierLevels:
        """Levels of the settings and of a schedule."""
        scheduled = {
            (step.step, release.sensor.name): dict(release.mechanism.tiers)
            for step in schedule
            for release in step.releases
            if isinstance(release.mechanism, PublishesTiers)
        }
        return cls(dict(deployment), scheduled)

    def epsilon(self, step: int, sensor: str, tier: str) -> float | None:
        """A tier's level for a reading, nats; None when it gets none."""
        return self.scheduled.get((step, sensor), self.deployment).get(tier)


@dataclass(frozen=True)
class TierContinuation:
    """Continues the chains of published steps, with the key they were drawn with.

    ``first_step`` is the first step whose values a tier added later is given.
    """

    publisher: KeyedPublisher
    levels: TierLevels
    first_step: int = 0

    @classmethod
    def of(cls, settings: Settings, key: NoiseKey, levels: TierLevels) -> TierContinuation:
        """The continuation of a deployment."""
        return cls(KeyedPublisher.of(settings, key), levels, settings.release.new_tiers_from)

    def continue_step(
        self, release: StepRelease, tier: str, key_of: Callable[[int], str | None]
    ) -> ContinuedStep | None:
        """A tier's values of a published step that has none for it; None when there is nothing to draw.

        ``release`` holds every level that is out, ``key_of`` gives the fingerprint of a step's noise key.
        :class:`TierContinuationError` when that is another one than the key at hand.
        """
        wanted = self._wanted(release, tier)
        if not wanted:
            return None
        if key_of(release.step) != self.publisher.key.fingerprint():
            raise TierContinuationError(
                f"past values of tier {tier!r} must be drawn with the noise key of their step",
                f"another key than at step {release.step}: replaced, or of an epoch that was erased",
                "set release.new_tiers_from to the first step of the key in use; the tier then begins there",
            )
        words = self.publisher.key.uniform_words([self._message(release.step, *each) for each in wanted])
        values = {}
        for (entry, epsilon), (high, low) in zip(wanted, words.tolist(), strict=True):
            drawn = continued_value(_known(entry), epsilon, high << 64 | low)
            released = max(drawn, 0) if self.publisher.clamp_negative else drawn
            values[entry.sensor] = TierValue.of(epsilon, drawn, released)
        return ContinuedStep(step=release.step, tier=tier, values=values)

    def _wanted(self, release: StepRelease, tier: str) -> list[tuple[SensorValue, float]]:
        """Readings that lack the tier and can be continued to its level."""
        if release.step < self.first_step:
            return []
        wanted = []
        for entry in release.releases:
            if entry.tiers is None or tier in entry.tiers:
                continue
            epsilon = self.levels.epsilon(release.step, entry.sensor, tier)
            if epsilon is not None and epsilon <= max(_known(entry)):
                wanted.append((entry, epsilon))
        return wanted

    def _message(self, step: int, entry: SensorValue, epsilon: float) -> bytes:
        """What the word of a continued value is a keyed hash of: the reading, the level, all that is out."""
        publisher = self.publisher
        interval, level = publisher.interval(step), {"epsilon": epsilon}
        batch = batch_message(publisher.deployment, *interval, _CONTINUED, level, publisher.key.epoch)
        return continuation_message(batch, entry.sensor, _known(entry))


def with_continued(release: StepRelease, continued: Iterable[ContinuedStep]) -> StepRelease:
    """A published step with the values that tiers added later were given."""
    steps = tuple(continued)
    if not steps:
        return release
    return release.model_copy(
        update={"releases": tuple(_with_tiers(entry, steps) for entry in release.releases)}
    )


def _with_tiers(entry: SensorValue, continued: Iterable[ContinuedStep]) -> SensorValue:
    more = {step.tier: step.values[entry.sensor] for step in continued if entry.sensor in step.values}
    if entry.tiers is None or not more:
        return entry
    return entry.model_copy(update={"tiers": {**entry.tiers, **more}})


def _known(entry: SensorValue) -> dict[float, int]:
    """The values on the chain, by level."""
    return {tier.epsilon: tier.on_chain for tier in (entry.tiers or {}).values()}
