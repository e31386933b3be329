"""A stream task: input logs, a core that processes their records, and one transactional log.

Records are processed in the broker's order of arrival. Their results are committed in one transaction
together with the position after them. So a kill at any moment loses nothing and writes nothing twice, and no
reader ever sees half a step. A release worker has one task, an intake worker one for each of its regions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from stream_app.kafka.broker.clients import LogEnds, LogError
from stream_app.kafka.broker.streams import App
from stream_app.kafka.deployment.deployment import INPUTS, Deployment
from stream_app.kafka.deployment.log_reader import (
    TopicDescription,
    bounds,
    describe_topics,
    follow,
    last_record,
    read_steps,
)
from stream_app.kafka.release.release_core import SILENCE_SECONDS, ArrivalOrder, Core, InputRecord
from stream_app.kafka.release.release_log import At, LogRecord, TransactionLog
from stream_app.kafka.worker_metrics import InputCounters
from stream_app.kafka.worker_process import Pulse, WorkThread, stop_if_cancelled
from stream_app.steps import DeviceWatch, Results, StepClock
from stream_app.watching.events import Observer
from stream_app.wire import Clock, DeviceFinding, Reason, Rejected, SteadyTime, StepDecision, reject


class InputLog(NamedTuple):
    """A partition on the broker: its topic's id, first offset, and the offset after its last record."""

    identity: str
    begin: int
    end: int


@dataclass(frozen=True)
class LostRecords:
    """Records that are gone before they were read; reading can continue at ``begin``."""

    log: str
    next_offset: int
    begin: int
    how: str

    def letter(self) -> Rejected:
        """The dead letter in place of these records."""
        source = f"{self.log}:{self.next_offset}"
        hint = f"{self.how}; reading continued at {self.begin}. Send again whatever is missing and not late"
        return reject(source, b"", Reason.RECORDS_LOST, hint)


def find_lost_records(
    offsets: Mapping[str, int], identities: Mapping[str, str], found: Mapping[str, InputLog]
) -> list[LostRecords]:
    """Records missing at ``offsets``, the next to be read, of topics that had these ids."""
    lost = []
    for name, next_offset in offsets.items():
        log = found[name]
        if identities.get(name, log.identity) != log.identity:
            lost.append(LostRecords(name, next_offset, log.begin, "it was deleted and made again"))
        elif log.end < next_offset:
            lost.append(LostRecords(name, next_offset, log.begin, f"it ends at {log.end} already"))
        elif log.begin > next_offset:
            lost.append(LostRecords(name, next_offset, log.begin, f"it begins at {log.begin} only"))
    return lost


def require_nothing_lost(lost: Sequence[LostRecords], *, accept_changes: bool) -> None:
    """:class:`LogError` naming what is missing, unless the operator goes on without it."""
    if lost and not accept_changes:
        raise LogError(
            "the inputs must hold every record that was not read yet",
            "; ".join(f"{each.log} was read up to {each.next_offset}, but {each.how}" for each in lost),
            "restore the topic; or say --accept-changes to read on from what there is, with a dead letter "
            "for what is missing",
        )


