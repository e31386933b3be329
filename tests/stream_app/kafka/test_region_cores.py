"""Regions without a broker: workers die at random between any two transactions, and nobody notices."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.exceptions import SensorError
from models.keys import NoiseKey
from models.mechanisms import Gaussian, Raw
from models.priors import Population
from models.releases import SensorRegistry
from stream_app.exceptions import SettingsError
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.regions.coordinator import CoordinatorCore, NoPublisher, SealedWindow
from stream_app.kafka.regions.intake_worker import IntakeCore, RegionPlace
from stream_app.kafka.regions.region_records import CoordinatorProgress, RegionProgress
from stream_app.kafka.release.deciding_worker import RemoteAccounts
from stream_app.kafka.release.release_core import ArrivalOrder, Core, InputRecord
from stream_app.kafka.release.release_log import LogRecord, Progress, TopicLog, restore
from stream_app.kafka.tools.producing import RegionSplitter
from stream_app.kafka.workers import run_deciding_worker, run_intake_worker
from stream_app.setup.combinations import Runner
from stream_app.setup.sensor_files import load_registry, regions_by_sensor
from stream_app.steps import DeviceWatch, Intake, KeyedPublisher, StepClock, StepEngine, StepWindow
from stream_app.steps.policy import FixedPolicy, policy_from
from stream_app.steps.window import Origin
from stream_app.wire import (
    Activation,
    DeviceFinding,
    Reading,
    Readings,
    StepDecision,
    StepRelease,
    Suspicion,
    parse,
)
from tests.stream_app.engine_support import NAMES, NOISE_SECRET, accountant, close_all, people_of, resume
from tests.stream_app.kafka.deployments import deployment_of_regions

KEY = NoiseKey.parse(NOISE_SECRET)
REGION_OF = {"A": "north", "B": "south", "C": "north", "D": "west"}
STEPS = 25
RELEASE = {"mechanism": "gaussian", "sigma": 2.0, "sensors": {"B": {"mechanism": "raw"}}}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return deployment_of_regions(tmp_path, REGION_OF, release=RELEASE)


class Stored(NamedTuple):
    """A record as it lies in a log."""

    stamp: float
    key: bytes | None
    value: bytes | None


class Logs:
    """A broker in memory: records by topic and partition, stamped in the order in which they came."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], list[tuple[float, bytes | None, bytes | None]]] = defaultdict(
            list
        )
        self.now_seconds = 0.0

    def append(self, record: LogRecord) -> None:
        self.now_seconds += 0.001
        place = record.topic, record.partition
        self.records[place].append(Stored(self.now_seconds, record.key, record.value))

    def log(self, topics: Topics, position: Progress, **own: Any) -> TopicLog:
        """The log of a worker that goes on from a position."""

        def write(records: Sequence[LogRecord]) -> None:
            for record in records:
                self.append(record)

        def read(first: int, until: int) -> list[StepDecision]:
            return list(map(StepDecision.model_validate_json, self.values(topics.decisions)[first:until]))

        return TopicLog(topics, position, write, read, **own)

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        return [value or b"" for _, _, value in self.records[topic, partition]]

    def latest(self, topic: str, partition: int = 0) -> dict[bytes | None, bytes | None]:
        return {key: value for _, key, value in self.records[topic, partition]}


