"""Under a risk budget the account workers are asked; the decisions are those of the embedded engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.tools.replay import compare
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, in_doubt, small_city
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow
STEPS = 30


def budget(**more: Any) -> dict[str, Any]:
    """A budget tight enough that noise, silence and raw counts all occur."""
    return {"mechanism": "budget", "budget.share": 0.5, "budget.added": 0.2, **more}


@pytest.mark.parametrize(("workers", "hindsight"), [(1, False), (2, False), (2, True)])
def test_decisions_are_those_of_the_embedded_engine(
    kafka: Broker, tmp_path: Path, workers: int, hindsight: bool
) -> None:
    population, sensors, messages = small_city(60)
    lines = messages(STEPS)
    folder = tmp_path / f"decide{workers}{hindsight}"
    release = budget(**{"budget.hindsight": hindsight})
    with OnKafka(
        folder, kafka.address, population, sensors, release=release, kafka={"answer_seconds": 60}
    ) as deployment:
        deployment.load_people()
        for _ in range(workers):
            deployment.start("account")
        deployment.start("release")
        deployment.produce(lines)
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        logged = [json.loads(line) for line in deployment.values(deployment.topics.decisions)]
        assert {step.pop("deployment") for step in logged} == {deployment.digest}
        embedded = (folder / "embedded" / "decisions.jsonl").read_text().splitlines()
        assert logged == [json.loads(line) for line in embedded]
        assert len({step["why"]["because"] for step in logged}) > 1
        assert all(step["why"]["over"] <= step["why"]["allowed"] for step in logged)


@pytest.mark.parametrize("of_personas", [False, True])
def test_budgets_in_the_crowd_are_kept_as_in_the_embedded_engine(
    kafka: Broker, tmp_path: Path, of_personas: bool
) -> None:
    """Sums of partitions, decisions by them, both ceilings: bit for bit; a replay takes the logged sums."""
    population, sensors, messages = small_city(120)
    lines = messages(STEPS)
    more = {
        "adversary": "crowd",
        "release": budget(**{"budget.share": 0.25}),
        "kafka": {"answer_seconds": 60},
    }
    if of_personas:
        population = replace(population, weights=np.tile([1.0, 3.0, 0.4, 12.5], 30))
        more |= in_doubt(sensors[0][0])
    with OnKafka(tmp_path / "crowd", kafka.address, population, sensors, **more) as deployment:
        deployment.load_people()
        workers = [deployment.start("account") for _ in range(2)]
        deployment.start("release")
        deployment.produce(lines)
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        summaries = [json.loads(line) for line in risks]
        assert any(each["crowd"] < each["risk"] for each in summaries)
        logged = [json.loads(line) for line in deployment.values(deployment.topics.decisions)]
        embedded = (tmp_path / "crowd" / "embedded" / "decisions.jsonl").read_text().splitlines()
        assert [step.pop("deployment") for step in logged] == [deployment.digest] * STEPS
        assert logged == [json.loads(line) for line in embedded]
        assert all(any(sum(each["crowd"]) for each in step["decisions"]) for step in logged)
        again = compare(Deployment.of(deployment.settings))
        assert again.is_same, again
        names = {*population.people, *(each["person"] for each in summaries)}
        for line in deployment.values(deployment.topics.answers):
            assert not [name for name in names if name.encode() in line]
        assert not [name for name in names for worker in workers if worker.says(name)]


def test_a_partition_that_does_not_answer_hides_nobody(kafka: Broker, tmp_path: Path) -> None:
    """Steps go on without a crowd, and with one once the workers are there."""
    population, sensors, messages = small_city(60)
    lines = messages(8)
    release = {"mechanism": "gaussian", "sigma": 1.0}
    with OnKafka(
        tmp_path / "alone",
        kafka.address,
        population,
        sensors,
        adversary="crowd",
        release=release,
        kafka={"answer_seconds": 1.0},
    ) as deployment:
        deployment.load_people()
        worker = deployment.start("release")
        deployment.produce(lines[:10])  # two steps, and nobody to ask
        wait_until("it went on", lambda: worker.says("step 1: no answer in time from partitions 0, 1, 2, 3"))
        wait_until("both are published", lambda: len(deployment.releases()) >= 2)
        assert worker.stop() == 0
        deployment.start("account")
        deployment.start("release", TALLYGUARD_KAFKA__ANSWER_SECONDS="60")  # enough for any machine
        deployment.wait_for_steps(2)
        deployment.produce(lines[10:])
        deployment.wait_for_steps(8)
        logged = [json.loads(line) for line in deployment.values(deployment.topics.decisions)]
        sums = [sum(sum(each["crowd"]) for each in step["decisions"]) for step in logged]
        assert sums[:2] == [0, 0]
        assert min(sums[2:]) > 0
        assert compare(Deployment.of(deployment.settings)).is_same


def test_without_answers_everything_is_suppressed_and_later_decided_again(
    kafka: Broker, tmp_path: Path
) -> None:
    population, sensors, messages = small_city(20)
    lines = messages(8)
    with OnKafka(
        tmp_path / "silent",
        kafka.address,
        population,
        sensors,
        release=budget(**{"budget.share": 1.0}),
        kafka={"answer_seconds": 1.5},
    ) as deployment:
        deployment.load_people()
        release = deployment.start("release")
        deployment.produce(lines[:20])  # four steps, and nobody to ask
        wait_until("it gave up twice", lambda: release.says("step 1: no answer in time"))
        wait_until("both are published", lambda: len(deployment.releases()) >= 2)
        assert release.stop() == 0
        account = deployment.start("account")
        deployment.start("release", TALLYGUARD_KAFKA__ANSWER_SECONDS="60")  # enough for any machine
        deployment.wait_for_steps(4)
        deployment.produce(lines[20:])
        deployment.wait_for_steps(8)
        decided = [json.loads(line) for line in deployment.values(deployment.topics.decisions)]
        assert [step["why"]["because"] for step in decided[:2]] == ["no_answer", "no_answer"]
        assert all(each["mechanism"] == "suppressed" for each in decided[0]["decisions"])
        assert [step["why"]["because"] for step in decided[4:]] == ["free"] * 4
        assert "no answer in time from partitions" in release.text
        assert account.is_running
