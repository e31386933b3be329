"""An account worker: owns the people of its partitions and accounts every decided step for them, once.

A partition that is given to it is loaded from ``persons`` and brought up to date from the log of decisions,
behind the last step whose risks stand in ``risks``; then it follows the log, which is read once for all of
its partitions. A step that was applied is dropped, a gap is filled. The state is a function of the two
topics; snapshots of it only spare the next owner to compute it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, NamedTuple

from models.exceptions import MechanismError, ScheduleError, SensorError, TallyguardError
from models.keys import SnapshotKey
from stream_app.exceptions import restoring
from stream_app.kafka.account.account_watch import AccountWatch
from stream_app.kafka.account.partition_accounts import Arrival, PartitionAccounts
from stream_app.kafka.account.person_source import Changes, PersonSource, Refuse, SegmentMarks
from stream_app.kafka.account.snapshot_keeper import SnapshotKeeper, WorkThread, records_of
from stream_app.kafka.broker.clients import LogEnds, LogError, reachable, said_while_waiting
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import (
    BackgroundListener,
    LogFollower,
    last_risk_step,
    last_step,
    offset_before,
    read_steps,
    reading,
)
from stream_app.kafka.deployment.records import DECISION, PROPOSAL, RefusedRecord, refused_person
from stream_app.kafka.process import Job, Pulse, account_a_little, heed_cancellation
from stream_app.steps import JsonlRisks, RiskRecords
from stream_app.steps.policy import Decided
from stream_app.steps.policy.proposals import Answer, CrowdAnswer, CrowdQuestion, Proposal
from stream_app.wire import Rejected, RiskSummary, StepDecision

# Bringing the accounts of a partition to a step: a snapshot where there is a sound one, people, the log.

logger = logging.getLogger(__name__)

_STEPS_AT_A_TIME = 200  # caught up between two signs of life


class PartitionLoader:
    """Makes accounts that have applied every step before some step, from the topics alone."""

    def __init__(
        self, deployment: Deployment, thread: WorkThread, snapshots: SnapshotKeeper, refuse: Refuse
    ) -> None:
        self._deployment = deployment
        self._thread = thread
        self._moved = thread.pulse.progress
        self._snapshots = snapshots
        self._refuse = refuse
        self.persons = PersonSource(deployment, refuse)

    async def load(self, partition: int, step: int) -> PartitionAccounts:
        """A partition's accounts before ``step``, or before a later one that a snapshot stands at.

        Whoever has another prior than in the snapshot, or was not in it, is accounted from their first step.
        """
        accounts = PartitionAccounts(partition, self._deployment)
        records = await self._take_over(accounts)
        people = await self.persons.load(partition, self._moved, records)
        self._snapshots.entered(partition, {name: records[name] for name in people.unchanged})
        for name in records.keys() - people.unchanged:
            people.changes.setdefault(name, None)
        first, known, changed = accounts.next_step, len(people.unchanged), len(people.changes)
        known -= len(people.unchanged & people.changes.keys())
        await self.enter(accounts, people.changes)
        async for steps in self.logged(max(0, first - accounts.recent_step_count), first):
            await self._thread.do(partial(accounts.note_recent, steps))
        async for steps in self.logged(first, step):
            await self._thread.do(partial(accounts.apply_all, steps, self._moved))
        logger.info(
            "partition %d: %d people, next step %d; from a snapshot %d steps of %d people, %d have changed",
            *(partition, len(accounts.pseudonyms), accounts.next_step, first, known, changed),
        )
        return accounts

    async def enter(self, accounts: PartitionAccounts, changes: Changes) -> None:
        """Bring changes into the accounts; records that are no priors go to the dead letters."""
        records = records_of(changes)
        self._snapshots.entering(accounts.partition)
        newcomers = await self._thread.do(lambda: accounts.newcomers(changes, self._moved))
        async for steps in self.logged(newcomers.next_step, accounts.next_step):
            await self._thread.do(partial(newcomers.apply, steps, self._moved))
        await self._thread.do(lambda: accounts.change(newcomers, self._moved))
        for person in newcomers.refused:
            source = f"{self._deployment.topics.persons}/{accounts.partition}:{person.offset}"
            await self._refuse(refused_person(source, person.pseudonym.encode(), person.reason))
            records.pop(person.pseudonym)
        self._snapshots.entered(accounts.partition, records)

    async def logged(self, first: int, until: int) -> AsyncIterator[list[Decided]]:
        """The decided steps ``first..until - 1`` of the log, some at a time: the log may be long."""
        connection, decisions = self._deployment.connection, self._deployment.topics.decisions
        found: list[Decided] = []
        due = first
        async with aclosing(read_steps(connection, decisions, first, until)) as steps:
            async for decision in steps:
                if decision.step != due:
                    break
                due += 1
                found.append(self._deployment.decided(decision))
                self._moved()
                if len(found) == _STEPS_AT_A_TIME:
                    yield found
                    found = []
        if found:
            yield found
        if due < until:
            raise LogError(
                f"{decisions} must hold every step from {first} to {until - 1}",
                f"none of step {due}",
                f"its retention must be unlimited; {restoring(decisions)}",
            )

    async def _take_over(self, accounts: PartitionAccounts) -> dict[str, bytes]:
        """Go on from a partition's snapshot; the records of its people, nobody's where there is none."""
        saved = await self._snapshots.find(accounts.partition, self._moved)
        if saved is None:
            return {}
        try:
            await self._thread.do(partial(accounts.take_over, saved, self._moved))
        except (TallyguardError, ValueError, KeyError) as error:
            self._snapshots.refuse(accounts.partition, error)
            return {}
        return dict(zip(saved.people.names, saved.people.records, strict=True))


# The log of decisions, followed by a worker from the first step that its partitions have not accounted.

HandDecision = Callable[[StepDecision], Awaitable[None]]


class DecisionSource(BackgroundListener):
    """Hands on each decision once, however many partitions are owned.

    What is no decision is passed over with a warning: whoever accounts notices that a step is missing.
    """

    def __init__(self, connection: Connection, topic: str, hand: HandDecision) -> None:
        super().__init__()
        self._connection = connection
        self._topic = topic
        self._hand = hand
        self._is_followed = False

    async def follow(self, first: int | None) -> None:
        """Hear of the steps from ``first`` on, unless they are followed already; None: of none any more."""
        if first is None:
            await self.stop()
        elif not self._is_followed:
            await self.begin(self._follow(first))
        self._is_followed = first is not None

    async def _follow(self, first: int) -> None:
        start = await offset_before(self._connection, self._topic, first)
        async for records in LogFollower(self._connection).records({(self._topic, 0): start}):
            for record in records:
                decision = DECISION.read_or_warn(record)
                if decision is not None and decision.step >= first:
                    await self._hand(decision)


# The proposals put to the partitions a worker owns.

_RECENT = 20  # proposals looked back at: one may wait for who has just taken a partition over

HandProposal = Callable[[int, Proposal | CrowdQuestion], Awaitable[None]]


class ProposalSource(BackgroundListener):
    """Hands on every proposal with its partition; which of them are answered, the accounts decide."""

    def __init__(self, connection: Connection, topic: str, hand: HandProposal) -> None:
        super().__init__()
        self._connection = connection
        self._topic = topic
        self._hand = hand

    async def follow(self, partitions: Iterable[int]) -> None:
        """From now on hear what is proposed to these partitions only."""
        await self.stop()
        followed = sorted(partitions)
        if followed:
            await self.begin(self._follow(followed))

    async def _follow(self, partitions: list[int]) -> None:
        from aiokafka import TopicPartition

        where = [TopicPartition(self._topic, each) for each in partitions]
        async with reading(self._connection) as consumer:
            consumer.assign(where)
            ends, begins = await consumer.end_offsets(where), await consumer.beginning_offsets(where)
            for each in where:
                consumer.seek(each, max(begins[each], ends[each] - _RECENT))
            async for record in consumer:
                proposal = PROPOSAL.read_or_warn(record)
                if proposal is not None:
                    await self._hand(record.partition, proposal)


# What an account worker writes: a packed summary a step and partition, single people now and then.


class RiskTopic:
    """Writes ``risks`` and ``rejected``; a call returns once the broker has everything.

    A step accounted again after a crash is written again, with the same bytes: readers keep the first.
    """

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection = connection
        self._topics = topics
        self._producer: Any = None

    async def start(self) -> None:
        """Connect."""
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            **await reachable(self._connection),
            enable_idempotence=True,
            linger_ms=2,
            max_batch_size=256 * 1024,
        )
        await self._producer.start()

    async def stop(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()

    async def write(
        self, partition: int, summary: RiskSummary, people: tuple[str, ...], records: RiskRecords
    ) -> None:
        """The risks of a partition after a step: people first, so that a summary says that all are there.

        Batches of records are put together here: there may be 100,000 people, each of whom would be handed
        to the client for ten times as long.
        """
        sent: list[Any] = []
        batch = self._producer.create_batch()
        async with said_while_waiting(f"risks of step {summary.step}", "no further step is accounted"):
            for key, line in _keyed(summary, people, records):
                if batch.append(key=key, value=line, timestamp=None) is None:  # it is full
                    sent.append(await self._send(batch, partition))
                    batch = self._producer.create_batch()
                    batch.append(key=key, value=line, timestamp=None)
            sent.append(await self._send(batch, partition))
            for future in sent:
                await future

    async def _send(self, batch: Any, partition: int) -> Any:
        return await self._producer.send_batch(batch, self._topics.risks, partition=partition)

    async def answer(self, answer: Answer | CrowdAnswer) -> None:
        """One partition's answer to a proposal or to a question about the crowd."""
        await self._producer.send_and_wait(self._topics.answers, answer.line().rstrip())

    async def reject(self, letter: Rejected) -> None:
        """One dead letter."""
        await self._producer.send_and_wait(self._topics.rejected, letter.line().rstrip())


def _keyed(
    summary: RiskSummary, people: tuple[str, ...], records: RiskRecords
) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each record; the summary last."""
    persons = iter(records.person.tolist())
    for block in JsonlRisks(people).blocks(summary.step, records):
        for line in block.splitlines():
            yield people[next(persons)].encode(), line
    yield str(summary.step).encode(), summary.line().rstrip()


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
