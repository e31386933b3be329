"""A cell of the matrix on Kafka: what an embedded run publishes and accounts, whoever is killed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from stream_app.embedded import RunOptions, run
from stream_app.wire import Activation
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, Process, wait_until
from tests.kafka.test_fetch import assert_same_logs, fetched
from tests.stream_app.embedded.test_everything_with_everything import (
    CELLS,
    as_file,
    drawn_for,
    files_of,
)
from tests.stream_app.engine_support import reading
from tests.volume import DAY, PARTS

OF_THE_DAY = range(len(CELLS)) if PARTS == 1 else [DAY % len(CELLS)]


def started(deployment: OnKafka) -> list[Process]:
    """All workers; the one with the accounts is there before it is asked."""
    account = deployment.start("account")
    wait_until("both partitions are there", lambda: account.text.count(" people, next step ") == 2, 60.0)
    kinds = ("intake", "coordinator") if deployment.regions else ("release",)
    return [account, *map(deployment.start, kinds)]


@pytest.mark.slow
@pytest.mark.parametrize("in_regions", [False, True], ids=["one worker", "regions"])
@pytest.mark.parametrize("number", OF_THE_DAY)
def test_a_cell_of_the_matrix_has_the_logs_of_an_embedded_run(
    number: int, in_regions: bool, kafka: Broker, tmp_path: Path
) -> None:
    """All workers are killed on the way, and go on. One cell a day, and all with `make thorough`."""
    rng = np.random.default_rng([63, number])
    cell = CELLS[number]
    drawn = drawn_for(cell, rng, tmp_path / "drawn", announced=2)
    chosen, schedule = files_of(tmp_path / "cell", drawn, cell)
    *earlier, last = (step for step, names in enumerate(drawn.announced) if names)
    announced, killed_at = drawn.announced[: last + 1], earlier[len(earlier) // 2]
    counts = [
        [reading(t, name, int(rng.integers(9))).line().rstrip() for name in names]
        for t, names in enumerate(announced)
    ]
    kafka_settings = {"partitions": 2, "schedule": str(schedule), "answer_seconds": 60}
    on_kafka = as_file(chosen) | {"kafka": kafka_settings}
    sensors = json.loads(Path(on_kafka.pop("sensors")).read_text())
    regions = {}
    if in_regions and len(sensors["sensors"]) > 1:  # else one worker is all there can be
        for turn, each in enumerate(sensors["sensors"]):
            regions[each["name"]] = each["region"] = f"part {turn % 2}"
    there = OnKafka(tmp_path / "kafka", kafka.address, drawn.population, (), regions=regions, **on_kafka)
    (there.folder / "sensors.json").write_text(json.dumps(sensors))  # topics are made by them
    with there as deployment:
        deployment.load_people()
        workers = started(deployment)
        for step, names in enumerate(announced):
            announcement = Activation(v=1, step=step, sensors=names).line().rstrip()
            deployment.produce([announcement, *counts[step]])  # the schedule file announces nothing on Kafka
            if step == killed_at:
                deployment.wait_for_steps(step + 1, 100.0)
                for worker in workers:
                    worker.kill()
                workers = started(deployment)
        deployment.wait_for_steps(last + 1, 100.0)
        output, source = tmp_path / "embedded", tmp_path / "embedded.jsonl"
        source.write_bytes(b"".join(line + b"\n" for step in counts for line in step))
        run(deployment.settings, RunOptions(output, source, schedule=schedule), drawn.population)
        by_tier = {path.stem.removeprefix("releases-"): path for path in output.glob("releases-*.jsonl")}
        logs = {deployment.topics.tier(tier): path for tier, path in by_tier.items()}
        logs[deployment.topics.releases] = by_tier.get("public", output / "releases.jsonl")
        for topic, path in logs.items():
            releases = path.read_bytes().splitlines()
            assert deployment.releases(topic)[: last + 1] == releases[: last + 1], (cell, path.name)
        risks = (output / "risks.jsonl").read_bytes().splitlines()
        own = sorted(line for line in risks if b'"type":"risk",' in line)
        assert deployment.person_risks() == [each for each in own if json.loads(each)["step"] <= last], cell
        assert fetched(deployment, tmp_path / "copy").next_step >= last + 1
        assert_same_logs(tmp_path / "copy", output, until=last + 1)
