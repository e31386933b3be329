"""Counts over windows and of moves on Kafka, without a broker: releases and risks are the embedded run's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.ledgers import PrivacyAccount
from models.exceptions import ScheduleError
from models.keys import NoiseKey
from models.mechanisms import Gaussian
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.exceptions import RunChangedError
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.deployment.deployment import (
    Deployment,
    check_same,
    largest_bytes,
    largest_proposal_bytes,
)
from stream_app.kafka.deployment.records import person_records
from stream_app.kafka.release.deciding_worker import RemoteAccounts
from stream_app.kafka.release.release_core import Core, ReleaseCore
from stream_app.kafka.release.release_log import LogRecord, Progress, restore
from stream_app.kafka.warm_up import compile_kernels
from stream_app.kafka.workers import prepared
from stream_app.setup.combinations import Runner
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.settings import Settings
from stream_app.steps import Intake, JsonlRisks, KeyedPublisher, StepClock, StepEngine, StepWindow
from stream_app.steps.policy import BudgetPolicy, Decided, policy_from
from stream_app.steps.policy.proposals import Negotiation, Proposal, Source
from stream_app.wire import MAX_STEP, StepDecision, StepRelease
from stream_app.wire.messages import decision_of
from tests.stream_app.embedded.test_windows_in_runs import BUDGET, ROWS, STEPS, announced, whole_day
from tests.stream_app.embedded.test_windows_in_runs import deployment as embedded_settings
from tests.stream_app.engine_support import (
    NAMES,
    NOISE_SECRET,
    accountant,
    lines_of,
    population,
    resume,
    run_on,
    settings,
)
from tests.stream_app.kafka.deployments import enter, parsed
from tests.stream_app.kafka.test_region_cores import Actor, Logs, actors, produce_all, published
from tests.stream_app.partitions import partition_of

REGION_OF = {"A": "north", "bridge": "south", "hall": "north", "door": "south"}


def given_in(folder: Path, *, regions: bool = False, **changed: Any) -> dict[str, Any]:
    """The settings of the embedded tests, with what Kafka needs."""
    rows = [{**row, "region": REGION_OF[str(row["name"])]} for row in ROWS] if regions else ROWS
    given = embedded_settings(folder, rows, **changed)
    (folder / "locations.txt").write_text("\n".join(NAMES))
    kafka = {"servers": ("nowhere:9092",), "partitions": 2}
    return {**given, "locations": folder / "locations.txt", "kafka": kafka}


def release_actor(deployment: Deployment, logs: Logs) -> Actor:
    """A release worker that reads both inputs; what it has not committed is lost when it dies."""
    topics, given = deployment.topics, deployment.settings

    def make() -> Core:
        progress = restore(logs.latest(topics.progress), topics.progress, Progress)
        nobody = Population.pack((), NAMES)
        engine = StepEngine(
            Intake(deployment.registry, StepWindow.of(given, saved=progress.window), given.max_ahead),
            policy_from(given.release, deployment.registry),
            KeyedPublisher.of(given, NoiseKey.parse(NOISE_SECRET)),
            RemoteAccounts(
                ContinuousAccountant(nobody, deployment.horizon().starting_at(progress.next_step)),
                given,
            ),
        )
        resume(engine, progress)
        clock = StepClock.of(given)
        return ReleaseCore(engine, clock, logs.log(topics, progress), deployment=deployment.digest)

    places = {topic: (topic, 0) for topic in (topics.activations, topics.readings)}
    return Actor(logs, places, make)


def decided_in(deployment: Deployment, logs: Logs) -> list[Decided]:
    lines = logs.values(deployment.topics.decisions)
    return [deployment.decided(StepDecision.model_validate_json(line)) for line in lines]


def person_risks(deployment: Deployment, steps: Sequence[Decided]) -> list[bytes]:
    """Of all partitions; a worker takes each over in the middle of a window, from a snapshot."""
    names = load_pseudonym_key(deployment.settings).pseudonyms(population().people)
    found: list[bytes] = []
    for partition in range(deployment.topics.partitions):
        own = [i for i, name in enumerate(names) if partition_of(name, 2) == partition]
        people = population().subset(np.array(own))
        accounts = PartitionAccounts(partition, deployment)
        enter(accounts, parsed(person_records(people, [names[i] for i in own], 0, "d")))
        for step in steps:
            if step.schedule.step in (5, 6):
                saved, accounts = accounts.save(), PartitionAccounts(partition, deployment)
                accounts.take_over(saved)
            accounts.restore([step])
            for block in JsonlRisks(accounts.pseudonyms).blocks(step.schedule.step, accounts.records()):
                found += block.splitlines()
    return sorted(found)


def written_by(folder: Path) -> list[bytes]:
    risks = (folder / "risks.jsonl").read_bytes().splitlines()
    found = sorted(line for line in risks if b'"type":"risk",' in line)
    assert len(found) > len(population())
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_dying_release_worker_publishes_what_an_embedded_run_does(tmp_path: Path, seed: int) -> None:
    """Windows, moves, and the risks of everybody, bit for bit; and what was spent on privacy."""
    given, random, logs = given_in(tmp_path), np.random.default_rng(seed), Logs()
    run_on(tmp_path / "out", [lines_of(whole_day())], settings=given)
    deployment = Deployment.of(settings(**given))
    produce_all(deployment, logs, whole_day())
    actor, deaths = release_actor(deployment, logs), 0
    while len(logs.values(deployment.topics.releases)) < STEPS:
        dies = bool(random.random() < 0.4)
        deaths += dies
        actor.act(deployment.topics.activations, int(random.integers(1, 4)), dies=dies)
        actor.act(deployment.topics.readings, int(random.integers(1, 4)), dies=dies)
    assert deaths > 2
    assert logs.values(deployment.topics.releases) == (
        (tmp_path / "out" / "releases.jsonl").read_bytes().splitlines()
    )
    assert logs.values(deployment.topics.rejected) == []
    steps = decided_in(deployment, logs)
    assert person_risks(deployment, steps) == written_by(tmp_path / "out")
    progress = restore(logs.latest(deployment.topics.progress), "progress", Progress)
    spent = json.loads((tmp_path / "out" / "progress.json").read_bytes())["account"]
    assert PrivacyAccount.load(progress.account).save() == PrivacyAccount.load(spent).save()


def test_regions_publish_windows_as_an_embedded_run_does(tmp_path: Path) -> None:
    """A region that lies between two ends of the other's window, and workers that die in between."""
    given, logs, random = given_in(tmp_path, regions=True), Logs(), np.random.default_rng(3)
    run_on(tmp_path / "out", [lines_of(whole_day())], settings=given)
    deployment = Deployment.of(settings(**given))
    produce_all(deployment, logs, whole_day(), REGION_OF)
    everybody, quiet, deaths = actors(deployment, logs), 0, 0
    while quiet < 100:
        actor, names = everybody[random.integers(len(everybody))]
        dies = bool(random.random() < 0.3)
        deaths += dies
        moved = actor.act(names[random.integers(len(names))], int(random.integers(1, 6)), dies=dies)
        quiet = 0 if moved else quiet + 1
    assert deaths > 10
    found = published(deployment, logs)
    for line in (tmp_path / "out" / "releases.jsonl").read_bytes().splitlines():
        release = StepRelease.model_validate_json(line)
        assert found[release.step] == {each.sensor: each for each in release.releases}
    assert person_risks(deployment, decided_in(deployment, logs)) == written_by(tmp_path / "out")


