"""An account worker: owns the people of its partitions and accounts every decided step for them, once.

A partition that is given to it is loaded from ``persons`` and brought up to date from the log of decisions,
behind the last step whose risks stand in ``risks``; then it follows the log, which is read once for all of
its partitions. A step that was applied is dropped, a gap is filled. The state is a function of the two
topics; snapshots of it only spare the next owner to compute it again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from models.exceptions import MechanismError, ScheduleError, SensorError
from models.keys import SnapshotKey
from stream_app.kafka.account.account_watch import AccountWatch
from stream_app.kafka.account.decision_source import DecisionSource
from stream_app.kafka.account.partition_accounts import Arrival, PartitionAccounts
from stream_app.kafka.account.partition_loader import PartitionLoader
from stream_app.kafka.account.proposal_source import ProposalSource
from stream_app.kafka.account.risk_topic import RiskTopic
from stream_app.kafka.account.segment_marks import SegmentMarks
from stream_app.kafka.account.snapshot_keeper import SnapshotKeeper
from stream_app.kafka.account.work_thread import WorkThread
from stream_app.kafka.broker.log_ends import LogEnds
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import last_risk_step, last_step
from stream_app.kafka.deployment.refused_record import RefusedRecord
from stream_app.kafka.process.worker import Job, Pulse, heed_cancellation
from stream_app.kafka.process.worker_warm_up import account_a_little
from stream_app.steps.policy import Decided
from stream_app.steps.policy.crowd_sums import CrowdAnswer, CrowdQuestion
from stream_app.steps.policy.proposals import Answer, Proposal
from stream_app.wire import StepDecision

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 0.5
_LAST_STEP_SECONDS, _LAST_SNAPSHOTS_SECONDS = 1.0, 3.0  # of an end in order


def answer_if_sound(
    accounts: PartitionAccounts, proposal: Proposal | CrowdQuestion
) -> Answer | CrowdAnswer | None:
    """A partition's answer; None, and a warning, for what no release worker of this deployment asks."""
    try:
        return accounts.answer(proposal)
    except (SensorError, MechanismError, ScheduleError) as error:
        logger.warning("step %d: a proposal cannot be answered: %s", proposal.step, error.must)
        return None


class _PartitionProposal(NamedTuple):
    """A proposal and the partition it is put to."""

    partition: int
    proposal: Proposal | CrowdQuestion


