"""Clients of the broker (aiokafka for workers, kafka-python for commands), their errors, and retries.

Retry loops are written out: what differs between them (asking why a broker refused, asking another server) is
most of each.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import kafka
from kafka.errors import KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from models.exceptions import TallyguardError
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES


class BrokerError(TallyguardError):
    """The broker cannot be reached, refuses us, or is not set up as it must be."""


class TopicError(BrokerError):
    """A topic is missing or has another shape than the deployment needs."""


class FencedError(BrokerError):
    """Another release worker has taken over; this one must not publish any more."""


class StalledError(BrokerError):
    """There is work, but no progress."""


class RecordError(ValueError):
    """A record is not what its topic holds; the text quotes nothing of it."""


class LogError(BrokerError):
    """A log lacks a step, or has a record that cannot be read."""


logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 15.0
_REFUSALS = ("Authentication", "Authorization", "Sasl", "SSL", "Certificate")
_REFUSAL_SECONDS = 5.0
_ANSWER_SECONDS = 2.0
_PROBE_SECONDS = 3.0
_KEPT_SECONDS = 30.0
Answer = TypeVar("Answer")
Found = TypeVar("Found")


def is_refusal(error: BaseException) -> bool:
    """Whether the broker is there and refuses us, so that waiting does not help.

    A TLS handshake that is cut off is no refusal: this is how a broker dies behind a proxy, or while it
    starts.
    """
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ssl.SSLEOFError | ssl.SSLZeroReturnError) or "EOF occurred" in str(chain):
            return False
        if any(word in type(chain).__name__ for word in _REFUSALS) or "certificate" in str(chain).lower():
            return True
        chain = chain.__cause__ or chain.__context__
    return False


def is_transient(error: BaseException) -> bool:
    """Whether the broker was away or busy, so that the same request may succeed later."""
    is_late = type(error).__name__ == "KafkaTimeoutError"
    return isinstance(error, ConnectionError) or is_late or bool(getattr(error, "retriable", False))


def explain(error: BaseException, connection: Connection) -> BrokerError:
    """One sentence for an error of a client."""
    servers = ", ".join(connection.servers)
    said = str(error) or type(error).__name__
    if type(error).__name__ == "UnsupportedCodecError":
        return BrokerError(
            "every codec that a sender or broker compresses records with must be installed",
            said,
            "install the codec: pip install cramjam lz4 python-snappy zstandard, as tallyguard's own "
            "dependencies do; none of these records was processed, and nothing is lost",
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


async def _connection_error(connection: Connection, server: str, seconds: float) -> Exception | None:
    """Why no connection to a server can be made in this time; None if one can."""
    from aiokafka.conn import create_conn

    login = connection.aiokafka()
    del login["bootstrap_servers"]
    host, _, port = server.rpartition(":")
    try:
        conn = await asyncio.wait_for(create_conn(host, int(port), **login), seconds)
    except Exception as error:  # the client's, sockets' and TLS's own
        return error
    conn.close()
    return None


async def find_refusal(connection: Connection) -> BaseException | None:
    """Why a server refuses us; None if none does.

    Both clients hide the reason of a refusal behind "unable to bootstrap", so one more connection is made.
    """
    for server in connection.servers:
        error = await _connection_error(connection, server, _REFUSAL_SECONDS)
        if error is not None and is_refusal(error):
            return error
    return None


async def find_unreachable(connection: Connection) -> str | None:
    """An advertised address at which a broker does not answer; None if all do, or no server can be asked."""
    from aiokafka.client import AIOKafkaClient

    client = AIOKafkaClient(**connection.aiokafka())
    try:
        await client.bootstrap()
        brokers = [(broker.host, broker.port) for broker in client.cluster.brokers()]
    except Exception:  # the client's, sockets' and TLS's own: the caller reports them
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
        refusal = error if is_refusal(error) else asyncio.run(_within_time(find_refusal(connection)))
        unreachable = None if refusal is not None else asyncio.run(_within_time(find_unreachable(connection)))
        if unreachable is not None:
            raise BrokerError(
                "every broker must be reached by the name it gives itself to clients",
                f"no connection to {unreachable}",
                "set advertised.listeners of the brokers to names that this machine knows",
            ) from error
        raise explain(refusal or error, connection) from error


async def wait_for_broker(connection: Connection) -> None:
    """Return once the broker answers; :class:`BrokerError` if it refuses us."""
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


async def retry_until_answered(connection: Connection, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer of the broker, waiting for a broker that is away; :class:`BrokerError` if it refuses us."""
    while True:
        try:
            return await ask()
        except Exception as error:  # the client's and sockets' own
            if not is_transient(error):
                raise
            logger.warning("asking the broker again: %s", str(error) or type(error).__name__)
        await asyncio.sleep(FIRST_PAUSE_SECONDS)
        await wait_for_broker(connection)


