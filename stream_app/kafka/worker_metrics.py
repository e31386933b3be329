"""What workers measure beside the engine: each figure is counted by one kind of worker only.

Releases, their noise and the privacy spent are counted by the worker that publishes or decides: metrics are
summed over workers, so nothing may be counted twice.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from stream_app.watching.events import RunStarted, StepClosed
from stream_app.watching.metrics import EngineMetrics, Meters


class AccountMetrics(EngineMetrics):
    """The engine's metrics without those of the release worker."""

    def started(self, event: RunStarted) -> None:
        """Partitions were assigned; a worker without any stands by, and shows nobody's risk."""
        super().started(event)
        if event.view is None:
            self.meters.show("running", 0)
            self.meters.show("accountant_lag_steps", 0)
            self._show_nobody()

    def closed(self, event: StepClosed) -> None:
        """Show the risks after a step."""
        self.meters.show("last_step", event.step)
        self.meters.show("people", event.people)
        self._show_progress()
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
        self.meters.show("last_step", event.step)
        self.meters.show("accountant_lag_steps", event.lag_steps)
        self._show_progress()
        self.meters["step_latency_seconds"].observe(event.latency_seconds)
        self._show_errors(event)


class InputCounters:
    """What only a worker that reads inputs can count; of several regions, an intake worker owns some."""

    def __init__(
        self, registry: CollectorRegistry, regions: int | None = None, *, owns: bool = False
    ) -> None:
        self.waiting = Meters(registry, "input")["records_waiting"]
        if regions is not None:
            Meters(registry, "regions").show("regions_configured", regions)
        self._owned = Meters(registry, "owned_regions") if owns else None

    def owns(self, regions: int) -> None:
        """Set the number of regions owned now."""
        if self._owned is not None:
            self._owned.show("regions_owned", regions)


class AccountCounters:
    """What only an account worker can count; ``person_steps`` and ``lag`` are the engine's."""

    def __init__(self, registry: CollectorRegistry, metrics: EngineMetrics) -> None:
        own = Meters(registry, "accounts")
        self.partitions, self.redelivered = own["partitions_owned"], own["steps_redelivered"]
        self.from_log, self.snapshots = own["steps_from_log"], own["snapshots_written"]
        self.person_steps, self.lag = metrics.person_steps, metrics.lag
