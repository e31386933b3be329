"""The kinds of worker processes, assembled from settings; start here to read how a worker is made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from models.keys import NoiseKey
from models.releases import Schedule
from stream_app.exceptions import SettingsError
from stream_app.kafka.account.account_watch import AccountWatch
from stream_app.kafka.account.account_worker import AccountWorker
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.release.deciding_worker import DecidingWorker, ReleaseWorker
from stream_app.kafka.release.stream_task import TaskMonitor
from stream_app.kafka.worker_metrics import (
    AccountCounters,
    AccountMetrics,
    IntakeMetrics,
    RegionCounters,
    ReleaseCounters,
)
from stream_app.kafka.worker_process import Job, Pulse, run_worker
from stream_app.setup.keys import load_noise_key, load_snapshot_key
from stream_app.setup.run_folder.record import Author
from stream_app.setup.schedule_files import load_schedule, schedule_fingerprint
from stream_app.setup.settings import Settings
from stream_app.steps import policy_of_schedule, refuse_late_tiers, refuse_unaccounted, tiers_of
from stream_app.steps.policy import BudgetPolicy, FixedPolicy, Policy, policy_from
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web import watching

logger = logging.getLogger(__name__)

Announce = Callable[[str], None]


def run_release_worker(
    settings: Settings,
    schedule: Path | None,
    *,
    accept_changes: bool,
    announce: Announce,
    author: Author | None = None,
) -> int:
    """Run the release worker until it is stopped; its exit code."""
    deployment = _deployment(settings)
    if deployment.topics.regions:
        raise SettingsError(
            "one release worker must take in sensors of one region",
            f"regions {', '.join(deployment.topics.regions)}",
            "run `tallyguard worker coordinator` and `tallyguard worker intake` in its place",
        )
    key = load_noise_key(settings)
    return _run_deciding(ReleaseWorker, deployment, key, schedule, accept_changes, author, announce)


def run_coordinator(
    settings: Settings,
    schedule: Path | None,
    *,
    accept_changes: bool,
    announce: Announce,
    author: Author | None = None,
) -> int:
    """Run the coordinator of regions until it is stopped; its exit code. It needs no noise key."""
    from stream_app.kafka.regions.coordinator import Coordinator

    deployment = _deployment_of_regions(settings)
    return _run_deciding(Coordinator, deployment, None, schedule, accept_changes, author, announce)


def run_intake_worker(settings: Settings, *, accept_changes: bool, announce: Announce) -> int:
    """Run an intake worker until it is stopped; its exit code."""
    from stream_app.kafka.regions.intake_worker import IntakeWorker

    deployment, key = _deployment_of_regions(settings), load_noise_key(settings)

    def make(monitor: TaskMonitor) -> Job:
        return IntakeWorker(deployment, key, monitor, accept_changes=accept_changes)

    return _run_watched(
        f"{settings.kafka.prefix}tallyguard-intake", deployment, make, announce, IntakeMetrics
    )


def run_account_worker(settings: Settings, *, announce: Announce) -> int:
    """Run an account worker until it is stopped; its exit code."""
    deployment = _deployment(settings)
    key = load_snapshot_key(settings)
    sensors, pulse = deployment.registry.sensors, Pulse()
    with watching(settings, sensors, kind=AccountMetrics) as watch:
        _announce(announce, watch.address)
        counters = AccountCounters(watch.registry, watch.metrics)
        shown = AccountWatch(watch.observer, counters, tuple(sensor.name for sensor in sensors))
        job = AccountWorker(deployment, watch=shown, pulse=pulse, snapshot_key=key)
        return run_worker(f"{settings.kafka.prefix}tallyguard-account", job, deployment, pulse)


def _run_deciding(
    kind: type[DecidingWorker],
    deployment: Deployment,
    noise_key: NoiseKey | None,
    schedule: Path | None,
    accept_changes: bool,
    author: Author | None,
    announce: Announce,
) -> int:
    """Run the worker that decides on steps, in the consumer group of its name."""
    policy, fingerprint = _policy(deployment, schedule)

    def make(monitor: TaskMonitor) -> Job:
        return kind(
            *(deployment, policy, noise_key, monitor),
            schedule=fingerprint,
            accept_changes=accept_changes,
            author=author,
        )

    group = f"{deployment.topics.prefix}tallyguard-{kind.transactional_id}"
    return _run_watched(group, deployment, make, announce)


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
        counters = (
            ReleaseCounters(watch.registry)
            if not deployment.topics.regions
            else RegionCounters(watch.registry, len(deployment.topics.regions), owns=kind is IntakeMetrics)
        )
        job = make(TaskMonitor(watch.observer, counters, pulse))
        return run_worker(group, job, deployment, pulse)


def _policy(deployment: Deployment, schedule: Path | None) -> tuple[Policy, str | None]:
    """The policy of the settings or of a schedule file, and that file's fingerprint."""
    settings = deployment.settings
    configured = policy_from(settings.release, deployment.registry)
    if schedule is None:
        return configured, None
    known = load_schedule(schedule, deployment.vocabulary)
    refuse_unaccounted(known, deployment.registry)
    _check_tiers(known, configured, deployment.topics.tiers)
    _check_first_slot(settings, known.first_slot)
    active = deployment.exclusions.without(known)
    return policy_of_schedule(active, configured), schedule_fingerprint(schedule)


