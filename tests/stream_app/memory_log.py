"""A worker's log in memory, and what a core writes to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.release.release_core import Core, InputRecord
from stream_app.kafka.release.release_log import LogRecord, Progress, TopicLog
from stream_app.watching.events import StepClosed
from stream_app.wire import Outcome, Rejected, StepDecision


class MemoryLog(TopicLog):
    """``written`` has all records that were committed, of this owner and of those before."""

    def __init__(
        self,
        position: Progress | None = None,
        topics: Topics | None = None,
        written: list[LogRecord] | None = None,
        **own: Any,
    ) -> None:
        self.written = [] if written is None else written
        super().__init__(topics or Topics(), position or Progress(), self._add, self._decided, **own)

    def _add(self, records: Sequence[LogRecord]) -> None:
        self.written += records

    def values(self, topic: str) -> list[bytes]:
        """The values of a topic."""
        return [each.value or b"" for each in self.written if each.topic == topic]

    def _decided(self, first: int, until: int) -> Iterator[StepDecision]:
        decided = map(StepDecision.model_validate_json, self.values(self.topics.decisions))
        return (each for each in decided if first <= each.step < until)


class Took(NamedTuple):
    """What came of some records; ``progress`` is what was written of the position."""

    records: list[LogRecord]
    rejected: list[Rejected]
    progress: list[LogRecord]
    events: list[StepClosed]
    outcomes: Counter[Outcome]
    is_awaited: bool


def took(core: Core, records: Sequence[InputRecord], now_seconds: float, **more: Any) -> Took:
    """Let a core with a log in memory take records, and commit."""
    log = core.log
    assert isinstance(log, MemoryLog)
    core.take(records, now_seconds, **more)
    before, done, topics = len(log.written), core.results, log.topics
    core.commit()
    written = log.written[before:]
    letters = [each for each in written if each.topic == topics.rejected]
    progress = [each for each in written if each.topic == topics.progress]
    return Took(
        [each for each in written if each.topic not in (topics.rejected, topics.progress)],
        [Rejected.model_validate_json(each.value or b"") for each in letters],
        progress,
        done.events,
        done.outcomes,
        done.is_awaited,
    )
