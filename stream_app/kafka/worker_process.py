"""A worker process: broker, consumer group, job, watchdog, and an end within a bounded time.

The group gives partitions to a :class:`Job`, and their records to its agents. Any unexpected error ends the
process before the result of a record is written: a lost step would make a risk wrong, a repeated one is
recognised.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from models.exceptions import TallyguardError
from models.numerics.memory import give_memory_back
from stream_app.kafka.broker.clients import StalledError, explain, wait_for_broker
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.streams import App
from stream_app.kafka.deployment.deployment import Deployment, check_topics_of
from stream_app.setup.this_process import stop_signals

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 25.0
EXIT_STALLED = 70
_LINGER_SECONDS, _STOP_SECONDS, _LEAVE_SECONDS = 3.0, 5.0, 10.0
Result = TypeVar("Result")


class Job(ABC):
    """What one kind of worker does with its partitions."""

    @abstractmethod
    async def prepare(self, app: App) -> None:
        """Before joining the group: compile, recover, take over."""

    @abstractmethod
    def agents(self, app: App) -> None:
        """Declare the agents: the group distributes the partitions of their topics."""

    @abstractmethod
    async def assigned(self, partitions: set[int]) -> None:
        """The group has assigned these partitions, and no others, to this worker."""

    @abstractmethod
    async def run(self) -> None:
        """The work; never returns by itself."""

    @abstractmethod
    async def finish(self, reason: str) -> None:
        """Notify observers, close clients."""


class Pulse:
    """Signs of life: whether the event loop runs, and whether waiting work makes progress."""

    def __init__(self, now_seconds: Callable[[], float] = time.monotonic) -> None:
        self._now_seconds = now_seconds
        self._beat_seconds = self._progress_seconds = now_seconds()
        self._has_work = False

    def beat(self, *, has_work: bool) -> None:
        """The event loop runs; without work there is no progress to wait for."""
        self._beat_seconds = self._now_seconds()
        self._has_work = has_work
        if not has_work:
            self._progress_seconds = self._beat_seconds

    def progress(self) -> None:
        """Something was finished."""
        self._progress_seconds = self._beat_seconds = self._now_seconds()

    def stalled_seconds(self) -> float:
        """How long there has been no progress, or no beat, although there should be."""
        now = self._now_seconds()
        return max(now - self._beat_seconds, now - self._progress_seconds if self._has_work else 0.0)


class WorkThread:
    """One thread for numeric work, so that the event loop stays free to answer the broker."""

    def __init__(self, pulse: Pulse, name: str) -> None:
        self.pulse = pulse
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def do(self, work: Callable[[], Result]) -> Result:
        """The result of a piece of work; while it runs, the process counts as having work to do."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(_take_notice)
        while not future.done():
            await asyncio.wait({future}, timeout=1.0)
            self.pulse.beat(has_work=True)
        return future.result()

    def stop(self) -> None:
        """Accept no more work."""
        self._thread.shutdown(wait=False)


def _take_notice(work: asyncio.Future[Any]) -> None:
    """Of an error in work that nobody waits for any more, as the worker ends: asyncio would report it."""
    if not work.cancelled():
        work.exception()


def run_worker(group: str, job: Job, deployment: Deployment, pulse: Pulse) -> int:
    """Run a job until a signal (0), a known error (raised) or a stall (:data:`EXIT_STALLED`)."""
    watchdog = Watchdog(pulse, deployment.settings.kafka.stall_seconds)
    with tempfile.TemporaryDirectory(prefix="tallyguard-") as folder:
        process = _Process(group, job, deployment, Path(folder), watchdog)
        return asyncio.run(process.run())


