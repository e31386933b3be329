"""aiokafka where a broker is cut off: its connections stay, and nothing answers.

That costs a client of aiokafka 0.14 one to five times the limit of a request. While it connects to one broker
it connects to no other, everything that waited for that connection then tries once more for as long, and
questions about the other brokers go to the silent one again. Here it costs the limit once.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import Any

import aiokafka
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import CloseReason

_PATCHED_VERSION = "0.14."
_LONG_SECONDS = 1.0  # a connection that is refused fails at once: that broker is starting, and asked again
_NOT_ASKED_SECONDS = 5.0


class _Client(AIOKafkaClient):  # type: ignore[misc]
    """Connects to several brokers at a time, and asks one that was silent again only after a while."""

    _get_conn_lock = nullcontext()  # an attempt is shared instead
    attempts: dict[Any, asyncio.Task[Any]]
    asked_again_seconds: dict[int, float]
    group_seconds: float

    async def _get_conn(self, node_id: int, *, group: Any = ConnectionGroup.DEFAULT, **more: Any) -> Any:
        """A connection to a broker; None if there is none now."""
        key, began_seconds = (node_id, group), time.monotonic()
        found = self._conns.get(key)
        if found is not None and found.connected():
            return found
        if began_seconds < self.asked_again_seconds.get(node_id, 0.0):
            return None
        if key not in self.attempts:
            self.attempts[key] = asyncio.create_task(super()._get_conn(node_id, group=group, **more))
            self.attempts[key].add_done_callback(lambda _: self.attempts.pop(key))
        made = await asyncio.shield(self.attempts[key])
        if made is None and time.monotonic() - began_seconds > _LONG_SECONDS:
            self._was_silent(node_id)
        if made is not None and group is ConnectionGroup.COORDINATION:
            made._request_timeout = max(made._request_timeout, self.group_seconds)
        return made

    def _on_connection_closed(self, conn: Any, reason: Any) -> None:
        """A connection has ended; by us, where no answer came in time."""
        for (node_id, _), each in self._conns.items():
            if each is conn and reason is CloseReason.CONNECTION_TIMEOUT:
                self._was_silent(node_id)
        super()._on_connection_closed(conn, reason)

    def _was_silent(self, node_id: int) -> None:
        self.asked_again_seconds[node_id] = time.monotonic() + _NOT_ASKED_SECONDS

    async def close(self) -> None:
        """Disconnect."""
        for attempt in self.attempts.values():
            attempt.cancel()
        await super().close()


def resilient(made: Any, group_seconds: float = 0.0) -> Any:
    """A consumer, producer or admin client of aiokafka that was not started yet, so patched.

    Its coordinator may take ``group_seconds`` to answer: who joins a group waits for the other members.
    """
    client = made.client if isinstance(made, aiokafka.AIOKafkaProducer) else made._client
    if aiokafka.__version__.startswith(_PATCHED_VERSION):
        client.__class__ = _Client
        client.attempts, client.asked_again_seconds, client.group_seconds = {}, {}, group_seconds
    else:  # one limit for all: who joins must not give up before the others can have come
        client._request_timeout_ms = max(client._request_timeout_ms, int(1000 * group_seconds))
    return made
