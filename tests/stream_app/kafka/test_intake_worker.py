"""Which regions an intake worker opens and leaves, without a broker: the group changes its mind meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from models.keys import NoiseKey
from stream_app.kafka.broker.clients import FencedError
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.regions import intake_worker
from stream_app.kafka.regions.intake_worker import IntakeWorker
from stream_app.kafka.release.stream_task import TaskMonitor
from stream_app.kafka.worker_process import Pulse
from tests.stream_app.engine_support import NAMES, NOISE_SECRET
from tests.stream_app.kafka.deployments import deployment_of_regions


class FakeTask:
    """A task that runs until it is cancelled, or until another worker takes its region."""

    def __init__(self) -> None:
        self.is_taken = asyncio.Event()

    async def run(self) -> None:
        await self.is_taken.wait()
        raise fenced()

    async def stop(self) -> None:
        pass


class Worker(IntakeWorker):
    """Notes what it opens; ``opening`` is called in the middle of that."""

    def __init__(self, deployment: Deployment, opening: Callable[[int], None] = lambda region: None) -> None:
        super().__init__(
            deployment, NoiseKey.parse(NOISE_SECRET), TaskMonitor(MagicMock(), MagicMock(), Pulse())
        )
        self.opened: list[int] = []
        self.tasks: dict[int, FakeTask] = {}
        self._opening = opening

    async def _begin(self, partition: int) -> None:
        self._opening(partition)
        await asyncio.sleep(0)
        self.opened.append(partition)
        self.tasks[partition] = task = FakeTask()
        self._open[partition] = intake_worker._OpenRegion(task, asyncio.create_task(task.run()))  # type: ignore[arg-type]

    async def take_over(self, *regions: int) -> None:
        """The group gives it these, and it has looked."""
        await self.assigned(set(regions))
        await asyncio.sleep(0.05)


def fenced() -> FencedError:
    return FencedError("only one may write", "a newer one", "start again")


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.setattr(intake_worker, "_LOOK_SECONDS", 0.01)
    kafka = {"servers": ("nowhere:9092",), "session_seconds": 6.0}
    return deployment_of_regions(tmp_path, {name: f"of {name}" for name in NAMES}, kafka=kafka)


def rest_is_over(worker: Worker) -> None:
    """A session has passed."""
    for region, rest in worker._fenced.items():
        worker._fenced[region] = rest._replace(until_seconds=0.0)


def test_a_region_that_was_given_away_meanwhile_is_not_opened(deployment: Deployment) -> None:
    """To open it would fence the worker that has it now."""

    def opening(region: int) -> None:
        if region == 0:
            worker._wanted = {0, 2}

    async def run() -> list[int]:
        working = asyncio.create_task(worker.run())
        await worker.take_over(0, 1, 2, 3)
        working.cancel()
        return worker.opened

    worker = Worker(deployment, opening)
    assert asyncio.run(run()) == [0, 2]


def test_a_worker_that_is_fenced_while_it_opens_a_region_goes_on(
    deployment: Deployment,
) -> None:
    def opening(region: int) -> None:
        if region == 1 and not worker.tasks.get(2):
            raise fenced()

    async def run() -> tuple[list[int], list[int]]:
        working = asyncio.create_task(worker.run())
        await worker.take_over(1, 2)
        first = list(worker.opened)
        rest_is_over(worker)
        await asyncio.sleep(0.05)
        working.cancel()
        return first, worker.opened

    worker = Worker(deployment, opening)
    assert asyncio.run(run()) == ([2], [2, 1])


def test_a_region_that_another_takes_is_taken_back_if_the_group_says_so(deployment: Deployment) -> None:
    """After a session, when whoever did not know has learnt whose it is; at most three times."""

    async def run() -> tuple[int, BaseException | None]:
        working = asyncio.create_task(worker.run())
        await worker.take_over(1, 2)
        for _ in range(4):
            worker.tasks[1].is_taken.set()
            await asyncio.sleep(0.05)
            assert 1 not in worker._open
            rest_is_over(worker)
            await asyncio.sleep(0.05)
        await asyncio.wait({working})
        return worker.opened.count(1), working.exception()

    worker = Worker(deployment)
    opened, failure = asyncio.run(run())
    assert opened == 4
    assert isinstance(failure, FencedError)


def test_a_region_that_another_takes_because_it_moved_is_left(deployment: Deployment) -> None:
    async def run() -> list[int]:
        working = asyncio.create_task(worker.run())
        await worker.take_over(1, 2)
        worker.tasks[1].is_taken.set()
        await worker.take_over(2)
        await asyncio.sleep(0.05)
        assert not working.done()
        working.cancel()
        return worker.opened

    worker = Worker(deployment)
    assert asyncio.run(run()) == [1, 2]
    assert not worker._fenced