class _Process:
    """One worker from waiting for the broker to leaving the group."""

    def __init__(
        self, group: str, job: Job, deployment: Deployment, folder: Path, watchdog: Watchdog
    ) -> None:
        self._group = group
        self._job = job
        self._deployment = deployment
        self._folder = folder
        self._watchdog = watchdog
        self._ended: asyncio.Future[str]
        self._assigning: asyncio.Lock

    async def run(self) -> int:
        """Start, work and end; the reason of the end decides the exit code."""
        loop = asyncio.get_running_loop()
        self._ended, self._assigning = loop.create_future(), asyncio.Lock()
        for number in stop_signals():
            loop.add_signal_handler(number, self._end, f"signal {signal.Signals(number).name}")
        connection = self._deployment.connection
        working = asyncio.create_task(self._work(connection))
        working.add_done_callback(self._failed)
        reason, failure = "failure", None
        try:
            reason = await self._ended
        except Exception as error:
            failure = error
        bound = _cut_off_after(SHUTDOWN_SECONDS, 1, "the worker did not end in time and is cut off")
        await self._leave(working, reason if failure is None else f"failure: {type(failure).__name__}")
        self._watchdog.stop()
        bound.cancel()
        known = None if failure is None else _known(failure, connection)
        if known is not None:
            _cut_off_after(_LINGER_SECONDS, 1, str(known))
            raise known
        _cut_off_after(_LINGER_SECONDS, 0, "")
        logger.info("worker ended: %s", reason)
        return 0

    async def _work(self, connection: Connection) -> None:
        """Wait for the broker, recover, join the group, work."""
        await wait_for_broker(connection)
        await asyncio.to_thread(check_topics_of, self._deployment)
        app = self._app = await App.of(self._group, connection, self._folder, self._fail)
        await self._job.prepare(app)
        give_memory_back()
        self._job.agents(app)
        assigned: Any = app.on_partitions_assigned
        assigned.connect(self._on_assigned, weak=False)
        self._watchdog.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._faust(app))
            group.create_task(self._job.run())

    async def _faust(self, app: Any) -> None:
        """Keep Faust running; if it crashes, so does the worker."""
        await app.start()
        while not app.should_stop:
            await asyncio.sleep(0.2)
        if app.crash_reason is not None:
            raise app.crash_reason

    async def _on_assigned(self, app: Any, assigned: Any, **_: Any) -> None:
        """The group has assigned partitions."""
        try:
            async with self._assigning:
                await self._job.assigned({tp.partition for tp in assigned})
        except Exception as error:
            self._fail(error)

    async def _leave(self, working: asyncio.Task[None], reason: str) -> None:
        """Stop working, then leave the group; each within a limited time, so that the process ends."""
        working.cancel()
        await _finish("the work", working, _STOP_SECONDS)
        await _finish("the job's clients", asyncio.ensure_future(self._job.finish(reason)), _STOP_SECONDS)
        app = getattr(self, "_app", None)
        if app is not None:
            await _finish("leaving the group", asyncio.ensure_future(app.stop()), _LEAVE_SECONDS)

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    def _fail(self, error: BaseException) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    def _failed(self, task: asyncio.Task[None]) -> None:
        failure = None if task.cancelled() else task.exception()
        self._fail(
            _first(
                failure
                or StalledError(
                    "a worker must run until it is stopped", "it ended by itself", "start it again"
                )
            )
        )


class Watchdog:
    """Ends the process without progress: a member that stays and does nothing blocks its partitions."""

    def __init__(self, pulse: Pulse, limit_seconds: float) -> None:
        self._pulse = pulse
        self._limit_seconds = limit_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Watch from now on."""
        self._pulse.progress()
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(min(1.0, self._limit_seconds / 4)):
            stalled = self._pulse.stalled_seconds()
            if stalled > self._limit_seconds:
                print(
                    f"tallyguard: nothing has moved for {stalled:.0f} s although there is work; "
                    "the process ends so that another takes over",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(EXIT_STALLED)


def stop_if_cancelled() -> None:
    """Raise if the task was cancelled. Loops ask, as clients that are closing may swallow a cancellation."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _finish(what: str, task: asyncio.Future[Any], seconds: float) -> None:
    """Wait for a task for a limited time: one that swallows its cancellation is left behind."""
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        logger.warning("%s did not end within %.0f s and is left behind", what, seconds)
    elif not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it: it was handled elsewhere


def _cut_off_after(seconds: float, code: int, message: str) -> threading.Timer:
    """End the process after this time, whatever still runs: a thread may compile kernels for minutes."""

    def cut_off() -> None:
        if message:
            print(f"tallyguard: {message}", file=sys.stderr, flush=True)
        os._exit(code)

    timer = threading.Timer(seconds, cut_off)
    timer.daemon = True
    timer.start()
    return timer


def _first(error: BaseException) -> BaseException:
    """The first error in a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _known(error: BaseException, connection: Connection) -> BaseException:
    """An error of a Kafka client as a :class:`BrokerError`; other errors as they are."""
    from aiokafka.errors import KafkaError

    if isinstance(error, TallyguardError):
        return error
    return explain(error, connection) if isinstance(error, KafkaError | ConnectionError) else error
