"""The logs of a deployment as a copy of it needs them: step by step, from where the last call ended.

Each is read up to the end that it had at the beginning of the call. Only committed records are read, and a
log that has lost something is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

from models.mechanisms import MECHANISMS
from stream_app.embedded.replay import step_of
from stream_app.exceptions import restoring
from stream_app.kafka.broker.clients import LogError, Reader, TopicError, consuming, records, spans
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import describe_topics, last_step
from stream_app.kafka.deployment.records import (
    DECISION,
    IS_SUMMARY,
    RELEASE,
    RISK_STEP,
    RecordKind,
    RefusedRecord,
    RiskStep,
)
from stream_app.kafka.regions.region_records import WHOLE, WholeStep
from stream_app.setup.run_folder.progress import QUALITY, REJECTED
from stream_app.steps import together
from stream_app.wire import RiskSummary, SensorValue, StepDecision, StepRelease, TierValue

_TIERED = frozenset(name for name, kind in MECHANISMS.items() if hasattr(kind, "publish_tiers"))

Message = TypeVar("Message", StepDecision, StepRelease, WholeStep)


class StepLog(Generic[Message]):
    """A log of steps, read once; in each partition the steps rise.

    ``taken`` are the offsets of the last records that were taken, by partition. The next call begins at
    these, so that it sees whether they are still there.
    """

    def __init__(self, reader: Reader, topic: str, kind: RecordKind[Message]) -> None:
        """Up to its present end."""
        self.topic = topic
        self.taken: dict[int, int] = {}
        self._kind: RecordKind[Message] = kind
        self._reader, self._span = reader, spans(reader, topic)
        self._waiting: dict[int, dict[int, tuple[int, Message]]] = {}  # by step, then partition
        self._records: Iterator[Any] = iter(())

    def begin(self, taken: Mapping[int, int]) -> None:
        """Go on at the records that were taken last; :class:`LogError` where these are gone."""
        self.taken = dict(taken)
        within = {number: (taken.get(number, 0), end) for number, (_, end) in self._span.items()}
        for number, (begin, end) in self._span.items():
            if not begin <= (first := within[number][0]) <= end:
                raise LogError(
                    f"{self.topic} must hold every record from offset {first:,} of partition {number} on",
                    f"only those from {begin:,} to {end:,}: older ones were removed, or the end was lost",
                    f"{restoring(self.topic)}; nothing may be removed from it (retention.ms=-1 and "
                    "retention.bytes=-1: `tallyguard topics check`)",
                )
        self._records = records(self._reader, self.topic, within=within)

    def take(self, step: int, partitions: Collection[int] = (0,)) -> dict[int, Message] | None:
        """The messages of a step by partition, one each; None where the log ends before.

        :class:`LogError` where a later step is there without this one.
        """
        found = self._waiting.get(step, {})
        while not found.keys() >= set(partitions):
            if (record := next(self._records, None)) is None:
                self._check_end(step, set(partitions) - found.keys())
                return None
            message = self._read(record)
            if message.step >= step:
                at = self._waiting.setdefault(message.step, {})
                at[record.partition] = (record.offset, message)
            found = self._waiting.get(step, {})
        for earlier in [each for each in self._waiting if each <= step]:
            del self._waiting[earlier]
        self.taken |= {number: offset for number, (offset, _) in found.items()}
        return {number: message for number, (_, message) in sorted(found.items())}

    def rest(self, until: int) -> Iterator[Message]:
        """All messages of steps before ``until``, several a step; those behind a later step wait."""
        known, waits = dict(self.taken), set()
        for record in self._records:
            message = self._read(record)
            if message.step >= until:
                waits.add(record.partition)
            elif record.partition not in waits and record.offset > known.get(record.partition, -1):
                self.taken[record.partition] = record.offset
                yield message

    def _read(self, record: Any) -> Message:
        """What a record holds; :class:`LogError` if it is none of this version."""
        found = self._kind.read(record)
        if isinstance(found, RefusedRecord):
            raise LogError(
                f"{record.topic} must hold {self._kind.holds} of this version in each record",
                f"at {found.source}: {found.hint}",
                "run the version that wrote it, or " + restoring(record.topic),
            )
        return found

    def _check_end(self, step: int, missing: Collection[int]) -> None:
        later = [other for other, found in self._waiting.items() if other > step and found.keys() & missing]
        if later:
            raise LogError(
                f"{self.topic} must hold step {step}", f"step {min(later)} after it", restoring(self.topic)
            )


class PassingLog:
    """A log that the broker shortens: dead letters or findings. What was removed before is ``lost``."""

    def __init__(self, reader: Reader, topic: str) -> None:
        """Up to its present end."""
        self.topic, self._reader, self._span = topic, reader, spans(reader, topic)

    def records(self, taken: dict[int, int]) -> Iterator[Any]:
        """The records behind those that were ``taken``, which goes on."""
        first = {number: taken.get(number, -1) + 1 for number in self._span}
        self.lost = any(begin > first[number] for number, (begin, _) in self._span.items())
        within = {
            number: (min(max(first[number], begin), end), end) for number, (begin, end) in self._span.items()
        }
        yield from records(self._reader, self.topic, within=within)
        taken |= {number: end - 1 for number, (_, end) in self._span.items()}  # marks of transactions, too


class Logs:
    """The logs of a deployment, up to their present ends; :attr:`until` is the first step not decided."""

    def __init__(self, deployment: Deployment, opened: ExitStack) -> None:
        """Ends are looked up in an order in which none is ahead of what it rests on."""
        self._deployment, self._opened = deployment, opened
        topics = deployment.topics
        passing = {REJECTED: topics.rejected} | ({QUALITY: topics.quality} if topics.watches_devices else {})
        _require_topics(deployment, passing.values())
        self.revised = self._log(topics.revised, RELEASE) if topics.has_revised else None
        late_of = {tier: topics.revised_tier(tier) for tier in (topics.tiers if topics.has_revised else ())}
        self._late_of = {tier: self._log(topic, RELEASE) for tier, topic in late_of.items()}
        self._whole = self._log(topics.whole, WHOLE) if topics.regions else None
        self.until = 1 + asyncio.run(last_step(deployment.connection, topics.decisions))
        self.decisions = self._log(topics.decisions, DECISION)
        self._releases = self._log(topics.releases, RELEASE)
        self.tiers = {tier: self._log(topics.tier(tier), RELEASE) for tier in topics.tiers}
        self.passing = {name: PassingLog(self.reader(), topic) for name, topic in passing.items()}

    def reader(self) -> Reader:
        """A consumer of its own, open as long as these logs."""
        return self._opened.enter_context(consuming(self._deployment.connection))

    def _log(self, topic: str, kind: RecordKind[Any]) -> StepLog[Any]:
        return StepLog(self.reader(), topic, kind)

    @property
    def kept(self) -> tuple[StepLog[Any], ...]:
        """Those from which nothing may be removed, and of which all that was taken is in the folder."""
        found = (self.decisions, self._releases, self._whole, self.revised, *self.tiers.values())
        return tuple(each for each in found if each is not None)

    def begin(self, taken: Mapping[str, Mapping[int, int]]) -> None:
        """Go on behind what was taken, by topic."""
        for log in self.kept:
            log.begin(taken.get(log.topic, {}))
        for log in self._late_of.values():
            log.begin({})

    def step(self, step: int, tiers: Collection[str]) -> tuple[StepDecision, StepRelease] | None:
        """What was decided and published of a step, for these tiers, too; None before all of it is there."""
        partitions: Collection[int] = (0,)
        if self._whole is not None:
            if (found := self._whole.take(step)) is None:
                return None
            regions = self._deployment.topics.regions
            partitions = [regions.index(region) for region in found[0].regions]
        decided = self.decisions.take(step)
        public = self._releases.take(step, partitions)
        own = {tier: self.tiers[tier].take(step, partitions) for tier in tiers}
        if decided is None or public is None or None in own.values():
            return None
        order = {each.sensor: number for number, each in enumerate(decided[0].decisions)}
        of_tiers = {tier: _entries((parts or {}).values()) for tier, parts in own.items()}
        entries = [_with_tiers(key, entry, of_tiers) for key, entry in _entries(public.values()).items()]
        entries.sort(key=lambda entry: order.get(entry.sensor, len(order)))
        return decided[0], StepRelease(step=step, releases=tuple(entries))

    def late(self, until: int) -> Iterator[StepRelease]:
        """Late and corrected values of the steps before ``until``, for all tiers."""
        of_tiers: dict[str, dict[_Key, SensorValue]] = {}
        for release in () if self.revised is None else self.revised.rest(until):
            if not of_tiers:
                of_tiers = {tier: _entries(log.rest(until)) for tier, log in self._late_of.items()}
            own = _entries([release]).items()
            entries = tuple(_with_tiers(key, entry, of_tiers) for key, entry in own)
            yield release.model_copy(update={"releases": entries})


def _require_topics(deployment: Deployment, passing: Iterable[str]) -> None:
    """:class:`TopicError` that names every topic which is not there."""
    topics = deployment.topics
    wanted = [topics.decisions, topics.releases, topics.persons, topics.risks, *topics.of_tiers, *passing]
    wanted += [topics.revised] if topics.has_revised else []
    wanted += [topics.whole] if topics.regions else []
    there = describe_topics(deployment.connection, wanted)
    if missing := sorted(set(wanted) - there.keys()):
        raise TopicError(
            "every topic of a deployment must be there to be fetched",
            f"no {', '.join(missing)}",
            f"{restoring('it')}; if the settings ask for a new one: `tallyguard topics create`",
        )


_Key = tuple[int, str, int | None]


def _entries(messages: Iterable[StepRelease]) -> dict[_Key, SensorValue]:
    """The values in some messages by step, sensor and version."""
    return {
        (release.step, entry.sensor, entry.version): entry
        for release in messages
        for entry in release.releases
    }


def _with_tiers(
    key: _Key, entry: SensorValue, of_tiers: Mapping[str, Mapping[_Key, SensorValue]]
) -> SensorValue:
    """A public value with those of all tiers, as the log of a run has it.

    What was drawn beside a value that is released in its place is on no topic.
    """
    if entry.value is None or entry.mechanism not in _TIERED:
        return entry
    own = {tier: entries[key] for tier, entries in of_tiers.items() if key in entries}
    tiers = {
        tier: TierValue(epsilon=each.epsilon or 0.0, value=each.value)
        for tier, each in sorted(own.items(), key=lambda item: item[1].epsilon or 0.0)
        if each.value is not None
    }
    return entry.model_copy(update={"tiers": tiers}) if tiers else entry


class WrittenRisks:
    """What the workers wrote of steps whose people are nowhere any more, as one process would write it."""

    def __init__(self, reader: Reader, deployment: Deployment) -> None:
        self._topic, self._partitions = deployment.topics.risks, set(range(deployment.topics.partitions))
        self._records = records(reader, self._topic)
        self._lines: dict[int, dict[int, dict[bytes, None]]] = {}  # by step and partition, each once
        self._summaries: dict[int, dict[int, RiskSummary]] = {}

    def people(self, step: int) -> int:
        """How many people the summaries of a step are of."""
        self._read(step)
        return sum(each.people for each in self._summaries[step].values())

    def of(self, step: int) -> bytes:
        """The lines of a step: one summary, then those of single people."""
        self._read(step)
        parts = sorted(self._summaries.pop(step).items())
        lines = self._lines.pop(step, {})
        for earlier in [each for each in self._summaries.keys() | self._lines.keys() if each < step]:
            self._summaries.pop(earlier, None)
            self._lines.pop(earlier, None)
        own = [line + b"\n" for _, some in sorted(lines.items()) for line in some]
        return together([summary for _, summary in parts]).line() + b"".join(own)

    def _read(self, step: int) -> None:
        while self._summaries.get(step, {}).keys() != self._partitions:
            record = next(self._records, None)
            if record is None:
                raise LogError(
                    f"{self._topic} must hold the risks of step {step}: people have changed since, and the "
                    "folder has no copy of those before",
                    "none of it, or not of every partition: records go after 90 days",
                    "fetch at least every 90 days; now: restore the topic or the folder from a backup",
                )
            line = record.value or b""
            found = RISK_STEP.read(record) if IS_SUMMARY in line else None
            if isinstance(found, RiskStep):
                summary = RiskSummary.model_validate_json(line)
                self._summaries.setdefault(summary.step, {})[record.partition] = summary
            elif found is None:
                self._lines.setdefault(step_of(line), {}).setdefault(record.partition, {})[line] = None
