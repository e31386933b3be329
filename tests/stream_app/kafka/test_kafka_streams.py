"""What agents are given, without a broker: every record once and in order, whatever is fetched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.streams import App, Batch
from stream_app.setup.settings import KafkaSettings

SERVER = "nowhere:9092"


class Group(App):
    """An app that never starts; it notes where its consumer was told to seek to."""

    def __init__(self, folder: Path) -> None:
        self.failures: list[BaseException] = []
        self.sought: list[int] = []
        connection = Connection.of(KafkaSettings(servers=(SERVER,)))
        super().__init__("group", connection, [SERVER], folder, self.failures.append)

    async def read_from(self, topic: str, partition: int, offset: int) -> None:
        self.reached[topic, partition] = offset
        self.sought.append(offset)


def batch(begin: int, end: int, offsets: Sequence[int] | None = None) -> Batch:
    """A batch of ``t/0``; all offsets are records, unless some are marks of transactions."""
    found = range(begin, end) if offsets is None else offsets
    return Batch("t", 0, [SimpleNamespace(offset=offset) for offset in found], begin, end)


def given(app: Group, *fetched: Batch) -> list[int]:
    """The offsets of the records that an agent is given of what was fetched."""

    async def stream() -> AsyncIterator[Batch]:
        for each in fetched:
            yield each

    async def take() -> list[int]:
        return [record.offset async for each in app._following(stream()) for record in each.records]

    return asyncio.run(take())


def test_nothing_is_given_of_a_partition_before_the_role_says_from_where(tmp_path: Path) -> None:
    app = Group(tmp_path)
    assert given(app, batch(0, 5)) == []
    asyncio.run(app.read_from("t", 0, 7))
    assert given(app, batch(7, 9), batch(9, 10)) == [7, 8, 9]
    app.pause("t", 0)
    assert given(app, batch(10, 12)) == []


def test_a_record_that_was_fetched_twice_is_given_once(tmp_path: Path) -> None:
    """After an assignment Faust seeks back to where the agent was, and a batch may end elsewhere then."""
    app = Group(tmp_path)
    asyncio.run(app.read_from("t", 0, 2))
    assert given(app, batch(2, 5), batch(2, 4), batch(4, 7), batch(3, 6), batch(7, 8)) == [2, 3, 4, 5, 6, 7]
    assert app.sought == [2]


def test_a_batch_after_a_gap_is_fetched_again_from_the_gap(tmp_path: Path) -> None:
    """It was fetched before a seek, or Faust has dropped the one before."""
    app = Group(tmp_path)
    asyncio.run(app.read_from("t", 0, 2))
    assert given(app, batch(9, 12), batch(2, 4), batch(4, 12)) == list(range(2, 12))
    assert app.sought == [2, 2]


def test_marks_of_transactions_are_no_gap(tmp_path: Path) -> None:
    app = Group(tmp_path)
    asyncio.run(app.read_from("t", 0, 0))
    assert given(app, batch(0, 4, [0, 2]), batch(4, 6, []), batch(6, 7)) == [0, 2, 6]
    assert app.sought == [0]


def test_an_error_in_an_agent_is_told_and_not_passed_over(tmp_path: Path) -> None:
    """Faust would log it and go on with the next event: a step would be lost."""
    app = Group(tmp_path)
    topic = app.batches("t")

    async def stream() -> AsyncIterator[Batch]:
        yield batch(0, 1)

    @app.agent(topic)
    async def take(batches: AsyncIterator[Batch]) -> None:
        async for _ in batches:
            raise ValueError("no step")

    (agent,) = app.agents.values()
    asyncio.run(app.read_from("t", 0, 0))
    asyncio.run(agent.fun(stream()))
    assert [str(failure) for failure in app.failures] == ["no step"]
