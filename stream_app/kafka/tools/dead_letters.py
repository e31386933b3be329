"""Dead letters on the topic ``rejected``: reading them, and sending them again once their cause is mended."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from stream_app.kafka.broker.clients import records
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.records import DEAD_LETTER
from stream_app.wire import MAX_PAYLOAD_CHARS, Rejected


class DeadLetter(NamedTuple):
    """A refused message and its offset."""

    offset: int
    letter: Rejected


class Resubmission(NamedTuple):
    """The result of sending dead letters again; ``left`` maps the offset of one not sent to the reason."""

    sent: int
    left: dict[int, str]


def dead_letters(
    consumer: Any, topics: Topics, *, reason: str | None = None, offsets: Collection[int] = ()
) -> Iterator[DeadLetter]:
    """The dead letters with a reason, or at these offsets; all of them if neither is given."""
    for record in records(consumer, topics.rejected):
        letter = DEAD_LETTER.read_or_warn(record)
        if letter is None:  # written by another program
            continue
        chosen = not offsets or record.offset in offsets
        if chosen and (reason is None or letter.reason == reason):
            yield DeadLetter(record.offset, letter)


def resubmit(producer: Any, topics: Topics, letters: Iterator[DeadLetter]) -> Resubmission:
    """Send payloads to the topics they came from; a message that was taken before changes nothing."""
    sent, left = 0, {}
    inputs = (topics.activations, topics.readings)
    for offset, letter in letters:
        topic, _, partition = letter.source.rpartition(":")[0].partition("/")
        if topic not in inputs:
            left[offset] = f"it came from {letter.source}; mend it there"
        elif len(letter.payload) >= MAX_PAYLOAD_CHARS:
            left[offset] = "its payload was cut"
        else:
            producer.send(topic, letter.payload.encode(), partition=int(partition or 0))
            sent += 1
    return Resubmission(sent, left)
