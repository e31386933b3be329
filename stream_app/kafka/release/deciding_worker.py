"""What decides on steps: the release worker, or the coordinator of several regions. Exactly one runs.

It fences whoever wrote before, takes over what that one left, and holds it against the settings and the log.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from accounting.continuous import ContinuousAccountant
from accounting.ledgers import PrivacyAccount
from models.keys import NoiseKey
from models.priors import Population
from stream_app.exceptions import restoring
from stream_app.kafka.broker.kafka_exceptions import LogError
from stream_app.kafka.deployment.broker_limits import require_requests
from stream_app.kafka.deployment.deployment import Deployment, check_basis
from stream_app.kafka.deployment.deployment_record import HEAD
from stream_app.kafka.deployment.key_claim import claim_key
from stream_app.kafka.deployment.log_reader import last_decision, latest_records, read_steps
from stream_app.kafka.process.worker import Job, Pulse, heed_cancellation
from stream_app.kafka.process.worker_metrics import ReleaseCounters
from stream_app.kafka.process.worker_warm_up import account_a_little
from stream_app.kafka.release.desk import Desk, DeskWatch
from stream_app.kafka.release.earlier_worker import wait_for_earlier_worker
from stream_app.kafka.release.input_logs import INPUTS, Inputs
from stream_app.kafka.release.progress import Progress, Restored, restore
from stream_app.kafka.release.proposing import DistantCrowd, Inquirer, Proposer, ProposingPolicy
from stream_app.kafka.release.release_core import DecidingCore, Flush
from stream_app.kafka.release.release_log import TransactionLog
from stream_app.setup.release_settings import CROWD
from stream_app.setup.run_folder.key_epochs import check_between_windows
from stream_app.setup.run_folder.manifest import check_reason
from stream_app.setup.run_folder.record import Author, check_head
from stream_app.steps import StepClock
from stream_app.steps.policy import BudgetPolicy, Policy
from stream_app.watching.events import Observer, RunStarted, RunStopped
from stream_app.wire import fingerprint_of

logger = logging.getLogger(__name__)

_MOST_RELEASES = 20_000  # sensors of all steps in one transaction, but for a single step that has more


class ReleaseRules(NamedTuple):
    """How counts are released; ``schedule`` is the fingerprint of the schedule file the policy follows.

    Who decides and does not publish has no ``noise_key``.
    """

    policy: Policy
    noise_key: NoiseKey | None
    schedule: str | None = None


class Watched(NamedTuple):
    """Whom a worker notifies of what it does."""

    observer: Observer
    counters: ReleaseCounters
    pulse: Pulse


class DecidingWorker(Job):
    """One desk whose core closes steps.

    ``title`` is what messages call it, ``transactional_id`` the name it writes under, without the prefix.
    """

    title: str
    transactional_id: str
    progress_kind: type[Progress] = Progress

    def __init__(
        self,
        deployment: Deployment,
        rules: ReleaseRules,
        watched: Watched,
        *,
        accept_changes: bool = False,
        author: Author | None = None,
    ) -> None:
        self._deployment = deployment
        self._rules = rules
        self._policy = rules.policy
        self._observer, _, self._pulse = watched
        self._watch = DeskWatch(*watched)
        self._accept_changes = accept_changes
        self._author = author or Author.given()
        self._joined = asyncio.Event()
        self._proposer: Proposer | None = None
        self._crowd: DistantCrowd | None = None
        self._clock = self._step_clock()
        self._desk: Desk | None = None
        self._core: DecidingCore | None = None

    @property
    def shared(self) -> str:
        """Any topic: whoever must be alone is given all its partitions."""
        return self._deployment.topics.steps

    @property
    @abstractmethod
    def _logs(self) -> Mapping[str, tuple[str, int]]:
        """The inputs by name: topic and partition of each."""

    @property
    @abstractmethod
    def _progress_topic(self) -> str:
        """Where it stands where to continue."""

    @abstractmethod
    def _step_clock(self) -> StepClock:
        """When steps are over."""

    @abstractmethod
    async def _make_core(
        self, restored: Restored, basis: Mapping[str, object], accountant: ContinuousAccountant, flush: Flush
    ) -> DecidingCore:
        """The core as the last transaction left it.

        The accountant has nobody: it refuses what cannot be accounted before anything is published, and the
        account workers account it for everybody.
        """

    async def prepare(self, app: Any) -> None:
        """Compile, refuse where another one runs, fence whoever comes back, take over the state it left."""
        deployment, topics = self._deployment, self._deployment.topics
        await asyncio.to_thread(account_a_little, deployment)
        await asyncio.to_thread(require_requests, deployment)
        kafka = deployment.settings.kafka
        await wait_for_earlier_worker(deployment.connection, app.conf.id, kafka.session_seconds, self.title)
        log = TransactionLog(
            deployment.connection, f"{topics.prefix}{self.transactional_id}", topics.decisions
        )
        inputs = Inputs(deployment, self._logs)
        self._desk = Desk("engine", deployment, inputs, log, self._watch)
        await log.start()
        await self._propose_where_needed()
        topic = self._progress_topic
        restored = restore(await latest_records(deployment.connection, topic), topic, self.progress_kind)
        progress = restored.progress
        key = self._rules.noise_key
        basis = deployment.release_basis(None if key is None else key.fingerprint(), self._rules.schedule)
        stored = {key: value for key, value in progress.basis.items() if key not in (INPUTS, HEAD)}
        check_basis(stored, basis, accept_changes=self._accept_changes)
        check_reason(stored, {key: basis.get(key) for key in stored}, self._author)
        if progress.basis.get("noise_key", basis["noise_key"]) != basis["noise_key"]:
            check_between_windows(deployment.settings.release.covariance, progress.next_step)
        await self._check_continues(progress)
        offsets, lost = await inputs.take_up(
            progress.offsets, progress.basis.get(INPUTS, {}), accept_changes=self._accept_changes
        )
        await asyncio.to_thread(deployment.record.begin, deployment.basis)
        head = progress.basis.get(HEAD) or {}
        basis |= {HEAD: await asyncio.to_thread(self._note_rule, progress.next_step, basis, head)}
        basis[INPUTS] = inputs.identities
        progress = await self._carry(progress.model_copy(update={"offsets": offsets}))
        flush = Flush(self._desk.flush, _MOST_RELEASES if self._proposer is None else 0)
        nobody = Population.pack((), deployment.location_names)
        accountant = ContinuousAccountant(nobody, deployment.horizon().starting_at(progress.next_step))
        restored = restored.model_copy(update={"progress": progress})
        if key is not None:
            await claim_key(deployment, key, 0, progress.next_step)
        self._core = await self._make_core(restored, basis, accountant, flush)
        await self._desk.begin(self._core, self._clock, [each.letter() for each in lost])
        names = tuple(sensor.name for sensor in deployment.registry.sensors)
        self._observer.started(RunStarted(0, progress.next_step, names))
        logger.info("%s continues at step %d", self.title, progress.next_step)

    def _note_rule(
        self, step: int, basis: Mapping[str, object], head: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Have the rule in the record before the first step is decided by it; the record's new head.

        :class:`LogError` where entries are gone that were there before.
        """
        record = self._deployment.record
        check_head(record.entries(), head, record.record_name)
        return record.hold(step, basis, self._author)

    async def assigned(self, partitions: set[int]) -> None:
        """All of them: with some of them there is another one in the group, and one of the two is fenced.

        Which of them does not follow from the group: one that slept joins again when it wakes.
        """
        assert self._desk is not None  # prepared
        if 0 < len(partitions) < self._deployment.topics.partitions:
            self._desk.doubt()
        self._joined.set()

    async def run(self) -> None:
        """Once the group knows us, until cancelled."""
        while not self._joined.is_set():
            heed_cancellation()
            self._pulse.beat(has_work=False)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._joined.wait(), 1.0)
        assert self._desk is not None  # prepared
        await self._desk.run()

    async def finish(self, reason: str) -> None:
        """Leave; records that were not committed will be read again."""
        self._observer.stopped(RunStopped(0 if self._core is None else self._core.next_step, reason))
        if self._desk is not None:
            await self._desk.stop()
        if self._proposer is not None:
            await self._proposer.stop()

    async def _propose_where_needed(self) -> None:
        """With a risk budget or a crowd the account workers are asked before each decision."""
        deployment, settings = self._deployment, self._deployment.settings
        if not isinstance(self._policy, BudgetPolicy) and not settings.has_crowd:
            return
        self._proposer = Proposer(deployment.connection, deployment.topics, settings.kafka.answer_seconds)
        await self._proposer.start()
        inquirer = Inquirer(self._proposer, deployment, asyncio.get_running_loop())
        if isinstance(self._policy, BudgetPolicy):
            self._policy = ProposingPolicy(self._policy, inquirer, in_crowd=settings.adversary == CROWD)
        if settings.has_crowd:
            self._crowd = DistantCrowd(inquirer)

    async def _check_continues(self, progress: Progress) -> None:
        """A progress that was lost, or is another log's, would publish steps a second time."""
        topics, topic = self._deployment.topics, self._progress_topic
        last = await last_decision(self._deployment.connection, topics.decisions)
        decided = 0 if last is None else last.step + 1
        if decided != progress.next_step:
            raise LogError(
                f"{topic} must say to go on at step {decided}, where {topics.decisions} ends",
                f"step {progress.next_step}",
                "both are written together, so one of them was changed or lost: "
                + restoring(f"{topic}, {topics.decisions} and {topics.releases}"),
            )
        logged = None if last is None else fingerprint_of(self._deployment.schedule_of(last))
        charged = progress.account.get("steps", decided)
        if charged != decided or progress.decided not in (None, logged):
            raise LogError(
                f"{topic} must belong to the steps of {topics.decisions}",
                f"another step {decided - 1}, or another number of them",
                "both are written together, so one of them was changed or lost: "
                + restoring(f"{topic} and {topics.decisions}"),
            )

    async def _carry(self, progress: Progress) -> Progress:
        """Go on with what earlier runs have spent; the log is read only where no progress says it in full."""
        account = PrivacyAccount.load(progress.account) if progress.account else None
        if account is None or not account.is_of_this_version:
            account = PrivacyAccount(sensor.group for sensor in self._deployment.registry.sensors)
            decisions = self._deployment.topics.decisions
            async for decision in read_steps(self._deployment.connection, decisions, 0, progress.next_step):
                account.charge(self._deployment.schedule_of(decision))
        self._observer.carried(account)
        return progress.model_copy(update={"account": account.save()})
