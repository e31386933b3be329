"""Brokers for the tests of this folder: one for faults, three for a cluster, one for all others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.broker import Broker, broker
from tests.kafka.support import Process


@pytest.hookimpl(tryfirst=True)  # xdist looks at the groups when it is its turn
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test here to one of two processes, each with its brokers; they wait most of the time."""
    for item in items:
        if item.nodeid.startswith("tests/kafka/"):
            apart = item.nodeid.startswith(("tests/kafka/faults/", "tests/kafka/cluster/"))
            item.add_marker(pytest.mark.xdist_group("kafka-faults" if apart else "kafka"))


@pytest.fixture(scope="session", autouse=True)
def prepared_workers() -> None:
    """Workers are copies of one process: importing and compiling in each would take most of the time."""
    Process.copied = True


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker, until the last test here is done: one that is idle takes a fiftieth of a core."""
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running
