"""An intake worker: takes in the counts of the regions that the group gives it, and publishes them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import Any, NamedTuple

from models.keys import NoiseKey
from models.releases import StepSchedule
from stream_app.exceptions import restoring
from stream_app.kafka.broker.clients import FencedError, LogError
from stream_app.kafka.broker.streams import App, Batch
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import INPUTS, Deployment, require_requests
from stream_app.kafka.deployment.log_reader import claim_key, last_record, latest_records
from stream_app.kafka.deployment.records import DECISION, RefusedRecord
from stream_app.kafka.regions.region_records import (
    RegionProgress,
    RegionStepPublished,
    SealedStep,
)
from stream_app.kafka.release.release_core import Core, InputRecord, receive_message
from stream_app.kafka.release.release_log import SEALED_STEPS, TopicLog, TransactionLog, restore
from stream_app.kafka.release.stream_task import InputLogs, StreamTask, TaskMonitor
from stream_app.kafka.worker_process import Job, stop_if_cancelled
from stream_app.setup.run_folder.progress import RELEASES, REVISED
from stream_app.steps import (
    DeviceWatch,
    Intake,
    KeyedPublisher,
    OpenStep,
    RevisedCount,
    StepClock,
    StepWindow,
    first_free_step,
    refuse_waiting,
    release_of,
    revised_releases,
)
from stream_app.watching.events import RunStarted, RunStopped, StepClosed
from stream_app.wire import Reading, Reason, Rejected, reject

logger = logging.getLogger(__name__)

_MOST_UNDECIDED = 1000
"""Steps that may be sealed and undecided: while the coordinator is away, inputs wait on the broker."""
_MOST_REVISED = 20_000
"""Late and corrected counts that may wait for decisions on sealed steps: the position holds all of them."""


@dataclass(frozen=True)
class RegionPlace:
    """A region's partition, and the names of its three inputs."""

    region: str
    partition: int
    activations: str
    readings: str
    decisions: str

    @classmethod
    def of(cls, topics: Topics, partition: int) -> RegionPlace:
        """The region with this partition."""
        inputs = (f"{topics.activations}/{partition}", f"{topics.readings}/{partition}", topics.decisions)
        return cls(topics.regions[partition], partition, *inputs)