async def _within_time(look: Coroutine[Any, Any, Found | None]) -> Found | None:
    """The result, or None if it takes too long."""
    try:
        return await asyncio.wait_for(look, _REFUSAL_SECONDS)
    except TimeoutError:
        return None


# Patches of kafka-python, for versions 3.0 only. A broker that hangs, or is cut off, still has its
# connections accepted, by its kernel or by a proxy. Then kafka-python 3.0.12
# - waits for a TLS handshake without end: the limit for opening a connection (its pull request 3027, KIP-601)
#   covers the socket only; TLS was rewritten later (3128), which has to be looked at with the next version;
# - counts an accepted connection as a success, so that the silent broker is asked again and again (3098 mends
#   this for the first connection only);
# - asks only brokers that the last answer named, never the servers of the settings again (KAFKA-8206,
#   KIP-899).

_PATCHED_VERSION = "3.0."
_SECONDS = 10.0


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """A connection, with its handshake done; ``KafkaTimeoutError`` where that takes too long."""
        made = self._net.call_soon_with_future(super()._build_transport, node, timeout_at)
        seconds = _SECONDS if timeout_at is None else max(0.0, timeout_at - time.monotonic())
        try:
            return await self.wait_for(made, 1000.0 * seconds)
        except KafkaTimeoutError:
            made.add_callback(lambda late: late.close())
            raise

    async def _connect(
        self,
        node: Any,
        conn: Any,
        reset_backoff_on_connect: bool = True,
        timeout_at: float | None = None,
    ) -> None:
        """Connect; a broker that accepts a connection and then stays silent has failed, too."""
        before = self._failures(node.node_id)
        await super()._connect(node, conn, reset_backoff_on_connect=False, timeout_at=timeout_at)
        if not conn.connected and self._failures(node.node_id) == before:
            self.update_backoff(node.node_id)
        elif conn.connected and reset_backoff_on_connect:
            self.reset_backoff(node.node_id)

    def least_loaded_node(self) -> Any:
        """A connected broker; else the one that failed least often, the servers of the settings included."""
        found = super().least_loaded_node()
        if found in self._conns and self._conns[found].connected:
            return found
        known, first = self.cluster.brokers(), self.cluster.bootstrap_brokers()
        candidates = [
            each.node_id for brokers in (known, first) for each in random.sample(brokers, len(brokers))
        ]
        ready = [each for each in candidates if self.connection_delay(each) == 0]
        return min(ready, key=self._failures, default=found) if known else found

    def _failures(self, node_id: Any) -> int:
        """How many connections to a broker have failed in a row."""
        return int(self._backoff.get(node_id, (0,))[0])


def resilient_client(**settings: Any) -> KafkaNetClient:
    """The value of ``kafka_client`` for a producer, a consumer or an admin client."""
    net = NetworkSelector(**settings)
    connections = _Connections if is_patched() else KafkaConnectionManager
    return KafkaNetClient(net, connections(net, **settings), **settings)


def is_patched() -> bool:
    """Whether the version of kafka-python is one that the patches above were written for."""
    return str(kafka.__version__).startswith(_PATCHED_VERSION)


Client = TypeVar("Client")

_BOOTSTRAP_MILLISECONDS = 10_000
_FIRST_MILLISECONDS = 5_000  # while other servers can be asked
_FLUSH_SECONDS, _LOOK_SECONDS = 150.0, 1.0  # longer than the 120 s after which kafka-python gives a record up
_LOOK_UP_MILLISECONDS = 120_000  # as for a record: noticing that a broker was cut off takes half a minute
_MOST_LOST = 3  # brokers lost while a topic is looked up
_OFFSETS_PER_RECORD = 3  # marks of transactions take offsets, too