def test_who_comes_in_the_middle_of_a_window_is_accounted_in_its_other_steps(tmp_path: Path) -> None:
    """As if there from the first step on, with nothing shown before they came."""
    deployment = Deployment.of(settings(**given_in(tmp_path)))
    registry, decided = deployment.registry, []
    for step in range(STEPS):
        own = [SensorRelease(registry.get(name), Gaussian(6.0)) for name in announced(step) if name != "hall"]
        decided.append(
            deployment.decided(decision_of(StepSchedule(step, tuple(own)), None, deployment.digest))
        )
    late, there = PartitionAccounts(0, deployment), PartitionAccounts(0, deployment)
    one = population(1)
    enter(there, parsed(person_records(one, ["a"], 6, "d")))
    for step in decided:
        there.restore([step])
        late.restore([step])
    newcomers = late.newcomers(parsed(person_records(one, ["a"], 6, "d")))
    assert newcomers.next_step == 6
    newcomers.apply(decided[6:], lambda: None)
    late.change(newcomers)
    assert late.accountant.snapshot() == there.accountant.snapshot()
    assert there.accountant.information_nats()[0] > 0.0


def test_the_mechanism_of_a_window_is_part_of_what_a_deployment_began_with(tmp_path: Path) -> None:
    """In every process, and never changed; that of other sensors may be."""
    begun = Deployment.of(settings(**given_in(tmp_path)))
    assert "windows" in begun.basis
    release = {"mechanism": "gaussian", "sigma": 6.0, "sensors": {"hall": {"mechanism": "raw"}}}
    others = {"A": {"mechanism": "raw"}}
    same = given_in(tmp_path, release={**release, "sensors": {**release["sensors"], **others}})
    assert Deployment.of(settings(**same)).digest == begun.digest
    other = Deployment.of(settings(**given_in(tmp_path, release={**release, "sigma": 2.0})))
    with pytest.raises(RunChangedError, match="windows"):
        check_same(begun.basis, other.basis)


