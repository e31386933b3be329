"""Doors of Kafka's topics: key and value of a record, by what a worker does with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import MagicMock

from accounting.continuous import ContinuousAccountant
from accounting.decisions.what_if import KnownStep
from models.mechanisms import Raw
from models.releases import SensorRelease, StepSchedule
from stream_app.exceptions import SettingsError
from stream_app.kafka.account.account_worker import AccountWorker, answer_if_sound
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.account.person_source import Changes
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import Deployment, DeploymentRecord, check_same, read_record
from stream_app.kafka.deployment.records import (
    ANSWER,
    DEAD_LETTER,
    DECISION,
    PROPOSAL,
    RISK_STEP,
    RefusedRecord,
    people_of,
    person_records,
)
from stream_app.kafka.release.release_core import ReleaseCore
from stream_app.kafka.release.release_log import PROGRESS_KEY, Progress, restore
from stream_app.kafka.tools.dead_letters import DeadLetter, resubmit
from stream_app.kafka.worker_process import Pulse
from stream_app.setup.settings import Settings
from stream_app.steps.policy.proposals import CrowdSurvey, Negotiation, Source
from stream_app.steps.ticks import StepClock
from stream_app.wire.messages import Rejected
from tests.fuzzing.check import COUNT, PERSON, Target, door
from tests.stream_app.engine_support import NAMES, accountant, engine, population, resume
from tests.stream_app.memory_log import MemoryLog, took

_NAME = "0123456789abcdef" * 2
_UNFORESEEN = "it cannot be read as"
_NO_TICKS = StepClock(0, 60, None, 100)


class _Record(NamedTuple):
    """What a consumer hands on."""

    topic: str
    value: bytes
    key: bytes | None = None
    partition: int = 0
    offset: int = 7
    timestamp: float = 0.0

    @property
    def log(self) -> str:
        """The name of its log, for who takes inputs in."""
        return self.topic


def _record(topic: str, data: bytes) -> _Record:
    """The first line is the key, what follows the value."""
    key, _, value = data.partition(b"\n")
    return _Record(topic, value, key)


def _letters(refused: list[RefusedRecord]) -> list[Rejected]:
    """The dead letters, each for a reason that somebody has foreseen."""
    for each in refused:
        assert _UNFORESEEN not in each.hint, each.hint
    return [each.letter() for each in refused]


def _finish(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of what needs no event loop."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("this must not wait")


@cache
def _accountant() -> ContinuousAccountant:
    """Nobody moves it on: no step closes for one record."""
    return accountant()


def _into_release_worker(topic: str) -> Callable[[bytes], object]:
    """A record of an input: entered, waiting or a dead letter, and part of the transaction."""

    def call(data: bytes) -> list[Rejected]:
        target = engine(grace=200, accounts=_accountant())
        core = ReleaseCore(target, _NO_TICKS, MemoryLog())
        taken = took(core, [_record(topic, data)], 0.0)  # type: ignore[list-item]  # all of it that is read
        assert taken.rejected or len(taken.progress) > 1, "a record was lost"  # beside where to continue
        assert not any(_UNFORESEEN in letter.hint for letter in taken.rejected), taken.rejected[0].hint
        return taken.rejected

    return call


class _Worker(AccountWorker):
    """Keeps what it refuses."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment, watch=MagicMock(), pulse=Pulse())
        self.refused: list[RefusedRecord] = []

    async def _refuse(self, refused: RefusedRecord) -> None:
        self.refused.append(refused)


class _Begun(Deployment):
    """Whoever asks for its record finds what is known: no broker is at its address."""

    def join(self) -> bool:
        return True


