"""The topics of a deployment in memory, filled with what an embedded run has decided and published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from models.priors import Population
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.broker.clients import Reader
from stream_app.kafka.deployment import deployment as deployment_module
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import DECISION, IS_SUMMARY, RISK_STEP, RiskStep, person_records
from stream_app.kafka.tools import fetched_logs, fetching, replay
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.run_folder.record import Author
from stream_app.steps import JsonlRisks
from stream_app.wire import StepDecision, StepRelease
from tests.stream_app.memory_log import MemoryLog

ADA = Author("ada", "to see what happens")


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass
class TopicsInMemory:
    """Reads as those of a broker do; ``begins`` are offsets before which records were removed."""

    monkeypatch: pytest.MonkeyPatch
    log: dict[tuple[str, int], list[Record]] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        reader = Reader(None, lambda work: work)
        for module in (fetching, fetched_logs, deployment_module):
            self.monkeypatch.setattr(module, "consuming", lambda _: nullcontext(reader))
        self.monkeypatch.setattr(deployment_module, "writing", lambda _: nullcontext(self))
        for module in (fetched_logs, replay, deployment_module):
            self.monkeypatch.setattr(module, "records", self.records)
        self.monkeypatch.setattr(fetched_logs, "spans", self.spans)
        self.monkeypatch.setattr(fetched_logs, "describe_topics", self.describe)
        self.monkeypatch.setattr(fetched_logs, "last_step", self.last_step)
        self.monkeypatch.setattr(fetching, "last_summary", self.last_summary)

    def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, partition: int | None = None
    ) -> None:
        own = self.log.setdefault((topic, partition or 0), [])
        own.append(Record(topic, partition or 0, len(own), key, value))

    def describe(self, _: object, topics: Iterable[str]) -> dict[str, None]:
        return dict.fromkeys(each for each in topics if each not in self.missing)

    def values(self, topic: str) -> list[bytes | None]:
        return [each.value for each in self.records(None, topic)]

    def spans(self, _: object, topic: str) -> Mapping[int, tuple[int, int]]:
        found = {number: len(own) for (name, number), own in self.log.items() if name == topic}
        return {number: (self.begins.get(topic, 0), end) for number, end in (found or {0: 0}).items()}

    def records(
        self, _: object, topic: str, *, within: Mapping[int, tuple[int, int]] | None = None
    ) -> Iterator[Record]:
        for number, (begin, end) in (within or self.spans(None, topic)).items():
            yield from self.log.get((topic, number), [])[begin:end]

    async def last_step(self, _: object, topic: str) -> int:
        found = [DECISION.read_or_warn(each) for each in self.records(None, topic)]
        return max((each.step for each in found if each is not None), default=-1)

    async def last_summary(self, _: object, topic: str, partition: int) -> RiskStep | None:
        own = [each for each in self.records(None, topic) if each.partition == partition]
        found = [RISK_STEP.read(each) for each in own if IS_SUMMARY in (each.value or b"")]
        return found[-1] if found and isinstance(found[-1], RiskStep) else None


@dataclass
class OfARun:
    """A deployment on these topics that decides and publishes what a run in ``folder`` has."""

    topics: TopicsInMemory
    deployment: Deployment
    folder: Path
    published: int = 0
    _partitions: list[PartitionAccounts] = field(default_factory=list)

    def begin(self, population: Population, key: str | None = "a" * 64) -> None:
        self.deployment.record.begin(self.deployment.basis)
        self.load(population)
        self.hold(0, key)

    def hold(self, step: int, key: str | None = "a" * 64, author: Author = ADA) -> None:
        """What holds from a step on, as whoever decides writes it."""
        self.deployment.read_record()
        network = self.deployment.grown(accept_changes=True)
        facts = {**self.deployment.release_basis(key, None), **self.deployment.facts_of(network)}
        self.deployment.record.hold(step, facts, author, self.deployment.description)
        assert self.deployment.join()

    def load(self, population: Population, change: Mapping[str, Any] | None = None) -> None:
        """These people and no others, as the loader sends them."""
        settings, record = self.deployment.settings, self.deployment.record
        key = load_pseudonym_key(settings)
        record.begin_people(key.fingerprint())
        if change is not None:
            record.note_people(self.published, ADA, {"people": change, "priors_file": "people.json"})
        persons, partitions = self.deployment.topics.persons, self.deployment.topics.partitions
        for number in range(partitions):
            self.topics.log[persons, number] = []
        names, since = key.pseudonyms(population.people), population.effective_from
        first = 0 if since is None else since.tolist()
        for name, value in person_records(population, names, first, self.deployment.digest):
            self.topics.send(persons, value, key=name.encode(), partition=int(name, 16) % partitions)
        self._partitions = []

    def publish(self, until: int, *, with_risks: bool = True) -> None:
        """The steps of the run before this one, and what workers write of their risks."""
        decisions = self.folder.joinpath("decisions.jsonl").read_bytes().splitlines()
        releases = self.folder.joinpath("releases.jsonl").read_bytes().splitlines()
        for step in range(self.published, until):
            decision = StepDecision.model_validate_json(decisions[step])
            digest = self.deployment.facts.digest_at(step)
            made = decision.model_copy(update={"deployment": digest})
            release = StepRelease.model_validate_json(releases[step])
            log = MemoryLog(topics=self.deployment.topics)
            log.keep("releases", release)
            log.commit({}, {})
            for topic, key, value, _ in log.written[:-1]:  # the last one is where to continue
                self.topics.send(topic, value, key=key)
            topic = self.deployment.topics.decisions
            self.topics.send(topic, made.line().rstrip(), key=str(step).encode())
            self.published = step + 1
            if with_risks:
                self._account(made)

    def _account(self, decision: StepDecision) -> None:
        if not self._partitions:
            reader = Reader(None, lambda work: work)
            people = replay.read_people(reader, self.deployment)
            self._partitions = replay._partitions(self.deployment, people)
            for earlier in self.topics.values(self.deployment.topics.decisions)[: decision.step]:
                for accounts in self._partitions:
                    accounts.apply(self.deployment.decided(StepDecision.model_validate_json(earlier or b"")))
        for accounts in self._partitions:
            accounts.apply(self.deployment.decided(decision))
            lines = b"".join(JsonlRisks(accounts.pseudonyms).blocks(decision.step, accounts.records()))
            summary = accounts.named(accounts.summary()).line().rstrip()
            for line in (*lines.splitlines(), summary):
                self.topics.send(self.deployment.topics.risks, line, partition=accounts.partition)
