"""An account worker: owns the people of its partitions, and accounts every decided step for them once.

A partition that is assigned to it is loaded from ``persons``, and brought up to date from the log of
decisions, to the last step whose risks are in ``risks``. Then agents take the changes of its people and the
proposals put to them. The log of decisions has one partition, which every worker needs and a group would give
to one: it is read outside the group, once for all partitions of a worker. A step that was applied is dropped,
a gap is filled from the log. The state is a function of the two topics; a snapshot only saves the next owner
the time to compute it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from models.exceptions import MechanismError, ScheduleError, SensorError, TallyguardError
from models.keys import SnapshotKey
from stream_app.exceptions import restoring
from stream_app.kafka.account.account_watch import AccountWatch
from stream_app.kafka.account.partition_accounts import OnProgress, PartitionAccounts
from stream_app.kafka.account.person_source import Changes, PersonSource, Refuse, SegmentMarks
from stream_app.kafka.account.snapshot_keeper import SnapshotKeeper
from stream_app.kafka.broker.clients import LogEnds, LogError, Writer, log_while_waiting
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.streams import App, Batch
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import (
    bounds,
    follow,
    last_risk_step,
    last_step,
    offset_before,
    read_steps,
)
from stream_app.kafka.deployment.records import DECISION, PROPOSAL, RefusedRecord, refused_person
from stream_app.kafka.warm_up import compile_kernels
from stream_app.kafka.worker_process import Job, Pulse, WorkThread, stop_if_cancelled
from stream_app.steps import JsonlRisks, RiskRecords
from stream_app.steps.policy import Decided
from stream_app.steps.policy.proposals import Answer, CrowdAnswer, CrowdQuestion, Proposal
from stream_app.wire import Rejected, RiskSummary, StepDecision

logger = logging.getLogger(__name__)

_STEPS_AT_A_TIME = 200  # read and accounted together
_RECENT = 20  # earlier proposals that are read: one may be waiting for the new owner of a partition


class PartitionLoader:
    """Builds accounts up to some step from the topics: a snapshot if it can be used, people, the log.

    ``on_progress`` is called after each piece of the work, which it may end by an exception.
    """

    def __init__(
        self,
        deployment: Deployment,
        thread: WorkThread,
        snapshots: SnapshotKeeper,
        refuse: Refuse,
        on_progress: OnProgress,
    ) -> None:
        self._deployment = deployment
        self._thread = thread
        self._on_progress = on_progress
        self._snapshots = snapshots
        self._refuse = refuse
        self.persons = PersonSource(deployment, refuse)

    async def load(self, partition: int, step: int) -> PartitionAccounts:
        """A partition's accounts before ``step``, or before the later step of a snapshot.

        People with another prior than in the snapshot, or not in it, are accounted from their first step.
        """
        accounts = PartitionAccounts(partition, self._deployment)
        records = await self._take_over(accounts)
        people = await self.persons.load(partition, self._on_progress, records)
        for name in records.keys() - people.unchanged:
            people.changes.setdefault(name, None)
        first, known, changed = accounts.next_step, len(people.unchanged), len(people.changes)
        known -= len(people.unchanged & people.changes.keys())
        await self.enter(accounts, people.changes)
        async for steps in self.logged(accounts.first_to_restore, max(first, step)):
            await self._thread.do(partial(accounts.restore, steps, self._on_progress))
        if not records and await asyncio.to_thread(self._deployment.has_renewed_in_crowd):
            # who was there when they were renewed knows whom the last step counted on; this one does not
            accounts.accounts.reveal_next(np.arange(len(accounts.pseudonyms)))
        logger.info(
            "partition %d: %d people, next step %d; from a snapshot %d steps of %d people, %d have changed",
            *(partition, len(accounts.pseudonyms), accounts.next_step, first, known, changed),
        )
        return accounts

    async def enter(self, accounts: PartitionAccounts, changes: Changes) -> None:
        """Apply changes of people to the accounts; records that are no priors become dead letters."""
        newcomers = await self._thread.do(lambda: accounts.newcomers(changes, self._on_progress))
        async for steps in self.logged(newcomers.next_step, accounts.next_step):
            await self._thread.do(partial(newcomers.apply, steps, self._on_progress))
        await self._thread.do(lambda: accounts.change(newcomers, self._on_progress))
        for person in newcomers.refused:
            source = f"{self._deployment.topics.persons}/{accounts.partition}:{person.offset}"
            await self._refuse(refused_person(source, person.pseudonym.encode(), person.reason))

    async def logged(self, first: int, until: int) -> AsyncIterator[list[Decided]]:
        """The decided steps ``first..until - 1`` of the log, in batches: the log may be long."""
        connection, decisions = self._deployment.connection, self._deployment.topics.decisions
        found: list[Decided] = []
        due = first
        async with aclosing(read_steps(connection, decisions, first, until)) as steps:
            async for decision in steps:
                if decision.step != due:
                    break
                due += 1
                found.append(self._deployment.decided(decision))
                self._on_progress()
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
        """Continue from a partition's snapshot; returns the digests of its people's records."""
        saved = await self._snapshots.find(accounts.partition, self._on_progress)
        if saved is None:
            return {}
        try:
            await self._thread.do(partial(accounts.take_over, saved, self._on_progress))
        except (TallyguardError, ValueError, KeyError) as error:
            self._snapshots.refuse(accounts.partition, error)
            return {}
        return dict(zip(saved.people.names, saved.people.records, strict=True))


class RiskTopic(Writer):
    """Writes risks, answers and dead letters; a call returns once the broker has acknowledged everything.

    A step accounted again after a crash is written again with the same bytes; readers keep the first.
    """

    def __init__(self, connection: Connection, topics: Topics) -> None:
        super().__init__(connection, enable_idempotence=True, linger_ms=2, max_batch_size=256 * 1024)
        self._topics = topics

    async def write(
        self, partition: int, summary: RiskSummary, people: Sequence[str], records: RiskRecords
    ) -> None:
        """The risks of a partition after a step: people first, so that a summary shows that all were written.

        Batches are built here, because there may be 100,000 people: sending each record by itself takes ten
        times as long.
        """
        sent: list[Any] = []
        batch = self._producer.create_batch()
        async with log_while_waiting(f"risks of step {summary.step}", "no further step is accounted"):
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
        """The answer of a partition to a proposal or a question about the crowd."""
        await self._producer.send_and_wait(self._topics.answers, answer.line().rstrip())

    async def reject(self, letter: Rejected) -> None:
        """One dead letter."""
        await self._producer.send_and_wait(self._topics.rejected, letter.line().rstrip())


def _keyed(
    summary: RiskSummary, people: Sequence[str], records: RiskRecords
) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each record; the summary last."""
    persons = iter(records.person.tolist())
    for block in JsonlRisks(people).blocks(summary.step, records):
        for line in block.splitlines():
            yield people[next(persons)].encode(), line
    yield str(summary.step).encode(), summary.line().rstrip()


