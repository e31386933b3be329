"""Whether the inputs still hold what was not read: a topic made anew or cut short is never passed over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_app.kafka.broker.kafka_exceptions import LogError
from stream_app.kafka.broker.log_ends import LogEnds
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_place import topic_ids
from stream_app.kafka.deployment.log_reader import bounds
from stream_app.kafka.release.progress import Progress
from stream_app.wire import Reason, Rejected, reject

INPUTS = "inputs"
"""Where progress keeps the ids of the input topics."""


class InputLog(NamedTuple):
    """A topic as the broker has it: its id, its first offset and the one behind its last record."""

    identity: str
    begin: int
    end: int


@dataclass(frozen=True)
class Loss:
    """Records that were to be read and are not there; reading can go on at ``begin``."""

    topic: str
    next_offset: int
    begin: int
    how: str

    def letter(self) -> Rejected:
        """The dead letter that stands for them."""
        source = f"{self.topic}:{self.next_offset}"
        hint = f"{self.how}; reading went on at {self.begin}. Send again whatever is missing and not late"
        return reject(source, b"", Reason.RECORDS_LOST, hint)


def losses(
    offsets: Mapping[str, int], identities: Mapping[str, str], found: Mapping[str, InputLog]
) -> list[Loss]:
    """What is missing where ``offsets`` are the next records, of the topics that had these ids."""
    lost = []
    for topic, next_offset in offsets.items():
        log = found[topic]
        if identities.get(topic, log.identity) != log.identity:
            lost.append(Loss(topic, next_offset, log.begin, "it was deleted and made again"))
        elif log.end < next_offset:
            lost.append(Loss(topic, next_offset, log.begin, f"it ends at {log.end} already"))
        elif log.begin > next_offset:
            lost.append(Loss(topic, next_offset, log.begin, f"it begins at {log.begin} only"))
    return lost


def require_nothing_lost(lost: Sequence[Loss], *, accept_changes: bool) -> None:
    """:class:`LogError` naming what is missing, unless the operator goes on without it."""
    if lost and not accept_changes:
        raise LogError(
            "the inputs must hold every record that was not read yet",
            "; ".join(f"{each.topic} was read up to {each.next_offset}, but {each.how}" for each in lost),
            "restore the topic; or say --accept-changes to read on from what there is, with a dead letter "
            "for what is missing",
        )


class Inputs:
    """The input topics of a worker: held against what was read when it starts, and as long as it runs."""

    def __init__(self, deployment: Deployment, topics: Iterable[str]) -> None:
        self._deployment = deployment
        self._topics = tuple(topics)
        self.identities: dict[str, str] = {}

    async def take_up(self, progress: Progress, *, accept_changes: bool) -> tuple[Progress, list[Loss]]:
        """Where to read on, and what is missing; learns which topics they are."""
        found = await self._find()
        self.identities = {topic: log.identity for topic, log in found.items()}
        lost = losses(progress.offsets, progress.basis.get(INPUTS, {}), found)
        require_nothing_lost(lost, accept_changes=accept_changes)
        begins = {topic: log.begin for topic, log in found.items()}
        offsets = {**begins, **progress.offsets, **{each.topic: each.begin for each in lost}}
        return progress.model_copy(update={"offsets": offsets}), lost

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
        identities = await asyncio.to_thread(topic_ids, self._deployment.connection, self._topics)
        found = {}
        for name in self._topics:
            is_there = name in identities
            begin, end = await bounds(self._deployment.connection, name) if is_there else (0, 0)
            found[name] = InputLog(identities.get(name, ""), begin, end)
        return found
