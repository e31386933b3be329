"""The privacy account that is carried on: the same as one that never stopped, short after any history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from accounting.ledgers import PrivacyAccount
from models.keys import NoiseKey
from models.mechanisms import Gaussian, Mechanism, Raw, Suppressed
from models.releases import Sensor, SensorRegistry, SensorRelease, StepSchedule
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.release import deciding_worker
from stream_app.kafka.release.deciding_worker import ReleaseWorker
from stream_app.kafka.release.release_log import PROGRESS_KEY, Progress, TopicLog, restore
from stream_app.kafka.release.stream_task import TaskMonitor
from stream_app.kafka.worker_metrics import InputCounters
from stream_app.kafka.worker_process import Pulse
from stream_app.setup.settings import Settings
from stream_app.steps.policy import FixedPolicy
from stream_app.watching.events import Observer, StepClosed
from stream_app.watching.metrics import EngineMetrics
from stream_app.wire.messages import StepDecision, decision_of, fingerprint_of
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import engine

SENSORS = tuple(Sensor(name, (k,), "west" if k < 2 else "east") for k, name in enumerate("ABC"))
REGISTRY = SensorRegistry(("A", "B", "C"), SENSORS)
MECHANISMS: tuple[Mechanism, ...] = (Gaussian(1.0), Gaussian(0.3), Gaussian(2.7), Suppressed())


def schedules(steps: int, last: Mechanism | None = None) -> list[StepSchedule]:
    """Steps of changing sensors and noise."""
    found = []
    for step in range(steps):
        chosen = SENSORS[: 1 + step % 3] if step % 5 else ()
        releases = tuple(
            SensorRelease(each, MECHANISMS[(step + k) % len(MECHANISMS)]) for k, each in enumerate(chosen)
        )
        found.append(StepSchedule(step, releases))
    if last is not None:
        found.append(StepSchedule(steps, (SensorRelease(SENSORS[2], last),)))
    return found


def account_of(steps: list[StepSchedule]) -> PrivacyAccount:
    account = PrivacyAccount(sensor.group for sensor in SENSORS)
    for step in steps:
        account.charge(step)
    return account


def closed(schedule: StepSchedule) -> StepClosed:
    return StepClosed(schedule.step, schedule, {}, (), 0, None, 0.0, 0)


def spent(registry: CollectorRegistry) -> dict[tuple[str, str], float | None]:
    names = ("tallyguard_dp_rho", "tallyguard_dp_epsilon")
    groups = ("all", "east", "west")
    return {
        (name, group): registry.get_sample_value(name, {"group": group}) for name in names for group in groups
    }


@pytest.mark.parametrize("last", [None, Raw()])
def test_metrics_go_on_from_a_carried_account_as_if_every_step_had_been_told(last: Mechanism | None) -> None:
    steps = schedules(40, last)
    uninterrupted, carried = (CollectorRegistry() for _ in range(2))
    metrics = EngineMetrics(uninterrupted, SENSORS, (0.5,), 1e-6)
    for step in steps:
        metrics.closed(closed(step))
    saved = json.loads(json.dumps(account_of(steps[:25]).save()))
    metrics = EngineMetrics(carried, SENSORS, (0.5,), 1e-6)
    metrics.carried(PrivacyAccount.load(saved))
    for step in steps[25:]:
        metrics.closed(closed(step))
    assert spent(carried) == spent(uninterrupted)
    assert all(value is not None and value > 0 for value in spent(uninterrupted).values())


def test_an_account_is_as_short_after_a_long_history_as_after_a_short_one() -> None:
    short, long = (len(json.dumps(account_of(schedules(steps)).save())) for steps in (50, 5_000))
    assert long < short + 100


@pytest.mark.parametrize(
    "broken",
    [
        {"steps": 1},
        {"steps": 1, "spends": {"all": ["1/0", False, 0.0]}},
        {"steps": float("inf"), "spends": {}},
        {"steps": 1, "spends": {"all": ["1e99999999", False, 0.0]}},
        {"steps": 1, "spends": {"all": [float("inf"), False, 0.0]}},
    ],
)
def test_a_progress_whose_account_is_none_is_refused(broken: dict[str, Any]) -> None:
    record = json.dumps({"v": 1, "type": "progress", "account": broken}).encode()
    with pytest.raises(LogError, match="must be a progress of this version"):
        restore({PROGRESS_KEY: record}, "progress", Progress)


class Log:
    """A log of decisions that counts how many records are read."""

    def __init__(self, steps: list[StepSchedule]) -> None:
        self.steps = steps
        self.reads = 0

    def read(self, first: int, until: int) -> Iterator[StepDecision]:
        for step in self.steps[first:until]:
            self.reads += 1
            yield decision_of(step)

    async def last(self, connection: object, topic: str) -> StepDecision | None:
        self.reads += 1
        return decision_of(self.steps[-1]) if self.steps else None


class Carried(Observer):
    account: PrivacyAccount

    def carried(self, account: PrivacyAccount) -> None:
        self.account = account


@pytest.fixture
def worker(tmp_path: Path) -> ReleaseWorker:
    (tmp_path / "locations.txt").write_text("A\nB\nC\n")
    rows = [{"name": each.name, "locations": list(each.locations), "group": each.group} for each in SENSORS]
    (tmp_path / "sensors.json").write_text(json.dumps({"sensors": rows}))
    files = {"locations": tmp_path / "locations.txt", "sensors": tmp_path / "sensors.json"}
    deployment = Deployment.of(Settings.model_validate({**files, "kafka": {"servers": ("nowhere:9092",)}}))
    policy = FixedPolicy(REGISTRY, Gaussian(2.0), {})
    key = NoiseKey.parse(hex_key("11"))
    counters = InputCounters(CollectorRegistry())
    return ReleaseWorker(deployment, policy, key, TaskMonitor(Carried(), counters, Pulse()))


def start(worker: ReleaseWorker, log: Log, progress: Progress, monkeypatch: pytest.MonkeyPatch) -> Progress:
    """What a start reads of the log."""
    monkeypatch.setattr(deciding_worker, "last_decision", log.last)
    own = TopicLog(Topics(), progress, lambda records: None, log.read)
    spent = asyncio.run(worker._carried(own, "progress"))
    worker._resume(engine(), own, spent)
    return progress.model_copy(update={"account": spent.account.save(), "decided": spent.decided})


def test_the_records_read_at_a_start_do_not_grow_with_history(
    worker: ReleaseWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in (1, 10, 3_000):
        steps = schedules(count)
        log = Log(steps)
        account = account_of(steps)
        progress = Progress(next_step=count, account=account.save(), decided=fingerprint_of(steps[-1]))
        start(worker, log, progress, monkeypatch)
        assert log.reads == 2
        assert worker._monitor.observer.account.spends == account.spends  # type: ignore[attr-defined]


def test_a_log_of_an_earlier_version_is_read_once_and_never_again(
    worker: ReleaseWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(schedules(30))
    carried = start(worker, log, Progress(next_step=30), monkeypatch)
    assert log.reads == 32
    start(worker, log, carried, monkeypatch)
    assert log.reads == 34
    assert PrivacyAccount.load(carried.account).spends == account_of(log.steps).spends


def test_an_account_of_another_log_is_refused(worker: ReleaseWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = schedules(30)
    right = Progress(next_step=30, account=account_of(steps).save(), decided=fingerprint_of(steps[-1]))
    fewer = right.model_copy(update={"account": account_of(steps[:-1]).save()})
    other = right.model_copy(update={"decided": fingerprint_of(steps[-2])})
    for wrong in (fewer, other):
        with pytest.raises(LogError, match="must belong to the steps of decisions"):
            start(worker, Log(steps), wrong, monkeypatch)