@cache
def _deployment() -> Deployment:
    """The small one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "locations.txt"
        path.write_text("\n".join(NAMES))
        kafka = {"servers": ("nowhere:9092",)}
        release = {"mechanism": "budget", "budget": {"share": 0.4, "added": 0.3}}
        values = {"locations": path, "kafka": kafka, "adversary": "crowd", "release": release}
        return _Begun.of(Settings.model_validate(values))


@cache
def _worker() -> _Worker:
    return _Worker(_deployment())


def _decision(data: bytes) -> object:
    """A decision: the schedule that an account worker applies, or a warning."""
    decision = DECISION.read_or_warn(_record("decisions", data))
    return None if decision is None else _finish(_worker()._take(decision))


def _summary(data: bytes) -> object:
    """A summary of risks, by which a worker sees how far they were written."""
    return RISK_STEP.read_or_warn(_record("risks", data))


def _person(data: bytes) -> list[Rejected]:
    """A prior: somebody who can be accounted, or a dead letter."""
    worker = _worker()
    worker.refused.clear()
    people: Changes = {}
    _finish(worker._loader.persons._enter(people, [_record("persons", data)]))
    refused = worker.refused
    assert len(people) + len(refused) == 1, "a person was lost"
    found = people_of([entry for entry in people.values() if entry is not None], NAMES)
    for wrong in found.refused:
        assert "is not valid: the" in wrong.reason or "Error;" not in wrong.reason, wrong.reason
    return _letters(refused)


@cache
def _accounts() -> PartitionAccounts:
    """A few people under a budget."""
    accounts = PartitionAccounts(0, _deployment())
    digest = _deployment().digest
    names = [f"{number:032x}" for number in range(len(population()))]
    people: Changes = {}
    for name, value in person_records(population(), names, 0, digest):
        _finish(_worker()._loader.persons._enter(people, [_Record("persons", value, name.encode())]))
    accounts.change(accounts.newcomers(people))
    return accounts


def _proposal(data: bytes) -> object:
    """A proposal: answered, or not."""
    proposal = PROPOSAL.read_or_warn(_record("proposals", data))
    return None if proposal is None else answer_if_sound(_accounts(), proposal)


def _source() -> Source:
    return Source(deployment=_deployment().digest, session="s")


def _announced() -> StepSchedule:
    sensors = map(_deployment().registry.get, ("A", "B"))
    return StepSchedule(0, tuple(SensorRelease(sensor, Raw()) for sensor in sensors))


def _survey() -> CrowdSurvey:
    """The release worker's question about the crowd, before it has heard an answer."""
    return CrowdSurvey((_announced(),), 2, _source())


def _negotiation() -> Negotiation:
    """Its proposal, once it has heard among whom people would be counted."""
    policy = _policy()
    coming = policy.coming(0)
    (crowds,) = _survey().crowds
    known = [KnownStep(_announced(), crowds)]
    return Negotiation(policy.decider(0, ("A", "B")), policy.limit, 2, coming, source=_source(), known=known)


@cache
def _policy() -> Any:
    from stream_app.steps.policy import policy_from

    return policy_from(_deployment().settings.release, _deployment().registry, None)


def _answer(data: bytes) -> None:
    """An answer of one partition, then what others say and the end of patience: there is a decision."""
    answer = ANSWER.read_or_warn(_record("answers", data))
    if answer is None:
        return
    survey, negotiation = _survey(), _negotiation()
    for dialogue in (survey, negotiation):
        dialogue.take(answer)
        for partition in dialogue.waiting_for:
            dialogue.take(answer.model_copy(update={"partition": partition}))
    assert [len(step) for step in survey.crowds] == [2], "no sums"
    assert negotiation.decided or negotiation.give_up(), "no decision"


class _Producer:
    """Takes whatever is sent."""

    def send(self, topic: str, value: bytes, partition: int) -> None:
        """Nowhere."""


def _dead_letter(data: bytes) -> None:
    """A dead letter: sent again, or told why not."""
    letter = DEAD_LETTER.read_or_warn(_record("rejected", data))
    if letter is not None:
        done = resubmit(_Producer(), Topics(), iter([DeadLetter(7, letter)]))
        assert done.sent + len(done.left) == 1, "a dead letter was lost"


def _progress(data: bytes) -> None:
    """Two records of ``progress``, a line each: a worker continues, or says that it cannot."""
    position, _, step = data.partition(b"\n")
    progress = restore({PROGRESS_KEY: position, b"step-1": step or None}, "progress", Progress)
    target = engine(accounts=_accountant())
    if progress.window:
        target.intake.window.load(progress.window)
    resume(target, progress)
    ReleaseCore(target, _NO_TICKS, MemoryLog(progress))