class IntakeCore(Core):
    """A region without a broker: counts in, sealed steps out; decisions in, values out.

    ``intake`` knows only the sensors of the region. A step is sealed when it would close in a deployment of
    this region alone. Its counts stay in the window until the decision arrives. If the step was decided
    without this region, its counts become dead letters: counts that no decision covers are not published.

    Late and corrected counts that came before a step was sealed are published with that step, as they were
    decided when their own step was: see :meth:`recall`.
    """

    def __init__(
        self,
        place: RegionPlace,
        deployment: Deployment,
        intake: Intake,
        publisher: KeyedPublisher,
        log: TopicLog,
    ) -> None:
        super().__init__(intake.window, StepClock.of(deployment.settings), log)
        self.place, progress = place, log.position
        assert isinstance(progress, RegionProgress)
        self.devices = DeviceWatch.of(deployment.settings.quality, deployment.registry)
        if self.devices is not None:
            self.devices.load(progress.devices, progress.next_step)
        self._deployment = deployment
        self._intake = intake
        self._publisher = publisher
        self._next_publish = progress.next_publish
        self._window.hold_from(self._next_publish)
        self._decided: dict[int, tuple[int, StepSchedule]] = {}  # with the offset of the decision
        self._published: dict[int, StepSchedule] = {}  # the last steps, of which more values may come
        self._revised = {
            step: tuple(starmap(RevisedCount, counts)) for step, counts in progress.revised.items()
        }

    def recall(self) -> None:
        """Read what was decided on the published steps from :attr:`first_revisable` on."""
        decided = self.log.decisions(self.first_revisable, self._next_publish)
        schedules = map(self._deployment.schedule_of, decided)
        self._published |= {schedule.step: self._own(schedule) for schedule in schedules}

    @property
    def first_revisable(self) -> int:
        """The first step whose decision is still needed: more values of it may come, or wait already."""
        waiting = (count.step for counts in self._revised.values() for count in counts)
        return max(0, min([self._next_publish - self._window.late, self._window.first_revisable, *waiting]))

    @property
    def takes_priority_logs_only(self) -> bool:
        """Whether too much waits for decisions to take in more counts."""
        revised = sum(map(len, self._revised.values()))
        return self.next_step - self._next_publish > _MOST_UNDECIDED or revised > _MOST_REVISED

    def _position(self) -> Mapping[str, Any]:
        """Decisions whose values are not published yet will be read again."""
        offsets = self.offsets
        if self._decided:
            offsets[self.place.decisions] = min(offset for offset, _ in self._decided.values())
        return {
            "next_step": self.next_step,
            "next_publish": self._next_publish,
            "offsets": offsets,
            "window": self._window.save_position(),
            "revised": self._revised,
            "devices": {} if self.devices is None else self.devices.save(self.next_step),
        }

    def _receive(self, record: InputRecord) -> None:
        if record.log != self.place.decisions:
            is_activation = record.log == self.place.activations
            receive_message(self._intake, record, self._clock, is_activation, self.results)
            return
        decision = DECISION.read(record, f"{record.log}:{record.offset}")
        if isinstance(decision, RefusedRecord):  # skipped, as by account workers: the coordinator writes none
            logger.warning("%s is not %s: %s", decision.source, DECISION.holds, decision.reason)
        elif decision.step >= self._next_publish:
            self._decided[decision.step] = record.offset, self._deployment.schedule_of(decision)

    def _close_due(self) -> None:
        while self._window.is_due():
            closed = self._window.close()
            missing = tuple(name for name in closed.sensors if name not in closed.counts)
            sealed = SealedStep(step=closed.step, sensors=closed.sensors, missing=missing)
            self.results.keep(SEALED_STEPS, sealed)
            if closed.revised:
                self._revised[closed.step] = closed.revised
            self.results.refuse(refuse_waiting(closed.step, *entry) for entry in closed.waiting.items())
            if self.devices is not None:
                self.results.suspect(self.devices.note(closed.step, closed.sensors, closed.counts))
        while self._next_publish < self.next_step and self._next_publish in self._decided:
            self._publish()

    def _publish(self) -> None:
        """Draw the values of the region's sensors in the next step, as decided, and those of late counts."""
        step = self._next_publish
        _, decided = self._decided.pop(step)
        schedule = self._published[step] = self._own(decided)
        own, counts = schedule.releases, self._on_time(step)
        values = self._publisher.publish(schedule, [counts.get(each.sensor.name) for each in own])
        names = [each.sensor.name for each in own]
        missing = tuple(name for name in names if name not in counts)
        release = release_of(schedule, values)
        self.results.keep(RELEASES, release)
        revised = self._revised.pop(step, ())
        for later in revised_releases(revised, self._published, self._publisher):
            self.results.keep(REVISED, later)
        self.results.keep(SEALED_STEPS, RegionStepPublished(step=step))
        published_by = frozenset(sensor.name for sensor in self._intake.registry.sensors)
        self.results.events.append(
            StepClosed(*(step, schedule, release.published, missing, 0, None, 0.0, 0), sensors=published_by)
        )
        self.results.refuse(
            self._refuse(RevisedCount(step, sensor, 1, counts[sensor]))
            for sensor in sorted(counts.keys() - set(names))
        )
        self.results.refuse(
            self._refuse(count)
            for count in revised
            if all(each.sensor.name != count.sensor for each in self._published[count.step].releases)
        )
        self._next_publish += 1
        self._window.hold_from(self._next_publish)
        first = self.first_revisable
        self._published = {known: own for known, own in self._published.items() if known >= first}

    def _own(self, decided: StepSchedule) -> StepSchedule:
        """The part of a decided step that is this region's."""
        own = tuple(each for each in decided.releases if each.sensor.name in self._intake.registry)
        return StepSchedule(decided.step, own)

    def _on_time(self, step: int) -> dict[str, int]:
        """The counts that a step was sealed with: those that came since are published with later steps."""
        waiting = (count for counts in self._revised.values() for count in counts)
        late = {
            count.sensor
            for count in (*waiting, *self._window.revised)
            if (count.step, count.version) == (step, 1)
        }
        counts = (self._window.closed(step) or OpenStep()).counts
        return {sensor: count for sensor, count in counts.items() if sensor not in late}

    def _refuse(self, count: RevisedCount) -> Rejected:
        """The dead letter of a count that no decision covers."""
        step, sensor, version, people = count
        payload = Reading(
            v=1, step=step, sensor=sensor, count=people, version=version if version > 1 else None
        ).line()
        hint = (
            f"step {step} was decided without region {self.place.region!r}, which was not done with it in "
            "time; find out why it lags, raise kafka.seal_seconds, or, if the coordinator excludes it or "
            "knows no such sensor, give all workers the same table of exclusions and sensors file"
        )
        return reject(f"{self.place.readings}:", payload.rstrip(), Reason.LATE_READING, hint)


