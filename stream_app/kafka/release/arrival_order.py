"""Records of two topics in the order in which the broker received them.

A worker that catches up fetches one topic far ahead of the other. Taken as fetched, activations would seem
announced years ahead, or counts to come without their activation; by the broker's time stamps they come as
they came. A topic of which nothing waits holds the other back until it is known to have nothing earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

SILENCE_SECONDS = 2.0
"""Silence after which a topic is taken to have nothing, when its end cannot be found out."""


_MOST_RECORDS = 16_000
_MOST_BYTES = 64 * 2**20  # several fetches of each topic, so that none waits for what another one holds back


class Arrived(NamedTuple):
    """One record: its topic, the broker's time stamp, its offset and its bytes."""

    topic: str
    timestamp: float
    offset: int
    value: bytes
    key: bytes = b""


class ArrivalOrder:
    """Merges topics; the first named goes first among records of the same time stamp."""

    def __init__(
        self,
        topics: Sequence[str],
        is_at_end: Callable[[str, int], bool],
        now_seconds: float,
        offsets: Mapping[str, int] | None = None,
    ) -> None:
        """``offsets`` are the first records of each topic that were not dealt with by an earlier run."""
        self._waiting: dict[str, deque[Arrived]] = {topic: deque() for topic in topics}
        self._waiting_bytes = 0
        self._is_at_end = is_at_end
        self._next_offset = {topic: (offsets or {}).get(topic, 0) for topic in topics}
        self._heard_seconds = dict.fromkeys(topics, now_seconds)

    def __len__(self) -> int:
        """How many records wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no more should be handed to us for now."""
        return len(self) > _MOST_RECORDS or self._waiting_bytes > _MOST_BYTES

    @property
    def next_offsets(self) -> Mapping[str, int]:
        """Of each topic the record behind the last one that was handed to us."""
        return self._next_offset

    def lacks(self, topic: str, offset: int) -> bool:
        """Whether the record at this offset was never handed to us."""
        return offset >= self._next_offset[topic]

    def add(self, record: Arrived, now_seconds: float) -> None:
        """One more record; those of one topic come in the order of their offsets."""
        self._waiting[record.topic].append(record)
        self._waiting_bytes += len(record.value)
        self._next_offset[record.topic] = max(self._next_offset[record.topic], record.offset + 1)
        self._heard_seconds[record.topic] = now_seconds

    def take(self, most: int, now_seconds: float) -> list[Arrived]:
        """At most so many records whose turn has come."""
        taken: list[Arrived] = []
        while len(taken) < most:
            heads = [waiting[0] for waiting in self._waiting.values() if waiting]
            if not heads or not all(self._may_pass(topic, now_seconds) for topic in self._waiting):
                break
            first = min(heads, key=lambda record: record.timestamp)
            taken.append(self._waiting[first.topic].popleft())
            self._waiting_bytes -= len(first.value)
        return taken

    def _may_pass(self, topic: str, now_seconds: float) -> bool:
        """Whether a topic has a record to compare with, or none to wait for."""
        if self._waiting[topic]:
            return True
        silent = now_seconds - self._heard_seconds[topic] >= SILENCE_SECONDS
        return silent or self._is_at_end(topic, self._next_offset[topic])
