"""Snapshots of the accounts of partitions: when they are written, and which of them may be continued from.

Accounts are a function of ``persons`` and ``decisions``; a snapshot only saves computing them again. It is
used if it is sealed with the workers' key, is of this version, these settings and this partition, and the log
of decisions still holds the last step it has applied at the same place. Of its people those are used whose
record is the same. Otherwise it is ignored. A snapshot is written after the risks of its steps.

The topic ``accounts`` holds the last snapshot of each partition. A snapshot is two long texts, people and
state, cut into pieces under their own keys, and a sealed head with the names and digests of the pieces. The
head is written last, and only then are the pieces of the earlier snapshot deleted. So a kill during a write
leaves the earlier snapshot whole, and of two writers at once one wins: no head ever names what another has
written.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pydantic import Field, ValidationError

from models.exceptions import TallyguardError
from models.keys import SnapshotKey
from models.priors import Population
from stream_app.kafka.account.partition_accounts import (
    OnProgress,
    PartitionAccounts,
    SavedAccounts,
    SavedPeople,
)
from stream_app.kafka.broker.clients import Writer
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES, MEDIUM_BYTES
from stream_app.kafka.deployment.deployment import Deployment, digest_of
from stream_app.kafka.deployment.log_reader import (
    LogPlace,
    holds_place,
    place_of_step,
    read_partition,
)
from stream_app.kafka.worker_process import WorkThread
from stream_app.steps import snapshot_basis
from stream_app.wire import BaseMessage, Step

SNAPSHOT_HEAD = b"snapshot"
PIECE_BYTES = 4 * MEDIUM_BYTES
_AT_ONCE = 4  # pieces sent before the first is acknowledged


class StoredText(BaseMessage):
    """A long text on the topic: so many pieces, under keys that begin with ``name``, and their SHA-256."""

    name: str = Field(pattern="^[0-9a-f]{16}$")
    pieces: int = Field(ge=0)
    digest: str

    def keys(self) -> list[bytes]:
        """The keys of its pieces, in order."""
        return [f"{self.name}-{number}".encode() for number in range(self.pieces)]

    def found(self, latest: Mapping[bytes, bytes]) -> bytes | None:
        """The text in the records of a topic; None if it is not whole."""
        whole = b"".join(latest.get(key, b"") for key in self.keys())
        return whole if hashlib.sha256(whole).hexdigest() == self.digest else None


class SnapshotHead(BaseMessage):
    """The head of a snapshot; ``seal`` covers all other fields."""

    type: Literal["account_snapshot"] = "account_snapshot"
    basis: str
    partition: int
    next_step: Step
    decided: LogPlace
    people: StoredText
    state: StoredText
    seal: str = ""

    def sealed(self, key: SnapshotKey) -> SnapshotHead:
        """The head with its seal."""
        return self.model_copy(update={"seal": key.seal(self._message())})

    def is_sealed(self, key: SnapshotKey) -> bool:
        """Whether it was written as it is by a holder of the key."""
        return key.has_sealed(self._message(), self.seal)

    def _message(self) -> bytes:
        return self.model_copy(update={"seal": ""}).line()


class SnapshotTopic(Writer):
    """Reads and writes the topic; a call returns once the broker has acknowledged everything."""

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection, enable_idempotence=True, max_request_size=LARGE_BYTES)
        self._topic = topic

    async def read(self, partition: int, on_progress: Callable[[], None]) -> dict[bytes, bytes]:
        """The last value of each key of a partition; ``on_progress`` is called for each record."""
        latest: dict[bytes, bytes] = {}
        async with aclosing(read_partition(self._connection, self._topic, partition)) as records:
            async for record in records:
                key = record.key or b""
                if record.value:
                    latest[key] = record.value
                else:
                    latest.pop(key, None)
                on_progress()
        return latest

    async def write_text(self, partition: int, text: bytes) -> StoredText:
        """Write a long text under a new name."""
        digest = await asyncio.to_thread(lambda: hashlib.sha256(text).hexdigest())
        named = StoredText(name=secrets.token_hex(8), pieces=-(-len(text) // PIECE_BYTES), digest=digest)
        keys = named.keys()
        for first in range(0, len(keys), _AT_ONCE):
            sent = [
                await self._producer.send(
                    self._topic,
                    text[number * PIECE_BYTES : (number + 1) * PIECE_BYTES],
                    keys[number],
                    partition,
                )
                for number in range(first, min(first + _AT_ONCE, len(keys)))
            ]
            for each in sent:
                await each
        return named

    async def write_head(self, head: SnapshotHead) -> None:
        """Make this snapshot the one that counts."""
        await self._producer.send_and_wait(self._topic, head.line().rstrip(), SNAPSHOT_HEAD, head.partition)

    async def delete(self, partition: int, keys: Iterable[bytes]) -> None:
        """Delete pieces that no head names any more."""
        sent = [await self._producer.send(self._topic, None, key, partition) for key in sorted(keys)]
        for each in sent:
            await each


logger = logging.getLogger(__name__)

_PEOPLE_SECONDS = (
    86_400.0  # people are written again after a day, as the topic keeps a record for a week only
)


class _WrittenPeople(NamedTuple):
    """The people of a partition as written to the topic."""

    population: Population
    text: StoredText
    written_seconds: float


@dataclass
class _PartitionState:
    """What is known of one partition."""

    looked_seconds: float
    keys: set[bytes] = field(default_factory=set)
    people: _WrittenPeople | None = None
    saved: tuple[int, Population] | None = None


class SnapshotKeeper:
    """The snapshots of one worker's partitions; none without a key, or with ``snapshot_seconds`` 0."""

    def __init__(
        self,
        deployment: Deployment,
        thread: WorkThread,
        key: SnapshotKey | None,
        written: Callable[[], None] = lambda: None,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deployment = deployment
        self._every_seconds = deployment.settings.snapshot_seconds
        is_wanted = self._every_seconds > 0 and not deployment.settings.needs_every_step
        self.keeps = key is not None and is_wanted
        """Whether there are snapshots; a limit in hindsight needs every step to be accounted again anyway."""
        self._key = key
        self._thread = thread
        self._written = written
        self._now_seconds = now_seconds
        self._topic = SnapshotTopic(deployment.connection, deployment.topics.accounts)
        self._partitions: dict[int, _PartitionState] = {}
        self._writing: asyncio.Task[None] | None = None

    @property
    def _basis(self) -> str:
        """What accounts follow from beside the decisions: the sensors of past steps never change."""
        deployment = self._deployment
        digest = digest_of(deployment.facts.basis)
        return snapshot_basis({"deployment": digest, "log": deployment.topics.decisions})

    async def start(self) -> None:
        """Connect, or warn that a takeover will account every step again."""
        if self.keeps:
            await self._topic.start()
        elif self._key is None and self._deployment.settings.snapshot_seconds > 0:
            logger.warning(
                "no snapshots are kept: the next owner of a partition accounts every step again; "
                "set snapshot_key, the same secret for all account workers, to spare that"
            )

    async def stop(self) -> None:
        """Disconnect; a snapshot that is not whole yet never counts."""
        if self._writing is not None and self._is_writing:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self._topic.stop()

    async def find(self, partition: int, on_progress: OnProgress) -> SavedAccounts | None:
        """The last snapshot of a partition that is new to this worker; None if none may be used."""
        known = self._partitions[partition] = _PartitionState(self._now_seconds())
        if not self.keeps:
            return None
        latest = await self._topic.read(partition, on_progress)
        known.keys = set(latest) - {SNAPSHOT_HEAD}
        if SNAPSHOT_HEAD not in latest:
            logger.info("partition %d has no snapshot yet", partition)
            return None
        try:
            head = self._checked(partition, latest[SNAPSHOT_HEAD])
            connection, decisions = self._deployment.connection, self._deployment.topics.decisions
            if not await holds_place(connection, decisions, head.decided):
                raise _UnusableError(f"{decisions} is not the log it was made from")
            return await self._thread.do(lambda: self._unpacked(head, latest, on_progress))
        except (_UnusableError, TallyguardError) as error:
            self.refuse(partition, error)
            return None

    def refuse(self, partition: int, error: Exception) -> None:
        """Log why a snapshot is not used."""
        reason = error.must if isinstance(error, TallyguardError) else str(error)
        logger.warning(
            "partition %d: the snapshot is not used, every step is accounted again: %s", partition, reason
        )

    def due(self, partitions: Iterable[PartitionAccounts]) -> PartitionAccounts | None:
        """A partition to be saved now; call it between two steps, after all risks were written."""
        if not self.keeps or self._is_writing:
            return None
        for accounts in partitions:
            known = self._partitions[accounts.partition]
            is_time = self._now_seconds() - known.looked_seconds >= self._every_seconds
            if is_time and self._has_changed(accounts):
                return accounts
        return None

    def write(self, partition: int, saved: SavedAccounts) -> None:
        """Write a snapshot in a task of its own; a failure is logged, and the snapshot tried again later."""
        known = self._partitions[partition]
        known.looked_seconds = self._now_seconds()
        self._writing = asyncio.create_task(self._write_or_warn(partition, known, saved))

    async def write_last(self, partitions: Iterable[PartitionAccounts]) -> None:
        """Before the worker ends: save everything that was accounted since the last snapshots."""
        if self._writing is not None and self._is_writing:
            await asyncio.wait({self._writing})
        for accounts in partitions:
            if self.keeps and self._has_changed(accounts):
                saved = await self._thread.do(accounts.save)
                self.write(accounts.partition, saved)
                assert self._writing is not None
                await self._writing

    @property
    def _is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def _has_changed(self, accounts: PartitionAccounts) -> bool:
        """Whether the accounts differ from the last snapshot."""
        known = self._partitions[accounts.partition]
        step, people = accounts.next_step, accounts.accountant.population
        if step == 0:
            return False
        return known.saved is None or known.saved[0] != step or known.saved[1] is not people

    def _checked(self, partition: int, record: bytes) -> SnapshotHead:
        """The head in a record; :class:`_UnusableError` if it is not of this deployment and partition."""
        try:
            head = SnapshotHead.model_validate_json(record)
        except ValidationError as error:
            raise _UnusableError("its head cannot be read") from error
        if self._key is None or not head.is_sealed(self._key):
            raise _UnusableError("it is not sealed with snapshot_key: another key was used, or it is forged")
        if head.basis != self._basis:
            raise _UnusableError("it is of another version or of other settings")
        if head.partition != partition:
            raise _UnusableError("it is of another partition")
        return head

    def _unpacked(
        self, head: SnapshotHead, latest: Mapping[bytes, bytes], on_progress: OnProgress
    ) -> SavedAccounts:
        people, state = head.people.found(latest), head.state.found(latest)
        if people is None or state is None:
            raise _UnusableError("a part of it is missing or damaged")
        names, draws = self._deployment.location_names, self._deployment.settings.draws
        return SavedAccounts(head.next_step, SavedPeople.unpacked(people, names, on_progress, draws), state)

    async def _write_or_warn(self, partition: int, known: _PartitionState, saved: SavedAccounts) -> None:
        try:
            await self._write(partition, known, saved)
        except Exception as error:  # the client's and sockets' own; the accounts themselves are sound
            logger.warning(
                "partition %d: no snapshot was written, a takeover takes longer: %s",
                *(partition, str(error) or type(error).__name__),
            )

    async def _write(self, partition: int, known: _PartitionState, saved: SavedAccounts) -> None:
        connection, decisions = self._deployment.connection, self._deployment.topics.decisions
        place = await place_of_step(connection, decisions, saved.next_step - 1)
        if place is None or self._key is None:
            raise _UnusableError(f"{decisions} does not hold step {saved.next_step - 1}")
        people = await self._written_people(partition, known, saved.people)
        state = await self._topic.write_text(partition, saved.state)
        known.keys |= set(state.keys())
        head = SnapshotHead(
            basis=self._basis,
            partition=partition,
            next_step=saved.next_step,
            decided=place,
            people=people,
            state=state,
        )
        await self._topic.write_head(head.sealed(self._key))
        named = {*people.keys(), *state.keys()}
        await self._topic.delete(partition, known.keys - named)
        known.keys = named
        known.saved = saved.next_step, saved.people.population
        self._written()
        logger.debug("partition %d: snapshot before step %d", partition, saved.next_step)

    async def _written_people(
        self, partition: int, known: _PartitionState, people: SavedPeople
    ) -> StoredText:
        """The people on the topic; written again if they have changed, and once a day."""
        before, now = known.people, self._now_seconds()
        if (
            before is not None
            and before.population is people.population
            and now - before.written_seconds < _PEOPLE_SECONDS
        ):
            return before.text
        packed = await asyncio.to_thread(people.packed)
        text = await self._topic.write_text(partition, packed)
        known.people = _WrittenPeople(people.population, text, now)
        known.keys |= set(text.keys())
        return text


class _UnusableError(Exception):
    """Why a snapshot is not used."""
