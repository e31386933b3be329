"""The coordinator of regions: decides each step for all of them, and sees no count."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from models.releases import StepSchedule
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.deployment.records import RefusedRecord
from stream_app.kafka.regions.region_records import (
    SEALED,
    CoordinatorProgress,
    SealedStep,
    WholeStep,
)
from stream_app.kafka.release.deciding_worker import DecidingWorker, RemoteAccounts
from stream_app.kafka.release.release_core import DecidingCore, InputRecord
from stream_app.kafka.release.release_log import WHOLE_STEPS, Progress
from stream_app.setup.run_folder.progress import DECISIONS
from stream_app.steps import ClosedCounts, Position, StepClock, StepEngine, StepWindow


class SealedWindow(StepWindow):
    """The steps that regions have sealed, in place of a window of counts.

    A step closes when every region has sealed it, or when its time is over: then without the late regions,
    which are kept in ``left_out`` until the step is whole.
    """

    def __init__(self, regions: Sequence[str], next_step: int) -> None:
        super().__init__(grace=0)
        self.next_step = next_step
        self.left_out: dict[int, tuple[str, ...]] = {}
        self._sealed: dict[str, dict[int, SealedStep]] = {region: {} for region in regions}
        self._removed: Container[str] = ()

    def drop(self, sensors: Container[str]) -> None:
        """Decide nothing of removed sensors, which regions announce until their workers know it."""
        self._removed = sensors

    def seal(self, region: str, sealed: SealedStep) -> None:
        """A region is done with a step; too late if the step was decided without it."""
        if sealed.step >= self.next_step:
            self._sealed[region][sealed.step] = sealed
            self.watermark = max(self.watermark, sealed.step)

    def is_due(self) -> bool:
        """Whether the next step may close."""
        step = self.next_step
        return step <= self.close_through or all(step in steps for steps in self._sealed.values())

    def closing(self) -> ClosedCounts:
        """The next step. Counts are not known here: 0 stands for each count that a region has."""
        step = self.next_step
        parts = [steps[step] for steps in self._sealed.values() if step in steps]
        sensors = tuple(name for part in parts for name in part.sensors if name not in self._removed)
        missing = {name for part in parts for name in part.missing}
        return ClosedCounts(step, sensors, {name: 0 for name in sensors if name not in missing}, {})

    def close(self) -> ClosedCounts:
        """Close the next step, without the regions that are late."""
        closed = self.closing()
        found = {region: steps.pop(closed.step, None) for region, steps in self._sealed.items()}
        if late := tuple(region for region, sealed in found.items() if sealed is None):
            self.left_out[closed.step] = late
        self.next_step += 1
        return closed


class NoPublisher:
    """Publishes nothing: values are published by intake workers."""

    def publish(
        self, schedule: StepSchedule, counts: Sequence[int | None], version: int = 1
    ) -> Sequence[None]:
        """No value for any release."""
        return [None] * len(schedule.releases)


class _Kept(NamedTuple):
    """A record that the next run must read again, unless its step is dealt with by then."""

    offset: int
    is_seal: bool
    step: int


class CoordinatorCore(DecidingCore):
    """Decides a step once its regions have sealed it, and reports it whole once they have published it.

    ``engine`` has a :class:`SealedWindow` and a :class:`NoPublisher`; the inputs are named like the regions.
    """

    continues, position_kind, writes = "coordination", CoordinatorProgress, (DECISIONS,)

    _window: SealedWindow

    def _go_on(self, position: Progress) -> None:
        assert isinstance(position, CoordinatorProgress)
        self._window.left_out |= position.left_out
        self._next_whole = position.next_whole
        self._published: dict[int, set[str]] = {}
        self._kept: dict[str, deque[_Kept]] = {region: deque() for region in self._topics.regions}

    def _receive(self, record: InputRecord) -> None:
        message = SEALED.read(record, f"{self._topics.sealed} of region {record.log}:{record.offset}")
        if isinstance(message, RefusedRecord):
            raise LogError(
                f"{self._topics.sealed} must hold what intake workers of this version write",
                f"at {message.source}: {message.hint}",
                "run the version that wrote it",
            )
        self._kept[record.log].append(_Kept(record.offset, isinstance(message, SealedStep), message.step))
        if isinstance(message, SealedStep):
            self._window.seal(record.log, message)
        elif message.step >= self._next_whole:
            self._published.setdefault(message.step, set()).add(record.log)

    def _close_due(self) -> None:
        super()._close_due()
        while self._next_whole < self.next_step:
            late = self._window.left_out.get(self._next_whole, ())
            wanted = tuple(region for region in self._topics.regions if region not in late)
            if not self._published.get(self._next_whole, set()).issuperset(wanted):
                return
            self.results.keep(WHOLE_STEPS, WholeStep(step=self._next_whole, regions=wanted))
            self._published.pop(self._next_whole, None)
            self._window.left_out.pop(self._next_whole, None)
            self._next_whole += 1

    def _position(self) -> Mapping[str, Any]:
        """Records of regions about steps that are not decided, or not whole, will be read again."""
        offsets = dict(self._offsets)
        for region, kept in self._kept.items():
            while kept and kept[0].step < (self.next_step if kept[0].is_seal else self._next_whole):
                kept.popleft()
            if kept:
                offsets[region] = kept[0].offset
        own = {"next_whole": self._next_whole, "left_out": self._window.left_out}
        return {**super()._position(), **own, "offsets": offsets, "window": {}}


class Coordinator(DecidingWorker):
    """Decides each step for all regions; it reads their seals and sees no count."""

    title = "coordinator"
    transactional_id = "coordinator"
    core_kind = CoordinatorCore

    @property
    def _logs(self) -> Mapping[str, tuple[str, int]]:
        topics = self._deployment.topics
        return {region: (topics.sealed, number) for number, region in enumerate(topics.regions)}

    def _step_clock(self) -> StepClock:
        """Later than the ticks of the regions, so that what they seal on time has arrived."""
        settings = self._deployment.settings
        clock = StepClock.of(settings)
        if clock.grace_seconds is None:
            return clock
        return replace(clock, grace_seconds=clock.grace_seconds + settings.kafka.seal_seconds)

    def _engine(self, position: Position, accounts: RemoteAccounts) -> StepEngine:
        deployment, regions = self._deployment, self._deployment.topics.regions
        window = SealedWindow(regions, position.next_step)
        return StepEngine(deployment.intake(window), self._policy, NoPublisher(), accounts)
