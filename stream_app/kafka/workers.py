"""The kinds of worker processes, assembled from settings; start here to read how a worker is made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from models.keys import NoiseKey, SnapshotKey
from stream_app.exceptions import SettingsError
from stream_app.kafka.account.account_watch import AccountWatch
from stream_app.kafka.account.account_worker import AccountWorker
from stream_app.kafka.deployment.deployment import Deployment, require_record_sizes
from stream_app.kafka.release.deciding_worker import DecidingWorker, ReleaseWorker
from stream_app.kafka.release.stream_task import TaskMonitor
from stream_app.kafka.worker_metrics import (
    AccountCounters,
    AccountMetrics,
    InputCounters,
    IntakeMetrics,
)
from stream_app.kafka.worker_process import Job, Pulse, run_worker
from stream_app.setup.combinations import REGION_WORKERS, Runner, refuse
from stream_app.setup.keys import load_noise_key, load_snapshot_key
from stream_app.setup.run_folder.record import Author
from stream_app.setup.schedule_files import schedule_fingerprint
from stream_app.setup.settings import Settings, said_beside_settings
from stream_app.steps import DeviceWatch, plan_of
from stream_app.steps.policy import Policy
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web import watching

logger = logging.getLogger(__name__)

Announce = Callable[[str], None]


class Prepared(NamedTuple):
    """What a worker is made of before the broker is asked for anything."""

    deployment: Deployment
    noise_key: NoiseKey | None = None
    snapshot_key: SnapshotKey | None = None
    policy: Policy | None = None
    schedule: str | None = None
    """The fingerprint of the schedule file."""


def prepared(runner: Runner, settings: Settings, schedule: Path | None = None) -> Prepared:
    """A worker of this kind as configured; raises whatever of the configuration it refuses at its start.

    `tallyguard check` asks it, too. People are spread over account workers: none holds the priors against a
    panel.
    """
    if settings.panel is not None:
        logger.warning(
            "panel: no worker reads it; `tallyguard priors watch` holds the priors against volunteers' "
            "places, with these settings, in a process of its own"
        )
    schedule = schedule or settings.kafka.schedule
    if schedule is not None:
        settings = settings.model_copy(update=said_beside_settings(settings, schedule))
    refuse(runner, settings)
    deployment = Deployment.of(settings)
    _require_regions(runner, deployment)
    DeviceWatch.of(settings.quality, deployment.registry)  # which names sensors
    deployment.connection.ssl_context()
    require_record_sizes(deployment.registry, deployment.topics, settings)
    if runner is Runner.INTAKE:
        return Prepared(deployment, noise_key=load_noise_key(settings))
    if runner is Runner.ACCOUNT:
        return Prepared(deployment, snapshot_key=load_snapshot_key(settings))
    noise_key = load_noise_key(settings) if runner is Runner.RELEASE else None
    policy = plan_of(settings, schedule, deployment.vocabulary).policy
    fingerprint = None if schedule is None else schedule_fingerprint(schedule)
    return Prepared(deployment, noise_key, policy=policy, schedule=fingerprint)


def _require_regions(runner: Runner, deployment: Deployment) -> None:
    """:class:`SettingsError` for a worker of several regions where there is one, and the other way round."""
    regions = deployment.topics.regions
    if runner is Runner.RELEASE and regions:
        raise SettingsError(
            "one release worker must take in sensors of one region",
            f"regions {', '.join(regions)}",
            "run `tallyguard worker coordinator` and `tallyguard worker intake` in its place",
        )
    if runner in REGION_WORKERS and not regions:
        raise SettingsError(
            "sensors must lie in at least two regions for intake workers and a coordinator",
            "sensors of one region, or without",
            "give each sensor of the sensors file a region, or run `tallyguard worker release`",
        )


def run_deciding_worker(
    runner: Runner,
    settings: Settings,
    schedule: Path | None,
    *,
    accept_changes: bool,
    announce: Announce,
    author: Author | None = None,
) -> int:
    """Run the worker that decides on steps until it is stopped; its exit code.

    The release worker, or the coordinator of regions, which needs no noise key; in the consumer group of its
    name.
    """
    from stream_app.kafka.regions.coordinator import Coordinator

    parts = prepared(runner, settings, schedule)
    deployment, policy = parts.deployment, parts.policy
    kind: type[DecidingWorker] = ReleaseWorker if runner is Runner.RELEASE else Coordinator
    assert policy is not None

    def make(monitor: TaskMonitor) -> Job:
        return kind(
            *(deployment, policy, parts.noise_key, monitor),
            schedule=parts.schedule,
            accept_changes=accept_changes,
            author=author,
        )

    group = f"{deployment.topics.prefix}tallyguard-{kind.transactional_id}"
    return _run_watched(group, deployment, make, announce)


def run_intake_worker(settings: Settings, *, accept_changes: bool, announce: Announce) -> int:
    """Run an intake worker until it is stopped; its exit code."""
    from stream_app.kafka.regions.intake_worker import IntakeWorker

    parts = prepared(Runner.INTAKE, settings)
    key = parts.noise_key
    assert key is not None

    def make(monitor: TaskMonitor) -> Job:
        return IntakeWorker(parts.deployment, key, monitor, accept_changes=accept_changes)

    return _run_watched(
        f"{settings.kafka.prefix}tallyguard-intake", parts.deployment, make, announce, IntakeMetrics
    )


def run_account_worker(settings: Settings, *, announce: Announce) -> int:
    """Run an account worker until it is stopped; its exit code."""
    parts = prepared(Runner.ACCOUNT, settings)
    deployment = parts.deployment
    sensors, pulse = deployment.registry.sensors, Pulse()
    with watching(settings, sensors, kind=AccountMetrics) as watch:
        _announce(announce, watch.address)
        counters = AccountCounters(watch.registry, watch.metrics)
        shown = AccountWatch(watch.observer, counters)
        job = AccountWorker(deployment, watch=shown, pulse=pulse, snapshot_key=parts.snapshot_key)
        return run_worker(f"{settings.kafka.prefix}tallyguard-account", job, deployment, pulse)


def _run_watched(
    group: str,
    deployment: Deployment,
    make: Callable[[TaskMonitor], Job],
    announce: Announce,
    kind: type[EngineMetrics] = EngineMetrics,
) -> int:
    """Run a worker that takes in counts or decides on steps, with its page and metrics."""
    pulse = Pulse()
    with watching(deployment.settings, deployment.registry.sensors, kind=kind) as watch:
        _announce(announce, watch.address)
        regions = len(deployment.topics.regions) or None
        counters = InputCounters(watch.registry, regions, owns=kind is IntakeMetrics)
        job = make(TaskMonitor(watch.observer, counters, pulse))
        return run_worker(group, job, deployment, pulse)


def _announce(announce: Announce, address: str | None) -> None:
    if address:
        announce(f"watch it at {address} (metrics at {address}metrics)")
