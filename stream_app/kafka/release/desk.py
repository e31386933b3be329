"""A desk: input logs on one side, a core that works on their records, one transactional log on the other.

Records come in the broker's order of arrival; whatever they lead to is committed in one transaction together
with the position behind them. So a kill at any moment loses nothing and writes nothing twice, and no reader
ever sees half a step. A release worker has one desk, an intake worker one for each of its regions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from stream_app.kafka.broker.clients import LogEnds, LogError
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import LogFollower, TopicSeen, bounds, last_record, topics_seen
from stream_app.kafka.process import Pulse, ReleaseCounters, heed_cancellation
from stream_app.kafka.release.core import ArrivalOrder, Arrived, Core, Taken
from stream_app.kafka.release.release_log import TransactionLog
from stream_app.steps import StepClock
from stream_app.watching.events import Observer
from stream_app.wire import PRIVATE_REASONS, Reason, Rejected, SteadyTime, SystemClock, reject

# Whether the inputs still hold what was not read: a log made anew or cut short is never passed over.

INPUTS = "inputs"
"""Where progress keeps the ids of the input topics."""


class InputLog(NamedTuple):
    """A partition as the broker has it: its topic's id, first offset and the one behind its last record."""

    identity: str
    begin: int
    end: int


@dataclass(frozen=True)
class Loss:
    """Records that were to be read and are not there; reading can go on at ``begin``."""

    log: str
    next_offset: int
    begin: int
    how: str

    def letter(self) -> Rejected:
        """The dead letter that stands for them."""
        source = f"{self.log}:{self.next_offset}"
        hint = f"{self.how}; reading went on at {self.begin}. Send again whatever is missing and not late"
        return reject(source, b"", Reason.RECORDS_LOST, hint)


def losses(
    offsets: Mapping[str, int], identities: Mapping[str, str], found: Mapping[str, InputLog]
) -> list[Loss]:
    """What is missing where ``offsets`` are the next records, of the topics that had these ids."""
    lost = []
    for name, next_offset in offsets.items():
        log = found[name]
        if identities.get(name, log.identity) != log.identity:
            lost.append(Loss(name, next_offset, log.begin, "it was deleted and made again"))
        elif log.end < next_offset:
            lost.append(Loss(name, next_offset, log.begin, f"it ends at {log.end} already"))
        elif log.begin > next_offset:
            lost.append(Loss(name, next_offset, log.begin, f"it begins at {log.begin} only"))
    return lost


def require_nothing_lost(lost: Sequence[Loss], *, accept_changes: bool) -> None:
    """:class:`LogError` naming what is missing, unless the operator goes on without it."""
    if lost and not accept_changes:
        raise LogError(
            "the inputs must hold every record that was not read yet",
            "; ".join(f"{each.log} was read up to {each.next_offset}, but {each.how}" for each in lost),
            "restore the topic; or say --accept-changes to read on from what there is, with a dead letter "
            "for what is missing",
        )


class Inputs:
    """The input logs of a desk: held against what was read when it starts, and as long as it runs.

    ``logs`` maps the name by which a position is kept to topic and partition; ``asides`` are those of them
    whose records wait for no other's.
    """

    def __init__(
        self, deployment: Deployment, logs: Mapping[str, tuple[str, int]], asides: Sequence[str] = ()
    ) -> None:
        self._deployment = deployment
        self.logs = dict(logs)
        self.asides = tuple(asides)
        self.identities: dict[str, str] = {}

    async def take_up(
        self, offsets: Mapping[str, int], identities: Mapping[str, str], *, accept_changes: bool
    ) -> tuple[dict[str, int], list[Loss]]:
        """Where to read on from stored positions, and what is missing; learns which topics they are."""
        found = await self._find()
        self.identities = {name: log.identity for name, log in found.items()}
        lost = losses(offsets, identities, found)
        require_nothing_lost(lost, accept_changes=accept_changes)
        begins = {name: log.begin for name, log in found.items()}
        return {**begins, **offsets, **{each.log: each.begin for each in lost}}, lost

    async def watch(self, next_offsets: Callable[[], Mapping[str, int]]) -> None:
        """:class:`LogError` once an input was made anew, or cut before it was read."""
        seconds, now_and_then = self._deployment.settings.kafka.stall_seconds / 4, LogEnds(0.0)
        while True:
            await asyncio.sleep(seconds)
            read_until = dict(next_offsets())  # before the look: meanwhile more is read
            found = await now_and_then.look(self._find)
            if found is not None:
                lost = losses(read_until, self.identities, found)
                require_nothing_lost(lost, accept_changes=False)

    async def _find(self) -> dict[str, InputLog]:
        """As the broker has them now; a topic that is gone has no id and holds nothing."""
        topics, connection = {topic for topic, _ in self.logs.values()}, self._deployment.connection
        seen = await asyncio.to_thread(topics_seen, connection, sorted(topics))
        self._require_partitions(seen)
        found = {}
        for name, (topic, partition) in self.logs.items():
            begin, end = await bounds(connection, topic, partition) if topic in seen else (0, 0)
            found[name] = InputLog(seen[topic].identity if topic in seen else "", begin, end)
        return found

    def _require_partitions(self, seen: Mapping[str, TopicSeen]) -> None:
        """Whatever senders put into a partition more would be read by nobody."""
        for topic, found in seen.items():
            wanted = self._deployment.topics.plan(topic).partitions
            if found.partitions > wanted:
                raise LogError(
                    f"{topic} must have {wanted} partition{'s' if wanted > 1 else ''}",
                    str(found.partitions),
                    "nobody reads the others: copy what came to them into the first, make the topic anew by "
                    "`tallyguard topics create`, and start with --accept-changes",
                )


