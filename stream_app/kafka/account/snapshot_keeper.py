"""Snapshots of the accounts of partitions: when they are written, and whether one may be gone on from.

Accounts are a function of ``persons`` and ``decisions``; a snapshot only spares computing them again. It is
used where it is sealed with the workers' key, of this version, these settings and this partition, and the log
of decisions holds the last step it has applied where it stood; of its people those are taken whose record is
still the same. Otherwise it is as if there were none. It is written after the risks of its steps were.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from models.exceptions import TallyguardError
from models.keys import SnapshotKey
from models.priors import Population
from stream_app.kafka.account.partition_accounts import Moved, PartitionAccounts, SavedAccounts, SavedPeople
from stream_app.kafka.account.person_source import Changes
from stream_app.kafka.broker.clients import patiently, reachable
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES, MEDIUM_BYTES
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import (
    LogPlace,
    is_there,
    place_of_step,
    read_partition,
    topic_ids,
)
from stream_app.kafka.process import Pulse
from stream_app.steps import snapshot_basis
from stream_app.wire import BaseMessage, Step

# The thread that an account worker's numeric work is done on, one piece after the other.

Result = TypeVar("Result")


class WorkThread:
    """Work off the event loop, so that the group keeps hearing from us."""

    def __init__(self, pulse: Pulse) -> None:
        self.pulse = pulse
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="accountant")

    async def do(self, work: Callable[[], Result]) -> Result:
        """What a piece of work gives; while it is done there is work, which must move."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        while not future.done():
            await asyncio.wait({future}, timeout=1.0)
            self.pulse.beat(has_work=True)
        return future.result()

    def stop(self) -> None:
        """Take no more work."""
        self._thread.shutdown(wait=False)


# The topic ``accounts``: the last snapshot of each partition, whole or not at all.
#
# A snapshot is two long texts, people and state, cut into pieces under keys of their own, and a head that
# names them with their digests and is sealed. The head is written last and replaces the one before; only
# then are the pieces of the one before deleted. So whoever is killed while writing leaves the earlier
# snapshot as it was, and of two who write at once one wins: no head ever names what another has written.

HEAD = b"snapshot"
PIECE_BYTES = 4 * MEDIUM_BYTES
_AT_ONCE = 4  # pieces on their way


class Text(BaseMessage):
    """A long text on the topic: so many pieces under keys that begin with ``name``, and their SHA-256."""

    name: str = Field(pattern="^[0-9a-f]{16}$")
    pieces: int = Field(ge=0)
    digest: str

    def keys(self) -> list[bytes]:
        """The keys of its pieces, in order."""
        return [f"{self.name}-{number}".encode() for number in range(self.pieces)]

    def found(self, latest: Mapping[bytes, bytes]) -> bytes | None:
        """The text in the records of a topic; None where it is not whole."""
        whole = b"".join(latest.get(key, b"") for key in self.keys())
        return whole if hashlib.sha256(whole).hexdigest() == self.digest else None


class SnapshotHead(BaseMessage):
    """What a snapshot says of itself; ``seal`` is of all the rest."""

    type: Literal["account_snapshot"] = "account_snapshot"
    basis: str
    partition: int
    next_step: Step
    decided: LogPlace
    people: Text
    state: Text
    seal: str = ""

    def sealed(self, key: SnapshotKey) -> SnapshotHead:
        """The head with its seal."""
        return self.model_copy(update={"seal": key.seal(self._message())})

    def is_sealed(self, key: SnapshotKey) -> bool:
        """Whether somebody who has the key has written all of it."""
        return key.has_sealed(self._message(), self.seal)

    def _message(self) -> bytes:
        return self.model_copy(update={"seal": ""}).line()


