"""kafka-python's clients as the commands use them."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeVar, cast

from kafka.errors import KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from models.exceptions import TallyguardError
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES

# What can go wrong between a worker and its broker, in words an operator can act on.


class BrokerError(TallyguardError):
    """The broker cannot be reached, refuses us, or is not as it must be."""


class TopicError(BrokerError):
    """A topic is missing or has another shape than the deployment needs."""


class FencedError(BrokerError):
    """Another release worker has taken over; this one must not publish any more."""


class StalledError(BrokerError):
    """There is work, and nothing moves."""


class RecordError(ValueError):
    """A record is not what its topic holds; the text quotes nothing of it."""


class LogError(BrokerError):
    """A log does not hold what it must: a step is missing, or a record cannot be read."""


# Errors of the Kafka clients in words an operator can act on, and waiting for a broker that is away.
#
# Both clients hide why a broker refused them behind "unable to bootstrap", so a refusal is looked for by
# one more connection, made for nothing else.

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


# kafka-python's connections, which get on where a broker is silent.
#
# A broker that hangs, or is cut off, still has its connections accepted, by its kernel or by a proxy.
# kafka-python (3.0.12) waits for such a TLS handshake without an end, whatever its own limits say: whoever
# begins one would neither start nor ask another. It also counts a connection that was accepted as a
# success, and asks only brokers that the last answer named: where that was the silent one alone, nobody
# else would ever be asked.

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
        """Connect; who accepted the connection and then said nothing has failed, too."""
        before = self._failures(node.node_id)
        await super()._connect(node, conn, reset_backoff_on_connect=False, timeout_at=timeout_at)
        if not conn.connected and self._failures(node.node_id) == before:
            self.update_backoff(node.node_id)
        elif conn.connected and reset_backoff_on_connect:
            self.reset_backoff(node.node_id)

    def least_loaded_node(self) -> Any:
        """A broker that answers; else one that has failed least, the servers of the settings among them."""
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
        """How often a broker could not be connected to since it last was."""
        return int(self._backoff.get(node_id, (0,))[0])


def undeterred_client(**settings: Any) -> KafkaNetClient:
    """The value of ``kafka_client`` for a producer, a consumer or an admin client."""
    net = NetworkSelector(**settings)
    return KafkaNetClient(net, _Connections(net, **settings), **settings)


Client = TypeVar("Client")

_BOOTSTRAP_MILLISECONDS = 10_000
_FIRST_MILLISECONDS = 5_000  # where other servers can be asked
_FLUSH_SECONDS, _LOOK_SECONDS = 150.0, 1.0  # it gives a record up after 120 s
_LOOK_UP_MILLISECONDS = 120_000  # as long as for a record: a broker that was cut off costs half a minute
_MOST_LOST = 3  # brokers, while a topic is looked up
_MARKS = 3  # offsets looked at for each record wanted: marks of transactions take some


def connected(make: Callable[..., Client], connection: Connection, **settings: Any) -> Client:
    """A client of kafka-python that one of the servers has answered.

    It begins with any of them, and would wait for that one only, however silent: then each is tried alone.
    """
    from kafka.errors import KafkaTimeoutError

    servers = connection.servers
    single_servers = [[server] for server in servers] if len(servers) > 1 else []
    arguments = {**connection.kafka_python(), "kafka_client": undeterred_client, **settings}
    for number, chosen in enumerate([servers, *single_servers]):
        milliseconds = _FIRST_MILLISECONDS if number < len(single_servers) else _BOOTSTRAP_MILLISECONDS
        try:
            return make(**{**arguments, "bootstrap_servers": chosen, "bootstrap_timeout_ms": milliseconds})
        except KafkaTimeoutError:
            if number == len(single_servers):
                raise
    raise AssertionError


class CheckedProducer:
    """Sends what it is given; once a record was not taken, with all its trying again, it says so."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._failures: list[BaseException] = []

    def send(self, topic: str, value: bytes | None, **more: Any) -> Any:
        """Begin to send a record."""
        self._check()
        sent = self._producer.send(topic, value, **more)
        sent.add_errback(self._failures.append)
        return sent

    def flush(self) -> None:
        """Return once the brokers have everything; :class:`BrokerError` if they do not take it.

        kafka-python waits for ever for other records once it has given one up after trying again.
        """
        deadline = time.monotonic() + _FLUSH_SECONDS
        while not self._is_flushed():
            self._check()
            if time.monotonic() > deadline:
                raise _not_taken(f"not acknowledged within {_FLUSH_SECONDS:.0f} s")
        self._check()

    def _is_flushed(self) -> bool:
        from kafka.errors import KafkaTimeoutError

        try:
            self._producer.flush(_LOOK_SECONDS)
        except KafkaTimeoutError:
            return False
        return True

    def _check(self) -> None:
        if self._failures:
            raise _not_taken(self._failures[0])


