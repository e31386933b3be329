"""Three brokers, two of which must have every record: what it costs to lose one of them, and two."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from stream_app.kafka.broker import clients
from stream_app.kafka.broker.clients import answering_servers
from stream_app.kafka.deployment.deployment import administration
from tests.kafka.cluster.brokers import NUMBERS, QUICK, cluster, wait_for_copies
from tests.kafka.cluster.public_reader import PublicReader
from tests.kafka.support import OnKafka, small_city
from tests.watching.services import wait_until


@pytest.mark.slow
def test_lost_brokers_cost_no_step_and_publish_nothing_twice(tmp_path: Path) -> None:
    """One is killed, one cut off, then two are gone: workers wait, say so, and go on, all without an end."""
    population, sensors, messages = small_city(20)
    lines = messages(40)
    with (
        cluster(tmp_path / "cluster", QUICK) as three,
        OnKafka(
            tmp_path / "lost", three.address, population, sensors, kafka={"replication": 3}
        ) as deployment,
        PublicReader(lambda: deployment.connection, deployment.topics.releases) as public,
    ):
        deployment.load_people()
        release, account = deployment.start("release"), deployment.start("account")
        deployment.produce(of_steps(lines, 0, 10))
        deployment.wait_for_steps(10)

        killed = leader(deployment)
        three.brokers[killed].kill()
        go_on(deployment, public, lines, 20)
        three.start(killed)
        wait_until_whole(deployment)

        silent = leader(deployment)
        three.cut_off(silent)
        clients._known_servers.clear()  # this process has asked a moment ago
        answering = asyncio.run(answering_servers(deployment.connection))
        assert answering == [three.address_of(number) for number in NUMBERS if number != silent]
        go_on(deployment, public, lines, 30)
        three.bring_back(silent)
        wait_until_whole(deployment)

        gone = [number for number in NUMBERS if number != leader(deployment)]
        for number in gone:
            three.brokers[number].kill()
        since = time.monotonic()
        rest = threading.Thread(target=deployment.produce, args=(of_steps(lines, 30, 40),), daemon=True)
        rest.start()
        wait_until("it says so", lambda: release.says("broker does not answer") or release.says("nothing is"))
        assert public.between(since, time.monotonic()) == 0
        three.start(gone[0])
        rest.join()
        deployment.wait_for_steps(40)
        assert release.is_running
        assert account.is_running
        wait_until("all are public", lambda: public.steps == 40)
        releases, risks = deployment.embedded(lines)
        assert [each.line for each in public.seen] == releases
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        assert all(len(written) == 1 for written in deployment.summaries().values())


@pytest.mark.slow
def test_a_controller_that_is_cut_off_is_replaced(tmp_path: Path) -> None:
    """Its followers reach it by nothing but the links: else a broker that is cut off would still be alive."""
    with cluster(tmp_path / "cluster", QUICK) as three:
        silent = three.controllers()[NUMBERS[0]]
        others = [number for number in NUMBERS if number != silent]
        three.cut_off(silent)
        wait_until("another leads", lambda: {three.controllers()[each] for each in others} < set(others))


def go_on(deployment: OnKafka, public: PublicReader, lines: Sequence[bytes], until: int) -> None:
    """Ten more steps, seen by the public and accounted."""
    deployment.produce(of_steps(lines, until - 10, until))
    deployment.wait_for_steps(until)
    wait_until(f"{until} releases", lambda: public.steps == until)


def of_steps(lines: Sequence[bytes], first: int, until: int) -> list[bytes]:
    """The messages of these steps."""
    return [line for line in lines if first <= json.loads(line)["step"] < until]


def leader(deployment: OnKafka) -> int:
    """The broker that decisions are written to."""
    with administration(deployment.connection) as admin:
        (topic,) = admin.describe_topics([deployment.topics.decisions])
    return int(topic["partitions"][0]["leader_id"])


def wait_until_whole(deployment: OnKafka) -> None:
    """Until each broker has everything again."""
    with administration(deployment.connection) as admin:
        wait_for_copies(admin, [plan.name for plan in deployment.topics.plans()], 3)