logger = logging.getLogger(__name__)

_MOST_RECORDS = 2000  # entered at a time
_TICK_SECONDS = 0.05
_COMMIT_SECONDS = 0.2  # between transactions that close nothing


class DeskWatch:
    """Whom the desks of a process notify; signs of life are of all of them together."""

    def __init__(self, observer: Observer, counters: ReleaseCounters, pulse: Pulse) -> None:
        self.observer = observer
        self._counters = counters
        self._pulse = pulse
        self._waiting: dict[str, int] = {}
        self._lagging: set[str] = set()

    def turns(self, desk: str, waiting: int, *, lags: bool) -> None:
        """A desk looked round: so many records wait there, and others that it was not handed."""
        self._waiting[desk] = waiting
        self._lagging = self._lagging | {desk} if lags else self._lagging - {desk}
        self._counters.waiting.set(sum(self._waiting.values()))
        self._pulse.beat(has_work=any(self._waiting.values()) or bool(self._lagging))

    def works(self) -> None:
        """A desk is at work."""
        self._pulse.beat(has_work=True)

    def wrote(self) -> None:
        """A transaction was committed."""
        self._pulse.progress()

    def left(self, desk: str) -> None:
        """A desk was closed."""
        self._waiting.pop(desk, None)
        self._lagging.discard(desk)