def _not_taken(why: object) -> BrokerError:
    return BrokerError(
        "the brokers must take every record",
        f"some were not taken: {why}",
        "give the same command again once they do; what has come already does no harm twice",
    )


@contextmanager
def writing(connection: Connection) -> Iterator[CheckedProducer]:
    """A producer that has delivered everything when the block is left, or raises :class:`BrokerError`."""
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
            producer._sender.force_close()  # what was not taken is forgotten: close() would wait for it
            raise
        finally:
            producer.close()


@contextmanager
def consuming(connection: Connection) -> Iterator[Any]:
    """A consumer without a group that sees committed transactions only."""
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
    """The records of a topic up to its present end; with ``last`` from that many offsets before it.

    Partition by partition as they come; within one in order.
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
    """The ``last`` records of each partition in order of time, then with ``follow`` whatever comes."""
    kept: dict[int, deque[Any]] = {}
    if last:
        for record in records(consumer, topic, last=_MARKS * last):
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

    numbers = _numbers(consumer, topic)
    if not numbers:
        raise TopicError("a topic must exist", topic, "run `tallyguard topics create`")
    where = [TopicPartition(topic, number) for number in sorted(numbers)]
    consumer.assign(where)
    return where


def _numbers(consumer: Any, topic: str) -> set[int] | None:
    """Those of a topic's partitions; asked again where a broker is lost while it is asked."""
    from kafka.errors import KafkaConnectionError

    for again in reversed(range(_MOST_LOST + 1)):
        try:
            return cast("set[int] | None", consumer.partitions_for_topic(topic))
        except KafkaConnectionError:
            if not again:
                raise
            time.sleep(_LOOK_SECONDS)
    raise AssertionError


# Which of several servers answer: a client begins with any, and waits long for one that is silent.

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


# A look at the ends of logs now and then, for a worker to which nothing comes.
#
# A member that its group has forgotten would wait for ever; one that sees records it was not handed can say
# so.

Seen = TypeVar("Seen")


class LogEnds:
    """Looks at most once in ``every_seconds``, and sees nothing while the broker is away."""

    def __init__(self, every_seconds: float, now_seconds: Callable[[], float] = time.monotonic) -> None:
        self._every_seconds = every_seconds
        self._now_seconds = now_seconds
        self._looked_seconds = now_seconds()

    async def look(self, ask: Callable[[], Awaitable[Seen]]) -> Seen | None:
        """What is seen; None if it is too early for another look, or the broker does not answer."""
        if self._now_seconds() - self._looked_seconds < self._every_seconds:
            return None
        try:
            return await ask()
        except Exception as error:  # the client's and sockets' own
            if not is_passing(error):
                raise
            logger.warning("the broker does not answer: %s", str(error) or type(error).__name__)
            return None
        finally:
            self._looked_seconds = self._now_seconds()


# Saying what a worker waits for, while brokers take long to acknowledge what it writes.

SAY_SECONDS = 10.0


@asynccontextmanager
async def said_while_waiting(what: str, meanwhile: str) -> AsyncIterator[None]:
    """Warn every :data:`SAY_SECONDS` while the block goes on: brokers are too few, or cannot be reached.

    ``what`` has not been acknowledged; ``meanwhile`` is what does not happen until it is.
    """
    saying = asyncio.create_task(_say(what, meanwhile))
    try:
        yield
    finally:
        saying.cancel()


async def _say(what: str, meanwhile: str) -> None:
    waited_seconds = 0.0
    while True:
        await asyncio.sleep(SAY_SECONDS)
        waited_seconds += SAY_SECONDS
        logger.warning(
            "the brokers have not acknowledged %s for %.0f s; %s until as many of them run, and reach each "
            "other, as min.insync.replicas asks",
            *(what, waited_seconds, meanwhile),
        )