def _deployment_of_regions(settings: Settings) -> Deployment:
    """The deployment; :class:`SettingsError` if its sensors are not in several regions."""
    deployment = _deployment(settings)
    if not deployment.topics.regions:
        raise SettingsError(
            "sensors must lie in at least two regions for intake workers and a coordinator",
            "sensors of one region, or without",
            "give each sensor of the sensors file a region, or run `tallyguard worker release`",
        )
    return deployment


def _deployment(settings: Settings) -> Deployment:
    """The deployment; :class:`SettingsError` for settings that do not go together.

    People are spread over account workers, so no worker holds the priors against a panel.
    """
    if settings.panel is not None:
        logger.warning(
            "panel: no worker reads it; `tallyguard priors watch` holds the priors against volunteers' "
            "places, with these settings, in a process of its own"
        )
    refuse_late_tiers(settings, tuple(settings.release.tiers))
    if settings.quality.watches:
        raise SettingsError(
            "quality must have nothing but exclusions on Kafka, where no log is for the owner alone",
            "limits by which devices are suspected",
            "leave silent_steps, same_steps, largest_count and largest_counts out, and watch devices where "
            "their counts come from",
        )
    return Deployment.of(settings)


def _check_tiers(
    schedule: Schedule, policy: FixedPolicy | BudgetPolicy, with_topics: tuple[str, ...]
) -> None:
    """Each tier needs a topic and rights on it, which are made from the settings alone."""
    tiers = tiers_of(schedule, policy)
    if tiers not in ((), with_topics):
        raise SettingsError(
            "release.tiers must name the schedule's tiers, least informed first: each has a topic on Kafka",
            f"{', '.join(with_topics) or 'none'} in the settings, {', '.join(tiers)} in the schedule",
            "name them in the settings of every process, then run `tallyguard topics create` and `access`",
        )


def _check_first_slot(settings: Settings, first_slot: int) -> None:
    """Account workers know only the settings: they would miss a slot that only the schedule names."""
    if first_slot not in (0, settings.first_slot):
        raise SettingsError(
            "first_slot must be in the settings of every process on Kafka",
            f"{settings.first_slot}, and {first_slot} in the schedule",
            f"set first_slot = {first_slot} for all of them before the deployment begins, "
            "or correct the schedule",
        )


def _announce(announce: Announce, address: str | None) -> None:
    if address:
        announce(f"watch it at {address} (metrics at {address}metrics)")
