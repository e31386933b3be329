"""The topic ``accounts``: the last snapshot of each partition, whole or not at all.

A snapshot is two long texts, people and state, cut into pieces under keys of their own, and a head that names
them with their digests and is sealed. The head is written last and replaces the one before; only then are
the pieces of the one before deleted. So whoever is killed while writing leaves the earlier snapshot as it
was, and of two who write at once one wins: no head ever names what another has written.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Literal

from pydantic import Field

from models.keys import SnapshotKey
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.reachable import reachable
from stream_app.kafka.broker.topics import LARGE_BYTES, MEDIUM_BYTES
from stream_app.kafka.deployment.log_place import LogPlace
from stream_app.kafka.deployment.log_reader import read_partition
from stream_app.wire import BaseMessage, Step

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
