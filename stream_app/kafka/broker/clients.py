"""Clients of the broker (aiokafka for data, kafka-python for administration), their errors, and retries.

Retry loops are written out: what differs between them (asking why a broker refused, asking another server) is
most of each.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
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

    from stream_app.kafka.broker.silent_brokers import resilient

    pause = FIRST_PAUSE_SECONDS
    while True:
        admin = resilient(AIOKafkaAdminClient(**connection.aiokafka()))
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


# Patches of kafka-python, which administers topics, for versions 3.0 only. A broker that hangs, or is cut
# off, still has its connections accepted, by its kernel or by a proxy. Then kafka-python 3.0.12
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


# Data is read and written through aiokafka only. Commands have no event loop: their clients run on one of
# their own, in a thread.

_SILENT_SECONDS = 150.0  # noticing that a broker was cut off, and electing another, takes half a minute
_LOOK_SECONDS = 0.005
_MOST_WAITING = 5_000  # records that are handed over and not yet sent
_OFFSETS_PER_RECORD = 3  # marks of transactions take offsets, too


@contextmanager
def _event_loop() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """A function that does some work on an event loop of its own, and returns its result."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Sender:
    """Sends records of a command; :class:`BrokerError` once one was refused, or none taken for long."""

    def __init__(self, producer: Any, do: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        """``do`` does some work on the event loop of the producer."""
        self._producer = producer
        self._do = do
        self._waiting: deque[tuple[Any, ...]] = deque()
        self._given = self._acknowledged = 0
        self._failure: BaseException | None = None
        self._progress_seconds = time.monotonic()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Start to send a record; those of one partition are sent in this order."""
        if len(self._waiting) >= _MOST_WAITING:
            self._do(self._wait(lambda: len(self._waiting) < _MOST_WAITING))
        self._check()
        self._given += 1
        self._waiting.append((topic, value, key, partition, timestamp_ms))

    def flush(self) -> None:
        """Return once the brokers have acknowledged everything; :class:`BrokerError` if they do not."""
        self._do(self._wait(lambda: self._acknowledged == self._given))
        self._check()

    async def _wait(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self._check()
            await asyncio.sleep(_LOOK_SECONDS)

    async def start(self) -> None:
        """Begin to hand records to the client."""
        self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Disconnect; records that were given up are not waited for."""
        self._running.cancel()
        await asyncio.wait({self._running})
        with suppress(TimeoutError):
            await asyncio.wait_for(self._producer.stop(), _REFUSAL_SECONDS)

    async def _run(self) -> None:
        while self._failure is None:
            try:
                while self._waiting:
                    sent = await self._producer.send(*self._waiting[0])
                    self._waiting.popleft()
                    sent.add_done_callback(self._acknowledge)
            except Exception as error:  # the client's and sockets' own
                self._failure = None if is_transient(error) else error
            await asyncio.sleep(_LOOK_SECONDS)

    def _acknowledge(self, sent: asyncio.Future[Any]) -> None:
        if not sent.cancelled():
            self._failure = self._failure or sent.exception()
        self._progress_seconds = time.monotonic()
        self._acknowledged += 1

    def _check(self) -> None:
        if self._failure is not None:
            raise _not_taken(self._failure)
        now_seconds = time.monotonic()
        if self._acknowledged == self._given:
            self._progress_seconds = now_seconds
        if now_seconds - self._progress_seconds > _SILENT_SECONDS:
            raise _not_taken(f"none was acknowledged for {_SILENT_SECONDS:.0f} s")


def _not_taken(why: object) -> BrokerError:
    return BrokerError(
        "the brokers must accept every record",
        f"some were not accepted: {why}",
        "run the same command again once they do; records that arrived already do no harm twice",
    )


@contextmanager
def writing(connection: Connection) -> Iterator[Sender]:
    """A sender that has delivered everything at the end of the block, or raises :class:`BrokerError`."""
    with broker_errors(connection), _event_loop() as do:
        producer = do(
            start_producer(connection, enable_idempotence=True, linger_ms=5, max_request_size=LARGE_BYTES)
        )
        sender = Sender(producer, do)
        do(sender.start())
        try:
            yield sender
            sender.flush()
        finally:
            do(sender.stop())


class Reader(NamedTuple):
    """A consumer on an event loop of its own, and the function that does work there."""

    consumer: Any
    do: Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def consuming(connection: Connection) -> Iterator[Reader]:
    """A consumer without a group that reads only committed transactions; for :func:`records`."""
    with broker_errors(connection), _event_loop() as do:
        consumer = do(start_consumer(connection))
        try:
            yield Reader(consumer, do)
        finally:
            do(consumer.stop())


Spans = Mapping[int, tuple[int, int]]
"""Of each partition the first offset, and the one after the last."""


def spans(reader: Reader, topic: str) -> Spans:
    """What a topic holds now, up to the last committed record of each partition."""
    return {each.partition: span for each, span in reader.do(_spans(reader.consumer, topic)).items()}


def records(
    reader: Reader, topic: str, *, last: int | None = None, within: Spans | None = None
) -> Iterator[Any]:
    """The records of a topic up to its present end; with ``last``, from that many offsets before it.

    Those of one partition are in order. With ``within`` only those of these offsets.
    """
    consumer, do = reader
    ends = do(_seek(consumer, topic, last, within))
    while unread := [each for each, end in ends.items() if do(consumer.position(each)) < end]:
        for each, batch in do(consumer.getmany(*unread, timeout_ms=500)).items():
            yield from (record for record in batch if record.offset < ends[each])


def recent(reader: Reader, topic: str, last: int, *, follow: bool = False) -> Iterator[Any]:
    """The ``last`` records of each partition in order of time; with ``follow``, then every new record."""
    kept: dict[int, deque[Any]] = {}
    if last:
        for record in records(reader, topic, last=_OFFSETS_PER_RECORD * last):
            kept.setdefault(record.partition, deque(maxlen=last)).append(record)
        found = (record for batch in kept.values() for record in batch)
        yield from sorted(found, key=lambda record: (record.timestamp, record.partition, record.offset))
    if follow:
        consumer, do = reader
        if not last:
            do(_seek(consumer, topic, 0))
        while True:
            for batch in do(consumer.getmany(timeout_ms=1000)).values():
                yield from batch


async def _seek(consumer: Any, topic: str, last: int | None, within: Spans | None = None) -> dict[Any, int]:
    """Read every partition of a topic, as :func:`records` says; returns their ends."""
    found = await _spans(consumer, topic)
    if within is not None:
        found = {each: within[each.partition] for each in found if each.partition in within}
    for each, (begin, end) in found.items():
        consumer.seek(each, begin if last is None else max(begin, end - last))
    return {each: end for each, (_, end) in found.items()}


async def _spans(consumer: Any, topic: str) -> dict[Any, tuple[int, int]]:
    """What each partition of a topic holds; from here on all of them are read."""
    from aiokafka import TopicPartition

    numbers = (await consumer._client.fetch_all_metadata()).partitions_for_topic(topic)
    if not numbers:
        raise TopicError("a topic must exist", topic, "run `tallyguard topics create`")
    where = [TopicPartition(topic, number) for number in sorted(numbers)]
    consumer.assign(where)
    begins, ends = await consumer.beginning_offsets(where), await consumer.end_offsets(where)
    return {each: (begins[each], ends[each]) for each in where}


_known_servers: dict[tuple[str, ...], tuple[list[str], float]] = {}
"""The servers that answered, and when, by those of the settings."""


async def answering_servers(connection: Connection) -> list[str]:
    """The servers that have just answered; all of them if none has.

    aiokafka begins with any server it is given, and waits long for one that is silent. A server that refuses
    us does answer.
    """
    servers = tuple(connection.servers)
    if len(servers) == 1:
        return list(servers)
    (known, found_seconds), now_seconds = _known_servers.get(servers, ([], 0.0)), time.monotonic()
    if not known or now_seconds - found_seconds > _KEPT_SECONDS:
        errors = await asyncio.gather(
            *(_connection_error(connection, server, _PROBE_SECONDS) for server in servers)
        )
        answers = [error is None or is_refusal(error) for error in errors]
        found = [server for server, answered in zip(servers, answers, strict=True) if answered]
        known, _ = _known_servers[servers] = found or list(servers), now_seconds
    return list(known)


async def start_producer(connection: Connection, **settings: Any) -> Any:
    """A connected producer of aiokafka."""
    from aiokafka import AIOKafkaProducer

    from stream_app.kafka.broker.silent_brokers import resilient

    login = connection.aiokafka(await answering_servers(connection))
    return await _started(resilient(AIOKafkaProducer(**login, **settings)))


class Writer:
    """What writes with a producer of its own, from its start to its stop."""

    def __init__(self, connection: Connection, **settings: Any) -> None:
        """``settings`` are those of aiokafka's producer beside the login."""
        self._connection, self._settings = connection, settings
        self._producer: Any = None

    async def start(self) -> None:
        """Connect."""
        self._producer = await start_producer(self._connection, **self._settings)

    async def stop(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()


async def start_consumer(connection: Connection) -> Any:
    """A connected consumer of aiokafka, without a group, of committed transactions only."""
    from aiokafka import AIOKafkaConsumer

    from stream_app.kafka.broker.silent_brokers import resilient

    consumer = AIOKafkaConsumer(
        **connection.aiokafka(await answering_servers(connection)),
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # an offset that compaction removed must not lead to the end
        max_partition_fetch_bytes=2**20,  # a larger record comes alone
    )
    return await _started(resilient(consumer))


async def _started(client: Any) -> Any:
    try:
        await client.start()
    except BaseException:
        await client.stop()
        raise
    return client


class LogEnds:
    """Looks at the ends of logs now and then, for a worker that gets no records.

    A member that its group has forgotten would wait for ever; one that sees records which it does not get can
    end itself. It looks at most once in ``every_seconds``, and sees nothing while the broker is away.
    """

    def __init__(self, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._looked_seconds = time.monotonic()

    async def look(self, ask: Callable[[], Awaitable[Found]]) -> Found | None:
        """The answer; None if it is too early to ask again, or the broker does not answer."""
        if time.monotonic() - self._looked_seconds < self._every_seconds:
            return None
        try:
            return await ask()
        except Exception as error:  # the client's and sockets' own
            if not is_transient(error):
                raise
            logger.warning("the broker does not answer: %s", str(error) or type(error).__name__)
            return None
        finally:
            self._looked_seconds = time.monotonic()


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
