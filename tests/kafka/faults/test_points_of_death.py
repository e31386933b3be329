"""Workers killed at every point of a transaction leave a log that is whole, in order and written once."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.priors import Population
from stream_app.setup.keys import load_pseudonym_key
from tests.kafka.broker import Broker
from tests.kafka.faults.dying import POINTS
from tests.kafka.support import OnKafka, Process, small_city
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow

STEPS_EACH, LINES_A_STEP = 4, 5
HALF = STEPS_EACH // 2 * LINES_A_STEP
STEPS = STEPS_EACH * (len(POINTS) + 1)
NOISE: dict[str, Any] = {"mechanism": "gaussian", "sigma": 2.0}
TIERS: dict[str, Any] = {"mechanism": "tiered", "tiers.partner": 1.0, "tiers.public": 0.2}
BUDGET: dict[str, Any] = {"mechanism": "budget", "budget.share": 0.5, "budget.added": 0.2}


@pytest.mark.parametrize("release", [NOISE, TIERS], ids=["noise", "tiers"])
def test_both_kinds_of_workers_die_at_every_point_while_people_come_and_go(
    kafka: Broker, tmp_path: Path, release: dict[str, Any]
) -> None:
    population, sensors, messages = small_city(40)
    stay = population.subset(np.arange(20))
    lines = messages(STEPS)
    whole = {
        "release": release,
        "risk_every": 1,  # so that there are several records to die between
        "sharpen_operations": 1_000_000_000,  # for all: who comes and goes takes none from those who stay
    }
    with OnKafka(tmp_path / "death", kafka.address, stay, sensors, **whole) as deployment:
        deployment.load_people()
        for turn, point in enumerate(POINTS):
            published = len(deployment.releases())
            account = deployment.start_dying("account", point, 1)
            worker = deployment.start_dying("release", point, 2)
            change_people(deployment, population, turn)
            deployment.produce(portion(lines, turn)[:HALF])
            wait_until("a step", lambda published=published: len(deployment.releases()) > published, 240.0)
            assert_died(account)
            deployment.produce(portion(lines, turn)[HALF:])
            assert_died(worker)
            assert_prefix(deployment)
        deployment.load_people(remove_others=True)
        deployment.start("account")
        finish(deployment, lines)


def test_a_release_worker_dies_at_every_point_under_a_budget(kafka: Broker, tmp_path: Path) -> None:
    """Decisions made again after a death are the same ones, though the account workers are asked again."""
    population, sensors, messages = small_city(40)
    lines = messages(STEPS)
    waits = {"answer_seconds": 60}
    with OnKafka(
        tmp_path / "budget", kafka.address, population, sensors, release=BUDGET, kafka=waits
    ) as deployment:
        deployment.load_people()
        deployment.start("account")
        for turn, point in enumerate(POINTS):
            deployment.produce(portion(lines, turn))
            assert_died(deployment.start_dying("release", point, 2))
            assert_prefix(deployment)
        finish(deployment, lines)
        assert all(len(written) == 1 for written in deployment.summaries().values())


def test_workers_die_at_every_kind_of_record_beside_a_transaction(kafka: Broker, tmp_path: Path) -> None:
    """Of a snapshot its people, its accounts and its head, with others after it; questions and answers."""
    population, sensors, messages = small_city(40)
    deaths = [("accounts", number) for number in (1, 2, 3, 6)] + [("answers", number) for number in (1, 3)]
    questions = (1, 3)
    steps = STEPS_EACH * (len(deaths) + len(questions) + 1)
    lines, turn = messages(steps), 0
    given = {"release": BUDGET, "kafka": {"answer_seconds": 60}, "snapshot_seconds": 0.2}
    with OnKafka(tmp_path / "beside", kafka.address, population, sensors, **given) as deployment:
        deployment.load_people()
        release = deployment.start("release")
        for topic, number in deaths:
            account = deployment.start_dying("account", topic, number)
            deployment.produce(portion(lines, turn))
            turn += 1
            assert_died(account)
        deployment.start("account")
        deployment.wait_for_steps(STEPS_EACH * turn)
        assert release.stop() == 0
        for number in questions:
            dying = deployment.start_dying("release", "proposals", number)
            deployment.produce(portion(lines, turn))
            turn += 1
            assert_died(dying)
            assert_prefix(deployment)
        deployment.start("release")
        deployment.produce(portion(lines, turn))
        deployment.wait_for_steps(steps)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        assert all(len(written) == 1 for written in deployment.summaries().values())


def portion(lines: list[bytes], turn: int) -> list[bytes]:
    """The messages of a few steps."""
    length = STEPS_EACH * LINES_A_STEP
    return lines[turn * length : (turn + 1) * length]


def change_people(deployment: OnKafka, everybody: Population, turn: int) -> None:
    """In every other turn all are there, otherwise those who stay."""
    if turn % 2 == 0:
        deployment.load_people(everybody)
    else:
        deployment.load_people(remove_others=True)


def assert_died(worker: Process) -> None:
    """By its own hand, and by nothing else."""
    assert worker.ended(240.0) == -signal.SIGKILL, worker.text[-2000:]


def assert_prefix(deployment: OnKafka) -> None:
    """What is public is whole steps from the first on, none of them twice, and some were there before."""
    steps = [json.loads(line)["step"] for line in deployment.releases()]
    assert steps
    assert steps == list(range(len(steps)))


def finish(deployment: OnKafka, lines: list[bytes]) -> None:
    """Workers that live take over; everything is as in a run that nobody disturbed."""
    deployment.start("release")
    deployment.produce(portion(lines, len(POINTS)))
    deployment.wait_for_steps(STEPS)
    releases, risks = deployment.embedded(lines)
    public = deployment.folder / "embedded" / "releases-public.jsonl"
    assert deployment.releases() == (public.read_bytes().splitlines() if public.exists() else releases)
    names = load_pseudonym_key(deployment.settings).pseudonyms(deployment.population.people)
    written = [line for line in deployment.person_risks() if json.loads(line)["person"] in names]
    assert written == risks
