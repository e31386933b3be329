"""A worker process of its own: broker, group, watchdog, compiled kernels, metrics.

Modules are imported singly: see :mod:`stream_app.kafka`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge

from accounting.decisions.what_if import AnnouncedStep, WhatIf
from models.exceptions import TallyguardError
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import SensorRelease, StepSchedule
from stream_app.kafka.broker.clients import StalledError, explain, reachable, wait_for_broker
from stream_app.kafka.broker.connection import Connection, make_app, share_out
from stream_app.kafka.deployment.deployment import Deployment, check_topics_of
from stream_app.setup.settings_sources import load_settings
from stream_app.steps import Accounts
from stream_app.steps.policy.people_shards import new_shadow
from stream_app.watching.events import RunStarted, StepClosed
from stream_app.watching.metrics import EngineMetrics

# Compiling an account worker's kernels before it joins its group.
#
# ``python -m stream_app.kafka.process`` does it without a broker, for whoever builds an
# image.

_STAY = 0.99
_KINDS: tuple[dict[str, Any], ...] = (  # settings that need kernels of their own
    {"sharpen": False},
    {"sharpen": True},
    {"release": {"mechanism": "budget", "budget": {"risk": 0.5}}},
    {"adversary": "crowd", "release": {"mechanism": "budget", "budget": {"risk": 0.5}}},
)


def account_a_little(deployment: Deployment) -> None:
    """Account a few steps of two invented people, one with a start of its own; ask what if.

    They hardly move, so that their risk is high: the refined bound, where it is wanted, is needed too.
    """
    places = len(deployment.location_names)
    size = min(2, places)
    matrix = np.full((size, size), (1.0 - _STAY) / size) + _STAY * np.eye(size)
    start = np.full(size, 1.0 / size)
    people = [
        MovementPrior.from_dense("habitual", matrix, places=range(size)),
        MovementPrior.from_dense("starting", matrix, places=range(size), initial=start),
    ]
    population = Population.pack(people, deployment.location_names)
    accounts = Accounts.of(deployment.settings, deployment.horizon(), population, population.people)
    accountant = accounts.informed
    sensors = deployment.registry.sensors[:2]
    limit = deployment.limit()
    what_if = None if limit is None else WhatIf(accountant, limit, accounts.deciding)
    shadow = new_shadow(deployment.settings, accountant)
    for step in range(4):
        mechanism = Raw() if step % 2 else Gaussian(1.0)
        releases = tuple(SensorRelease(sensor, mechanism) for sensor in sensors)
        schedule = StepSchedule(accountant.next_step, releases)
        crowds = None if accounts.crowd is None else accounts.crowd.ask(schedule)
        if what_if is not None:
            what_if.next_step(AnnouncedStep(sensors, crowds, [sensors])).count_over([schedule])
            what_if.note(schedule, crowds)
        accounts.apply(schedule, crowds)
        if shadow is not None:
            shadow.note(schedule)
            shadow.mean()
    accountant.summary()
    accountant.crossings()


def main() -> None:
    """Compile for every kind of settings; two locations need the same kernels as two thousand."""
    with tempfile.TemporaryDirectory() as folder:
        locations = Path(folder) / "locations.txt"
        locations.write_text("here\nthere\n")
        for kind in _KINDS:
            flags = {"locations": locations, "kafka": {"servers": ["nowhere:9092"]}, **kind}
            account_a_little(Deployment.of(load_settings(None, flags)))


if __name__ == "__main__":
    main()


# Metrics of account workers: the risks of their people, and what the log and the group did to them.
#
# Releases, their noise and the privacy spent are the release worker's to count: summed over workers nothing
# may count twice.


class AccountMetrics(EngineMetrics):
    """The engine's metrics without what belongs to the release worker."""

    def started(self, event: RunStarted) -> None:
        """Partitions were given or taken; a worker that has none stands by, and shows nobody's risk."""
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
    """The engine's metrics without what the coordinator of regions shows: decisions and the privacy spent."""

    def started(self, event: RunStarted) -> None:
        """Regions were given or taken: what the sensors of one that is gone publish, another worker shows."""
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
    """What only who reads inputs can count."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.waiting = Gauge(
            "tallyguard_records_waiting",
            "Records taken from the broker and not yet written to the log",
            registry=registry,
        )


class RegionCounters(ReleaseCounters):
    """What workers of several regions count besides; only an intake worker owns regions."""

    def __init__(self, registry: CollectorRegistry, regions: int, *, owns: bool) -> None:
        super().__init__(registry)
        text = "Regions that intake workers share"
        Gauge("tallyguard_regions_configured", text, registry=registry).set(regions)
        self._owned: Gauge | None = None
        if owns:
            text = "Regions this worker takes in"
            self._owned = Gauge("tallyguard_regions_owned", text, registry=registry)

    def owns(self, regions: int) -> None:
        """So many now."""
        if self._owned is not None:
            self._owned.set(regions)


class AccountCounters:
    """What only an account worker can count; ``person_steps`` and ``lag`` are the engine's own."""

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


# A worker process: broker, group, job, watchdog and an end in bounded time.
#
# Faust gives partitions to a :class:`Job`, which reads the logs itself. Anything unexpected ends the
# process before what comes of a record is written: a lost step would be a wrong risk, a repeated one is
# recognised.

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 25.0
EXIT_STALLED = 70
_LINGER_SECONDS, _STOP_SECONDS, _LEAVE_SECONDS = 3.0, 5.0, 10.0
_ENDED_BY_ITSELF = ("a worker must work until it is stopped", "an end by itself", "start it again")


