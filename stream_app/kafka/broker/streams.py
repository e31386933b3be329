"""What we use of Faust: an app whose agents take what its consumer group fetches, from positions of our own.

A worker is a Faust app as its users know it: topics, ``@app.agent``, ``async for``. Three things are not
Faust's. All are here, so that Kafka's group protocol alone (the consumer inside) could take Faust's place.

- An event is a **batch**, all that one fetch brought of a partition. An event for each record takes 73 to
  101 µs of the processor (``noack`` and ``noack_take``, with and without compiled streams and monitor), where
  reading a record takes 1.7 µs, in batches 2.2 to 2.5, and all of a release worker's work with it 71 to 98.
- **Positions** are those of what our own transactions have written: Faust commits offsets apart from them,
  and its exactly-once is known to be broken (its issue 323). So nothing is acknowledged. After each
  assignment Faust seeks to where the last batch ended, and whatever was fetched before is dropped.
- **Only committed transactions** are read. Faust does that with its own exactly-once only.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import faust
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types.tuples import ConsumerMessage

from stream_app.kafka.broker.clients import answering_servers
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.silent_brokers import resilient

_LOGGER = logging.getLogger("faust")  # what Faust says is a library's
_JOIN_SECONDS = 20.0  # a member that was killed is waited for
_WAIT_MILLISECONDS = 500
_FETCHED_RECORDS = 2000
_FETCHED_BYTES = 2**20  # a larger record comes alone
_WAITING_BATCHES = 2  # more stay on the broker


class Batch(NamedTuple):
    """What one fetch brought of a partition; without records where only marks of transactions were passed."""

    topic: str
    partition: int
    records: Sequence[Any]
    begin: int
    end: int
    """The offset to read on from: marks of transactions take offsets, too."""


Take = Callable[[AsyncIterator[Batch]], Awaitable[None]]
"""The body of an agent."""


class _SamePartitions(RangePartitionAssignor):  # type: ignore[misc]
    """Gives a member the same partitions of every topic.

    It has the name of the assignor of earlier versions, so that workers can be replaced one after the other:
    all members of a group must have one, and with two names for each (aiokafka 0.14) some rejoin for ever.
    """

    name = "roundrobin"


class _Thread(AIOKafkaConsumerThread):
    """The consumer of the group, on a thread of its own."""

    app: Any  # an App
    logger = _LOGGER

    def _create_worker_consumer(self, transport: Any) -> Any:
        """A consumer of the group.

        It is no static member: a static member that ends does not leave its group (KIP-345), so partitions of
        a worker that was stopped in order would rest for a session. Nor would a second release worker be
        refused: it would take the first one's membership away.
        """
        self._assignor = _SamePartitions
        self._reached: dict[Any, int] = {}
        conf, session_seconds = self.app.conf, self.app.session_seconds
        consumer = AIOKafkaConsumer(
            **self.app.login,
            client_id=conf.id,
            group_id=conf.id,
            partition_assignment_strategy=[_SamePartitions],
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # an offset that compaction removed must not lead to the end
            max_partition_fetch_bytes=_FETCHED_BYTES,
            fetch_max_wait_ms=_WAIT_MILLISECONDS,
            max_poll_records=_FETCHED_RECORDS,
            max_poll_interval_ms=3_600_000,
            session_timeout_ms=int(1000 * session_seconds),
            heartbeat_interval_ms=int(250 * session_seconds),
            rebalance_timeout_ms=int(1000 * max(60.0, session_seconds)),
        )
        return resilient(consumer, max(_JOIN_SECONDS, session_seconds))

    async def seek_to_committed(self) -> Mapping[Any, int]:
        """Called by Faust after each assignment, before anything is fetched: see :meth:`App.read_from`."""
        await self.call_thread(self.seek_all)
        return dict.fromkeys(self._reached, 0)  # Faust would drop what lies before

    async def seek_all(self) -> None:
        """On the consumer's thread: to where agents go on; to the end of what none reads yet."""
        consumer = self._ensure_consumer()
        others = consumer.assignment() - self.app.reached.keys()
        ends = await consumer.end_offsets(others) if others else {}
        found = {each: self.app.reached.get(each, ends.get(each, 0)) for each in consumer.assignment()}
        for each, offset in found.items():
            consumer.seek(each, offset)
        self._reached = found

    async def seek_one(self, partition: Any, offset: int) -> None:
        """On the consumer's thread: to an offset, if the partition is assigned still."""
        consumer = self._ensure_consumer()
        if partition in consumer.assignment():
            consumer.seek(partition, offset)
            consumer.resume(partition)
            self._reached[partition] = offset

    async def fetch_one(self, partition: Any, wanted: bool) -> None:
        """On the consumer's thread: fetch a partition or not, if it is assigned still."""
        consumer = self._ensure_consumer()
        if partition in consumer.assignment():
            (consumer.resume if wanted else consumer.pause)(partition)

    async def _fetch_records(self, consumer: Any, active_partitions: Any, *limits: Any, **more: Any) -> Any:
        """What has come, as one :class:`Batch` of each partition.

        What Faust drops, as it does during an assignment, leaves a gap that :meth:`App._following` sees.
        """
        fetched = await super()._fetch_records(consumer, active_partitions, *limits, **more)
        subscription = consumer._subscription.subscription  # private: positions as they are, without waiting
        assignment = None if subscription is None else subscription.assignment
        if assignment is None or not assignment.active:
            return {}
        batches = {}
        for each in assignment.tps & self._reached.keys():
            state, begin = assignment.state_value(each), self._reached[each]
            if state.has_valid_position and state.position > begin:
                self._reached[each] = state.position
                records = fetched.get(each, [])
                batches[each] = [Batch(each.topic, each.partition, records, begin, state.position)]
        return batches if self.consumer.flow_active else {}