def test_a_decision_with_another_mechanism_is_not_accounted(tmp_path: Path) -> None:
    deployment = Deployment.of(settings(**given_in(tmp_path)))
    bridge = SensorRelease(deployment.registry.get("bridge"), Gaussian(1.0))
    decision = decision_of(StepSchedule(3, (bridge,)), None, deployment.digest)
    with pytest.raises(ScheduleError, match="mechanism that is accounted in every step"):
        deployment.decided(decision)
    schedule = tmp_path / "schedule.json"
    sensors = {"sensors": ["bridge"], "mechanism": "gaussian", "sigma": 1.0}
    schedule.write_text(json.dumps({"steps": [{"sensors": []}, sensors]}))
    with pytest.raises(ScheduleError, match="mechanism that is accounted in every step"):
        prepared(
            Runner.COORDINATOR if deployment.topics.regions else Runner.RELEASE, deployment.settings, schedule
        )


class Partitions:
    """Account workers without a broker: they answer from the log, and start again after each step."""

    def __init__(self, deployment: Deployment, logs: Logs) -> None:
        self._deployment, self._logs = deployment, logs
        self.source = Source(deployment=deployment.digest, session="s")
        self.partitions = deployment.topics.partitions
        names = load_pseudonym_key(deployment.settings).pseudonyms(population().people)
        self._accounts, self._applied = [], 0
        for partition in range(self.partitions):
            own = [i for i, name in enumerate(names) if partition_of(name, 2) == partition]
            accounts = PartitionAccounts(partition, deployment)
            people = population().subset(np.array(own))
            enter(accounts, parsed(person_records(people, [names[i] for i in own], 0, "d")))
            self._accounts.append(accounts)

    def decide(self, negotiation: Negotiation) -> Decided:
        steps = decided_in(self._deployment, self._logs)[self._applied :]
        self._applied += len(steps)
        for number, accounts in enumerate(self._accounts):
            accounts.restore(steps)
            if accounts.settings.needs_every_step:
                continue
            self._accounts[number] = PartitionAccounts(number, self._deployment)
            self._accounts[number].take_over(accounts.save())
        while negotiation.proposal is not None:
            line = negotiation.proposal.line()
            for accounts in self._accounts:
                answer = accounts.answer(Proposal.model_validate_json(line))
                assert answer is not None
                negotiation.take(answer)
        assert negotiation.decided is not None
        return negotiation.decided


