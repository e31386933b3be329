"""Several regions: whatever takes in, decides and publishes, everything is as in one embedded run."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from stream_app.embedded import RunOptions, run
from stream_app.wire import SensorValue, StepRelease, batched
from tests.kafka.broker import Broker
from tests.kafka.faults.chaos import run_chaos
from tests.kafka.faults.dying import POINTS
from tests.kafka.support import OnKafka, small_city
from tests.kafka.test_fetch import assert_as_written, assert_same_logs, fetched
from tests.kafka.test_growth import messages
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow

STEPS = 24
BUDGET: dict[str, Any] = {"mechanism": "budget", "budget.share": 0.5, "budget.added": 0.2}
NOISE: dict[str, Any] = {"mechanism": "gaussian", "sigma": 2.0}


def spread(sensors: list[tuple[str, Any]], count: int) -> dict[str, str]:
    """A region for each sensor, in turn."""
    return {name: f"part {number % count}" for number, (name, _) in enumerate(sensors)}


@pytest.mark.parametrize(
    ("regions", "workers", "release", "in_batches"), [(2, 1, NOISE, True), (4, 2, BUDGET, False)]
)
def test_releases_and_risks_are_those_of_the_embedded_engine(
    kafka: Broker, tmp_path: Path, regions: int, workers: int, release: dict[str, Any], in_batches: bool
) -> None:
    population, sensors, messages = small_city(60)
    lines, waits = messages(STEPS), {"answer_seconds": 60}
    folder = tmp_path / f"regions{regions}"
    with OnKafka(
        folder,
        kafka.address,
        population,
        sensors,
        regions=spread(sensors, regions),
        release=release,
        kafka=waits,
    ) as deployment:
        deployment.load_people()
        started = [deployment.start("intake") for _ in range(workers)]
        started += [deployment.start("coordinator"), deployment.start("account")]
        deployment.produce(batched(lines) if in_batches else lines)
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        whole = [json.loads(line) for line in deployment.values(deployment.topics.whole)]
        assert [each["step"] for each in whole] == list(range(STEPS))
        assert all(len(each["regions"]) == regions for each in whole)
        fetched(deployment, tmp_path / "copy")
        assert_same_logs(tmp_path / "copy", folder / "embedded")
        for process in started:
            assert process.stop() == 0, process.text


def test_kills_of_every_kind_of_process_change_nothing_under_a_budget(kafka: Broker, tmp_path: Path) -> None:
    population, sensors, messages = small_city(100)
    steps, seed = 80, 20261124
    given = {"regions": spread(sensors, 3), "release": BUDGET, "kafka": {"answer_seconds": 60}}
    workers = {"intake": 2, "coordinator": 1, "account": 1}
    with OnKafka(tmp_path / "kills", kafka.address, population, sensors, **given) as deployment:
        report = run_chaos(
            deployment, messages(steps), steps, kills=8, seed=seed, messages_per_second=25.0, workers=workers
        )
    assert report.is_sound, f"seed {seed}: {report}"
    assert report.repeated_summaries == 0
    assert sum(report.kills.values()) == 8
    assert report.kills_at_work > 0


@pytest.mark.parametrize(("kind", "number"), [("intake", 2), ("coordinator", 1)])
def test_who_takes_in_and_who_decides_die_at_every_point_of_a_transaction(
    kafka: Broker, tmp_path: Path, kind: str, number: int
) -> None:
    """An intake worker at its second one, behind a seal; a coordinator may decide all steps in its first.

    It also dies before it says that a step is whole.
    """
    population, sensors, messages = small_city(20)
    points = [(point, number) for point in POINTS] + [("whole", 2)] * (kind == "coordinator")
    each = 4
    steps = each * (len(points) + 1)
    lines = messages(steps)
    with OnKafka(
        tmp_path / kind, kafka.address, population, sensors, regions=spread(sensors, 2)
    ) as deployment:
        deployment.load_people()
        deployment.start("account")
        deployment.start("coordinator" if kind == "intake" else "intake")
        size = len(lines) // (len(points) + 1)
        for turn, point in enumerate(points):
            dying = deployment.start_dying(kind, *point)
            deployment.produce(lines[turn * size : (turn + 1) * size])
            wait_until("a death", lambda dying=dying: not dying.is_running, 240.0)
            assert dying.ended() == -signal.SIGKILL, dying.text[-2000:]
        deployment.start(kind)
        deployment.produce(lines[len(points) * size :])
        deployment.wait_for_steps(steps)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        whole = [json.loads(line)["step"] for line in deployment.values(deployment.topics.whole)]
        assert whole == list(range(steps))


def test_a_region_moves_to_a_worker_that_joins_and_nothing_comes_twice(kafka: Broker, tmp_path: Path) -> None:
    """The one that had it is fenced or lets go, and goes on with the regions it keeps."""
    population, sensors, messages = small_city(20)
    lines = messages(60)
    with OnKafka(
        tmp_path / "moves", kafka.address, population, sensors, regions=spread(sensors, 4)
    ) as deployment:
        deployment.load_people()
        first = deployment.start("intake")
        deployment.start("coordinator")
        deployment.start("account")
        deployment.produce(lines[:100])
        deployment.wait_for_steps(10)
        second = deployment.start("intake")
        deployment.produce(lines[100:], per_second=25.0)
        wait_until("two have regions", lambda: second.says("continues at step"), 120.0)
        deployment.wait_for_steps(60)
        assert deployment.releases() == deployment.embedded(lines)[0]
        assert first.is_running
        assert second.is_running


def test_regions_get_a_sensor_other_thresholds_holidays_and_a_crowd_and_the_logs_are_those_of_a_run(
    kafka: Broker, tmp_path: Path
) -> None:
    """The coordinator first; an account worker with the settings as they were ends with a sentence."""
    population, sensors, _ = small_city(40)
    kept, change, steps = [sensors[:4], sensors[1:5]], 8, 14
    names = [[name for name, _ in each] for each in kept]
    parts = messages(0, change, names[0]), messages(change, steps, names[1])
    clock = {"timezone": "Europe/Vienna", "origin": "2026-06-01T00:00:00+02:00"}
    regions = spread(sensors[:5], 2)
    with OnKafka(
        tmp_path / "grows", kafka.address, population, kept[0], regions=regions, **clock
    ) as deployment:
        deployment.load_people()
        output, source = deployment.folder / "embedded", deployment.folder / "embedded.jsonl"

        def run_embedded(until: int) -> None:
            source.write_bytes(b"".join(line + b"\n" for part in parts[:until] for line in part))
            options = RunOptions(output, source, accept_changes=until > 1, reason="a new counter")
            run(deployment.settings, options, population)

        run_embedded(1)
        account, first, intake = (deployment.start(each) for each in ("account", "coordinator", "intake"))
        deployment.produce(parts[0])
        deployment.wait_for_steps(change)
        assert first.stop() == 0, first.text
        rows = [{"name": name, "locations": list(where), "region": regions[name]} for name, where in kept[1]]
        (deployment.folder / "sensors.json").write_text(json.dumps({"sensors": rows}))
        looked_at = 'thresholds = [0.3, 0.6]\nholidays = ["2026-06-04"]\ncrowd.on = true\n'
        deployment.config.write_text(looked_at + deployment.config.read_text())
        deployment.log_in_anew()  # with the settings as they are now
        refused = deployment.start("coordinator")
        assert refused.ended() == 1
        assert f'sensor "{names[1][-1]}" added at' in refused.text
        grown = deployment.start("coordinator", "--accept-changes", "--reason", "a new counter")
        wait_until("the record is written", lambda: grown.says("continues at step"), 120.0)
        assert intake.stop() == 0, intake.text
        again = deployment.start("intake")
        deployment.produce(parts[1])
        assert account.ended() == 1
        assert "that its record has by now" in account.text
        last = deployment.start("account")
        deployment.wait_for_steps(steps)
        for worker in (last, grown, again):
            assert worker.stop() == 0, worker.text
        run_embedded(2)

        def values(lines: list[bytes]) -> dict[tuple[int, str], SensorValue]:
            releases = map(StepRelease.model_validate_json, lines)
            return {(each.step, own.sensor): own for each in releases for own in each.releases}

        published = values(deployment.values(deployment.topics.releases))
        assert published == values((output / "releases.jsonl").read_bytes().splitlines())
        assert {name for _, name in published} == {*names[0], *names[1]}
        risks = (output / "risks.jsonl").read_bytes().splitlines()
        assert deployment.person_risks() == sorted(line for line in risks if b'"type":"risk",' in line)
        fetched(deployment, tmp_path / "copy")
        assert_as_written(tmp_path / "copy", deployment)