class InputLogs:
    """The input logs of a task, compared with what was read when it starts and while it runs.

    A log that was made again or cut short is never passed over silently. ``logs`` maps the name under which a
    position is kept to topic and partition; records of the ``priority_logs`` among them never wait for
    others.
    """

    def __init__(
        self, deployment: Deployment, logs: Mapping[str, tuple[str, int]], priority_logs: Sequence[str] = ()
    ) -> None:
        self._deployment = deployment
        self.logs = dict(logs)
        self.priority_logs = tuple(priority_logs)
        self.identities: dict[str, str] = {}

    async def resume(self, progress: At, *, accept_changes: bool) -> tuple[At, list[Rejected]]:
        """The position with where to read on, and dead letters for what is missing; notes ids of topics."""
        found = await self._find()
        self.identities = {name: log.identity for name, log in found.items()}
        lost = find_lost_records(progress.offsets, progress.basis.get(INPUTS, {}), found)
        require_nothing_lost(lost, accept_changes=accept_changes)
        offsets = {name: log.begin for name, log in found.items()} | dict(progress.offsets)
        offsets |= {each.log: each.begin for each in lost}
        return progress.model_copy(update={"offsets": offsets}), [each.letter() for each in lost]

    async def watch(self, next_offsets: Callable[[], Mapping[str, int]]) -> None:
        """Raise :class:`LogError` once an input log was made again, or cut short before it was read."""
        seconds, ends = self._deployment.settings.kafka.stall_seconds / 4, LogEnds(0.0)
        while True:
            await asyncio.sleep(seconds)
            read_until = dict(next_offsets())  # before asking: more is read meanwhile
            found = await ends.look(self._find)
            if found is not None:
                lost = find_lost_records(read_until, self.identities, found)
                require_nothing_lost(lost, accept_changes=False)

    async def _find(self) -> dict[str, InputLog]:
        """The logs on the broker now; a topic that is gone has no id and holds nothing."""
        topics, connection = {topic for topic, _ in self.logs.values()}, self._deployment.connection
        seen = await asyncio.to_thread(describe_topics, connection, sorted(topics))
        self._require_partitions(seen)
        found = {}
        for name, (topic, partition) in self.logs.items():
            begin, end = await bounds(connection, topic, partition) if topic in seen else (0, 0)
            found[name] = InputLog(seen[topic].identity if topic in seen else "", begin, end)
        return found

    def _require_partitions(self, seen: Mapping[str, TopicDescription]) -> None:
        """Refuse topics with more partitions than are read: records in the others would be lost."""
        for topic, found in seen.items():
            wanted = self._deployment.topics.plan(topic).partitions
            if found.partitions > wanted:
                raise LogError(
                    f"{topic} must have {wanted} partition{'s' if wanted > 1 else ''}",
                    str(found.partitions),
                    "nobody reads the others: copy their records into the first, create the topic again with "
                    "`tallyguard topics create`, and start with --accept-changes",
                )


logger = logging.getLogger(__name__)

_MOST_RECORDS = 2000  # entered at a time
_TICK_SECONDS = 0.05
_COMMIT_SECONDS = 0.2  # between transactions that close nothing
_READ_STEPS = 1000  # of the log at a time


class TaskMonitor:
    """What the tasks of a process report to: observer, counters, and one sign of life of all of them."""

    def __init__(self, observer: Observer, counters: InputCounters, pulse: Pulse) -> None:
        self.observer = observer
        self.counters = counters
        self.pulse = pulse
        self._waiting: dict[str, int] = {}
        self._lagging: set[str] = set()
        self._suspected: dict[str, tuple[DeviceFinding, ...]] = {}

    def looked(self, task: str, waiting: int, *, lags: bool) -> None:
        """A task has looked for work: so many records wait there; ``lags`` if others were not fetched."""
        self._waiting[task] = waiting
        self._lagging = self._lagging | {task} if lags else self._lagging - {task}
        self.counters.waiting.set(sum(self._waiting.values()))
        self.pulse.beat(has_work=any(self._waiting.values()) or bool(self._lagging))

    def suspects(self, task: str, findings: tuple[DeviceFinding, ...]) -> None:
        """The devices of a task that seem broken now."""
        self._suspected[task] = findings
        self.observer.devices_suspected(tuple(each for found in self._suspected.values() for each in found))

    def left(self, task: str) -> None:
        """A task was closed."""
        self._waiting.pop(task, None)
        self._lagging.discard(task)
        if task in self._suspected:
            self.suspects(task, ())


