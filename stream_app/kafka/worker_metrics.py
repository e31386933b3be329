"""What workers measure beside the engine: each figure is counted by one kind of worker only.

Releases, their noise and the privacy spent are counted by the worker that publishes or decides: metrics are
summed over workers, so nothing may be counted twice.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from stream_app.watching.events import RunStarted, StepClosed
from stream_app.watching.metrics import EngineMetrics


class AccountMetrics(EngineMetrics):
    """The engine's metrics without those of the release worker."""

    def started(self, event: RunStarted) -> None:
        """Partitions were assigned; a worker without any stands by, and shows nobody's risk."""
        super().started(event)
        if event.view is None:
            self._running.set(0)
            self.lag.set(0)
            self._show_nobody()

    def closed(self, event: StepClosed) -> None:
        """Show the risks after a step."""
        self._last_step.set(event.step)
        self._people.set(event.people)
        self._progress.set(self._now_seconds())
        self._show_information(event.schedule)
        self._show_budget(event)
        if event.summary is not None:
            self._show_summary(event.summary)


class IntakeMetrics(EngineMetrics):
    """The engine's metrics without those of the coordinator: decisions, and the privacy spent."""

    def started(self, event: RunStarted) -> None:
        """Regions were assigned: sensors of a region that is gone are now shown by another worker."""
        super().started(event)
        self._forget_errors()

    def closed(self, event: StepClosed) -> None:
        """Show how far a region has published."""
        self._last_step.set(event.step)
        self.lag.set(event.lag_steps)
        self._progress.set(self._now_seconds())
        self._latency.observe(event.latency_seconds)
        self._show_errors(event)


class ReleaseCounters:
    """What only a worker that reads inputs can count."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.waiting = Gauge(
            "tallyguard_records_waiting",
            "Records taken from the broker and not yet written to the log",
            registry=registry,
        )


class RegionCounters(ReleaseCounters):
    """What workers of several regions count in addition; only an intake worker owns regions."""

    def __init__(self, registry: CollectorRegistry, regions: int, *, owns: bool) -> None:
        super().__init__(registry)
        text = "Regions that intake workers share"
        Gauge("tallyguard_regions_configured", text, registry=registry).set(regions)
        self._owned: Gauge | None = None
        if owns:
            text = "Regions this worker takes in"
            self._owned = Gauge("tallyguard_regions_owned", text, registry=registry)

    def owns(self, regions: int) -> None:
        """Set the number of regions owned now."""
        if self._owned is not None:
            self._owned.set(regions)


class AccountCounters:
    """What only an account worker can count; ``person_steps`` and ``lag`` are the engine's."""

    def __init__(self, registry: CollectorRegistry, metrics: EngineMetrics) -> None:
        self.partitions = Gauge(
            "tallyguard_partitions_owned", "Partitions of people this worker accounts", registry=registry
        )
        self.redelivered = Counter(
            "tallyguard_steps_redelivered",
            "Steps that a partition knew already and ignored, counted per partition",
            registry=registry,
        )
        self.from_log = Counter(
            "tallyguard_steps_from_log",
            "Steps that a partition had missed and took from the log, counted per partition",
            registry=registry,
        )
        self.snapshots = Counter(
            "tallyguard_snapshots_written",
            "Snapshots of accounts written to the topic, counted per partition",
            registry=registry,
        )
        self.person_steps = metrics.person_steps
        self.lag = metrics.lag