class Actor:
    """A worker that reads its logs in pieces, commits, and dies now and then."""

    def __init__(self, logs: Logs, places: dict[str, tuple[str, int]], make: Callable[[], Core]) -> None:
        self._logs = logs
        self._places = places
        self._make = make
        self.restart()

    def restart(self) -> None:
        """What was not committed is forgotten."""
        self.core = self._make()
        self._read = {name: self.core._offsets.get(name, 0) for name in self._places}

    def act(self, name: str, most: int, *, dies: bool) -> bool:
        """Take some records of a log; whether there were any."""
        arrived = self._next(name, most)
        self.core.take(arrived, 0.0)
        if dies:
            self.restart()
        else:
            self.core.commit()
        return bool(arrived)

    def catch_up(self, now_seconds: float) -> None:
        """Take all there is in the order in which it came, and see that it is so late."""
        arrived = [record for name in self._places for record in self._next(name, 10**6)]
        arrived.sort(key=lambda record: record.timestamp)
        self.core.take(arrived, now_seconds, has_read_all=True)
        self.core.commit()

    def _next(self, name: str, most: int) -> list[InputRecord]:
        place, begin = self._places[name], self._read[name]
        found = self._logs.records[place][begin : begin + most]
        self._read[name] += len(found)
        return [
            InputRecord(name, stamp, begin + number, value or b"", key or b"")
            for number, (stamp, key, value) in enumerate(found)
        ]


def actors(deployment: Deployment, logs: Logs) -> list[tuple[Actor, list[str]]]:
    """The coordinator and an intake for each region, with the names of their logs."""
    topics, settings = deployment.topics, deployment.settings
    policy = policy_from(settings.release, deployment.registry)

    def coordinator() -> Core:
        progress = restore(logs.latest(topics.coordination), topics.coordination, CoordinatorProgress)
        window = SealedWindow(topics.regions, progress.next_step)
        nobody = Population.pack((), NAMES)
        horizon = HorizonSettings(4, 1).starting_at(progress.next_step)
        engine = StepEngine(
            Intake(deployment.registry, window, 100, deployment.exclusions),
            policy,
            NoPublisher(),
            RemoteAccounts(ContinuousAccountant(nobody, horizon), settings),
        )
        resume(engine, progress)
        clock = StepClock.of(settings)
        if clock.grace_seconds is not None:
            clock = replace(clock, grace_seconds=clock.grace_seconds + settings.kafka.seal_seconds)
        log = logs.log(topics, progress, continues=topics.coordination)
        return CoordinatorCore(engine, clock, log, deployment=deployment.digest)

    def intake(partition: int) -> Callable[[], Core]:
        def make() -> Core:
            latest = logs.latest(topics.progress, partition)
            progress = restore(latest, topics.progress, RegionProgress)
            region = topics.regions[partition]
            place = RegionPlace.of(topics, partition)
            window = StepWindow.of(settings, saved=progress.window)
            registry = deployment.registry.of_region(region)
            publisher = KeyedPublisher.of(settings, KEY, (region,))
            taken_in = Intake(registry, window, 100, deployment.exclusions)
            log = logs.log(topics, progress, partition=partition)
            core = IntakeCore(place, deployment, taken_in, publisher, log)
            core.recall()
            return core

        return make

    seals = {region: (topics.sealed, number) for number, region in enumerate(topics.regions)}
    found = [(Actor(logs, seals, coordinator), list(seals))]
    for partition in range(len(topics.regions)):
        places = {
            f"activations/{partition}": (topics.activations, partition),
            f"readings/{partition}": (topics.readings, partition),
            "decisions": (topics.decisions, 0),
        }
        found.append((Actor(logs, places, intake(partition)), list(places)))
    return found


def complete_day(seed: int) -> list[Activation | Reading]:
    """Every step announces some sensors, now and then none, and all of them report."""
    random = np.random.default_rng(seed)
    messages: list[Activation | Reading] = []
    for step in range(STEPS):
        active = [name for name in random.permutation(NAMES).tolist() if random.random() < 0.6]
        messages.append(Activation(v=1, step=step, sensors=tuple(active)))
        messages += [Reading(v=1, step=step, sensor=name, count=int(random.integers(40))) for name in active]
    return messages


