"""One broker for all tests of this folder; they run in one process, after each other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.kafka.broker import Broker, broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test here to the same process, so that there is one broker."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("kafka"))


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    """Compile once what the workers need: several that do so at the same time would take minutes."""
    command = [sys.executable, "-m", "stream_app.kafka.process.worker_warm_up"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=1200)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker."""
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running
