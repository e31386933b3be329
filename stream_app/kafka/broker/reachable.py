"""Which of several servers answer: a client begins with any, and waits long for one that is silent."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

from stream_app.kafka.broker.broker_errors import is_refusal
from stream_app.kafka.broker.connection import Connection

_PROBE_SECONDS = 3.0
_KEPT_SECONDS = 30.0


class _Answered(NamedTuple):
    servers: list[str]
    answered_seconds: float


_answered: dict[tuple[str, ...], _Answered] = {}


async def reachable(connection: Connection) -> dict[str, Any]:
    """Arguments of aiokafka's clients, to begin with a server that has just answered; any, where none has."""
    servers = tuple(connection.servers)
    arguments = connection.aiokafka()
    if len(servers) == 1:
        return arguments
    known, now_seconds = _answered.get(servers), time.monotonic()
    if known is None or now_seconds - known.answered_seconds > _KEPT_SECONDS:
        answers = await asyncio.gather(*(_answers(connection, server) for server in servers))
        found = [server for server, does in zip(servers, answers, strict=True) if does]
        known = _answered[servers] = _Answered(found or list(servers), now_seconds)
    return {**arguments, "bootstrap_servers": known.servers}


async def _answers(connection: Connection, server: str) -> bool:
    """Whether a server answers in time; one that refuses us does."""
    from aiokafka.conn import create_conn

    login = connection.aiokafka()
    del login["bootstrap_servers"]
    host, _, port = server.rpartition(":")
    try:
        conn = await asyncio.wait_for(create_conn(host, int(port), **login), _PROBE_SECONDS)
    except Exception as error:  # the client's, sockets' and TLS's own
        return is_refusal(error)
    conn.close()
    return True
