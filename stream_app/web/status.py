"""The engine's state as the page and the probes show it: an observer that keeps the last of everything."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Literal

from stream_app.events import Observer, RunStarted, RunStopped, StepClosed
from stream_app.messages import Outcome, Reason, RiskSummary

Phase = Literal["starting", "running", "stopped"]
HISTORY = 48  # steps the page remembers


@dataclass(frozen=True)
class StepLine:
    """One closed step in the page's table: what was published and how the risk stood."""

    step: int
    published: int
    suppressed: int
    median_risk: float
    mean_risk: float
    mean_baseline: float


@dataclass(frozen=True)
class Status:
    """An immutable picture of the engine; holds neither a count nor a person."""

    phase: Phase = "starting"
    reason: str = "priors are being loaded"
    people: int = 0
    next_step: int = 0
    lag_steps: int = 0
    rejected: int = 0
    summary: RiskSummary | None = None
    history: tuple[StepLine, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether steps are being closed and accounted."""
        return self.phase == "running"

    @property
    def is_healthy(self) -> bool:
        """Whether the process should go on; false once the run failed."""
        return not (self.phase == "stopped" and self.reason.startswith("failure"))


class StatusBoard(Observer):
    """Hears the engine's events on its thread; :meth:`read` may be called from any other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._status = Status()

    def read(self) -> Status:
        """The present picture."""
        with self._lock:
            return self._status

    def started(self, event: RunStarted) -> None:
        """The engine is ready."""
        self._change(phase="running", reason="closing steps", people=event.people, next_step=event.next_step)

    def received(self, outcome: Outcome) -> None:
        """A single reading changes nothing that is shown."""

    def rejected(self, reason: Reason) -> None:
        """One more dead letter."""
        self._change(rejected=self.read().rejected + 1)

    def closed(self, event: StepClosed) -> None:
        """A step was published; remember it."""
        status = self.read()
        history = status.history
        if event.summary is not None:
            history = (*history, _line(event, event.summary))[-HISTORY:]
        self._change(
            people=event.people,
            next_step=event.step + 1,
            lag_steps=event.lag_steps,
            summary=event.summary or status.summary,
            history=history,
        )

    def stopped(self, event: RunStopped) -> None:
        """The run ended, well or not."""
        self._change(phase="stopped", reason=event.reason, next_step=event.next_step)

    def _change(self, **fields: object) -> None:
        with self._lock:
            self._status = replace(self._status, **fields)  # type: ignore[arg-type]


def _line(event: StepClosed, summary: RiskSummary) -> StepLine:
    published = len(event.published)
    return StepLine(
        step=event.step,
        published=published,
        suppressed=len(event.schedule.releases) - published,
        median_risk=summary.risk.get("0.5", 0.0),
        mean_risk=summary.mean_risk,
        mean_baseline=summary.mean_baseline,
    )