class _Consumer(Consumer):
    """Numbers batches, as Faust drops an event with a lower offset than the one before, also after a seek."""

    logger = _LOGGER

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._numbers = count(1)
        super().__init__(*arguments, **more)

    def _new_consumer_thread(self) -> Any:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    def _to_message(self, tp: Any, batch: Batch) -> Any:
        message: Any = ConsumerMessage  # whose value is a batch here
        return message(
            *(batch.topic, batch.partition, next(self._numbers), 0.0, 0, [], None, batch, None, 0, 0, tp),
            generation_id=self.app.consumer_generation_id,
        )


class _Transport(Transport):
    Consumer = _Consumer


class _Batches(faust.Schema[Any, Any]):
    """Values are batches: whoever takes them knows what to do with a record that cannot be read."""

    def compile(self, app: Any, **_: Any) -> Any:
        async def decode(message: Any, **_: Any) -> Any:
            return app.create_event(None, message.value, {}, message)

        return decode


class App(faust.App):
    """The Faust app of one consumer group; it declares no topic, commits no offset and serves no page.

    ``folder`` is where Faust may keep files; ``fail`` is told of an error in an agent. Every setting that
    Faust would also read from the environment is given here, so that the environment changes nothing.
    """

    logger = _LOGGER

    def __init__(
        self,
        group: str,
        connection: Connection,
        servers: list[str],
        folder: Path,
        fail: Callable[[BaseException], None],
    ) -> None:
        self.session_seconds = connection.settings.session_seconds
        self.login = connection.aiokafka(servers)
        self.reached: dict[Any, int] = {}
        """Where agents go on in each partition that is read."""
        self._fail = fail
        super().__init__(
            group,
            id_format="{id}",
            version=1,
            autodiscover=False,
            datadir=str(folder),
            store="memory://",
            topic_allow_declare=False,
            topic_disable_leader=True,
            processing_guarantee="at_least_once",
            table_standby_replicas=0,
            broker_client_id=group,
            broker_commit_interval=3600.0,  # nothing is committed
            broker_commit_every=None,
            broker_request_timeout=max(_JOIN_SECONDS, self.session_seconds),
            broker_session_timeout=self.session_seconds,
            stream_wait_empty=False,
            stream_buffer_maxsize=_WAITING_BATCHES,
            stream_publish_on_commit=False,
            web_enabled=False,
            worker_redirect_stdouts=False,
            cython_optimizations=False,
            **connection.faust(servers),
        )
        self.in_worker = True
        self.transport = _Transport(self.conf.broker_consumer, self)
        self.topics  # noqa: B018 - Faust makes the conductor on first use, before agents

    @classmethod
    async def of(
        cls, group: str, connection: Connection, folder: Path, fail: Callable[[BaseException], None]
    ) -> App:
        """The app of a group, which begins with the servers that answer."""
        return cls(group, connection, await answering_servers(connection), folder, fail)

    def batches(self, topic: str) -> Any:
        """The topic, for an agent of this app."""
        return self.topic(topic, schema=_Batches(), acks=False)

    def agent(self, topic: Any, **options: Any) -> Callable[[Take], Take]:  # type: ignore[override]
        """Faust's own, with a stream of the batches that follow one another from :meth:`read_from` on.

        Faust logs an error in an agent and goes on after the event. A lost step makes a risk wrong, so here
        any error goes to ``fail``, and the agent takes nothing more.
        """

        def declared(take: Take) -> Take:
            @wraps(take)
            async def agent(stream: Any) -> None:
                try:
                    await take(self._following(stream))
                except Exception as error:
                    self._fail(error)

            name = f"{self.conf.id}.{topic.get_topic_name()}"
            super(App, self).agent(topic, name=name, concurrency=1, **options)(agent)
            return take

        return declared

    def every(self, seconds: float) -> Callable[[Callable[[], Awaitable[None]]], Any]:
        """Faust's timer, with types."""
        timer: Callable[[Callable[[], Awaitable[None]]], Any] = self.timer(seconds)
        return timer

    async def _following(self, stream: Any) -> AsyncIterator[Batch]:
        """Each record once, in order: what was fetched before a seek comes late, or a second time."""
        async for batch in stream:
            where = TopicPartition(batch.topic, batch.partition)
            reached = self.reached.get(where)
            if reached is None or batch.end <= reached:
                continue
            if batch.begin > reached:
                await self.read_from(batch.topic, batch.partition, reached)
                continue
            self.reached[where] = batch.end
            yield batch._replace(records=[each for each in batch.records if each.offset >= reached])

    async def read_from(self, topic: str, partition: int, offset: int) -> None:
        """From now on give the agent of a topic every record of a partition from an offset on.

        Until this is called nothing of a partition is given. It holds as long as the partition is assigned.
        """
        where = TopicPartition(topic, partition)
        self.reached[where] = offset
        consumer: Any = self.consumer
        thread = consumer._thread
        await thread.call_thread(thread.seek_one, where, offset)

    async def fetch(self, topic: str, partition: int, *, wanted: bool) -> None:
        """Fetch a partition or not; its agent is still given the few batches that have been fetched.

        Where an agent waits, Faust gives to none once its queue is full. It holds until :meth:`read_from` or
        the next assignment.
        """
        consumer: Any = self.consumer
        thread = consumer._thread
        await thread.call_thread(thread.fetch_one, TopicPartition(topic, partition), wanted)

    def pause(self, topic: str, partition: int) -> None:
        """Give nothing more of a partition until the next :meth:`read_from`."""
        self.reached.pop(TopicPartition(topic, partition), None)

    def is_at_end(self, topic: str, partition: int) -> bool:
        """Whether every committed record of a partition is known to have been given to its agent."""
        where = TopicPartition(topic, partition)
        faust_consumer: Any = self.consumer
        consumer = faust_consumer._thread._consumer
        if where not in self.reached or where not in consumer.assignment():
            return False
        end = consumer.last_stable_offset(where)
        return end is not None and self.reached[where] >= end