class Desk:
    """Reads, works, commits; on the event loop, but for the core, which has a thread of its own."""

    def __init__(
        self, name: str, deployment: Deployment, inputs: Inputs, log: TransactionLog, watch: DeskWatch
    ) -> None:
        self._name = name
        self._connection = deployment.connection
        self._inputs = inputs
        self._log = log
        self._watch = watch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._follower = LogFollower(deployment.connection)
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._time = SteadyTime(0.0, SystemClock().monotonic_seconds)
        self._ends = LogEnds(deployment.settings.kafka.stall_seconds / 4)
        self._ends_now = LogEnds(0.0)
        self._lags = False
        self._in_doubt = False
        self._uncommitted = 0  # records entered since the last transaction
        self._kept: list[Rejected] = []  # dead letters of these
        self._committed_seconds = time.monotonic()
        self._core: Core
        self._clock: StepClock
        self._order: ArrivalOrder

    async def begin(self, core: Core, clock: StepClock, rejected: list[Rejected]) -> None:
        """Work for a core from where it is in its logs; what was found missing is refused first."""
        self._core, self._clock = core, clock
        if clock.has_ticks:
            await self._set_clock(core.next_step)
        asides = self._inputs.asides
        merged = tuple(name for name in self._inputs.logs if name not in asides)
        self._order = ArrivalOrder(merged, self._is_at_end, time.monotonic(), core.offsets, asides)
        await self.commit(Taken(rejected=rejected))

    async def run(self) -> None:
        """Until cancelled: read, work, see that the inputs stay what they are."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read())
            group.create_task(self._work())
            group.create_task(self._inputs.watch(lambda: self._order.next_offsets))

    async def stop(self) -> None:
        """Leave; records that were not committed will be read again."""
        await self._log.stop()
        self._thread.shutdown(wait=False)
        self._watch.left(self._name)

    def doubt(self) -> None:
        """Make sure that the log is still ours, before the next records; ends the desk if it is not."""
        self._in_doubt = True

    def flush(self, taken: Taken) -> None:
        """On the core's thread: commit what was taken so far."""
        asyncio.run_coroutine_threadsafe(self.commit(taken), self._loop).result()
        taken.clear()

    async def commit(self, taken: Taken) -> None:
        """Make durable what came of records, then notify whoever watches."""
        began = time.monotonic()
        taken.rejected[:0], self._kept = self._kept, []
        stamp_seconds = await self._log.write(self._core.records(taken))
        if stamp_seconds is not None and self._clock.has_ticks:
            self._time.vouch(self._clock.end_of(self._core.watermark))
            self._time.observe(stamp_seconds)
        self._committed_seconds = time.monotonic()
        self._watch.wrote()
        self._notify(taken, began)

    async def _read(self) -> None:
        """Keep records until their turn comes; none are fetched while too many wait."""
        names = {place: name for name, place in self._inputs.logs.items()}
        starts = {self._inputs.logs[name]: offset for name, offset in self._order.next_offsets.items()}
        async for records in self._follower.records(starts):
            heed_cancellation()
            now_seconds = time.monotonic()
            for record in records:
                name = names[record.topic, record.partition]
                stamp_seconds, value, key = record.timestamp / 1000.0, record.value or b"", record.key or b""
                arrived = Arrived(name, stamp_seconds, record.offset, value, key)
                self._order.add(arrived, now_seconds)
            self._arrived.set()
            while self._order.is_full:
                await asyncio.sleep(_TICK_SECONDS)

    async def _work(self) -> None:
        """Take records in order, commit what came of them."""
        while True:
            heed_cancellation()
            if self._in_doubt:
                self._in_doubt = False
                await self._log.broker_seconds()
            self._arrived.clear()
            asides_only = self._core.takes_asides_only
            records = self._order.take(_MOST_RECORDS, time.monotonic(), asides_only=asides_only)
            now_seconds = self._time.now_seconds()
            await self._step(records, now_seconds, await self._has_read_all(records, now_seconds))
            waiting = self._uncommitted + (0 if asides_only else len(self._order))  # what could be worked on
            if self._clock.has_ticks:
                self._watch.observer.clock_read(self._time.off)
            self._watch.turns(self._name, waiting, lags=self._lags)
            if len(records) < _MOST_RECORDS:
                await self._wait()
            if not records and not waiting:
                await self._look_for_lag()

    async def _look_for_lag(self) -> None:
        """Whether records wait that are not handed to us; the watchdog ends us if that stays so."""
        lags = await self._ends.look(self._lacks_any)
        self._lags = self._lags if lags is None else lags

    async def _set_clock(self, next_step: int) -> None:
        """Ticks are the broker's: its time now, and the time that passes."""
        now_seconds = await self._log.broker_seconds()
        self._time = SteadyTime(now_seconds, SystemClock().monotonic_seconds)
        if next_step == 0:
            self._clock.check(now_seconds, next_step)

    async def _has_read_all(self, records: list[Arrived], now_seconds: float) -> bool:
        """Whether a tick has come and the inputs, asked after it, hold nothing that was not handed to us."""
        if records or len(self._order) or not self._core.is_over(now_seconds):
            return False
        return await self._ends_now.look(self._lacks_any) is False and not len(self._order)

    async def _lacks_any(self) -> bool:
        """Whether an input has a record that has not come."""
        for name, (topic, partition) in self._inputs.logs.items():
            last = await last_record(self._connection, topic, partition, patient=False)
            if last is not None and self._order.lacks(name, last.offset):
                return True
        return False

    def _is_at_end(self, name: str) -> bool:
        return self._follower.is_at_end(*self._inputs.logs[name])

    async def _wait(self) -> None:
        """Until something arrives that was not there when records were taken, or a while."""
        with suppress(TimeoutError):
            to_tick = self._clock.seconds_to_tick(self._time.now_seconds())
            await asyncio.wait_for(self._arrived.wait(), min(_TICK_SECONDS, to_tick))

    async def _step(self, records: list[Arrived], now_seconds: float, has_read_all: bool) -> None:
        """Enter some records; commit at once if something came of them, else now and then."""
        began = time.monotonic()
        take = partial(self._core.take, records, now_seconds, has_read_all=has_read_all)
        taking = self._loop.run_in_executor(self._thread, take)
        while not taking.done():
            await asyncio.wait({taking}, timeout=1.0)
            self._watch.works()
        taken = taking.result()
        self._uncommitted += len(records)
        is_early = not self._uncommitted or began - self._committed_seconds < _COMMIT_SECONDS
        if taken.is_idle and is_early:
            self._kept += taken.rejected  # private ones: written with the records that they came of
            self._notify(taken, began)
            return
        await self.commit(taken)
        self._uncommitted = 0

    def _notify(self, taken: Taken, began_seconds: float) -> None:
        """Notify whoever watches, after it is durable."""
        observer = self._watch.observer
        for outcome, readings in taken.outcomes.items():
            observer.received(outcome, readings)
        for rejected in taken.rejected:
            if rejected.reason not in PRIVATE_REASONS:
                observer.rejected(rejected.reason)
        for event in self._core.events(taken, time.monotonic() - began_seconds):
            observer.closed(event)
