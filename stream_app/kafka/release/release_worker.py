"""The release worker: the one process that closes steps, draws values and writes the logs.

Records of the two input topics come in the broker's order of arrival; whatever they lead to is committed in
one transaction together with the position behind them and the open steps. So a kill at any moment loses
nothing and publishes nothing twice, and no reader ever sees half a step.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from accounting.continuous import ContinuousAccountant
from accounting.ledgers import PrivacyAccount
from models.keys import NoiseKey
from models.priors import Population
from stream_app.exceptions import restoring
from stream_app.kafka.broker.kafka_exceptions import FencedError, LogError
from stream_app.kafka.broker.log_ends import LogEnds
from stream_app.kafka.deployment.broker_limits import require_requests
from stream_app.kafka.deployment.deployment import Deployment, check_basis
from stream_app.kafka.deployment.log_reader import (
    LogFollower,
    last_decision,
    last_record,
    latest_records,
    read_steps,
)
from stream_app.kafka.process.worker import Job, Pulse, heed_cancellation
from stream_app.kafka.process.worker_metrics import ReleaseCounters
from stream_app.kafka.process.worker_warm_up import account_a_little
from stream_app.kafka.release.arrival_order import ArrivalOrder, Arrived
from stream_app.kafka.release.earlier_worker import wait_for_earlier_worker
from stream_app.kafka.release.input_logs import INPUTS, Inputs
from stream_app.kafka.release.progress import Progress, Restored, restore
from stream_app.kafka.release.proposing import DistantCrowd, Inquirer, Proposer, ProposingPolicy
from stream_app.kafka.release.release_core import Flush, ReleaseCore, Taken
from stream_app.kafka.release.release_log import ReleaseLog
from stream_app.setup.release_settings import CROWD
from stream_app.setup.run_folder.key_epochs import check_between_windows
from stream_app.steps import Beside, ClosedStep, Intake, KeyedPublisher, StepClock, StepEngine, StepWindow
from stream_app.steps.policy import BudgetPolicy, Policy
from stream_app.watching.events import Observer, RunStarted, RunStopped, StepClosed
from stream_app.wire import SteadyTime, SystemClock, fingerprint_of

logger = logging.getLogger(__name__)

_MOST_RECORDS = 2000  # entered at a time
_MOST_RELEASES = 20_000  # sensors of all steps in one transaction, but for a single step that has more
_TICK_SECONDS = 0.05
_COMMIT_SECONDS = 0.2  # between transactions that close nothing


class ReleaseRules(NamedTuple):
    """How counts are released; ``schedule`` is the fingerprint of the schedule file the policy follows."""

    policy: Policy
    noise_key: NoiseKey
    schedule: str | None = None


class ReleaseWorker(Job):
    """Runs one engine between the input topics and the logs."""

    def __init__(
        self,
        deployment: Deployment,
        rules: ReleaseRules,
        *,
        observer: Observer,
        counters: ReleaseCounters,
        pulse: Pulse,
        accept_changes: bool = False,
    ) -> None:
        self._deployment = deployment
        self._rules = rules
        self._policy = rules.policy
        self._observer = observer
        self._counters = counters
        self._pulse = pulse
        self._accept_changes = accept_changes
        self._log = ReleaseLog(deployment.connection, deployment.topics, deployment.digest)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._core: ReleaseCore
        self._order: ArrivalOrder
        self._arrived = asyncio.Event()
        self._joined = asyncio.Event()
        self._follower = LogFollower(deployment.connection)
        self._proposer: Proposer | None = None
        self._crowd: DistantCrowd | None = None
        self._loop: asyncio.AbstractEventLoop
        self._uncommitted = 0  # records entered since the last transaction
        self._committed_seconds = time.monotonic()
        self._inputs = Inputs(deployment, self.topics)
        self._clock = StepClock.of(deployment.settings)
        self._time = SteadyTime(0.0, SystemClock().monotonic_seconds)
        self._ends = LogEnds(deployment.settings.kafka.stall_seconds / 4)
        self._ends_now = LogEnds(0.0)
        self._lags = False

    @property
    def topics(self) -> tuple[str, ...]:
        """The inputs."""
        return self._deployment.topics.activations, self._deployment.topics.readings

    async def prepare(self, app: Any) -> None:
        """Compile, refuse where another one runs, fence whoever comes back, take over the state it left."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(account_a_little, self._deployment)
        await asyncio.to_thread(require_requests, self._deployment)
        kafka = self._deployment.settings.kafka
        await wait_for_earlier_worker(self._deployment.connection, app.conf.id, kafka.session_seconds)
        await self._log.start()
        await self._propose_where_needed()
        topics = self._deployment.topics
        latest = await latest_records(self._deployment.connection, topics.progress)
        restored = restore(latest, topics.progress)
        progress = restored.progress
        basis = self._deployment.release_basis(self._rules.noise_key.fingerprint(), self._rules.schedule)
        check_basis(
            {key: value for key, value in progress.basis.items() if key != INPUTS},
            basis,
            accept_changes=self._accept_changes,
        )
        if progress.basis.get("noise_key", basis["noise_key"]) != basis["noise_key"]:
            check_between_windows(self._deployment.settings.release.covariance, progress.next_step)
        await self._check_continues(progress)
        progress, lost = await self._inputs.take_up(progress, accept_changes=self._accept_changes)
        basis[INPUTS] = self._inputs.identities
        await asyncio.to_thread(self._deployment.record.begin, self._deployment.basis)
        progress = await self._carry(progress)
        flush = Flush(self._flush, _MOST_RELEASES if self._proposer is None else 0)
        engine = self._engine(restored)
        await self._recall(engine)
        self._core = ReleaseCore(engine, self._clock, progress, basis, flush, topics)
        if self._clock.has_ticks:
            await self._set_clock(progress.next_step)
        self._order = ArrivalOrder(self.topics, self._follower.is_at_end, time.monotonic(), progress.offsets)
        await self._commit(Taken(rejected=[each.letter() for each in lost]))
        names = tuple(sensor.name for sensor in self._deployment.registry.sensors)
        self._observer.started(RunStarted(0, progress.next_step, names))
        logger.info("release worker continues at step %d", progress.next_step)

    async def assigned(self, partitions: set[int]) -> None:
        """All of them: with some of them somebody else has joined."""
        of = self._deployment.topics.partitions
        if 0 < len(partitions) < of:
            raise FencedError(
                "one release worker must be alone in its group",
                f"another one has joined, and left {len(partitions)} of {of} partitions",
                "stop one of the two",
            )
        self._joined.set()

    async def run(self) -> None:
        """Once the group knows us, until cancelled: read, work, see that the inputs stay what they are."""
        while not self._joined.is_set():
            heed_cancellation()
            self._pulse.beat(has_work=False)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._joined.wait(), 1.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read())
            group.create_task(self._work())
            group.create_task(self._inputs.watch(lambda: self._order.next_offsets))

    async def _read(self) -> None:
        """Keep records until their turn comes; none are fetched while too many wait."""
        starts = {(topic, 0): offset for topic, offset in self._order.next_offsets.items()}
        async for records in self._follower.records(starts):
            heed_cancellation()
            now_seconds = time.monotonic()
            for record in records:
                value, key = record.value or b"", record.key or b""
                self._order.add(
                    Arrived(record.topic, record.timestamp / 1000.0, record.offset, value, key), now_seconds
                )
            self._arrived.set()
            while self._order.is_full:
                await asyncio.sleep(_TICK_SECONDS)

    async def _work(self) -> None:
        """Take records in order, commit what came of them."""
        while True:
            heed_cancellation()
            self._arrived.clear()
            records = self._order.take(_MOST_RECORDS, time.monotonic())
            now_seconds = self._time.now_seconds()
            await self._step(records, now_seconds, await self._has_read_all(records, now_seconds))
            waiting = len(self._order) + self._uncommitted
            self._counters.waiting.set(waiting)
            if self._clock.has_ticks:
                self._observer.clock_read(self._time.off)
            self._pulse.beat(has_work=waiting > 0 or self._lags)
            if len(records) < _MOST_RECORDS:
                await self._wait()
            if not records and not waiting:
                await self._look_for_lag()

    async def finish(self, reason: str) -> None:
        """Leave; records that were not committed will be delivered again."""
        self._observer.stopped(RunStopped(self._core.engine.next_step if self._started else 0, reason))
        await self._log.stop()
        if self._proposer is not None:
            await self._proposer.stop()
        self._thread.shutdown(wait=False)

    @property
    def _started(self) -> bool:
        return hasattr(self, "_core")

    async def _propose_where_needed(self) -> None:
        """With a risk budget or a crowd the account workers are asked before each decision."""
        deployment, settings = self._deployment, self._deployment.settings
        if not isinstance(self._policy, BudgetPolicy) and not settings.has_crowd:
            return
        self._proposer = Proposer(deployment.connection, deployment.topics, settings.kafka.answer_seconds)
        await self._proposer.start()
        inquirer = Inquirer(self._proposer, deployment, self._loop)
        if isinstance(self._policy, BudgetPolicy):
            self._policy = ProposingPolicy(self._policy, inquirer, in_crowd=settings.adversary == CROWD)
        if settings.has_crowd:
            self._crowd = DistantCrowd(inquirer)

    def _flush(self, taken: Taken) -> None:
        """On the engine's thread: commit what was closed, before the next step is asked about."""
        asyncio.run_coroutine_threadsafe(self._commit(taken), self._loop).result()
        taken.clear()

    async def _look_for_lag(self) -> None:
        """Whether records wait that the group does not hand to us; the watchdog ends us if that stays so."""
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
        """Whether an input topic has a record that has not come."""
        for topic in self.topics:
            last = await last_record(self._deployment.connection, topic, patient=False)
            if last is not None and self._order.lacks(topic, last.offset):
                return True
        return False

    async def _wait(self) -> None:
        """Until something arrives that was not there when records were taken, or a while."""
        with suppress(TimeoutError):
            to_tick = self._clock.seconds_to_tick(self._time.now_seconds())
            await asyncio.wait_for(self._arrived.wait(), min(_TICK_SECONDS, to_tick))

    async def _step(self, records: list[Arrived], now_seconds: float, has_read_all: bool) -> None:
        """Enter some records; commit at once if they closed steps, else now and then."""
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        take = partial(self._core.take, records, now_seconds, has_read_all=has_read_all)
        taking = loop.run_in_executor(self._thread, take)
        while not taking.done():
            await asyncio.wait({taking}, timeout=1.0)
            self._pulse.beat(has_work=True)
        taken = taking.result()
        self._uncommitted += len(records)
        idle = not taken.closed and not taken.rejected
        if idle and (not self._uncommitted or began - self._committed_seconds < _COMMIT_SECONDS):
            self._tell(taken, began)
            return
        await self._commit(taken)
        self._uncommitted = 0

    async def _commit(self, taken: Taken) -> None:
        """Make durable what came of records, then tell whoever watches."""
        began = time.monotonic()
        stamp_seconds = await self._log.write(self._core.transaction(taken))
        if stamp_seconds is not None and self._clock.has_ticks:
            self._time.vouch(self._clock.end_of(self._core.engine.intake.window.watermark))
            self._time.observe(stamp_seconds)
        self._committed_seconds = time.monotonic()
        self._pulse.progress()
        self._tell(taken, began)

    def _tell(self, taken: Taken, began_seconds: float) -> None:
        """Tell whoever watches, after it is durable."""
        for outcome, readings in taken.outcomes.items():
            self._observer.received(outcome, readings)
        for rejected in taken.rejected:
            self._observer.rejected(rejected.reason)
        for closed in taken.closed:
            self._observer.closed(self._event(closed, time.monotonic() - began_seconds))

    def _event(self, closed: ClosedStep, latency_seconds: float) -> StepClosed:
        window = self._core.engine.intake.window
        values = ((each.sensor, each.value) for each in closed.release.releases)
        return StepClosed(
            step=closed.schedule.step,
            schedule=closed.schedule,
            published={sensor: value for sensor, value in values if value is not None},
            missing=closed.missing,
            people=0,
            summary=None,
            latency_seconds=latency_seconds,
            lag_steps=max(0, window.watermark + 1 - window.next_step),
            why=closed.why,
            crowds=closed.crowds,
        )

    def _engine(self, restored: Restored) -> StepEngine:
        """The engine as the last transaction left it.

        Its accountant has nobody: it refuses what cannot be accounted before anything is published, and the
        account workers account it for everybody.
        """
        settings, registry = self._deployment.settings, self._deployment.registry
        window = StepWindow(
            settings.grace,
            watermark_share=settings.watermark_share,
            by_clock=self._clock.has_ticks,
            late=settings.late,
        )
        if saved := restored.window():
            window.load(saved)
        horizon = self._deployment.horizon()
        nobody = Population.pack((), registry.location_names)
        accountant = ContinuousAccountant(nobody, horizon.starting_at(restored.progress.next_step))
        return StepEngine(
            Intake(registry, window, settings.max_ahead),
            self._policy,
            KeyedPublisher.of(settings, self._rules.noise_key),
            accountant,
            risk_every=settings.risk_every,
            beside=Beside(crowd=self._crowd),
        )

    async def _recall(self, engine: StepEngine) -> None:
        """Tell the engine what was decided of the closed steps of which more values are published."""
        connection, decisions = self._deployment.connection, self._deployment.topics.decisions
        steps = read_steps(connection, decisions, engine.intake.window.first_revisable, engine.next_step)
        engine.recall([self._deployment.schedule_of(decision) async for decision in steps])

    async def _check_continues(self, progress: Progress) -> None:
        """A progress that was lost, or is another log's, would publish steps a second time."""
        topics = self._deployment.topics
        last = await last_decision(self._deployment.connection, topics.decisions)
        decided = 0 if last is None else last.step + 1
        if decided != progress.next_step:
            raise LogError(
                f"{topics.progress} must say to go on at step {decided}, where {topics.decisions} ends",
                f"step {progress.next_step}",
                "both are written together, so one of them was changed or lost: "
                + restoring(f"{topics.progress}, {topics.decisions} and {topics.releases}"),
            )
        logged = None if last is None else fingerprint_of(self._deployment.schedule_of(last))
        charged = progress.account.get("steps", decided)
        if charged != decided or progress.decided not in (None, logged):
            raise LogError(
                f"{topics.progress} must belong to the steps of {topics.decisions}",
                f"another step {decided - 1}, or another number of them",
                "both are written together, so one of them was changed or lost: "
                + restoring(f"{topics.progress} and {topics.decisions}"),
            )

    async def _carry(self, progress: Progress) -> Progress:
        """Go on with what earlier runs have spent; the log is read only where no progress has said it yet."""
        account = PrivacyAccount(sensor.group for sensor in self._deployment.registry.sensors)
        if progress.account:
            account = PrivacyAccount.load(progress.account)
        else:
            decisions = self._deployment.topics.decisions
            async for decision in read_steps(self._deployment.connection, decisions, 0, progress.next_step):
                account.charge(self._deployment.schedule_of(decision))
        self._observer.carried(account)
        return progress.model_copy(update={"account": account.save()})