class StreamTask:
    """Reads, processes and commits; on the event loop, except for the core, which has its own thread.

    Agents of ``app`` hand over what the group has fetched. Priority logs have one partition that several
    workers read, which a group would give to one: they are followed outside the group.
    """

    def __init__(
        self,
        name: str,
        deployment: Deployment,
        inputs: InputLogs,
        log: TransactionLog,
        monitor: TaskMonitor,
        app: App,
    ) -> None:
        self._name = name
        self._connection, self._topics = deployment.connection, deployment.topics
        self._inputs = inputs
        self._log = log
        self._monitor = monitor
        self._thread = WorkThread(monitor.pulse, name)
        self._app = app
        self._names = {place: name for name, place in inputs.logs.items()}
        self._is_stopped = False
        self._arrived = asyncio.Event()
        self._full: set[str] = set()  # the logs that are not fetched for now
        self._loop = asyncio.get_running_loop()
        self._time = SteadyTime(0.0, Clock().monotonic_seconds)
        self._ends = LogEnds(deployment.settings.kafka.stall_seconds / 4)
        self._ends_now, self._ends_of_silent = LogEnds(0.0), LogEnds(SILENCE_SECONDS)
        self._lags = False
        self._must_check_fence = False
        self._writing: asyncio.Task[Any] | None = None
        self._uncommitted = 0  # records entered since the last transaction
        self._began_seconds = self._committed_seconds = time.monotonic()
        self._core: Core
        self._clock: StepClock
        self._order: ArrivalOrder

    async def begin(self, core: Core, clock: StepClock, rejected: list[Rejected]) -> None:
        """Start with a core at its position in the logs; dead letters of lost records are written first."""
        self._core, self._clock = core, clock
        core.on_progress = self._monitor.pulse.progress
        core.on_commit = lambda *done: self._loop.call_soon_threadsafe(self._committed, *done)
        if clock.has_ticks:
            await self._set_clock(core.next_step)
        priority_logs = self._inputs.priority_logs
        merged = tuple(name for name in self._inputs.logs if name not in priority_logs)
        self._order = ArrivalOrder(merged, self._is_at_end, core.offsets, priority_logs)
        core.results.refuse(rejected)
        await self._thread.do(core.commit)
        if core.devices is not None:
            self._monitor.suspects(self._name, core.devices.suspected)

    async def run(self) -> None:
        """Until cancelled: read, process, and check that the input logs stay the same."""
        for name in self._inputs.logs.keys() - set(self._inputs.priority_logs):
            await self._app.read_from(*self._inputs.logs[name], self._order.next_offsets[name])
        async with asyncio.TaskGroup() as group:
            for name in self._inputs.priority_logs:
                group.create_task(self._follow(name))
            group.create_task(self._work())
            group.create_task(self._inputs.watch(lambda: self._order.next_offsets))

    async def stop(self) -> None:
        """Leave; records that were not committed will be read again."""
        self._is_stopped = True
        if self._writing is not None and not self._writing.done():
            self._writing.cancel()  # its transaction is aborted before the client is closed
            await asyncio.wait({self._writing})
        await self._log.stop()
        self._thread.stop()
        self._monitor.left(self._name)

    def check_fence(self) -> None:
        """Before the next records, check whether another worker has taken over; if so, the task ends."""
        self._must_check_fence = True

    def write(self, records: Sequence[LogRecord]) -> float | None:
        """On the core's thread: write records in one transaction; see :meth:`TransactionLog.write`."""

        async def written() -> float | None:
            self._writing = asyncio.current_task()
            return await self._log.write(records)

        return asyncio.run_coroutine_threadsafe(written(), self._loop).result()

    def read(self, first: int, until: int) -> Iterator[StepDecision]:
        """On the core's thread: what was decided on the steps ``first..until - 1``."""
        connection, decisions = self._connection, self._topics.decisions

        async def some(start: int) -> list[StepDecision]:
            end = min(until, start + _READ_STEPS)
            return [each async for each in read_steps(connection, decisions, start, end)]

        for start in range(first, until, _READ_STEPS):
            yield from asyncio.run_coroutine_threadsafe(some(start), self._loop).result()

    def _committed(self, done: Results, stamp_seconds: float | None) -> None:
        """Tell the observer what is durable."""
        if stamp_seconds is not None and self._clock.has_ticks:
            self._time.vouch(self._clock.end_of(self._core.watermark))
            self._time.observe(stamp_seconds)
        self._uncommitted, self._committed_seconds = 0, time.monotonic()
        self._monitor.pulse.progress()
        latency_seconds = self._committed_seconds - self._began_seconds
        done.tell(self._monitor.observer, latency_seconds, self._core.watermark)
        if done.findings and self._core.devices is not None:
            DeviceWatch.warn(done.findings, f"the topic {self._topics.quality}")
            self._monitor.suspects(self._name, self._core.devices.suspected)

    async def _follow(self, name: str) -> None:
        topic, _ = self._inputs.logs[name]
        async for records in follow(self._connection, topic, self._order.next_offsets[name]):
            stop_if_cancelled()
            await self.receive(records)
            while self._order.is_full(name) and not self._is_stopped:
                await asyncio.sleep(_TICK_SECONDS)

    async def receive(self, records: Sequence[Any]) -> None:
        """Take records; of a log of which too many wait no more are fetched for now."""
        for record in records:
            name = self._names[record.topic, record.partition]
            stamp_seconds, value, key = record.timestamp / 1000.0, record.value or b"", record.key or b""
            self._order.add(InputRecord(name, stamp_seconds, record.offset, value, key))
        self._arrived.set()
        full = {self._names[each.topic, each.partition] for each in records} - set(self._inputs.priority_logs)
        for name in filter(self._order.is_full, full):
            self._full.add(name)
            await self._app.fetch(*self._inputs.logs[name], wanted=False)

    async def _work(self) -> None:
        """Take records in order, process them, commit their results."""
        while True:
            stop_if_cancelled()
            if self._must_check_fence:
                self._must_check_fence = False
                await self._log.broker_seconds()  # raises if another worker has taken over
            self._arrived.clear()  # before records are taken: one that arrives meanwhile must wake the wait
            for name in self._order.silent(time.monotonic()):
                asked_at = dict(self._order.next_offsets)
                if await self._ends_of_silent.look(partial(self._has_all, name)):
                    self._order.has_no_more(name, asked_at)
            priority_logs_only = self._core.takes_priority_logs_only
            records = self._order.take(_MOST_RECORDS, time.monotonic(), priority_logs_only=priority_logs_only)
            for name in [each for each in self._full if not self._order.is_full(each, share=0.5)]:
                self._full.remove(name)
                await self._app.fetch(*self._inputs.logs[name], wanted=True)
            now_seconds = self._time.now_seconds()
            await self._step(records, now_seconds, await self._has_read_all(records, now_seconds))
            waiting = self._uncommitted + (0 if priority_logs_only else len(self._order))
            if self._clock.has_ticks:
                self._monitor.observer.clock_read(self._time.off)
            self._monitor.looked(self._name, waiting, lags=self._lags)
            if len(records) < _MOST_RECORDS:
                await self._wait()
            if not records and not waiting:
                await self._look_for_lag()

    async def _look_for_lag(self) -> None:
        """Whether there are records that we do not get; if that stays so, the watchdog ends the process."""
        lags = await self._ends.look(self._lacks_any)
        self._lags = self._lags if lags is None else lags

    async def _set_clock(self, next_step: int) -> None:
        """Set the clock to the broker's time; from then on elapsed time is added to it."""
        now_seconds = await self._log.broker_seconds()
        self._time = SteadyTime(now_seconds, Clock().monotonic_seconds)
        if next_step == 0:
            self._clock.check(now_seconds, next_step)

    async def _has_read_all(self, records: list[InputRecord], now_seconds: float) -> bool:
        """Whether a tick has come and the input logs, asked after it, hold no record that we lack."""
        if records or len(self._order) or not self._core.is_over(now_seconds):
            return False
        return await self._ends_now.look(self._lacks_any) is False and not len(self._order)

    async def _lacks_any(self) -> bool:
        """Whether an input log has a record that was not fetched."""
        for name in self._inputs.logs:
            if not await self._has_all(name):
                return True
        return False

    async def _has_all(self, name: str) -> bool:
        """Whether every record of an input log was fetched; the broker is asked."""
        last = await last_record(self._connection, *self._inputs.logs[name], patient=False)
        return last is None or not self._order.lacks(name, last.offset)

    def _is_at_end(self, name: str) -> bool:
        return self._app.is_at_end(*self._inputs.logs[name])

    async def _wait(self) -> None:
        """Wait for a record that was not there when records were taken, at most until the next tick."""
        with suppress(TimeoutError):
            to_tick = self._clock.seconds_to_tick(self._time.now_seconds())
            await asyncio.wait_for(self._arrived.wait(), min(_TICK_SECONDS, to_tick))

    async def _step(self, records: list[InputRecord], now_seconds: float, has_read_all: bool) -> None:
        """Process some records; commit at once if somebody waits for the result, else now and then."""
        self._began_seconds = began = time.monotonic()
        self._uncommitted += len(records)
        is_early = not self._uncommitted or began - self._committed_seconds < _COMMIT_SECONDS

        def work() -> None:
            self._core.take(records, now_seconds, has_read_all=has_read_all)
            if self._core.results.is_awaited or not is_early:
                self._core.commit()

        await self._thread.do(work)
