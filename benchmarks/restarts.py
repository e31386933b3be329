"""Claim: restarts and takeovers take the same time however long the log is.

``python -m benchmarks.restarts [--people N] [--steps N] [--minutes N]`` writes long logs directly, which
would take days to make, and measures three starts on them:

- An account worker takes over a partition of N accounts from a snapshot, and again with one person in a
  hundred changed. Everybody's releases count from 60 steps before the end, so that only these were accounted
  for the snapshot: what all steps would take without one follows from the rate.
- The release worker starts, until it says where it continues.
- A run in one process is continued, and finds nothing new in its input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from accounting.ledgers import PrivacyAccount
from benchmarks.engine_run import SEED, draw_population
from benchmarks.kafka_load import processor_seconds
from benchmarks.kafka_people import Listening, Phase
from models.mechanisms import Gaussian
from models.priors import Population
from models.releases import SensorRegistry, SensorRelease, StepSchedule
from stream_app.embedded import RunOptions, run
from stream_app.embedded.journal import Commit
from stream_app.embedded.restored_accounts import SnapshotCache
from stream_app.kafka.account.account_worker import AccountWorker
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.broker.clients import consuming, records, writing
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import people_of
from stream_app.kafka.release.release_log import PROGRESS_KEY, Progress
from stream_app.kafka.warm_up import compile_kernels
from stream_app.setup.keys import load_pseudonym_key, load_snapshot_key
from stream_app.setup.run_folder.durable import digests_of, load_sealed, seal, whole_lines
from stream_app.setup.run_folder.manifest import NOT_IN_SNAPSHOTS
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.steps import Accounts
from stream_app.wire import Activation, Reading, decision_of, fingerprint_of
from tests.kafka.broker import Broker, broker
from tests.kafka.support import SECRETS, OnKafka
from tests.watching.services import wait_until

PLACES, SENSORS, RECENT, SHARE_CHANGED = 10, 20, 60, 100
FILE_ONLY = NOT_IN_SNAPSHOTS | {"format"}  # of run.json, and not what a snapshot rests on
FEW = 70  # steps of a short log: enough for whatever looks back
_NUMBER = b'"step":0,'


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--minutes", type=int, default=365 * 24 * 60)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder) / "broker") as server:
        if chosen.people:
            print(f"{chosen.people:,} accounts, {chosen.steps:,} steps of {SENSORS} sensors")
            print("| what | seconds | of the processor | longest silence, s | peak of memory so far, MB |")
            print("|---|---:|---:|---:|---:|")
            for phase in take_over(server, Path(folder) / "people", chosen.people, chosen.steps):
                print(phase.row(), flush=True)
        if chosen.minutes:
            print("\n| log, steps | what starts | seconds | of the processor |")
            print("|---:|---|---:|---:|")
            for steps in (FEW, chosen.minutes):
                found = start_release(server, Path(folder) / f"release{steps}", steps)
                print(f"| {steps:,} | the release worker | {found[0]:.1f} | {found[1]:.1f} |", flush=True)
            for steps in (FEW, chosen.minutes):
                found = start_run(Path(folder) / f"run{steps}", steps)
                print(f"| {steps:,} | a run in one process | {found[0]:.1f} | {found[1]:.1f} |", flush=True)
    print("load of the last 1, 5, 15 minutes", *(f"{value:.1f}" for value in os.getloadavg()))


def take_over(server: Broker, folder: Path, people: int, steps: int) -> Iterator[Phase]:
    """Send people and log, then measure in processes of their own."""
    population = draw_population(np.random.default_rng(SEED), people, PLACES)
    listed = [(f"s{index}", (index,)) for index in range(SENSORS)]
    settings: dict[str, Any] = {"horizon": 10, "mistakes": 1, "sharpen": False, "kafka": {"partitions": 1}}
    with OnKafka(folder, server.address, population.subset(range(5)), listed, **settings) as deployment:
        deployment.load_people(population, steps - RECENT)
        known = Deployment.of(deployment.settings)
        write_decisions(deployment, known, range(steps))
        for name in ("made", "nobody changed", "1 in 100 changed"):
            if name == "1 in 100 changed":
                some = np.arange(0, people, SHARE_CHANGED)
                deployment.load_people(population.subset(some), steps - RECENT + 1)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                yield from pool.apply(measure, (deployment.config, steps, name))
        with consuming(deployment.connection) as consumer:
            sizes = [len(each.value or b"") for each in records(consumer, deployment.topics.accounts)]
        print(f"bytes of each snapshot on the topic: {sum(sizes):,}")


def write_decisions(deployment: OnKafka, known: Deployment, steps: range) -> bytes:
    """A log of steps that are all alike but for their number; the last line."""
    line = decision_of(_schedule(known.registry, 0), deployment=known.digest).line().rstrip()
    assert line.count(_NUMBER) == 1
    with writing(deployment.connection) as producer:
        for step in steps:
            sent = line.replace(_NUMBER, f'"step":{step},'.encode())
            producer.send(known.topics.decisions, sent, key=str(step).encode())
            if step % 20_000 == 0:
                producer.flush()
    return line


def _schedule(registry: SensorRegistry, step: int) -> StepSchedule:
    return StepSchedule(step, tuple(SensorRelease(sensor, Gaussian(2.0)) for sensor in registry.sensors))


def measure(config: Path, steps: int, name: str) -> list[Phase]:
    """Take the partition over; then write the snapshot that an end in order writes."""
    os.environ |= SECRETS
    settings = load_settings(config, {})
    deployment = Deployment.of(settings)
    compile_kernels(deployment)
    pulse = Listening()
    key = load_snapshot_key(settings)
    worker = AccountWorker(deployment, watch=MagicMock(), pulse=pulse, snapshot_key=key)

    async def work() -> None:
        await worker._snapshots.start()
        if name == "made":
            accounts = await pulse.phase("people loaded, without a snapshot", begin())
            await pulse.phase(f"{RECENT} steps accounted", catch_up(accounts))
            await pulse.phase("snapshot written", worker._snapshots.write_last([accounts]))
        else:
            accounts = await pulse.phase(f"taken over, {name}", worker._loader.load(0, steps))
        assert accounts.next_step == steps
        await worker._snapshots.stop()

    async def begin() -> PartitionAccounts:
        """As if nobody had been there for all steps but the last."""
        accounts = PartitionAccounts(0, deployment)
        nobody = people_of([], deployment.location_names)
        accounts.use(accounts._new_accounts(nobody, steps - RECENT))
        await worker._snapshots.find(0, pulse.progress)
        people = await worker._loader.persons.load(0, pulse.progress)
        await worker._loader.enter(accounts, people.changes)
        return accounts

    async def catch_up(accounts: PartitionAccounts) -> None:
        async for some in worker._loader.logged(accounts.next_step, steps):
            await worker._thread.do(partial(accounts.restore, some, pulse.progress))

    asyncio.run(work())
    return pulse.phases


def start_release(server: Broker, folder: Path, steps: int) -> tuple[float, float]:
    """Seconds until the release worker continues behind so many steps, and those of the processor."""
    population = draw_population(np.random.default_rng(SEED), 20, PLACES)
    listed = [(f"s{index}", (index,)) for index in range(SENSORS)]
    with OnKafka(folder, server.address, population, listed, horizon=10, mistakes=1) as deployment:
        deployment.load_people()
        first = deployment.start("release")
        deployment.produce(_messages(FEW))
        wait_until("a beginning", lambda: len(deployment.releases()) >= FEW - 3)
        assert first.stop() == 0
        if steps > FEW:
            _prolong(deployment, steps)
        second = deployment.start("release")
        began = time.monotonic()
        wait_until("it continues", lambda: second.says("continues at step"), 600.0)
        return time.monotonic() - began, processor_seconds(second.pid)


def _messages(steps: int) -> list[bytes]:
    names = tuple(f"s{index}" for index in range(SENSORS))
    lines = []
    for step in range(steps):
        lines.append(Activation(v=1, step=step, sensors=names).line().rstrip())
        lines += [Reading(v=1, step=step, sensor=name, count=5).line().rstrip() for name in names]
    return lines


def _prolong(deployment: OnKafka, steps: int) -> None:
    """The log as if so many steps had been decided, and the progress that such a log has."""
    known = Deployment.of(deployment.settings)
    with consuming(deployment.connection) as consumer:
        latest = {each.key: each.value for each in records(consumer, deployment.topics.progress)}
    progress = Progress.model_validate_json(latest[PROGRESS_KEY])
    write_decisions(deployment, known, range(progress.next_step, steps))
    account = PrivacyAccount.load(progress.account)
    account.steps = steps
    prolonged = progress.model_copy(
        update={
            "next_step": steps,
            "account": account.save(),
            "decided": fingerprint_of(_schedule(known.registry, steps - 1)),
            "window": {**progress.window, "next_step": steps},
        }
    )
    with writing(deployment.connection) as producer:
        for key in latest.keys() - {PROGRESS_KEY}:
            producer.send(deployment.topics.progress, None, key=key)
    deployment.send(deployment.topics.progress, prolonged.record(), PROGRESS_KEY)


def start_run(folder: Path, steps: int) -> tuple[float, float]:
    """Seconds that a run takes which is continued behind so many steps, and those of the processor."""
    folder.mkdir()
    source, output = folder / "messages.jsonl", folder / "output"
    source.write_bytes(b"".join(line + b"\n" for line in _messages(FEW)))
    population = draw_population(np.random.default_rng(SEED), 1_000, PLACES)
    listed = [{"name": f"s{index}", "locations": [index]} for index in range(SENSORS)]
    (folder / "sensors.json").write_text(json.dumps({"sensors": listed}))
    given = {"sensors": folder / "sensors.json", "listen": "", "attack_draws": 0, "sharpen": False}
    settings = Settings.model_validate({**given, "release": {"mechanism": "gaussian", "sigma": 2.0}})
    options = RunOptions(output, source, create_keys=True)
    run(settings, options, population)
    if steps > FEW:
        _prolong_run(output, settings, population, steps)
    began, before = time.monotonic(), time.process_time()
    run(settings, options, population)
    assert Commit(**load_sealed(output / "progress.json")).next_step >= steps - 1
    return time.monotonic() - began, time.process_time() - before


def _prolong_run(output: Path, settings: Settings, population: Population, steps: int) -> None:
    """The folder as if so many steps had been closed, with a snapshot behind the last of them."""
    commit = Commit(**load_sealed(output / "progress.json"))
    for name in ("decisions", "releases"):
        with (output / f"{name}.jsonl").open("r+b") as log:
            line = log.readline()
            assert line.count(_NUMBER) == 1
            log.seek(0, os.SEEK_END)
            for step in range(commit.next_step, steps):
                log.write(line.replace(_NUMBER, f'"step":{step},'.encode()))
            length = log.tell()
        digest = digests_of(whole_lines(output / f"{name}.jsonl"), [length])[length]
        digests = {**commit.digests, name: str(digest)}
        commit = commit.model_copy(update={"lengths": {**commit.lengths, name: length}, "digests": digests})
    registry = load_registry(settings.sensors, population.location_names)
    account = PrivacyAccount.load(commit.account)
    account.steps = steps
    window = {**commit.window, "next_step": steps, "steps": []}
    decided = fingerprint_of(_schedule(registry, steps - 1))
    reached = {"next_step": steps, "window": window, "account": account.save(), "decided": decided}
    commit = commit.model_copy(update=reached)
    (output / "progress.json").write_bytes(seal(vars(commit)))
    names = load_pseudonym_key(settings, output).pseudonyms(population.people)
    accounts = Accounts.of(settings, settings.horizon_settings(0), population, names)
    accountant = accounts.informed
    accountant.apply_all(_schedule(registry, step) for step in range(FEW))
    accountant._running = accountant._running._replace(next_step=steps)
    manifest = json.loads((output / "run.json").read_bytes())
    basis = {key: value for key, value in manifest.items() if key not in FILE_ONLY}
    SnapshotCache(output, basis, 1.0).save(accounts, commit)


if __name__ == "__main__":
    main()