class AccountWorker(Job):
    """Accounts the partitions the group gives it, one decision after the other."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        watch: AccountWatch,
        pulse: Pulse,
        snapshot_key: SnapshotKey | None = None,
    ) -> None:
        self._deployment = deployment
        self._watch = watch
        self._pulse = pulse
        self._topics = deployment.topics
        self._risks = RiskTopic(deployment.connection, deployment.topics)
        self._thread = WorkThread(pulse)
        self._snapshots = SnapshotKeeper(deployment, self._thread, snapshot_key, watch.saved)
        self._loader = PartitionLoader(deployment, self._thread, self._snapshots, self._refuse)
        self._answers_proposals = deployment.limit() is not None or deployment.settings.has_crowd
        self._proposals = ProposalSource(deployment.connection, deployment.topics.proposals, self._hear)
        self._decisions = DecisionSource(deployment.connection, deployment.topics.decisions, self._keep)
        self._marks = SegmentMarks(deployment)
        self._taken = -1  # the last step that was taken, by the partitions owned then
        self._proposed: dict[int, Proposal | CrowdQuestion] = {}
        self._partitions: dict[int, PartitionAccounts] = {}
        self._lags = False
        self._ends = LogEnds(deployment.settings.kafka.stall_seconds / 4)
        self._inbox: asyncio.Queue[Any] = asyncio.Queue(maxsize=256)
        self._taking: asyncio.Task[None] | None = None
        self._assignment: set[int] = set()
        self._changed = asyncio.Event()

    @property
    def shared(self) -> str:
        """Its partitions stand for those of people."""
        return self._topics.steps

    async def prepare(self, app: Any) -> None:
        """Compile the kernels before joining: a member that compiles is a member that is silent."""
        await self._deployment.record.wait(self._deployment.basis)
        await self._risks.start()
        await self._snapshots.start()
        await self._thread.do(lambda: account_a_little(self._deployment))

    async def assigned(self, partitions: set[int]) -> None:
        """Note what is owned; loading is work, and waits for its turn."""
        self._assignment = set(partitions)
        logger.info("partitions given: %s", ", ".join(map(str, sorted(self._assignment))) or "none")
        self._changed.set()

    async def _keep(self, decision: StepDecision) -> None:
        """Keep a decision until its turn comes."""
        await self._inbox.put(decision)

    async def _hear(self, partition: int, proposal: Proposal | CrowdQuestion) -> None:
        """Keep a proposal until its turn comes."""
        await self._inbox.put(_PartitionProposal(partition, proposal))

    async def run(self) -> None:
        """Until cancelled: partitions first, then changed people, then decisions."""
        while True:
            heed_cancellation()
            self._pulse.beat(has_work=self._lags or not self._inbox.empty())
            event = await self._next_event()
            if self._changed.is_set():
                self._changed.clear()
                await self._settle()
            await self._change_people()
            if event is None:
                self._watch.show()
                await self._look_for_lag()
            elif isinstance(event, _PartitionProposal):
                self._proposed[event.partition] = event.proposal
            else:
                self._taking = asyncio.create_task(self._take(event))
                await asyncio.shield(self._taking)
            await self._answer()
            await self._save_sometimes()

    async def finish(self, reason: str) -> None:
        """Leave; the steps whose risks are written are done and saved, the rest is another's."""
        self._watch.stopped(reason)
        await self._loader.persons.stop()
        await self._proposals.stop()
        await self._decisions.stop()
        await self._marks.stop()
        await self._save_last()
        await self._snapshots.stop()
        await self._risks.stop()
        self._thread.stop()

    async def _save_sometimes(self) -> None:
        """A snapshot of one partition, if it is time."""
        accounts = self._snapshots.due(self._partitions.values())
        if accounts is not None:
            saved = await self._thread.do(partial(self._snapshots.save, accounts))
            self._snapshots.write(accounts.partition, saved)

    async def _save_last(self) -> None:
        """Snapshots for whoever comes next, if the step at hand is finished in time."""
        if self._taking is not None:
            await asyncio.wait({self._taking}, timeout=_LAST_STEP_SECONDS)
            if not self._taking.done() or self._taking.cancelled() or self._taking.exception() is not None:
                return
        with suppress(TimeoutError):
            last = self._snapshots.write_last(self._partitions.values())
            await asyncio.wait_for(last, _LAST_SNAPSHOTS_SECONDS)

    async def _next_event(self) -> Any | None:
        """The next event; None after a while without one, or when partitions were given or taken."""
        if self._changed.is_set() and self._inbox.empty():
            return None
        try:
            return await asyncio.wait_for(self._inbox.get(), _IDLE_SECONDS)
        except TimeoutError:
            return None

    async def _look_for_lag(self) -> None:
        """Whether steps wait that nobody hands to us: a member that is forgotten must not stay.

        Looked at now and then while nothing comes; the watchdog ends the process when it stays so.
        """
        if not self._partitions:
            return
        connection, decisions = self._deployment.connection, self._topics.decisions
        reached = await self._ends.look(lambda: last_step(connection, decisions, patient=False))
        if reached is None:
            return
        lag = max(reached + 1 - accounts.next_step for accounts in self._partitions.values())
        self._watch.lag(max(0, lag))
        self._lags = lag > 0 and self._inbox.empty()

    async def _answer(self) -> None:
        """Answer proposals about the step that is next; one about a later step waits for its turn."""
        for partition, proposal in list(self._proposed.items()):
            accounts = self._partitions.get(partition)
            if accounts is None or proposal.step > accounts.next_step:
                continue
            del self._proposed[partition]
            answer = await self._thread.do(partial(answer_if_sound, accounts, proposal))
            if answer is not None:
                await self._risks.answer(answer)

    async def _settle(self) -> None:
        """Drop the accounts of partitions that were taken away, open those of new ones."""
        for partition in self._partitions.keys() - self._assignment:
            del self._partitions[partition]
        for partition in sorted(self._assignment - self._partitions.keys()):
            if partition not in self._assignment:  # taken away while others were opened
                continue
            self._partitions[partition] = await self._open(partition)
            self._pulse.progress()
        for accounts in self._partitions.values():  # the steps taken while they were another's
            await self._catch_up(accounts, self._taken + 1)
        await self._loader.persons.follow(self._partitions)
        await self._proposals.follow(self._partitions if self._answers_proposals else ())
        first = min((accounts.next_step for accounts in self._partitions.values()), default=None)
        await self._decisions.follow(first)
        await self._marks.follow(self._partitions)
        self._watch.owns(self._partitions.values())

    async def _open(self, partition: int) -> PartitionAccounts:
        """A partition's accounts before the next step whose risks are to be written."""
        return await self._loader.load(partition, await self._resume_step(partition))

    async def _resume_step(self, partition: int) -> int:
        """The first step whose risks were not written by whoever owned the partition before."""
        return 1 + await last_risk_step(self._deployment.connection, self._topics.risks, partition)

    async def _take(self, decision: StepDecision) -> None:
        """One decision: account its step in every partition, and write the risks."""
        decided = self._decided(decision)
        for accounts in list(self._partitions.values()):
            if decided is not None:
                await self._enter_step(accounts, decided)
        self._taken = max(self._taken, -1 if decided is None else decision.step)
        self._lags = False
        self._pulse.progress()

    async def _enter_step(self, accounts: PartitionAccounts, decided: Decided) -> None:
        """A step of one partition, once, and whatever is missing before it."""
        step = decided.schedule.step
        arrival = accounts.arrival_of(step)
        if arrival is Arrival.AHEAD:
            self._watch.filled(step - accounts.next_step)
            await self._catch_up(accounts, step)
        if arrival is Arrival.KNOWN:
            self._watch.dropped()
        else:
            await self._apply(accounts, decided)
            self._pulse.progress()

    async def _apply(self, accounts: PartitionAccounts, decided: Decided) -> None:
        """Account a step and write the risks after it."""
        summary, records = await self._thread.do(lambda: _account(accounts, decided))
        await self._risks.write(accounts.partition, summary, accounts.pseudonyms, records)
        self._watch.accounted(accounts, decided)

    def _decided(self, decision: StepDecision) -> Decided | None:
        """The decided step; None, and a warning, for one that names what the deployment does not have."""
        try:
            return self._deployment.decided(decision)
        except (SensorError, MechanismError, ScheduleError) as error:
            logger.warning("step %d of %s: %s", decision.step, self._topics.decisions, error.must)
            return None

    async def _catch_up(self, accounts: PartitionAccounts, until: int) -> None:
        """Account the logged steps before ``until``, and write the risks after each."""
        async for steps in self._loader.logged(accounts.next_step, until):
            for decided in steps:
                await self._apply(accounts, decided)
                self._pulse.progress()

    async def _change_people(self) -> None:
        """Between two steps: people who came, left or have another prior."""
        self._loader.persons.check()
        self._proposals.check()
        self._decisions.check()
        self._marks.check()
        for partition in self._loader.persons.waiting():
            accounts, changes = self._partitions.get(partition), self._loader.persons.take(partition)
            if accounts is not None:
                before, changed = len(accounts.pseudonyms), len(changes)
                came = sum(entry is not None for entry in changes.values())
                if accounts.needs_every_step:
                    accounts = self._partitions[partition] = await self._loader.load(
                        partition, accounts.next_step
                    )
                else:
                    await self._loader.enter(accounts, changes)
                logger.info(
                    "partition %d: %d records of people, %d deletions; %d people before, %d now",
                    *(partition, came, changed - came, before, len(accounts.pseudonyms)),
                )
                self._watch.owns(self._partitions.values())

    async def _refuse(self, refused: RefusedRecord) -> None:
        letter = refused.letter()
        await self._risks.reject(letter)
        self._watch.refused(letter.reason)


def _account(accounts: PartitionAccounts, decided: Decided) -> tuple[Any, Any]:
    """One step on the accountant's thread."""
    accounts.apply(decided.schedule, decided.crowds)
    return accounts.summary(), accounts.records()
