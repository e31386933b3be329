"""Errors of the Kafka clients in words an operator can act on, and waiting for a broker that is away.

Both clients hide why a broker refused them behind "unable to bootstrap", so a refusal is looked for by one
more connection, made for nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.kafka_exceptions import BrokerError

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 15.0
_REFUSALS = ("Authentication", "Authorization", "Sasl", "SSL", "Certificate")
_PROBE_MILLISECONDS = 5_000
_ANSWER_SECONDS = 2.0
Answered = TypeVar("Answered")
Found = TypeVar("Found")


def is_refusal(error: BaseException) -> bool:
    """Whether the broker is there and does not want us: waiting does not help then.

    A TLS handshake that just ends is none: a broker dies like that behind a proxy, or while it starts.
    """
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ssl.SSLEOFError | ssl.SSLZeroReturnError) or "EOF occurred" in str(chain):
            return False
        if any(word in type(chain).__name__ for word in _REFUSALS) or "certificate" in str(chain).lower():
            return True
        chain = chain.__cause__ or chain.__context__
    return False


def is_passing(error: BaseException) -> bool:
    """Whether the broker was away or busy, so that the same question may be answered later."""
    is_late = type(error).__name__ == "KafkaTimeoutError"
    return isinstance(error, ConnectionError) or is_late or bool(getattr(error, "retriable", False))


def explain(error: BaseException, connection: Connection) -> BrokerError:
    """One sentence for an error of a client."""
    servers = ", ".join(connection.servers)
    said = str(error) or type(error).__name__
    if type(error).__name__ == "UnsupportedCodecError":
        return BrokerError(
            "every codec that a sender or broker compresses records with must be at hand",
            said,
            "install the codec: pip install cramjam lz4 python-snappy zstandard, as tallyguard's own "
            "dependencies do; nothing of these records was taken, and nothing is lost",
        )
    if is_refusal(error):
        return BrokerError(
            f"the broker at {servers} must accept this client",
            said,
            "check kafka.security, username, password and ca_file, and what this user may do "
            "(docs/reference/kafka-topics.md)",
        )
    return BrokerError(
        f"the broker at {servers} must answer", said, "check that it runs and that kafka.servers names it"
    )


async def find_refusal(connection: Connection) -> BaseException | None:
    """Why a server refuses a connection; None where none does."""
    from aiokafka.conn import create_conn

    login = connection.aiokafka()
    del login["bootstrap_servers"], login["request_timeout_ms"]
    for server in connection.servers:
        host, _, port = server.rpartition(":")
        try:
            conn = await create_conn(host, int(port), request_timeout_ms=_PROBE_MILLISECONDS, **login)
            conn.close()
        except Exception as error:  # the client's, sockets' and TLS's own
            if is_refusal(error):
                return error
    return None


async def find_unreachable(connection: Connection) -> str | None:
    """The name of itself at which a broker does not answer; None where all do, or no server can be asked."""
    from aiokafka.client import AIOKafkaClient

    client = AIOKafkaClient(**connection.aiokafka())
    try:
        await client.bootstrap()
        brokers = [(broker.host, broker.port) for broker in client.cluster.brokers()]
    except Exception:  # the client's, sockets' and TLS's own: said by whoever asks
        return None
    finally:
        await client.close()
    for host, port in brokers:
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), _ANSWER_SECONDS)
            writer.close()
        except (OSError, TimeoutError):
            return f"{host}:{port}"
    return None


@contextmanager
def broker_errors(connection: Connection) -> Iterator[None]:
    """Errors of kafka-python and aiokafka as :class:`BrokerError`; not inside an event loop."""
    from aiokafka.errors import KafkaError as AiokafkaError
    from kafka.errors import KafkaError

    try:
        yield
    except (KafkaError, AiokafkaError, ConnectionError) as error:
        refusal = error if is_refusal(error) else asyncio.run(_quietly(find_refusal(connection)))
        unreachable = None if refusal is not None else asyncio.run(_quietly(find_unreachable(connection)))
        if unreachable is not None:
            raise BrokerError(
                "every broker must be reached by the name it gives itself to clients",
                f"no connection to {unreachable}",
                "set advertised.listeners of the brokers to names that this machine knows",
            ) from error
        raise explain(refusal or error, connection) from error


async def wait_for_broker(connection: Connection) -> None:
    """Return once the broker answers; :class:`BrokerError` if it does and refuses us."""
    from aiokafka.admin import AIOKafkaAdminClient

    pause = FIRST_PAUSE_SECONDS
    while True:
        admin = AIOKafkaAdminClient(**connection.aiokafka())
        try:
            await admin.start()
            return
        except Exception as error:  # the client's, sockets' and TLS's own
            refusal = await find_refusal(connection)
            if refusal is not None:
                raise explain(refusal, connection) from error
            logger.warning("waiting for the broker at %s: %s", ", ".join(connection.servers), error)
        finally:
            await admin.close()
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def patiently(connection: Connection, ask: Callable[[], Awaitable[Answered]]) -> Answered:
    """What the broker answers, also if it has to come back first; :class:`BrokerError` if it refuses us."""
    while True:
        try:
            return await ask()
        except Exception as error:  # the client's and sockets' own
            if not is_passing(error):
                raise
            logger.warning("asking the broker again: %s", str(error) or type(error).__name__)
        await asyncio.sleep(FIRST_PAUSE_SECONDS)
        await wait_for_broker(connection)


async def _quietly(look: Coroutine[Any, Any, Found | None]) -> Found | None:
    """What is found, or nothing within a while."""
    try:
        return await asyncio.wait_for(look, _PROBE_MILLISECONDS / 1000.0)
    except TimeoutError:
        return None