class Job(ABC):
    """What one kind of worker does with its partitions."""

    @property
    @abstractmethod
    def shared(self) -> str:
        """The topic whose partitions the group shares out."""

    @abstractmethod
    async def prepare(self, app: Any) -> None:
        """Before joining the group: compile, recover, take over."""

    @abstractmethod
    async def assigned(self, partitions: set[int]) -> None:
        """The group has given this worker these partitions, and no others."""

    @abstractmethod
    async def run(self) -> None:
        """The work; never returns by itself."""

    @abstractmethod
    async def finish(self, reason: str) -> None:
        """Tell observers, close clients."""


class Pulse:
    """Signs of life: whether the event loop turns, and whether there is work that does not move."""

    def __init__(self, now_seconds: Callable[[], float] = time.monotonic) -> None:
        self._now_seconds = now_seconds
        self._turned = self._moved = now_seconds()
        self._has_work = False

    def beat(self, *, has_work: bool) -> None:
        """The loop turns; without work there is nothing to wait for."""
        self._turned = self._now_seconds()
        self._has_work = has_work
        if not has_work:
            self._moved = self._turned

    def progress(self) -> None:
        """Something was finished."""
        self._moved = self._turned = self._now_seconds()

    def stalled_seconds(self) -> float:
        """How long nothing has moved although it should."""
        now = self._now_seconds()
        return max(now - self._turned, now - self._moved if self._has_work else 0.0)


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
        """Everything in order; the reason of the end decides the exit code."""
        loop = asyncio.get_running_loop()
        self._ended, self._assigning = loop.create_future(), asyncio.Lock()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end, f"signal {signal.Signals(number).name}")
        connection = self._deployment.connection
        working = asyncio.create_task(self._work(connection))
        working.add_done_callback(self._failed)
        reason, failure = "failure", None
        try:
            reason = await self._ended
        except Exception as error:
            failure = error
        bound = threading.Timer(SHUTDOWN_SECONDS, _give_up)
        bound.daemon = True
        bound.start()
        await self._leave(working, reason if failure is None else f"failure: {type(failure).__name__}")
        self._watchdog.stop()
        bound.cancel()
        known = None if failure is None else _known(failure, connection)
        _end_soon(0 if known is None else 1, "" if known is None else f"tallyguard: {known}")
        if known is not None:
            raise known
        logger.info("worker ended: %s", reason)
        return 0

    async def _work(self, connection: Connection) -> None:
        """Wait for the broker, recover, join the group, work."""
        await wait_for_broker(connection)
        await asyncio.to_thread(check_topics_of, self._deployment)
        servers = tuple((await reachable(connection))["bootstrap_servers"])
        kafka = self._deployment.settings.kafka.model_copy(update={"servers": servers})
        app = make_app(self._group, kafka, self._folder)
        self._app = app
        await self._job.prepare(app)
        gc.freeze()  # kernels and classes stay: looking through them again and again is what collecting costs
        app.topics  # noqa: B018 - Faust makes the conductor on first use, before agents
        share_out(app, self._job.shared)
        app.on_partitions_assigned.connect(self._on_assigned, weak=False)
        self._watchdog.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._faust(app))
            group.create_task(self._job.run())

    async def _faust(self, app: Any) -> None:
        """Keep Faust running; its crash is ours."""
        await app.start()
        while not app.should_stop:
            await asyncio.sleep(0.2)
        if app.crash_reason is not None:
            raise app.crash_reason

    async def _on_assigned(self, app: Any, assigned: Any, **_: Any) -> None:
        """The group has shared out partitions anew."""
        try:
            async with self._assigning:
                await self._job.assigned({tp.partition for tp in assigned})
        except Exception as error:
            self._fail(error)

    async def _leave(self, working: asyncio.Task[None], reason: str) -> None:
        """Stop working, commit what was acknowledged, leave the group; none of it may keep the process."""
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
        self._fail(_first(failure or StalledError(*_ENDED_BY_ITSELF)))


class Watchdog:
    """Ends the process when nothing moves: a member that stays and does nothing blocks its partitions."""

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


def heed_cancellation() -> None:
    """Raise if the task was cancelled. Clients swallow a cancellation while they are closed, so loops ask."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _finish(what: str, task: asyncio.Future[Any], seconds: float) -> None:
    """Wait for a task, not for ever: one that swallows its cancellation is left behind."""
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        logger.warning("%s did not end within %.0f s and is left behind", what, seconds)
    elif not task.cancelled():
        task.exception()  # said elsewhere, or of no use any more


def _end_soon(code: int, message: str) -> None:
    """Make sure of the end: a thread that still compiles would keep the process for minutes."""
    ending = threading.Timer(_LINGER_SECONDS, _cut_off, (code, message))
    ending.daemon = True
    ending.start()


def _cut_off(code: int, message: str) -> None:
    if message:
        print(message, file=sys.stderr, flush=True)
    os._exit(code)


def _give_up() -> None:
    """The end in order took too long."""
    print("tallyguard: the worker did not end in time and is cut off", file=sys.stderr, flush=True)
    os._exit(1)


def _first(error: BaseException) -> BaseException:
    """The error behind a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _known(error: BaseException, connection: Connection) -> BaseException:
    """Errors of the clients in words; others as they are."""
    from aiokafka.errors import KafkaError

    if isinstance(error, TallyguardError):
        return error
    return explain(error, connection) if isinstance(error, KafkaError | ConnectionError) else error
