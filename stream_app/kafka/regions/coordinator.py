"""The coordinator of regions: decides each step for all of them, and sees no count."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from accounting.continuous import ContinuousAccountant
from models.releases import StepSchedule
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.records import RefusedRecord
from stream_app.kafka.regions.region_records import (
    SEALED,
    CoordinatorProgress,
    SealedStep,
    WholeStep,
)
from stream_app.kafka.release.core import Arrived, LogRecord, Taken
from stream_app.kafka.release.deciding_worker import DecidingWorker
from stream_app.kafka.release.release_core import KEY, DecidingCore, Flush, Restored
from stream_app.kafka.release.release_log import StepRecords
from stream_app.steps import ClosedCounts, Intake, StepClock, StepEngine, StepWindow

# The steps that regions have sealed, in the place of a window of counts.


class SealedWindow(StepWindow):
    """A step closes when every region has sealed it, or when its time is over: then without the others.

    ``left_out`` has the regions without which a step was closed, until somebody takes them.
    """

    def __init__(self, regions: Sequence[str], next_step: int) -> None:
        super().__init__(grace=0)
        self.next_step = next_step
        self.left_out: dict[int, tuple[str, ...]] = {}
        self._sealed: dict[str, dict[int, SealedStep]] = {region: {} for region in regions}

    def seal(self, region: str, sealed: SealedStep) -> None:
        """A region is done with a step. One that was decided without it changes nothing any more."""
        if sealed.step >= self.next_step:
            self._sealed[region][sealed.step] = sealed
            self.watermark = max(self.watermark, sealed.step)

    def is_due(self) -> bool:
        """Whether the next step may close."""
        step = self.next_step
        return step <= self.close_through or all(step in steps for steps in self._sealed.values())

    def close(self) -> ClosedCounts:
        """Take the next step off the window. Its counts are not here: each stands as 0 where there is one."""
        step = self.next_step
        sealed = {region: steps.pop(step, None) for region, steps in self._sealed.items()}
        late = tuple(region for region, found in sealed.items() if found is None)
        if late:
            self.left_out[step] = late
        self.next_step += 1
        parts = [found for found in sealed.values() if found is not None]
        sensors = tuple(name for part in parts for name in part.sensors)
        missing = {name for part in parts for name in part.missing}
        return ClosedCounts(step, sensors, {name: 0 for name in sensors if name not in missing}, {})


# The coordinator without a broker: sealed steps of all regions in, decisions and whole steps out.


class NoPublisher:
    """Publishes nothing: values are the intake workers'."""

    def publish(
        self, schedule: StepSchedule, counts: Sequence[int | None], version: int = 1
    ) -> Sequence[None]:
        """Nothing for each release."""
        return [None] * len(schedule.releases)


@dataclass
class CoordinatorTaken(Taken):
    """Steps that were decided, and those that are whole."""

    whole: list[WholeStep] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        """Whether nothing came of the records that anybody waits for."""
        return super().is_idle and not self.whole

    def clear(self) -> None:
        """All of it was dealt with."""
        super().clear()
        self.whole.clear()


class _Kept(NamedTuple):
    """A record that must be read again by whoever continues, until its step is dealt with."""

    offset: int
    is_seal: bool
    step: int


class CoordinatorCore(DecidingCore):
    """Decides a step once its regions have sealed it; says that it is whole once they have published it.

    ``engine`` has a :class:`SealedWindow` and a :class:`NoPublisher`; the inputs are named like the regions.
    """

    def __init__(
        self,
        engine: StepEngine,
        clock: StepClock,
        progress: CoordinatorProgress,
        basis: Mapping[str, object],
        flush: Flush,
        topics: Topics,
        written: StepRecords,
    ) -> None:
        super().__init__(engine, clock, progress, basis, flush)
        window = engine.intake.window
        assert isinstance(window, SealedWindow)
        self._window = window
        self._window.left_out |= progress.left_out
        self._topics = topics
        self._written = written
        self._next_whole = progress.next_whole
        self._published: dict[int, set[str]] = {}
        self._kept: dict[str, deque[_Kept]] = {region: deque() for region in topics.regions}

    def new_taken(self) -> CoordinatorTaken:
        """Nothing yet."""
        return CoordinatorTaken()

    def records(self, taken: Taken) -> Iterator[LogRecord]:
        """Decisions, whole steps, and where to continue."""
        for closed in taken.closed:
            yield self._written.decided(closed)
        yield from self._written.dead_letters(taken.rejected)
        for whole in taken.whole if isinstance(taken, CoordinatorTaken) else ():
            key = str(whole.step).encode()
            yield LogRecord(self._topics.whole, key, whole.line().rstrip())
        yield LogRecord(self._topics.coordination, KEY, self._coordination())

    def _receive(self, record: Arrived, taken: Taken) -> None:
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

    def _close_due(self, taken: Taken) -> None:
        super()._close_due(taken)
        assert isinstance(taken, CoordinatorTaken)
        while self._next_whole < self.next_step:
            late = self._window.left_out.get(self._next_whole, ())
            wanted = tuple(region for region in self._topics.regions if region not in late)
            if not self._published.get(self._next_whole, set()).issuperset(wanted):
                return
            taken.whole.append(WholeStep(step=self._next_whole, regions=wanted))
            self._published.pop(self._next_whole, None)
            self._window.left_out.pop(self._next_whole, None)
            self._next_whole += 1

    def _coordination(self) -> bytes:
        """Where to continue: what regions said of steps that are not decided, or not whole, is read again."""
        offsets = dict(self._offsets)
        for region, kept in self._kept.items():
            while kept and kept[0].step < (self.next_step if kept[0].is_seal else self._next_whole):
                kept.popleft()
            if kept:
                offsets[region] = kept[0].offset
        return CoordinatorProgress(
            next_step=self.next_step,
            next_whole=self._next_whole,
            left_out=self._window.left_out,
            offsets=offsets,
            basis=self._basis,
            account=self._account.save(),
            decided=self._decided,
        ).record()


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
            crowd=self._crowd,
        )
        written = StepRecords(topics, deployment.digest)
        return CoordinatorCore(engine, self._clock, progress, basis, flush, topics, written)
