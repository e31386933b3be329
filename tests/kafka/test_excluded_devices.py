"""Excluded and suspected devices on Kafka, in one region and in several: all is as in one embedded run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_app.kafka.deployment.deployment import Deployment
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, Process, small_city

pytestmark = pytest.mark.slow

STEPS, CHANGED = 20, 12
WORKERS = {False: ("release", "account"), True: ("intake", "coordinator", "account")}


def table(folder: Path, *rows: tuple[str, int, int | None]) -> None:
    """Steps are hours after 1970 began."""
    lines = [f"{name},{_hour(first)},{_hour(until)},broken" for name, first, until in rows]
    (folder / "exclusions.csv").write_text("\n".join(["sensor,from,to,reason", *lines, ""]))


def _hour(step: int | None) -> str:
    return "" if step is None else f"1970-01-01T{step:02}:00Z"


@pytest.mark.parametrize("in_regions", [False, True])
def test_a_table_that_changes_while_workers_are_down_gives_what_an_embedded_run_gives(
    kafka: Broker, tmp_path: Path, in_regions: bool
) -> None:
    """Whoever starts with a table that changes the past is refused, and has changed nothing."""
    population, sensors, messages = small_city(60)
    lines, names = messages(STEPS), [name for name, _ in sensors]
    first, second = (names[0], 3, 7), (names[1], 14, None)
    regions = {name: f"part {number % 2}" for number, name in enumerate(names)} if in_regions else {}
    kinds, folder = WORKERS[in_regions], tmp_path / f"excluded{int(in_regions)}"
    given: dict[str, Any] = {"quality.exclusions": "exclusions.csv", "regions": regions}
    given |= {"quality.same_steps": 2, "quality.largest_count": 9}
    with OnKafka(folder, kafka.address, population, sensors, **given) as deployment:
        table(folder, first)
        deployment.load_people()

        def start(*more: str) -> list[Process]:
            deciding = {"release", "coordinator"}
            return [
                deployment.start(kind, *(more if kind in deciding else ())) for kind in WORKERS[in_regions]
            ]

        def stop(started: list[Process]) -> None:
            for process in started:
                assert process.stop() == 0, process.text

        started = start()
        deployment.produce(line for line in lines if json.loads(line)["step"] < CHANGED)
        deployment.wait_for_steps(CHANGED)
        stop(started)
        table(folder, first, (names[1], CHANGED - 1, None))
        refused = deployment.start(kinds[0])
        assert refused.ended() != 0
        assert f"change the table from step {CHANGED} on" in " ".join(refused.text.split())
        table(folder, first, second)
        started = start("--by", "Ann", "--reason", "lightning")
        deployment.produce(line for line in lines if json.loads(line)["step"] >= CHANGED)
        deployment.wait_for_steps(STEPS)
        stop(started)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        suspected = (folder / "embedded" / "quality.jsonl").read_bytes().splitlines()
        assert sorted(deployment.values(deployment.topics.quality)) == sorted(suspected)
        assert len(suspected) > 3
        letters = [json.loads(line) for line in deployment.values(deployment.topics.rejected)]
        assert {each["reason"] for each in letters} == {"excluded"}
        changed = [
            each for each in Deployment.of(deployment.settings).record.entries() if each.kind == "changed"
        ]
        assert [(each.step, each.by, each.reason) for each in changed] == [(CHANGED, "Ann", "lightning")]