class SnapshotTopic:
    """Reads and writes the topic; a call returns once the broker has everything."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic
        self._producer: Any = None

    async def start(self) -> None:
        """Connect for writing."""
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            **await reachable(self._connection),
            enable_idempotence=True,
            max_request_size=LARGE_BYTES,
        )
        await self._producer.start()

    async def stop(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()

    async def read(self, partition: int, moved: Callable[[], None]) -> dict[bytes, bytes]:
        """The last value of each key of a partition; ``moved`` is called for each record."""
        latest: dict[bytes, bytes] = {}
        async with aclosing(read_partition(self._connection, self._topic, partition)) as records:
            async for record in records:
                key = record.key or b""
                if record.value:
                    latest[key] = record.value
                else:
                    latest.pop(key, None)
                moved()
        return latest

    async def write_text(self, partition: int, text: bytes) -> Text:
        """Write a long text under a name of its own."""
        digest = await asyncio.to_thread(lambda: hashlib.sha256(text).hexdigest())
        named = Text(name=secrets.token_hex(8), pieces=-(-len(text) // PIECE_BYTES), digest=digest)
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
        """From now on this snapshot counts."""
        await self._producer.send_and_wait(self._topic, head.line().rstrip(), HEAD, head.partition)

    async def delete(self, partition: int, keys: Iterable[bytes]) -> None:
        """Delete what nobody names any more."""
        sent = [await self._producer.send(self._topic, None, key, partition) for key in sorted(keys)]
        for each in sent:
            await each


logger = logging.getLogger(__name__)

_PEOPLE_SECONDS = 86_400.0  # people are written again after that: the topic keeps nothing for ever


class _WrittenPeople(NamedTuple):
    """People as they stand on the topic."""

    population: Population
    text: Text
    written_seconds: float


@dataclass
class _Partition:
    """What is known of one partition. ``records`` are the digests of the records its people are from."""

    looked_seconds: float
    is_whole: bool = True
    records: dict[str, bytes] = field(default_factory=dict)
    keys: set[bytes] = field(default_factory=set)
    people: _WrittenPeople | None = None
    saved: tuple[int, Population] | None = None


class SnapshotKeeper:
    """The snapshots of one worker's partitions; without a key, or with ``snapshot_seconds`` 0, none."""

    def __init__(
        self,
        deployment: Deployment,
        thread: WorkThread,
        key: SnapshotKey | None,
        written: Callable[[], None] = lambda: None,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        limit = deployment.limit()
        self._deployment = deployment
        self._every_seconds = deployment.settings.snapshot_seconds
        needs_every_step = limit is not None and limit.in_hindsight
        self.keeps = key is not None and self._every_seconds > 0 and not needs_every_step
        """Whether there are snapshots; with a limit in hindsight every step has to be walked over anyway."""
        self._key = key
        self._thread = thread
        self._written = written
        self._now_seconds = now_seconds
        self._topic = SnapshotTopic(deployment.connection, deployment.topics.accounts)
        self._basis = snapshot_basis({"deployment": deployment.digest, "log": deployment.topics.decisions})
        self._partitions: dict[int, _Partition] = {}
        self._writing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect; or say that whoever takes a partition over will account every step again."""
        if self.keeps:
            await self._topic.start()
        elif self._key is None and self._deployment.settings.snapshot_seconds > 0:
            logger.warning(
                "no snapshots are kept: whoever takes a partition over accounts every step again; "
                "set snapshot_key, the same secret for all account workers, to spare that"
            )

    async def stop(self) -> None:
        """Disconnect; a snapshot that is not whole yet never counts."""
        if self._writing is not None and self._is_writing:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self._topic.stop()

    async def find(self, partition: int, moved: Moved) -> SavedAccounts | None:
        """The last snapshot of a partition that is new to this worker; None, and why, if none may be used."""
        known = self._partitions[partition] = _Partition(self._now_seconds())
        if not self.keeps:
            return None
        latest = await self._topic.read(partition, moved)
        known.keys = set(latest) - {HEAD}
        if HEAD not in latest:
            logger.info("partition %d has no snapshot yet", partition)
            return None
        try:
            head = self._checked(partition, latest[HEAD])
            await self._check_log(head)
            return await self._thread.do(lambda: self._unpacked(head, latest, moved))
        except (_UnfitError, TallyguardError) as error:
            self.refuse(partition, error)
            return None

    def refuse(self, partition: int, error: Exception) -> None:
        """Say why a snapshot is not used."""
        reason = error.must if isinstance(error, TallyguardError) else str(error)
        logger.warning(
            "partition %d: the snapshot is not used, every step is accounted again: %s", partition, reason
        )

    def entering(self, partition: int) -> None:
        """People are about to change: nothing is saved until it is known what became of their records."""
        self._partitions[partition].is_whole = False

    def entered(self, partition: int, records: Mapping[str, bytes | None]) -> None:
        """People have come with these records into the accounts; None for those who left."""
        known = self._partitions[partition]
        known.is_whole = True
        for name, digest in records.items() if self.keeps else ():
            if digest is None:
                known.records.pop(name, None)
            else:
                known.records[name] = digest

    def due(self, partitions: Iterable[PartitionAccounts]) -> PartitionAccounts | None:
        """A partition that is to be saved now; call between two steps, all risks written."""
        if not self.keeps or self._is_writing:
            return None
        for accounts in partitions:
            known = self._partitions[accounts.partition]
            is_time = self._now_seconds() - known.looked_seconds >= self._every_seconds
            if is_time and self._has_changed(accounts):
                return accounts
        return None

    def save(self, accounts: PartitionAccounts) -> SavedAccounts:
        """The accounts as they are now, between two steps, with the records of their people."""
        saved = accounts.save()
        records = self._partitions[accounts.partition].records
        listed = [records[name] for name in saved.people.names]
        return saved._replace(people=saved.people._replace(records=listed))

    def write(self, partition: int, saved: SavedAccounts) -> None:
        """Write what was saved, beside the work; a failure is logged, and tried again later."""
        known = self._partitions[partition]
        known.looked_seconds = self._now_seconds()
        self._writing = asyncio.create_task(self._write_or_warn(partition, known, saved))

    async def write_last(self, partitions: Iterable[PartitionAccounts]) -> None:
        """Before the end: whatever was accounted since the last snapshots."""
        if self._writing is not None and self._is_writing:
            await asyncio.wait({self._writing})
        for accounts in partitions:
            if self.keeps and self._has_changed(accounts):
                saved = await self._thread.do(partial(self.save, accounts))
                self.write(accounts.partition, saved)
                assert self._writing is not None
                await self._writing

    @property
    def _is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def _has_changed(self, accounts: PartitionAccounts) -> bool:
        """Whether there is anything to spare that the last snapshot would not."""
        known = self._partitions[accounts.partition]
        step, people = accounts.next_step, accounts.accountant.population
        if step == 0 or not known.is_whole:
            return False
        return known.saved is None or known.saved[0] != step or known.saved[1] is not people

    def _checked(self, partition: int, record: bytes) -> SnapshotHead:
        """The head in a record, if it is ours and of this partition."""
        try:
            head = SnapshotHead.model_validate_json(record)
        except ValidationError as error:
            raise _UnfitError("its head cannot be read") from error
        if self._key is None or not head.is_sealed(self._key):
            raise _UnfitError("it is not sealed with snapshot_key: another key was used, or it is forged")
        if head.basis != self._basis:
            raise _UnfitError("it is of another version or of other settings")
        if head.partition != partition:
            raise _UnfitError("it is of another partition")
        return head

    async def _check_log(self, head: SnapshotHead) -> None:
        connection, decisions = self._deployment.connection, self._deployment.topics.decisions
        if not await is_there(connection, decisions, await self._log_id(), head.decided):
            raise _UnfitError(f"{decisions} is not the log it was made from")

    async def _log_id(self) -> str:
        decisions = self._deployment.topics.decisions
        connection = self._deployment.connection
        found = await patiently(connection, lambda: asyncio.to_thread(topic_ids, connection, [decisions]))
        return found.get(decisions, "")

    def _unpacked(self, head: SnapshotHead, latest: Mapping[bytes, bytes], moved: Moved) -> SavedAccounts:
        people, state = head.people.found(latest), head.state.found(latest)
        if people is None or state is None:
            raise _UnfitError("a part of it is missing or damaged")
        names = self._deployment.location_names
        return SavedAccounts(head.next_step, SavedPeople.unpacked(people, names, moved), state)

    async def _write_or_warn(self, partition: int, known: _Partition, saved: SavedAccounts) -> None:
        try:
            await self._write(partition, known, saved)
        except Exception as error:  # the client's and sockets' own; the accounts themselves are sound
            logger.warning(
                "partition %d: no snapshot was written, a takeover takes longer: %s",
                *(partition, str(error) or type(error).__name__),
            )

    async def _write(self, partition: int, known: _Partition, saved: SavedAccounts) -> None:
        connection, decisions = self._deployment.connection, self._deployment.topics.decisions
        place = await place_of_step(connection, decisions, await self._log_id(), saved.next_step - 1)
        if place is None or self._key is None:
            raise _UnfitError(f"{decisions} does not hold step {saved.next_step - 1}")
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

    async def _written_people(self, partition: int, known: _Partition, people: SavedPeople) -> Text:
        """The people on the topic; written again where they have changed, and once a day."""
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


class _UnfitError(Exception):
    """Why a snapshot is not used."""


def records_of(changes: Changes) -> dict[str, bytes | None]:
    """The digests of the records in changes, None where somebody leaves."""
    return {name: None if entry is None else entry.digest for name, entry in changes.items()}
