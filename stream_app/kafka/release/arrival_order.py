"""Records of several logs in the order in which the broker received them.

A worker that catches up fetches one log far ahead of another. Taken as fetched, activations would seem
announced years ahead, or counts to come without their activation; by the broker's time stamps they come as
they came. A log of which nothing waits holds the others back until it is known to have nothing earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

SILENCE_SECONDS = 2.0
"""Silence after which a log is taken to have nothing, when its end cannot be found out."""


_MOST_RECORDS = 16_000
_MOST_BYTES = 64 * 2**20  # several fetches of each log, so that none waits for what another one holds back


class Arrived(NamedTuple):
    """One record: the name of its log, the broker's time stamp, its offset and its bytes."""

    log: str
    timestamp: float
    offset: int
    value: bytes
    key: bytes = b""


class ArrivalOrder:
    """Merges logs; the first named goes first among records of the same time stamp.

    Records of the ``asides``, further logs, go before all others and wait for none of them.
    """

    def __init__(
        self,
        logs: Sequence[str],
        is_at_end: Callable[[str], bool],
        now_seconds: float,
        offsets: Mapping[str, int] | None = None,
        asides: Sequence[str] = (),
    ) -> None:
        """``offsets`` are the first records of each log that were not dealt with by an earlier run.

        ``is_at_end`` says of a log whether it is known to have no record that was not added.
        """
        self._waiting: dict[str, deque[Arrived]] = {log: deque() for log in (*logs, *asides)}
        self._merged, self._asides = tuple(logs), tuple(asides)
        self._waiting_bytes = 0
        self._is_at_end = is_at_end
        self._next_offset = {log: (offsets or {}).get(log, 0) for log in self._waiting}
        self._heard_seconds = dict.fromkeys(logs, now_seconds)

    def __len__(self) -> int:
        """How many records wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no more should be handed to us for now."""
        return len(self) > _MOST_RECORDS or self._waiting_bytes > _MOST_BYTES

    @property
    def next_offsets(self) -> Mapping[str, int]:
        """Of each log the record behind the last one that was handed to us."""
        return self._next_offset

    def lacks(self, log: str, offset: int) -> bool:
        """Whether the record at this offset was never handed to us."""
        return offset >= self._next_offset[log]

    def add(self, record: Arrived, now_seconds: float) -> None:
        """One more record; those of one log come in the order of their offsets."""
        self._waiting[record.log].append(record)
        self._waiting_bytes += len(record.value)
        self._next_offset[record.log] = max(self._next_offset[record.log], record.offset + 1)
        self._heard_seconds[record.log] = now_seconds

    def take(self, most: int, now_seconds: float, *, asides_only: bool = False) -> list[Arrived]:
        """At most so many records whose turn has come."""
        taken: list[Arrived] = []
        for aside in self._asides:
            while self._waiting[aside] and len(taken) < most:
                taken.append(self._pop(aside))
        while len(taken) < most and not asides_only:
            heads = [self._waiting[log][0] for log in self._merged if self._waiting[log]]
            if not heads or not all(self._may_pass(log, now_seconds) for log in self._merged):
                break
            taken.append(self._pop(min(heads, key=lambda record: record.timestamp).log))
        return taken

    def _pop(self, log: str) -> Arrived:
        record = self._waiting[log].popleft()
        self._waiting_bytes -= len(record.value)
        return record

    def _may_pass(self, log: str, now_seconds: float) -> bool:
        """Whether a log has a record to compare with, or none to wait for."""
        if self._waiting[log]:
            return True
        return now_seconds - self._heard_seconds[log] >= SILENCE_SECONDS or self._is_at_end(log)
