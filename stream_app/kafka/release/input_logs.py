"""Whether the inputs still hold what was not read: a log made anew or cut short is never passed over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_app.kafka.broker.kafka_exceptions import LogError
from stream_app.kafka.broker.log_ends import LogEnds
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_place import TopicSeen, topics_seen
from stream_app.kafka.deployment.log_reader import bounds
from stream_app.wire import Reason, Rejected, reject

INPUTS = "inputs"
"""Where progress keeps the ids of the input topics."""


class InputLog(NamedTuple):
    """A partition as the broker has it: its topic's id, first offset and the one behind its last record."""

    identity: str
    begin: int
    end: int


@dataclass(frozen=True)
class Loss:
    """Records that were to be read and are not there; reading can go on at ``begin``."""

    log: str
    next_offset: int
    begin: int
    how: str

    def letter(self) -> Rejected:
        """The dead letter that stands for them."""
        source = f"{self.log}:{self.next_offset}"
        hint = f"{self.how}; reading went on at {self.begin}. Send again whatever is missing and not late"
        return reject(source, b"", Reason.RECORDS_LOST, hint)


def losses(
    offsets: Mapping[str, int], identities: Mapping[str, str], found: Mapping[str, InputLog]
) -> list[Loss]:
    """What is missing where ``offsets`` are the next records, of the topics that had these ids."""
    lost = []
    for name, next_offset in offsets.items():
        log = found[name]
        if identities.get(name, log.identity) != log.identity:
            lost.append(Loss(name, next_offset, log.begin, "it was deleted and made again"))
        elif log.end < next_offset:
            lost.append(Loss(name, next_offset, log.begin, f"it ends at {log.end} already"))
        elif log.begin > next_offset:
            lost.append(Loss(name, next_offset, log.begin, f"it begins at {log.begin} only"))
    return lost


def require_nothing_lost(lost: Sequence[Loss], *, accept_changes: bool) -> None:
    """:class:`LogError` naming what is missing, unless the operator goes on without it."""
    if lost and not accept_changes:
        raise LogError(
            "the inputs must hold every record that was not read yet",
            "; ".join(f"{each.log} was read up to {each.next_offset}, but {each.how}" for each in lost),
            "restore the topic; or say --accept-changes to read on from what there is, with a dead letter "
            "for what is missing",
        )


class Inputs:
    """The input logs of a desk: held against what was read when it starts, and as long as it runs.

    ``logs`` maps the name by which a position is kept to topic and partition; ``asides`` are those of them
    whose records wait for no other's.
    """

    def __init__(
        self, deployment: Deployment, logs: Mapping[str, tuple[str, int]], asides: Sequence[str] = ()
    ) -> None:
        self._deployment = deployment
        self.logs = dict(logs)
        self.asides = tuple(asides)
        self.identities: dict[str, str] = {}

    async def take_up(
        self, offsets: Mapping[str, int], identities: Mapping[str, str], *, accept_changes: bool
    ) -> tuple[dict[str, int], list[Loss]]:
        """Where to read on from stored positions, and what is missing; learns which topics they are."""
        found = await self._find()
        self.identities = {name: log.identity for name, log in found.items()}
        lost = losses(offsets, identities, found)
        require_nothing_lost(lost, accept_changes=accept_changes)
        begins = {name: log.begin for name, log in found.items()}
        return {**begins, **offsets, **{each.log: each.begin for each in lost}}, lost

    async def watch(self, next_offsets: Callable[[], Mapping[str, int]]) -> None:
        """:class:`LogError` once an input was made anew, or cut before it was read."""
        seconds, now_and_then = self._deployment.settings.kafka.stall_seconds / 4, LogEnds(0.0)
        while True:
            await asyncio.sleep(seconds)
            read_until = dict(next_offsets())  # before the look: meanwhile more is read
            found = await now_and_then.look(self._find)
            if found is not None:
                lost = losses(read_until, self.identities, found)
                require_nothing_lost(lost, accept_changes=False)

    async def _find(self) -> dict[str, InputLog]:
        """As the broker has them now; a topic that is gone has no id and holds nothing."""
        topics, connection = {topic for topic, _ in self.logs.values()}, self._deployment.connection
        seen = await asyncio.to_thread(topics_seen, connection, sorted(topics))
        self._require_partitions(seen)
        found = {}
        for name, (topic, partition) in self.logs.items():
            begin, end = await bounds(connection, topic, partition) if topic in seen else (0, 0)
            found[name] = InputLog(seen[topic].identity if topic in seen else "", begin, end)
        return found

    def _require_partitions(self, seen: Mapping[str, TopicSeen]) -> None:
        """Whatever senders put into a partition more would be read by nobody."""
        for topic, found in seen.items():
            wanted = self._deployment.topics.plan(topic).partitions
            if found.partitions > wanted:
                raise LogError(
                    f"{topic} must have {wanted} partition{'s' if wanted > 1 else ''}",
                    str(found.partitions),
                    "nobody reads the others: copy what came to them into the first, make the topic anew by "
                    "`tallyguard topics create`, and start with --accept-changes",
                )