def _deployment_record(data: bytes) -> None:
    """What a deployment was begun with: the same as here, or told in a sentence."""
    check_same(read_record(_record("deployment", data)).basis, _deployment().basis)


def _begun() -> bytes:
    return DeploymentRecord.of(_deployment().basis).model_dump_json().encode()


def _keyed(key: str, *values: bytes) -> tuple[bytes, ...]:
    return tuple(key.encode() + b"\n" + value for value in values)


def _seeds_of(topic: str) -> list[bytes]:
    """Records that belong on a topic and can only be made by the other side: of a budget, and of a crowd."""
    seeds = []
    for dialogue in (_negotiation(), _survey()):
        assert dialogue.proposal is not None
        answer = _accounts().answer(dialogue.proposal)  # also warms up what a proposal needs
        assert answer is not None
        seeds.append((dialogue.proposal if topic == "proposals" else answer).line().rstrip())
    return seeds


def _made(topic: str, call: Callable[[bytes], object], **more: Any) -> Callable[[str], Target]:
    return lambda name: Target(name, _keyed("", *_seeds_of(topic)), call, **more)


def _people() -> tuple[bytes, ...]:
    records = person_records(population(2), [_NAME, "f" * 32], 3, _deployment().digest)
    return tuple(value for _, value in records)


def _assumed() -> bytes:
    """Somebody whose habits nobody measured."""
    return _people()[0].replace(b"{", b'{"assumed":"counts",', 1)


_DECISION = {
    "v": 1,
    "type": "decision",
    "step": 1,
    "decisions": [
        {"sensor": "A", "mechanism": "gaussian", "parameters": {"sigma": 1.0}},
        {"sensor": "B", "mechanism": "raw"},
    ],
}
_SUMMARY = b'{"v":1,"type":"risk_summary","step":3,"partition":1,"people":2,"mean_risk":0.5}'
_LETTER = {
    "v": 1,
    "type": "rejected",
    "source": "readings:1",
    "payload": COUNT,
    "reason": "not_json",
    "hint": "",
}
_OPEN_STEP = b'{"step":1,"sensors":["A"],"counts":{"A":4810397},"waiting":{"B":[4810397,"readings:3"]}}'
_POSITION = (
    b'{"v":1,"type":"progress","next_step":1,"offsets":{"readings":4},"window":{"next_step":1,'
    b'"close_through":-1,"heard":[["A",1]],"steps":[]},"basis":{},"account":{"steps":1,'
    b'"spends":{"all":["1/2",false,0.0]}},"decided":"0123456789abcdef"}'
)

TOPICS: dict[str, Callable[[str], Target]] = {
    "topic activations": door(
        _into_release_worker(Topics().activations),
        *_keyed("", b'{"v":1,"type":"activation","step":3,"sensors":["A","B"]}'),
    ),
    "topic readings": door(
        _into_release_worker(Topics().readings),
        *_keyed(
            "",
            f'{{"v":1,"type":"reading","step":3,"sensor":"A","count":{COUNT}}}'.encode(),
            f'{{"v":1,"type":"readings","step":3,"counts":{{"A":{COUNT},"Z":1,"B":-1}}}}'.encode(),
        ),
    ),
    "topic decisions": door(_decision, *_keyed("1", json.dumps(_DECISION).encode()), known=(LogError,)),
    "topic risks": door(_summary, *_keyed("1", _SUMMARY)),
    "topic persons": lambda name: Target(
        name,
        _keyed(
            _NAME, *_people(), _assumed(), json.dumps({"v": 1, "type": "person", "person": PERSON}).encode()
        ),
        _person,
        quick_inputs=500,
    ),
    "topic proposals": _made("proposals", _proposal, known=(SettingsError,), quick_inputs=1000),
    "topic answers": _made("answers", _answer),
    "topic rejected": door(_dead_letter, *_keyed("", json.dumps(_LETTER).encode())),
    "topic deployment": lambda name: Target(
        name, _keyed("accounts", _begun()), _deployment_record, quick_inputs=1000
    ),
    "topic progress": door(_progress, _POSITION + b"\n" + _OPEN_STEP),
}
