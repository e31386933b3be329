"""The release worker: one process that takes counts in, closes steps, draws values, writes the logs."""

from __future__ import annotations

from collections.abc import Mapping

from accounting.continuous import ContinuousAccountant
from stream_app.kafka.deployment.log_reader import read_steps
from stream_app.kafka.release.deciding_worker import DecidingWorker
from stream_app.kafka.release.progress import Restored
from stream_app.kafka.release.release_core import Flush, ReleaseCore
from stream_app.kafka.release.release_log import StepRecords
from stream_app.setup.settings import Settings
from stream_app.steps import Beside, Intake, KeyedPublisher, StepClock, StepEngine, StepWindow


class ReleaseWorker(DecidingWorker):
    """Runs one engine between the input topics and the logs."""

    title = "release worker"
    transactional_id = "release"

    @property
    def _logs(self) -> Mapping[str, tuple[str, int]]:
        topics = self._deployment.topics
        return {topic: (topic, 0) for topic in (topics.activations, topics.readings)}

    @property
    def _progress_topic(self) -> str:
        return self._deployment.topics.progress

    def _step_clock(self) -> StepClock:
        return StepClock.of(self._deployment.settings)

    async def _make_core(
        self, restored: Restored, basis: Mapping[str, object], accountant: ContinuousAccountant, flush: Flush
    ) -> ReleaseCore:
        settings, registry = self._deployment.settings, self._deployment.registry
        key = self._rules.noise_key
        assert key is not None  # who publishes has one
        engine = StepEngine(
            Intake(registry, restored_window(settings, restored), settings.max_ahead),
            self._policy,
            KeyedPublisher.of(settings, key),
            accountant,
            risk_every=settings.risk_every,
            beside=Beside(crowd=self._crowd),
        )
        await self._recall(engine)
        topics = self._deployment.topics
        written = StepRecords(topics, self._deployment.digest)
        return ReleaseCore(engine, self._clock, restored.progress, basis, flush, topics, written)

    async def _recall(self, engine: StepEngine) -> None:
        """Tell the engine what was decided of the closed steps of which more values are published."""
        connection, decisions = self._deployment.connection, self._deployment.topics.decisions
        steps = read_steps(connection, decisions, engine.intake.window.first_revisable, engine.next_step)
        engine.recall([self._deployment.schedule_of(decision) async for decision in steps])


def restored_window(settings: Settings, restored: Restored) -> StepWindow:
    """The open steps as the last transaction left them."""
    window = StepWindow(
        settings.grace,
        watermark_share=settings.watermark_share,
        by_clock=StepClock.of(settings).has_ticks,
        late=settings.late,
    )
    if saved := restored.window():
        window.load(saved)
    return window
