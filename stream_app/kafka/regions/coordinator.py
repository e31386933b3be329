"""The coordinator of regions: decides each step for all of them, and sees no count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from accounting.continuous import ContinuousAccountant
from stream_app.kafka.regions.coordinator_core import CoordinatorCore, NoPublisher
from stream_app.kafka.regions.region_records import CoordinatorProgress
from stream_app.kafka.regions.sealed_window import SealedWindow
from stream_app.kafka.release.deciding_worker import DecidingWorker
from stream_app.kafka.release.progress import Restored
from stream_app.kafka.release.release_core import Flush
from stream_app.kafka.release.release_log import StepRecords
from stream_app.steps import Beside, Intake, StepClock, StepEngine


class Coordinator(DecidingWorker):
    """Runs the decisions of one engine between the seals of regions and the log of decisions."""

    title = "coordinator"
    transactional_id = "coordinator"
    progress_kind = CoordinatorProgress

    @property
    def _logs(self) -> Mapping[str, tuple[str, int]]:
        topics = self._deployment.topics
        return {region: (topics.sealed, number) for number, region in enumerate(topics.regions)}

    @property
    def _progress_topic(self) -> str:
        return self._deployment.topics.coordination

    def _step_clock(self) -> StepClock:
        """Behind the ticks of the regions, so that what they seal on time is there."""
        settings = self._deployment.settings
        clock = StepClock.of(settings)
        if clock.grace_seconds is None:
            return clock
        return replace(clock, grace_seconds=clock.grace_seconds + settings.kafka.seal_seconds)

    async def _make_core(
        self, restored: Restored, basis: Mapping[str, object], accountant: ContinuousAccountant, flush: Flush
    ) -> CoordinatorCore:
        deployment, progress = self._deployment, restored.progress
        assert isinstance(progress, CoordinatorProgress)
        settings, topics = deployment.settings, deployment.topics
        window = SealedWindow(topics.regions, progress.next_step)
        engine = StepEngine(
            Intake(deployment.registry, window, settings.max_ahead),
            self._policy,
            NoPublisher(),
            accountant,
            risk_every=settings.risk_every,
            beside=Beside(crowd=self._crowd),
        )
        written = StepRecords(topics, deployment.digest)
        return CoordinatorCore(engine, self._clock, progress, basis, flush, topics, written)
