"""Whether the inputs still hold what was not read: a topic made anew or cut short is never passed over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_app.kafka.deployment import Deployment, administration
from stream_app.kafka.exceptions import LogError
from stream_app.kafka.log_reader import bounds
from stream_app.messages import Reason, Rejected, reject


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
            lost.append(Loss(topic, next_offset, log.begin, "it was made anew"))
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


async def input_logs(deployment: Deployment, topics: Iterable[str]) -> dict[str, InputLog]:
    """The input topics as the broker has them now."""
    names = list(topics)
    identities = await asyncio.to_thread(_identities, deployment, names)
    found = {}
    for name in names:
        begin, end = await bounds(deployment.connection, name)
        found[name] = InputLog(identities[name], begin, end)
    return found


def _identities(deployment: Deployment, names: list[str]) -> dict[str, str]:
    """The broker's id of each topic: another one after it was deleted and made again."""
    with administration(deployment.connection) as admin:
        return {each["name"]: str(each["topic_id"]) for each in admin.describe_topics(names)}