def produce_all(
    deployment: Deployment,
    logs: Logs,
    messages: list[Activation | Reading],
    region_of: Mapping[str, str] | None = None,
) -> None:
    """Send messages as senders do; ``region_of`` is that of the deployment's sensors."""
    regions = REGION_OF if region_of is None else region_of
    parts, topics = RegionSplitter(regions if deployment.topics.regions else {}), deployment.topics
    for message in messages:
        topic = topics.activations if message.type == "activation" else topics.readings
        for partition, line in parts.parts(message.line().rstrip()):
            logs.append(LogRecord(topic, None, line, partition))


def embedded(deployment: Deployment, messages: list[Activation | Reading]) -> list[StepRelease]:
    """What one engine releases of the same messages."""
    engine = StepEngine(
        Intake(deployment.registry, StepWindow(2), 100),
        FixedPolicy(deployment.registry, Gaussian(2.0), {"B": Raw()}),
        KeyedPublisher.of(deployment.settings, KEY, deployment.registry.regions),
        people_of(accountant(operations=0)),  # nobody's risk is compared
    )
    closed = []
    for number, message in enumerate(messages):
        engine.receive(message, Origin(f"test:{number}", message.line().rstrip()))
        closed += close_all(engine)
    return [step.release for step in closed]


def published(deployment: Deployment, logs: Logs) -> dict[int, dict[str, Any]]:
    """The values of each step by sensor, from all partitions; none of them twice."""
    found: dict[int, dict[str, Any]] = defaultdict(dict)
    for partition in range(len(deployment.topics.regions)):
        steps = []
        for line in logs.values(deployment.topics.releases, partition):
            release = StepRelease.model_validate_json(line)
            steps.append(release.step)
            found[release.step] |= {each.sensor: each for each in release.releases}
        assert steps == list(range(len(steps)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_dying_workers_publish_what_one_engine_does_each_step_once(deployment: Deployment, seed: int) -> None:
    """Records come in pieces of any size; a worker dies after any of them, its transaction lost."""
    random, logs, messages = np.random.default_rng(seed), Logs(), complete_day(seed)
    produce_all(deployment, logs, messages)
    everybody, deaths, quiet = actors(deployment, logs), 0, 0
    while quiet < 200:
        actor, names = everybody[random.integers(len(everybody))]
        dies = bool(random.random() < 0.3)
        name = names[random.integers(len(names))]
        deaths += dies
        moved = actor.act(name, int(random.integers(1, 12)), dies=dies)
        quiet = 0 if moved else quiet + 1
    assert deaths > 20
    wanted = embedded(deployment, messages)
    assert len(wanted) == STEPS
    found = published(deployment, logs)
    for release in wanted:
        assert found[release.step] == {each.sensor: each for each in release.releases}
    decided = [json.loads(line) for line in logs.values(deployment.topics.decisions)]
    assert [each["step"] for each in decided] == list(range(STEPS))
    order = [name for each in decided for name in [entry["sensor"] for entry in each["decisions"]]]
    assert order == [each.sensor for release in wanted for each in release.releases]
    whole = [json.loads(line) for line in logs.values(deployment.topics.whole)]
    assert [each["step"] for each in whole] == list(range(STEPS))
    assert logs.values(deployment.topics.rejected) == []


@pytest.mark.slow
def test_excluded_devices_of_regions_are_those_that_nobody_announces(tmp_path: Path) -> None:
    """Bit for bit what one engine publishes of the messages without them, with workers that die."""
    table = tmp_path / "exclusions.csv"
    table.write_text(
        "sensor,from,to,reason\nA,1970-01-01T00:05Z,1970-01-01T00:12Z,broken\nB,1970-01-01T00:20Z,,moved\n"
    )
    deployment = deployment_of_regions(tmp_path, REGION_OF, release=RELEASE, quality={"exclusions": table})
    messages, random, logs = complete_day(3), np.random.default_rng(3), Logs()
    produce_all(deployment, logs, messages)
    everybody, quiet = actors(deployment, logs), 0
    while quiet < 200:
        actor, names = everybody[random.integers(len(everybody))]
        name = names[random.integers(len(names))]
        moved = actor.act(name, int(random.integers(1, 12)), dies=bool(random.random() < 0.3))
        quiet = 0 if moved else quiet + 1
    left_out = {("A", step) for step in range(5, 12)} | {("B", step) for step in range(20, STEPS)}
    sent = {(each.sensor, each.step) for each in messages if isinstance(each, Reading)}
    plain = [
        each.model_copy(
            update={"sensors": tuple(name for name in each.sensors if (name, each.step) not in left_out)}
        )
        if isinstance(each, Activation)
        else each
        for each in messages
        if isinstance(each, Activation) or (each.sensor, each.step) not in left_out
    ]
    wanted = embedded(deployment_of_regions(tmp_path, REGION_OF, release=RELEASE), plain)
    found = published(deployment, logs)
    assert len(wanted) == len(found) == STEPS
    for release in wanted:
        assert found[release.step] == {each.sensor: each for each in release.releases}
    letters = {
        (each["reason"], Reading.model_validate_json(each["payload"]).sensor)
        for each in map(json.loads, logs.values(deployment.topics.rejected))
    }
    assert left_out & sent
    assert letters == {("excluded", "A"), ("excluded", "B")}


@pytest.mark.slow
def test_devices_that_seem_broken_are_found_by_dying_workers_of_regions_as_by_a_run(tmp_path: Path) -> None:
    """Each suspicion once, in the partition of its region, and no public log has a trace of it."""
    limits = {"silent_steps": 2, "same_steps": 2, "largest_count": 37}
    deployment = deployment_of_regions(tmp_path, REGION_OF, release=RELEASE, quality=limits)
    messages, random, logs = complete_day(5), np.random.default_rng(5), Logs()
    messages = [
        each.model_copy(update={"count": 5 if each.sensor == "C" and each.step > 9 else each.count})
        if isinstance(each, Reading)
        else each
        for each in messages
        if isinstance(each, Activation) or each.step % 7 not in (2, 3, 4)
    ]
    watched, run = DeviceWatch(deployment.settings.quality), StepWindow(2)
    wanted: list[DeviceFinding] = []
    engine = StepEngine(
        Intake(deployment.registry, run, 100),
        FixedPolicy(deployment.registry, Gaussian(2.0), {"B": Raw()}),
        KeyedPublisher.of(deployment.settings, KEY, deployment.registry.regions),
        people_of(accountant(operations=0)),  # nobody's risk is compared
        devices=watched,
    )
    for number, message in enumerate(messages):
        engine.receive(message, Origin(f"test:{number}", message.line().rstrip()))
        wanted += [finding for closed in close_all(engine) for finding in closed.findings]
    produce_all(deployment, logs, messages)
    everybody = actors(deployment, logs)
    for number in range(600):  # without end: the last steps stay open, and their seals are read again
        actor, names = everybody[random.integers(len(everybody))]
        dies = bool(number < 500 and random.random() < 0.3)
        actor.act(names[random.integers(len(names))], int(random.integers(1, 12)), dies=dies)
    topics, found = deployment.topics, []
    for partition, region in enumerate(topics.regions):
        own = [DeviceFinding.model_validate_json(line) for line in logs.values(topics.quality, partition)]
        assert {REGION_OF[each.sensor] for each in own} <= {region}
        found += own
    last = min(actor.core.next_step for actor, _ in everybody[1:])
    assert {each.suspicion for each in found} == set(Suspicion)
    assert len(wanted) > 10

    def before(step: int, findings: list[DeviceFinding]) -> list[DeviceFinding]:
        kept = [each for each in findings if each.step < step]
        return sorted(kept, key=lambda each: (each.step, each.sensor, each.suspicion, each.is_over))

    assert before(last, found) == before(last, wanted)


def test_a_coordinator_with_a_newer_table_decides_without_the_device(tmp_path: Path) -> None:
    """Its region has sealed the step with the device: the count is not published, and not lost silently."""
    table = tmp_path / "exclusions.csv"
    table.write_text("sensor,from,to,reason\nA,1970-01-01T00:03Z,,broken\n")
    newer = deployment_of_regions(tmp_path, REGION_OF, release=RELEASE, quality={"exclusions": table})
    older, logs = deployment_of_regions(tmp_path, REGION_OF, release=RELEASE), Logs()
    messages = [
        each
        for step in range(6)
        for each in (
            Activation(v=1, step=step, sensors=NAMES),
            *(Reading(v=1, step=step, sensor=name, count=7) for name in NAMES),
        )
    ]
    produce_all(older, logs, messages)
    everybody = [actors(newer, logs)[0], *actors(older, logs)[1:]]
    while any(actor.act(name, 50, dies=False) for actor, names in everybody for name in names):
        pass
    found = published(older, logs)
    assert [step for step in range(6) if "A" in found[step]] == [0, 1, 2]
    letters = [json.loads(line) for line in logs.values(older.topics.rejected)]
    assert len(letters) == 3
    assert all("same table of exclusions" in letter["hint"] for letter in letters)


def test_what_regions_say_to_each_other_holds_no_count(deployment: Deployment) -> None:
    """A count of 7,654,321 stands in a region's own logs and nowhere else."""
    logs, number = Logs(), 7_654_321
    messages = [
        Reading(v=1, step=each.step, sensor=each.sensor, count=number) if isinstance(each, Reading) else each
        for each in complete_day(1)
    ]
    produce_all(deployment, logs, messages)
    everybody = actors(deployment, logs)
    for _ in range(6):
        for actor, names in everybody:
            for name in names:
                actor.act(name, 10_000, dies=False)
    topics = deployment.topics
    assert len(logs.values(topics.whole)) == STEPS
    shared = [*logs.values(topics.decisions), *logs.values(topics.whole), *logs.values(topics.coordination)]
    shared += [line for partition in range(3) for line in logs.values(topics.sealed, partition)]
    assert not any(str(number).encode() in line for line in shared)
    own = {line for partition in range(3) for line in logs.values(topics.progress, partition)}
    assert any(str(number).encode() in line for line in own)


def test_each_region_has_noise_of_its_own_and_none_of_the_master_keys(deployment: Deployment) -> None:
    """The key of one region gives neither another's values nor those of a deployment without regions."""
    counts = [20] * len(NAMES)
    schedule = FixedPolicy(deployment.registry, Gaussian(50.0), {}).decide(0, NAMES).schedule
    whole = KeyedPublisher.of(deployment.settings, KEY, deployment.registry.regions).publish(schedule, counts)
    plain = KeyedPublisher.of(deployment.settings, KEY).publish(schedule, counts)
    for region in ("north", "south", "west"):
        publisher = KeyedPublisher.of(deployment.settings, KEY, (region,))
        own = tuple(each for each in schedule.releases if each.sensor.region == region)
        values = publisher.publish(replace(schedule, releases=own), counts[: len(own)])
        assert values == [
            value for value, name in zip(whole, NAMES, strict=True) if REGION_OF[name] == region
        ]
        with pytest.raises(KeyError):
            publisher.publish(schedule, counts)
    assert not any(one == other for one, other in zip(whole, plain, strict=True))
    assert KEY.of_region("north").fingerprint() != KEY.of_region("south").fingerprint()


def test_a_region_that_is_late_is_left_out_and_its_counts_are_refused(tmp_path: Path) -> None:
    """By the broker's clock; what it sends for later steps is in time again."""
    deployment = deployment_of_regions(tmp_path, REGION_OF, grace_seconds=0.0, release=RELEASE)
    logs, topics = Logs(), deployment.topics
    coordinator, north, south, west = (actor for actor, _ in actors(deployment, logs))
    for step in (0, 1):
        logs.now_seconds = 60.0 * step + 1.0
        produce_all(deployment, logs, [Activation(v=1, step=step, sensors=NAMES)])
        produce_all(deployment, logs, [Reading(v=1, step=step, sensor=name, count=5) for name in NAMES])
        logs.now_seconds = 60.0 * (step + 1) + 0.5
        north.catch_up(logs.now_seconds)
        west.catch_up(logs.now_seconds)
        if step == 0:  # south sleeps
            coordinator.catch_up(69.0)
            assert logs.values(topics.decisions) == []
            coordinator.catch_up(71.0)
            assert len(logs.values(topics.decisions)) == 1
    for actor in (south, coordinator, north, south, west, coordinator):
        actor.catch_up(122.0)
    decided = [json.loads(line)["decisions"] for line in logs.values(topics.decisions)]
    assert [[each["sensor"] for each in step] for step in decided] == [["A", "C", "D"], ["A", "B", "C", "D"]]
    found = published(deployment, logs)
    assert [set(found[step]) for step in (0, 1)] == [{"A", "C", "D"}, set(NAMES)]
    (letter,) = [json.loads(line) for line in logs.values(topics.rejected)]
    assert letter["reason"] == "late_reading"
    assert json.loads(letter["payload"]) == {"v": 1, "type": "reading", "step": 0, "sensor": "B", "count": 5}
    whole = [json.loads(line)["regions"] for line in logs.values(topics.whole)]
    assert whole == [["north", "west"], ["north", "south", "west"]]


def deployment_with_late_counts(folder: Path, **settings: Any) -> Deployment:
    """Each count may come three steps late, and be corrected once."""
    rows = [{"name": name, "locations": [name], "region": REGION_OF[name]} for name in NAMES]
    (folder / "late.json").write_text(json.dumps({"corrections": 1, "sensors": rows}))
    given = {"sensors": folder / "late.json", "late": 3, "grace": 0, "watermark_share": 0.0, **settings}
    return deployment_of_regions(folder, REGION_OF, release=RELEASE, **given)


def day_with_late_counts() -> list[Activation | Reading]:
    """All is announced first. Every third count of A comes two steps late, with a correction by C."""
    messages: list[Activation | Reading] = [
        Activation(v=1, step=step, sensors=NAMES) for step in range(STEPS)
    ]
    for step in range(STEPS):
        is_held = step % 3 == 0 and step < STEPS - 3
        for number, name in enumerate(NAMES):
            if name != "A" or not is_held:
                messages.append(Reading(v=1, step=step, sensor=name, count=10 * step + number))
            if name == "C" and step % 3 == 1:  # while the step is open
                messages.append(Reading(v=1, step=step, sensor=name, count=1, version=2))
        if step % 3 == 2 and step < STEPS - 1:
            messages.append(Reading(v=1, step=step - 2, sensor="A", count=10 * step))
            messages.append(Reading(v=1, step=step - 2, sensor="C", count=10 * step, version=2))
    return messages


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_late_and_corrected_counts_come_once_with_the_step_that_closes_next(
    tmp_path: Path, seed: int
) -> None:
    """As in one engine, whenever a worker dies, and whether decisions come soon or many steps later."""
    deployment, random, logs = deployment_with_late_counts(tmp_path), np.random.default_rng(seed), Logs()
    messages, topics = day_with_late_counts(), deployment.topics
    produce_all(deployment, logs, messages)
    coordinator, *intakes = actors(deployment, logs)
    for actor, names in intakes:
        actor.act(names[0], 10**6, dies=False)
    everybody, deaths, quiet = [coordinator, *intakes], 0, 0
    while quiet < 200:
        is_away = seed % 2 and len(logs.values(topics.sealed)) < 12  # decisions come late
        actor, names = everybody[random.integers(is_away, len(everybody))]
        dies = bool(random.random() < 0.3)
        deaths += dies
        moved = actor.act(names[random.integers(len(names))], int(random.integers(1, 12)), dies=dies)
        quiet = 0 if moved else quiet + 1
    assert deaths > 20
    engine = StepEngine(
        Intake(deployment.registry, StepWindow.of(deployment.settings), 100),
        policy_from(deployment.settings.release, deployment.registry),
        KeyedPublisher.of(deployment.settings, KEY, deployment.registry.regions),
        people_of(accountant(operations=0)),  # nobody's risk is compared
    )
    closed = []
    for number, message in enumerate(messages):
        engine.receive(message, Origin(f"test:{number}", message.line().rstrip()))
        closed += close_all(engine)
    found = published(deployment, logs)
    for step in closed:
        assert found[step.release.step] == {each.sensor: each for each in step.release.releases}
    wanted = [(step.release.step, line) for step in closed for line in step.revised]
    assert len(wanted) >= 2 * (STEPS // 3 - 1)  # late ones, and corrections
    assert {each.version for _, line in wanted for each in line.releases} == {None, 2}
    stamps = [record.stamp for record in map(Stored._make, logs.records[topics.releases, 0])]
    north = map(Stored._make, logs.records[topics.revised, 0])
    assert wanted == [
        (bisect_right(stamps, record.stamp) - 1, StepRelease.model_validate_json(record.value or b""))
        for record in north
    ]
    assert not [value for part in (1, 2) for value in logs.values(topics.revised, part)]
    assert logs.values(topics.rejected) == []


def test_a_late_count_of_a_step_that_was_decided_without_its_region_is_refused(tmp_path: Path) -> None:
    """It was never accounted: nothing of it is public, and its sender finds it among the dead letters."""
    deployment = deployment_with_late_counts(tmp_path, grace_seconds=0.0)
    logs, topics = Logs(), deployment.topics
    coordinator, north, south, west = (actor for actor, _ in actors(deployment, logs))
    for step in (0, 1):
        logs.now_seconds = 60.0 * step + 1.0
        produce_all(deployment, logs, [Activation(v=1, step=step, sensors=NAMES)])
        if step == 1:
            produce_all(deployment, logs, [Reading(v=1, step=0, sensor="B", count=7)])
        produce_all(deployment, logs, [Reading(v=1, step=step, sensor=name, count=5) for name in "ACD"])
        logs.now_seconds = 60.0 * (step + 1) + 0.5
        north.catch_up(logs.now_seconds)
        west.catch_up(logs.now_seconds)
        if step == 0:  # south sleeps
            coordinator.catch_up(71.0)
    for actor in (south, coordinator, north, south, west, coordinator):
        actor.catch_up(122.0)
    (letter,) = [json.loads(line) for line in logs.values(topics.rejected)]
    assert letter["reason"] == "late_reading"
    assert json.loads(letter["payload"]) == {"v": 1, "type": "reading", "step": 0, "sensor": "B", "count": 7}
    assert not [value for part in range(3) for value in logs.values(topics.revised, part)]


def test_messages_go_to_the_partitions_of_their_sensors_regions() -> None:
    """What cannot be split goes to the first, where it is refused."""
    parts = RegionSplitter(REGION_OF)
    (own,) = parts.parts(Reading(v=1, step=0, sensor="D", count=1).line())
    assert own[0] == 2
    split = dict(parts.parts(Readings(v=1, step=0, counts={"A": 1, "D": 2, "Z": 3}).line()))
    assert {number: parse(line, "").counts for number, line in split.items()} == {  # type: ignore[union-attr]
        0: {"A": 1, "Z": 3},
        2: {"D": 2},
    }
    announced = dict(parts.parts(Activation(v=1, step=0, sensors=("B",)).line()))
    assert [parse(line, "").sensors for line in announced.values()] == [(), ("B",), ()]  # type: ignore[union-attr]
    assert list(parts.parts(b"none")) == [(0, b"none")]
    assert list(RegionSplitter({}).parts(b"anything")) == [(0, b"anything")]


def test_a_message_in_another_regions_partition_is_refused(deployment: Deployment) -> None:
    logs = Logs()
    logs.append(
        LogRecord(deployment.topics.readings, None, Reading(v=1, step=0, sensor="A", count=1).line(), 1)
    )
    actors(deployment, logs)[2][0].act("readings/1", 10, dies=False)
    (letter,) = [json.loads(line) for line in logs.values(deployment.topics.rejected)]
    assert letter["reason"] == "unknown_sensor"


def test_what_nobody_here_writes_to_sealed_stops_the_coordinator(deployment: Deployment) -> None:
    logs = Logs()
    logs.append(LogRecord(deployment.topics.sealed, None, b"poison", 1))
    with pytest.raises(LogError, match="sealed must hold what intake workers of this version write"):
        actors(deployment, logs)[0][0].act("south", 10, dies=False)


def test_settings_that_do_not_go_with_regions_are_refused(tmp_path: Path, deployment: Deployment) -> None:
    settings = deployment.settings
    with pytest.raises(SettingsError, match="one release worker must take in sensors of one region"):
        run_deciding_worker(Runner.RELEASE, settings, None, accept_changes=False, announce=print)
    rows = [{"name": name, "locations": [name], "region": "all"} for name in NAMES]
    (tmp_path / "one.json").write_text(json.dumps({"sensors": rows}))
    one = settings.model_copy(update={"sensors": tmp_path / "one.json"})
    with pytest.raises(SettingsError, match="at least two regions"):
        run_intake_worker(one, accept_changes=False, announce=print)
    assert Topics.of(one).regions == ()
    assert regions_by_sensor(one.sensors) == {}
    (tmp_path / "some.json").write_text(json.dumps({"sensors": [rows[0], {"name": "B", "locations": ["B"]}]}))
    with pytest.raises(SensorError, match="every sensor must have a region, or none"):
        load_registry(tmp_path / "some.json", NAMES)


def test_behind_a_coordinator_that_is_away_inputs_wait_on_the_broker(deployment: Deployment) -> None:
    """A thousand sealed steps are enough; decisions alone are taken then, and counts again after them."""
    logs, topics = Logs(), deployment.topics
    coordinator, north, *others = (actor for actor, _ in actors(deployment, logs))
    produce_all(deployment, logs, [Activation(v=1, step=step, sensors=()) for step in range(90)])
    north.catch_up(0.0)
    assert len(logs.values(topics.sealed)) == 90
    assert not north.core.takes_priority_logs_only
    for first in range(90, 1080, 90):
        produce_all(deployment, logs, [Activation(v=1, step=first + k, sensors=()) for k in range(90)])
        north.catch_up(0.0)
    assert north.core.takes_priority_logs_only
    for actor in (*others, coordinator, north):
        actor.catch_up(0.0)
    assert len(logs.values(topics.releases)) == 1080
    assert not north.core.takes_priority_logs_only


def test_records_aside_wait_for_nobody_and_pass_while_others_must_not() -> None:
    order = ArrivalOrder(("in",), lambda log: True, priority_logs=("aside",))
    order.add(InputRecord("in", 1.0, 0, b"x"))
    order.add(InputRecord("aside", 9.0, 0, b"y"))
    assert [each.log for each in order.take(10, 0.0, priority_logs_only=True)] == ["aside"]
    assert [each.log for each in order.take(10, 0.0)] == ["in"]


def test_regions_are_part_of_what_a_log_was_begun_with(deployment: Deployment) -> None:
    """Values depend on them, so a log cannot go on with others."""
    registry = deployment.registry
    moved = replace(registry, sensors=tuple(replace(each, region="north") for each in registry.sensors))
    plain = SensorRegistry.one_per_location(NAMES)
    assert registry.accounted_facts() != moved.accounted_facts() == plain.accounted_facts()
