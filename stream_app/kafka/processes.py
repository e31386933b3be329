"""The two kinds of worker processes, put together from settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from models.releases import Schedule
from stream_app.exceptions import SettingsError
from stream_app.kafka.account.account_watch import AccountWatch
from stream_app.kafka.account.account_worker import AccountWorker
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.process.worker import Pulse, run_worker
from stream_app.kafka.process.worker_metrics import AccountCounters, AccountMetrics, ReleaseCounters
from stream_app.kafka.release.release_worker import ReleaseRules, ReleaseWorker
from stream_app.setup.given_priors import refuse_evidence
from stream_app.setup.keys import load_noise_key, load_snapshot_key
from stream_app.setup.schedule_files import load_schedule, schedule_fingerprint
from stream_app.setup.settings import Settings
from stream_app.steps import policy_of_schedule, refuse_late_tiers, tiers_of
from stream_app.steps.policy import BudgetPolicy, FixedPolicy, Policy, policy_from
from stream_app.watching.web import watching

Announce = Callable[[str], None]


def run_release_worker(
    settings: Settings, schedule: Path | None, *, accept_changes: bool, announce: Announce
) -> int:
    """Run the release worker until it is stopped; its exit code."""
    deployment = _deployment(settings)
    key = load_noise_key(settings)
    configured = policy_from(settings.release, deployment.registry)
    policy: Policy = configured
    fingerprint = None
    if schedule is not None:
        known = load_schedule(schedule, deployment.vocabulary)
        _check_tiers(known, configured, deployment.topics.tiers)
        _check_first_slot(settings, known.first_slot)
        policy = policy_of_schedule(known, configured)
        fingerprint = schedule_fingerprint(schedule)
    pulse = Pulse()
    with watching(settings, deployment.registry.sensors) as watch:
        _announce(announce, watch.address)
        job = ReleaseWorker(
            deployment,
            ReleaseRules(policy, key, fingerprint),
            observer=watch.observer,
            counters=ReleaseCounters(watch.registry),
            pulse=pulse,
            accept_changes=accept_changes,
        )
        return run_worker(release_group(settings), job, deployment, pulse)


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
        return run_worker(account_group(settings), job, deployment, pulse)


def _deployment(settings: Settings) -> Deployment:
    """The deployment; :class:`SettingsError` for what one process alone can do: a panel, chains drawn."""
    refuse_evidence(settings)
    if settings.panel is not None:
        raise SettingsError(
            "panel must be left out on Kafka",
            settings.panel,
            "hold the priors against volunteers' places in a process of its own: `tallyguard priors watch`",
        )
    refuse_late_tiers(settings, tuple(settings.release.tiers))
    return Deployment.of(settings)


def release_group(settings: Settings) -> str:
    """Consumer group of the release worker."""
    return f"{settings.kafka.prefix}tallyguard-release"


def account_group(settings: Settings) -> str:
    """Consumer group of the account workers."""
    return f"{settings.kafka.prefix}tallyguard-account"


def _check_tiers(
    schedule: Schedule, policy: FixedPolicy | BudgetPolicy, with_topics: tuple[str, ...]
) -> None:
    """Every tier has a topic and rights on it, which are made from the settings alone."""
    tiers = tiers_of(schedule, policy)
    if tiers not in ((), with_topics):
        raise SettingsError(
            "release.tiers must name the schedule's tiers, least informed first: each has a topic on Kafka",
            f"{', '.join(with_topics) or 'none'} in the settings, {', '.join(tiers)} in the schedule",
            "name them in the settings of every process, then run `tallyguard topics create` and `access`",
        )


def _check_first_slot(settings: Settings, first_slot: int) -> None:
    """The account workers know the settings only: a slot that the schedule alone says is lost on them."""
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
