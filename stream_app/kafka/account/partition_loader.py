"""Bringing the accounts of a partition to a step: a snapshot where there is a sound one, people, the log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial

from models.exceptions import TallyguardError
from stream_app.exceptions import restoring
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.account.person_source import Changes, PersonSource, Refuse
from stream_app.kafka.account.snapshot_keeper import SnapshotKeeper, WorkThread, records_of
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import read_steps
from stream_app.kafka.deployment.records import refused_person
from stream_app.steps.policy import Decided

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
