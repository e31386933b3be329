"""Killed workers lose nothing and publish nothing twice; a paused or second release worker is kept out."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_app.kafka.release.release_log import LogRecord, TransactionLog
from tests.kafka.broker import Broker
from tests.kafka.faults.chaos import run_chaos
from tests.kafka.support import OnKafka, in_doubt, small_city
from tests.volume import turn
from tests.watching.services import wait_until


@pytest.mark.slow
def test_ten_kills_at_random_moments_change_nothing(kafka: Broker, tmp_path: Path) -> None:
    population, sensors, messages = small_city(400)
    steps, seed = 500, 20261121 + turn()
    # Some who take over find a snapshot, others account all steps again: with little work for each.
    quick = {"risk_every": 100, "sharpen_operations": 600_000, "attack_draws": 10, "snapshot_seconds": 1.0}
    with OnKafka(tmp_path / "kills", kafka.address, population, sensors, **quick) as deployment:
        report = run_chaos(
            deployment,
            messages(steps),
            steps,
            kills=10,
            seed=seed,
            between_seconds=(0.5, 2.0),
            messages_per_second=100.0,
        )
    assert report.is_sound, f"seed {seed}: {report}"
    assert report.repeated_summaries == 0
    assert sum(report.kills.values()) == 10
    assert report.kills_at_work > 0


@pytest.mark.slow
def test_kills_change_nothing_where_a_budget_is_kept_in_the_crowd(kafka: Broker, tmp_path: Path) -> None:
    """Sums are asked again after a death, or by who takes a partition over, and are the same.

    Also of personas that stand for one or for many; strangers are added once.
    """
    population, sensors, messages = small_city(100)
    population = replace(population, weights=np.tile([1.0, 3.0, 0.4, 12.5], 25))
    steps, seed = 100, 20261123
    crowd = {
        "adversary": "crowd",
        "release": {
            "mechanism": "budget",
            "budget.share": 0.2,
            "budget.added": 0.3,
            "budget.hindsight": True,
        },
        "kafka": {"answer_seconds": 60},
        "sharpen_operations": 600_000,
        **in_doubt(sensors[0][0]),
    }
    with OnKafka(tmp_path / "crowd", kafka.address, population, sensors, **crowd) as deployment:
        report = run_chaos(deployment, messages(steps), steps, kills=5, seed=seed, messages_per_second=50.0)
    assert report.is_sound, f"seed {seed}: {report}"
    assert report.repeated_summaries == 0


@pytest.mark.slow
def test_a_second_release_worker_refuses_to_start_and_says_so(kafka: Broker, tmp_path: Path) -> None:
    population, sensors, messages = small_city(20)
    with OnKafka(tmp_path / "second", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        deployment.start("account")
        first = deployment.start("release")
        deployment.produce(messages(5))
        deployment.wait_for_steps(5)
        second = deployment.start("release")
        assert second.ended() == 1
        assert "only one release worker may run, got another one is alive" in second.text
        deployment.produce(messages(12)[-7 * 5 :])
        deployment.wait_for_steps(12)
        assert first.is_running


@pytest.mark.slow
@pytest.mark.parametrize("idle", [False, True])
def test_a_release_worker_that_wakes_after_it_was_replaced_is_fenced(
    kafka: Broker, tmp_path: Path, idle: bool
) -> None:
    """Also where nothing comes that it could try to publish: then the group tells it that it is not alone."""
    population, sensors, messages = small_city(20)
    lines = messages(20)
    with OnKafka(tmp_path / "fenced", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        deployment.start("account")
        paused = deployment.start("release")
        deployment.produce(lines[:50])
        deployment.wait_for_steps(10)
        paused.send(signal.SIGSTOP)
        replacement = deployment.start("release")
        wait_until("the replacement works", lambda: replacement.says("continues at step 10"))
        paused.send(signal.SIGCONT)
        if idle:
            assert paused.ended() == 1
        deployment.produce(lines[50:])
        deployment.wait_for_steps(20)
        assert paused.ended() == 1
        assert replacement.is_running, replacement.text
        assert "only one release worker may write" in paused.text or "must own" in paused.text
        assert deployment.releases() == deployment.embedded(lines)[0]


@pytest.mark.slow
def test_who_is_fenced_while_it_commits_can_leave(kafka: Broker, tmp_path: Path) -> None:
    """A region that goes to another worker is left like that; nothing of what was on its way is there."""
    with OnKafka(tmp_path / "leaving", kafka.address, *small_city(5)[:2]) as deployment:
        topic = deployment.topics.releases

        async def leave_after(turns: int) -> None:
            log, newer = (TransactionLog(deployment.connection, "same", topic) for _ in range(2))
            await log.start()
            await log._producer.begin_transaction()
            await log._producer.send_and_wait(topic, b"too late")
            await newer.start()
            commit = asyncio.create_task(log._producer.commit_transaction())
            for _ in range(turns):
                await asyncio.sleep(0)
            await log.stop()
            commit.cancel()
            await asyncio.gather(commit, return_exceptions=True)
            await newer.write([LogRecord(topic, None, b"in time")])
            await newer.stop()

        async def leave() -> None:
            for turns in range(10):
                await leave_after(turns)

        asyncio.run(leave())
        assert deployment.values(topic) == [b"in time"] * 10