@pytest.mark.slow
@pytest.mark.parametrize("in_hindsight", [False, True])
def test_a_budget_decides_windows_as_an_embedded_run_does(tmp_path: Path, in_hindsight: bool) -> None:
    """By proposals that name what is open, with a release worker that starts again after every step."""
    more = {"hindsight": True, "added": 0.7, "sigmas": [16.0, 64.0, 256.0]} if in_hindsight else {}
    release = {"mechanism": "budget", "budget": {**BUDGET, "look_ahead": 2, **more}}
    given, logs = given_in(tmp_path, release=release), Logs()
    run_on(tmp_path / "out", [lines_of(whole_day())], settings=given)
    deployment = Deployment.of(settings(**given))
    assert "windows" not in deployment.basis
    partitions, lines = Partitions(deployment, logs), []
    for step in range(STEPS):
        policy = policy_from(deployment.settings.release, deployment.registry)
        assert isinstance(policy, BudgetPolicy)
        RemoteAccounts(accountant(), deployment.settings, partitions).bind(policy)  # type: ignore[arg-type]
        if lines:
            policy.note(deployment.schedule_of(StepDecision.model_validate_json(lines[-1])))
        decided = policy.decide(step, announced(step))
        lines.append(decision_of(decided.schedule, decided.why, deployment.digest).line())
        logs.append(LogRecord(deployment.topics.decisions, None, lines[-1].rstrip()))
    found = [StepDecision.model_validate_json(line).model_copy(update={"deployment": None}) for line in lines]
    embedded = (tmp_path / "out" / "decisions.jsonl").read_bytes().splitlines()
    assert [each.line().rstrip() for each in found] == embedded
    assert any(b'"windows":[{' in line for line in embedded)
    assert person_risks(deployment, decided_in(deployment, logs)) == written_by(tmp_path / "out")


def test_windows_under_a_budget_are_in_the_size_of_decisions_and_questions(tmp_path: Path) -> None:
    release = {"mechanism": "budget", "budget": BUDGET}
    deployment = Deployment.of(settings(**given_in(tmp_path, release=release)))
    registry, topics = deployment.registry, deployment.topics
    longest = largest_bytes(registry, topics, deployment.settings)[topics.decisions]
    assert longest > largest_bytes(registry, topics, Settings())[topics.decisions]
    assert largest_proposal_bytes(registry, deployment.settings) > 0
    compile_kernels(deployment)
    crowd = settings(**given_in(tmp_path, release=release, adversary="crowd"))
    compile_kernels(Deployment.of(crowd))  # which hides among what windows count, too


def test_kernels_of_windows_are_compiled_before_a_worker_joins(tmp_path: Path) -> None:
    """Also where no sensor counts presence in single steps."""
    compile_kernels(Deployment.of(settings(**given_in(tmp_path))))
    (tmp_path / "sensors.json").write_text(json.dumps({"sensors": ROWS[1:]}))
    compile_kernels(Deployment.of(settings(**{**given_in(tmp_path), "sensors": tmp_path / "sensors.json"})))


def test_the_steps_a_value_covers_are_in_the_size_of_a_release(tmp_path: Path) -> None:
    deployment = Deployment.of(settings(**given_in(tmp_path)))
    registry, topics = deployment.registry, deployment.topics
    plain = replace(registry, sensors=tuple(Sensor(each.name, (0,)) for each in registry.sensors))
    found, without = (
        largest_bytes(each, topics, deployment.settings)[topics.releases] for each in (registry, plain)
    )
    assert found - without == len(f'"from_step":{MAX_STEP},') * len(registry.sensors)