_LOOK_SECONDS = 0.5
_MOST_FENCED = 3
"""How often another worker may take a region that the group gave us. More means a second deployment."""


class _OpenRegion(NamedTuple):
    """A region this worker takes in."""

    task: StreamTask
    running: asyncio.Task[None]


class _Fenced(NamedTuple):
    """A region that another worker took although it was given to us: how often, and until when we wait."""

    times: int
    until_seconds: float


class IntakeWorker(Job):
    """Runs one task for each of its regions; opening a region fences the worker that had it."""

    def __init__(
        self,
        deployment: Deployment,
        noise_key: NoiseKey,
        monitor: TaskMonitor,
        *,
        accept_changes: bool = False,
    ) -> None:
        self._deployment = deployment
        self._noise_key = noise_key
        self._monitor = monitor
        self._accept_changes = accept_changes
        self._wanted: set[int] = set()
        self._open: dict[int, _OpenRegion] = {}
        self._fenced: dict[int, _Fenced] = {}
        self._changed = asyncio.Event()
        self._next_step = 0

    def agents(self, app: App) -> None:
        """The inputs: a region has the same partition of both."""
        for topic in (self._deployment.topics.activations, self._deployment.topics.readings):

            @app.agent(app.batches(topic))
            async def inputs(batches: AsyncIterator[Batch]) -> None:
                async for batch in batches:
                    if batch.partition in self._open:
                        await self._open[batch.partition].task.receive(batch.records)

    async def prepare(self, app: App) -> None:
        """Wait until the coordinator, or a load of people, has begun the deployment."""
        self._app = app
        await asyncio.to_thread(require_requests, self._deployment)
        await self._deployment.wait()
        self._deployment.require_recorded()

    async def assigned(self, partitions: set[int]) -> None:
        """Note which regions are owned; :meth:`run` opens them."""
        self._wanted = set(partitions)
        self._fenced = {each: fenced for each, fenced in self._fenced.items() if each in partitions}
        names = ", ".join(self._deployment.topics.regions[each] for each in sorted(partitions))
        logger.info("regions given: %s", names or "none")
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled: open regions that were assigned, close those that were taken away."""
        shown: set[int] = set()
        while True:
            stop_if_cancelled()
            self._changed.clear()
            for partition in sorted(self._open.keys() - self._wanted):
                await self._close(partition)
            for partition in sorted(self._wanted - self._open.keys()):
                await self._take_over(partition)
            if shown != self._open.keys():  # also if a region went: another worker shows its sensors now
                shown = set(self._open)
                self._monitor.observer.started(RunStarted(0, self._next_step))
            self._monitor.counters.owns(len(self._open))
            if not self._open:
                self._monitor.pulse.beat(has_work=False)
            await self._wait()

    async def finish(self, reason: str) -> None:
        """Leave the group; records that were not committed will be read again."""
        self._monitor.observer.stopped(RunStopped(self._next_step, reason))
        for partition in list(self._open):
            await self._close(partition)

    async def _wait(self) -> None:
        """Wait until regions are assigned anew or a task has ended."""
        waiting: asyncio.Task[Any] = asyncio.create_task(self._changed.wait())
        works: dict[asyncio.Task[Any], int] = {
            region.running: number for number, region in self._open.items()
        }
        ended, _ = await asyncio.wait(
            {waiting, *works}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        waiting.cancel()
        for work in ended - {waiting}:
            await self._handle_end(works[work], work)

    async def _handle_end(self, partition: int, work: asyncio.Task[None]) -> None:
        """Close a region whose task was fenced: another worker has it, or had it a moment ago."""
        failure = work.exception() or FencedError(
            "a task must run until it is closed", "it ended by itself", "start again"
        )
        first = failure.exceptions[0] if isinstance(failure, BaseExceptionGroup) else failure
        if not isinstance(first, FencedError):
            raise first
        await self._close(partition)
        self._was_fenced(partition, first)

    def _was_fenced(self, partition: int, error: FencedError) -> None:
        """Leave the region alone for one session: after it, a worker that lost the region knows that."""
        logger.info("region %s was taken over", self._deployment.topics.regions[partition])
        if partition not in self._wanted:
            return
        times = self._fenced[partition].times + 1 if partition in self._fenced else 1
        if times > _MOST_FENCED:
            raise error
        rest = self._deployment.settings.kafka.session_seconds
        self._fenced[partition] = _Fenced(times, time.monotonic() + rest)

    async def _take_over(self, partition: int) -> None:
        """Open a region, unless it was given to another worker by now."""
        if partition not in self._wanted:  # opening the one before took a while
            return
        if partition in self._fenced and time.monotonic() < self._fenced[partition].until_seconds:
            return
        try:
            await self._begin(partition)
        except FencedError as error:
            self._was_fenced(partition, error)

    async def _close(self, partition: int) -> None:
        region = self._open.pop(partition)
        region.running.cancel()
        await asyncio.wait({region.running})
        await region.task.stop()

    async def _begin(self, partition: int) -> None:
        """Fence the worker that had the region, take over its state, and run."""
        deployment, topics = self._deployment, self._deployment.topics
        place = RegionPlace.of(topics, partition)
        log = TransactionLog(
            deployment.connection, f"{topics.prefix}intake-{place.region}", topics.sealed, partition
        )
        inputs = InputLogs(
            deployment,
            {
                place.activations: (topics.activations, partition),
                place.readings: (topics.readings, partition),
                place.decisions: (topics.decisions, 0),
            },
            priority_logs=(place.decisions,),
        )
        task = StreamTask(place.region, deployment, inputs, log, self._monitor, self._app)
        try:
            await log.start()  # first, so that the earlier worker cannot write after the state is read
            core, lost = await self._restored(place, log, inputs, task)
            await task.begin(core, StepClock.of(deployment.settings), lost)
        except FencedError:
            await task.stop()
            raise
        self._next_step = max(self._next_step, core.next_step)
        logger.info("region %s continues at step %d", place.region, core.next_step)
        self._open[partition] = _OpenRegion(task, asyncio.create_task(task.run()))

    async def _restored(
        self, place: RegionPlace, log: TransactionLog, inputs: InputLogs, task: StreamTask
    ) -> tuple[IntakeCore, list[Rejected]]:
        """The region as its last worker left it, and dead letters for records that its inputs have lost."""
        deployment, topic = self._deployment, self._deployment.topics.progress
        latest = await latest_records(deployment.connection, topic, place.partition)
        progress = restore(latest, topic, RegionProgress)
        basis = deployment.release_basis(self._noise_key.fingerprint(), None)
        deployment.check_continued(
            *(progress.basis, basis, progress.next_publish, first_free_step(progress.window)),
            accept_changes=self._accept_changes,
        )
        await self._check_continues(place, progress, log)
        position, lost = await inputs.resume(progress, accept_changes=self._accept_changes)
        basis[INPUTS] = inputs.identities
        await claim_key(deployment, self._noise_key, place.partition, position.next_publish)
        registry, settings = deployment.registry.of_region(place.region), deployment.settings
        intake = deployment.intake(StepWindow.of(settings, saved=progress.window), registry)
        publisher = KeyedPublisher.of(settings, self._noise_key, (place.region,))
        position = position.model_copy(update={"basis": basis})
        own = TopicLog(deployment.topics, position, task.write, task.read, partition=place.partition)
        core = IntakeCore(place, deployment, intake, publisher, own)
        await asyncio.to_thread(core.recall)
        return core, lost

    async def _check_continues(
        self, place: RegionPlace, progress: RegionProgress, log: TransactionLog
    ) -> None:
        """Refuse a position that was lost or belongs to another log: it would publish steps a second time."""
        topics = self._deployment.topics
        last = await last_record(self._deployment.connection, topics.releases, place.partition)
        published = 0 if last is None else int(last.key) + 1
        if published != progress.next_publish:
            await log.broker_seconds()  # raises if another worker has the region by now, and wrote meanwhile
            raise LogError(
                f"{topics.progress} must say of region {place.region!r} to publish step {published} next, "
                f"where its part of {topics.releases} ends",
                f"step {progress.next_publish}",
                "both are written together, so one of them was changed or lost: "
                + restoring(f"{topics.progress}, {topics.sealed} and {topics.releases}"),
            )