_IDLE_SECONDS, _MARK_SECONDS = 0.5, 2.0
_LAST_STEP_SECONDS, _LAST_SNAPSHOTS_SECONDS = 1.0, 3.0  # at an orderly end


def answer_if_sound(
    accounts: PartitionAccounts, proposal: Proposal | CrowdQuestion
) -> Answer | CrowdAnswer | None:
    """A partition's answer; None, with a warning, if no release worker of this deployment can have asked."""
    try:
        return accounts.answer(proposal)
    except (SensorError, MechanismError, ScheduleError) as error:
        logger.warning("step %d: a proposal cannot be answered: %s", proposal.step, error.must)
        return None


class _TakenAwayError(Exception):
    """A partition that is being loaded was given to another worker."""


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
        self._thread = WorkThread(pulse, "accountant")
        self._snapshots = SnapshotKeeper(deployment, self._thread, snapshot_key, watch.counters.snapshots.inc)
        self._loader = PartitionLoader(
            deployment, self._thread, self._snapshots, self._refuse, self._progress
        )
        self._loading: int | None = None
        settings = deployment.settings
        self._answers_proposals = settings.decided_limit is not None or settings.has_crowd
        self._marks = SegmentMarks(deployment)
        self._last_step = -1  # the last step accounted, by the partitions owned at the time
        self._proposed: dict[int, Proposal | CrowdQuestion] = {}
        self._partitions: dict[int, PartitionAccounts] = {}
        self._lags = False
        self._ends = LogEnds(deployment.settings.kafka.stall_seconds / 4)
        self._inbox: asyncio.Queue[Any] = asyncio.Queue(maxsize=256)
        self._taking: asyncio.Task[None] | None = None
        self._assignment: set[int] = set()
        self._changed, self._owns_any = asyncio.Event(), asyncio.Event()

    def agents(self, app: App) -> None:
        """Changes of people, and proposals; the partitions of both are given out together."""

        @app.every(_MARK_SECONDS)
        async def marks() -> None:
            await self._marks.look(sorted(self._partitions))

        @app.agent(app.batches(self._topics.persons))
        async def people(batches: AsyncIterator[Batch]) -> None:
            async for batch in batches:
                await self._loader.persons.change(batch)

        if not self._answers_proposals:
            return

        @app.agent(app.batches(self._topics.proposals))
        async def proposals(batches: AsyncIterator[Batch]) -> None:
            async for batch in batches:
                for record in batch.records:
                    proposal = PROPOSAL.read_or_warn(record)
                    if proposal is not None:
                        await self._inbox.put(_PartitionProposal(record.partition, proposal))

    async def prepare(self, app: App) -> None:
        """Connect, and compile the kernels before joining: a member that compiles is silent."""
        self._app = app
        await self._deployment.wait()
        await self._risks.start()
        await self._snapshots.start()
        await self._thread.do(lambda: compile_kernels(self._deployment))

    async def assigned(self, partitions: set[int]) -> None:
        """Note which partitions are owned; :meth:`run` loads them."""
        self._assignment = set(partitions)
        logger.info("partitions given: %s", ", ".join(map(str, sorted(self._assignment))) or "none")
        self._changed.set()

    async def _follow_decisions(self) -> None:
        """Queue the decisions, once for all partitions; the accounts notice a missing step."""
        await self._owns_any.wait()
        connection, topic = self._deployment.connection, self._topics.decisions
        first = min((accounts.next_step for accounts in self._partitions.values()), default=0)
        start = await offset_before(connection, topic, first)
        async for records in follow(connection, topic, start):
            stop_if_cancelled()
            for record in records:
                decision = DECISION.read_or_warn(record)
                if decision is not None and decision.step >= first:
                    await self._inbox.put(decision)

    async def run(self) -> None:
        """Until cancelled: follow the decisions, and work."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_decisions())
            group.create_task(self._work())

    async def _work(self) -> None:
        """Assigned partitions first, then changes of people, then decisions and proposals."""
        while True:
            stop_if_cancelled()
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
                await asyncio.shield(self._taking)  # a step is finished even if the worker is stopped
            await self._answer()
            if (due := self._snapshots.due(self._partitions.values())) is not None:
                self._snapshots.write(due.partition, await self._thread.do(due.save))

    async def finish(self, reason: str) -> None:
        """Leave the group; steps whose risks are written are done, the next owner accounts the rest."""
        self._watch.stopped(reason)
        await self._save_last()
        await self._snapshots.stop()
        await self._risks.stop()
        self._thread.stop()

    async def _save_last(self) -> None:
        """Save snapshots for the next owners, if the present step is finished in time."""
        if self._taking is not None:
            await asyncio.wait({self._taking}, timeout=_LAST_STEP_SECONDS)
            if not self._taking.done() or self._taking.cancelled() or self._taking.exception() is not None:
                return
        with suppress(TimeoutError):
            last = self._snapshots.write_last(self._partitions.values())
            await asyncio.wait_for(last, _LAST_SNAPSHOTS_SECONDS)

    async def _next_event(self) -> Any | None:
        """The next decision or proposal; None after a while without one, or if partitions were assigned."""
        if self._changed.is_set() and self._inbox.empty():
            return None
        try:
            return await asyncio.wait_for(self._inbox.get(), _IDLE_SECONDS)
        except TimeoutError:
            return None

    async def _look_for_lag(self) -> None:
        """Look whether there are steps that we do not get: a member that is forgotten must not stay.

        Done now and then while nothing comes; if it stays so, the watchdog ends the process.
        """
        if not self._partitions:
            return
        connection, decisions = self._deployment.connection, self._topics.decisions
        reached = await self._ends.look(lambda: last_step(connection, decisions, patient=False))
        if reached is None:
            return
        lag = max(reached + 1 - accounts.next_step for accounts in self._partitions.values())
        self._watch.counters.lag.set(max(0, lag))
        self._lags = lag > 0 and self._inbox.empty()

    async def _answer(self) -> None:
        """Answer proposals about the next step; those about a later step wait."""
        for partition, proposal in list(self._proposed.items()):
            accounts = self._partitions.get(partition)
            if accounts is None or proposal.step > accounts.next_step:
                continue
            del self._proposed[partition]
            answer = await self._thread.do(partial(answer_if_sound, accounts, proposal))
            if answer is not None:
                await self._risks.answer(answer)

    async def _settle(self) -> None:
        """Drop the accounts of partitions that were taken away, load those of new ones."""
        for partition in self._partitions.keys() - self._assignment:
            del self._partitions[partition]
        for partition in sorted(self._assignment - self._partitions.keys()):
            if partition not in self._assignment:  # taken away while others were loaded
                continue
            step = 1 + await last_risk_step(self._deployment.connection, self._topics.risks, partition)
            await self._load(partition, step)
            self._pulse.progress()
        for accounts in self._partitions.values():  # steps accounted while other partitions were owned
            await self._catch_up(accounts, self._last_step + 1)
        if self._partitions:
            self._owns_any.set()
        self._watch.owns(self._partitions.values())

    def _progress(self) -> None:
        """A piece of long work is done; :class:`_TakenAwayError` where nobody needs the rest of it here.

        The first worker of a group that starts is given all partitions until the next one has joined.
        """
        self._pulse.progress()
        if self._loading is not None and self._loading not in self._assignment:
            raise _TakenAwayError

    async def _load(self, partition: int, step: int) -> None:
        """Load a partition's accounts before a step, unless it is taken away meanwhile.

        From then on agents take its records.
        """
        persons, proposals = self._topics.persons, self._topics.proposals
        self._app.pause(persons, partition)
        self._loading = partition
        try:
            self._partitions[partition] = await self._loader.load(partition, step)
        except _TakenAwayError:
            logger.info("partition %d was taken away before it was loaded", partition)
            self._partitions.pop(partition, None)  # those before lack changes; given back, it is loaded anew
            return
        finally:
            self._loading = None
        await self._app.read_from(persons, partition, self._loader.persons.next_offsets[partition])
        if self._answers_proposals:
            begin, end = await bounds(self._deployment.connection, proposals, partition)
            await self._app.read_from(proposals, partition, max(begin, end - _RECENT))

    async def _take(self, decision: StepDecision) -> None:
        """Account the step of a decision in every partition, and write the risks."""
        try:
            decided = self._deployment.decided(decision)
        except (SensorError, MechanismError, ScheduleError) as error:
            logger.warning("step %d of %s: %s", decision.step, self._topics.decisions, error.must)
        else:
            writes: dict[PartitionAccounts, asyncio.Task[None]] = {}
            try:
                for accounts in list(self._partitions.values()):
                    await self._enter_step(accounts, decided, writes)
            finally:
                for write in writes.values():
                    await write
            for accounts in writes:
                self._watch.accounted(accounts, decided)
            self._last_step = max(self._last_step, decision.step)
        self._lags = False
        self._pulse.progress()

    async def _enter_step(
        self,
        accounts: PartitionAccounts,
        decided: Decided,
        writes: dict[PartitionAccounts, asyncio.Task[None]],
    ) -> None:
        """Account a step of one partition once, after any steps missing before it.

        Its risks are written while those of the next partition are computed.
        """
        step = decided.schedule.step
        if step < accounts.next_step:
            self._watch.counters.redelivered.inc()
            return
        if step > accounts.next_step:
            self._watch.counters.from_log.inc(step - accounts.next_step)
            await self._catch_up(accounts, step)
        writes[accounts] = asyncio.create_task(await self._apply(accounts, decided))
        self._pulse.progress()

    async def _apply(self, accounts: PartitionAccounts, decided: Decided) -> Coroutine[Any, Any, None]:
        """Account a step; what is returned writes the risks after it."""

        def account() -> tuple[RiskSummary, RiskRecords]:
            accounts.apply(decided)
            return accounts.named(accounts.summary()), accounts.records()

        summary, records = await self._thread.do(account)
        # If we are killed before the write, the next owner accounts the step again and writes the same bytes.
        return self._risks.write(accounts.partition, summary, accounts.pseudonyms, records)

    async def _catch_up(self, accounts: PartitionAccounts, until: int) -> None:
        """Account the logged steps before ``until``, and write the risks after each."""
        async for steps in self._loader.logged(accounts.next_step, until):
            for decided in steps:
                await (await self._apply(accounts, decided))
                self._watch.accounted(accounts, decided)
                self._pulse.progress()

    async def _change_people(self) -> None:
        """Between two steps: apply the changes of people who came, left or have another prior."""
        for partition in self._loader.persons.waiting():
            accounts, changes = self._partitions.get(partition), self._loader.persons.take(partition)
            if accounts is not None:
                before, changed = len(accounts.pseudonyms), len(changes)
                came = sum(entry is not None for entry in changes.values())
                if accounts.settings.needs_every_step:
                    await self._load(partition, accounts.next_step)
                    if (accounts := self._partitions.get(partition)) is None:
                        continue
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
        self._watch.observer.rejected(letter.reason)