def connected(make: Callable[..., Client], connection: Connection, **settings: Any) -> Client:
    """A connected client of kafka-python.

    kafka-python begins with a random server and waits for that one only, even if it is silent. So each server
    is tried alone after the first attempt.
    """
    servers = connection.servers
    single_servers = [[server] for server in servers] if len(servers) > 1 else []
    arguments = {**connection.kafka_python(), "kafka_client": resilient_client, **settings}
    for number, chosen in enumerate([servers, *single_servers]):
        milliseconds = _FIRST_MILLISECONDS if number < len(single_servers) else _BOOTSTRAP_MILLISECONDS
        try:
            return make(**{**arguments, "bootstrap_servers": chosen, "bootstrap_timeout_ms": milliseconds})
        except KafkaTimeoutError:
            if number == len(single_servers):
                raise
    raise AssertionError


class CheckedProducer:
    """A producer that raises :class:`BrokerError` once a record was given up, after all retries."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._failures: list[BaseException] = []

    def send(self, topic: str, value: bytes | None, **more: Any) -> Any:
        """Start to send a record."""
        self._check()
        sent = self._producer.send(topic, value, **more)
        sent.add_errback(self._failures.append)
        return sent

    def flush(self) -> None:
        """Return once the brokers have acknowledged everything; :class:`BrokerError` if they do not.

        kafka-python's own flush waits for ever for later records once it has given one up; a record that was
        given up is seen by its callback only (its issue 1347).
        """
        deadline = time.monotonic() + _FLUSH_SECONDS
        while True:
            with suppress(KafkaTimeoutError):
                self._producer.flush(_LOOK_SECONDS)
                break
            self._check()
            if time.monotonic() > deadline:
                raise _not_taken(f"not acknowledged within {_FLUSH_SECONDS:.0f} s")
        self._check()

    def _check(self) -> None:
        if self._failures:
            raise _not_taken(self._failures[0])


def _not_taken(why: object) -> BrokerError:
    return BrokerError(
        "the brokers must accept every record",
        f"some were not accepted: {why}",
        "run the same command again once they do; records that arrived already do no harm twice",
    )


@contextmanager
def writing(connection: Connection) -> Iterator[CheckedProducer]:
    """A producer that has delivered everything at the end of the block, or raises :class:`BrokerError`."""
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    with broker_errors(connection):
        producer = connected(
            KafkaProducer,
            connection,
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            max_block_ms=_LOOK_UP_MILLISECONDS,
            max_request_size=LARGE_BYTES,
        )
        checked = CheckedProducer(producer)
        try:
            yield checked
            checked.flush()
        except (BrokerError, KafkaError):
            producer._sender.force_close()  # private: close() alone would wait for records that were given up
            raise
        finally:
            producer.close()


@contextmanager
def consuming(connection: Connection) -> Iterator[Any]:
    """A consumer without a group that reads only committed transactions."""
    from kafka import KafkaConsumer

    with broker_errors(connection):
        consumer = connected(
            KafkaConsumer,
            connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        try:
            yield consumer
        finally:
            consumer.close()


def records(consumer: Any, topic: str, *, last: int | None = None) -> Iterator[Any]:
    """The records of a topic up to its present end; with ``last``, from that many offsets before it.

    Those of one partition are in order.
    """
    where = _partitions(consumer, topic)
    ends, begins = consumer.end_offsets(where), consumer.beginning_offsets(where)
    for each in where:
        start = begins[each] if last is None else max(begins[each], ends[each] - last)
        consumer.seek(each, start)
    while any(consumer.position(each) < ends[each] for each in where):
        for each, batch in consumer.poll(timeout_ms=500).items():
            yield from (record for record in batch if record.offset < ends[each])


def recent(consumer: Any, topic: str, last: int, *, follow: bool = False) -> Iterator[Any]:
    """The ``last`` records of each partition in order of time; with ``follow``, then every new record."""
    kept: dict[int, deque[Any]] = {}
    if last:
        for record in records(consumer, topic, last=_OFFSETS_PER_RECORD * last):
            kept.setdefault(record.partition, deque(maxlen=last)).append(record)
        found = (record for batch in kept.values() for record in batch)
        yield from sorted(found, key=lambda record: (record.timestamp, record.partition, record.offset))
    if follow:
        if not last:
            consumer.seek_to_end(*_partitions(consumer, topic))
        while True:
            for batch in consumer.poll(timeout_ms=1000).values():
                yield from batch


def _partitions(consumer: Any, topic: str) -> list[Any]:
    """Every partition of a topic, assigned to the consumer."""
    from kafka import TopicPartition
    from kafka.errors import KafkaConnectionError

    for lost in range(_MOST_LOST + 1):
        try:
            numbers: set[int] = consumer.partitions_for_topic(topic) or set()
            break
        except KafkaConnectionError:  # a broker was lost while it was asked
            if lost == _MOST_LOST:
                raise
            time.sleep(_LOOK_SECONDS)
    if not numbers:
        raise TopicError("a topic must exist", topic, "run `tallyguard topics create`")
    where = [TopicPartition(topic, number) for number in sorted(numbers)]
    consumer.assign(where)
    return where


class _Known(NamedTuple):
    """The servers that answered, and when."""

    servers: list[str]
    found_seconds: float


_known_servers: dict[tuple[str, ...], _Known] = {}


async def answering_servers(connection: Connection) -> list[str]:
    """The servers that have just answered; all of them if none has.

    aiokafka begins with any server it is given, and waits long for one that is silent. A server that refuses
    us does answer.
    """
    servers = tuple(connection.servers)
    if len(servers) == 1:
        return list(servers)
    known, now_seconds = _known_servers.get(servers), time.monotonic()
    if known is None or now_seconds - known.found_seconds > _KEPT_SECONDS:
        errors = await asyncio.gather(
            *(_connection_error(connection, server, _PROBE_SECONDS) for server in servers)
        )
        answers = [error is None or is_refusal(error) for error in errors]
        found = [server for server, answered in zip(servers, answers, strict=True) if answered]
        known = _known_servers[servers] = _Known(found or list(servers), now_seconds)
    return list(known.servers)


async def start_producer(connection: Connection, **settings: Any) -> Any:
    """A connected producer of aiokafka."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(**connection.aiokafka(await answering_servers(connection)), **settings)
    try:
        await producer.start()
    except BaseException:
        await producer.stop()
        raise
    return producer


class LogEnds:
    """Looks at the ends of logs now and then, for a worker that gets no records.

    A member that its group has forgotten would wait for ever; one that sees records which it does not get can
    end itself. It looks at most once in ``every_seconds``, and sees nothing while the broker is away.
    """

    def __init__(self, every_seconds: float, now_seconds: Callable[[], float] = time.monotonic) -> None:
        self._every_seconds = every_seconds
        self._now_seconds = now_seconds
        self._looked_seconds = now_seconds()

    async def look(self, ask: Callable[[], Awaitable[Found]]) -> Found | None:
        """The answer; None if it is too early to ask again, or the broker does not answer."""
        if self._now_seconds() - self._looked_seconds < self._every_seconds:
            return None
        try:
            return await ask()
        except Exception as error:  # the client's and sockets' own
            if not is_transient(error):
                raise
            logger.warning("the broker does not answer: %s", str(error) or type(error).__name__)
            return None
        finally:
            self._looked_seconds = self._now_seconds()


WARN_SECONDS = 10.0


@asynccontextmanager
async def log_while_waiting(what: str, meanwhile: str) -> AsyncIterator[None]:
    """Warn every :data:`WARN_SECONDS` while the block runs: brokers are too few, or cannot be reached.

    ``what`` has not been acknowledged; ``meanwhile`` says what does not happen until it is.
    """
    warning = asyncio.create_task(_warn_again(what, meanwhile))
    try:
        yield
    finally:
        warning.cancel()


async def _warn_again(what: str, meanwhile: str) -> None:
    waited_seconds = 0.0
    while True:
        await asyncio.sleep(WARN_SECONDS)
        waited_seconds += WARN_SECONDS
        logger.warning(
            "the brokers have not acknowledged %s for %.0f s; %s until as many of them run, and reach each "
            "other, as min.insync.replicas asks",
            *(what, waited_seconds, meanwhile),
        )
