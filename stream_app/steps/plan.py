"""What a run will do, from its settings and before any count: sensors, announcements, policy, accountant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from models.priors import Population
from models.releases import Schedule, SensorRegistry, check_window_ends, in_single_steps
from stream_app.exceptions import SettingsError
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.steps.accounts import Accounts
from stream_app.steps.policy import (
    BudgetPolicy,
    FixedPolicy,
    Policy,
    ScheduledPolicy,
    announced_sensors,
    designs_of,
    policy_from,
)
from stream_app.steps.tier_continuation import TierLevels
from stream_app.steps.tier_views import tier_names
from stream_app.wire import load_activations


@dataclass(frozen=True)
class Plan:
    """What is known before any count: sensors, announcements, mechanisms, the slot of step 0, tiers."""

    registry: SensorRegistry
    announced: Mapping[int, tuple[str, ...]]
    policy: Policy
    first_slot: int
    tiers: tuple[str, ...] = ()
    tier_levels: TierLevels = field(default_factory=TierLevels)


def make_plan(settings: Settings, schedule: Path | None, population: Population) -> Plan:
    """Sensors, announcements and policy of a run with a schedule (JSON), activations (CSV) or neither."""
    registry = load_registry(settings.sensors, population.location_names)
    registry = registry.with_designs(designs_of(settings.release))
    if schedule is None or is_activations(schedule):
        announced = {} if schedule is None else load_activations(schedule, registry)
        policy = policy_from(settings.release, registry, announced)
        registry = _with_windows(settings, registry, policy)
        for step, names in announced.items():
            for name in names:
                check_window_ends(registry.get(name), step)
        levels = TierLevels.of(settings.release.tiers)
        tiers = tier_names(policy.mechanisms())
        return Plan(registry, announced, policy, settings.first_slot, tiers, levels)
    return follow_schedule(settings, load_schedule(schedule, registry), registry)


def follow_schedule(settings: Settings, schedule: Schedule, registry: SensorRegistry) -> Plan:
    """Sensors, announcements and policy where a schedule says what is released at best."""
    policy = policy_from(settings.release, registry)
    registry = _with_windows(settings, registry, policy)
    for step in schedule.steps:
        in_single_steps(step, registry)  # refuses what is not accounted
    tiers = tiers_of(schedule, policy)
    levels = TierLevels.of(settings.release.tiers, schedule.steps)
    first_slot = first_slot_of(settings, schedule)
    announced = announced_sensors(schedule)
    return Plan(registry, announced, policy_of_schedule(schedule, policy), first_slot, tiers, levels)


def _with_windows(
    settings: Settings, registry: SensorRegistry, policy: FixedPolicy | BudgetPolicy
) -> SensorRegistry:
    """The registry with the mechanisms of sensors with windows, which are accounted in every step."""
    if not registry.windowed or isinstance(policy, BudgetPolicy):
        return registry
    if settings.has_crowd:
        registry.refuse_windows("ceilings in the crowd", "leave out adversary and [crowd]")
    return registry.with_windows(policy.in_windows())


def is_activations(path: Path) -> bool:
    """Whether a file of what is known beforehand holds activations (CSV), else it is a schedule (JSON)."""
    return path.suffix.lower() == ".csv"


def tiers_of(schedule: Schedule, policy: FixedPolicy | BudgetPolicy) -> tuple[str, ...]:
    """The tiers that a schedule file and the settings release to, least informed first."""
    scheduled = (release.mechanism for step in schedule.steps for release in step.releases)
    return tier_names([*policy.mechanisms(), *scheduled])


def refuse_late_tiers(settings: Settings, tiers: Sequence[str]) -> None:
    """:class:`SettingsError` for late values of tiers: each tier gets one message a step."""
    if settings.late and tiers:
        raise SettingsError(
            "late must be 0 where tiers of recipients are released",
            settings.late,
            "take late = 0 out, or release without tiers",
        )


def policy_of_schedule(schedule: Schedule, policy: FixedPolicy | BudgetPolicy) -> Policy:
    """The policy of a schedule file: its mechanisms, or under a risk budget none better."""
    if isinstance(policy, BudgetPolicy):
        policy.follow(schedule)
        return policy
    return ScheduledPolicy(schedule, policy)


def first_slot_of(settings: Settings, schedule: Schedule) -> int:
    """The slot of step 0: said by the settings or by the schedule; 0 stands for nothing said."""
    said = {settings.first_slot, schedule.first_slot} - {0}
    if len(said) > 1:
        raise SettingsError(
            "first_slot must be the same in settings and schedule",
            f"{settings.first_slot} and {schedule.first_slot}",
            "correct one of them",
        )
    return said.pop() if said else 0


def new_accounts(
    settings: Settings, plan: Plan, population: Population, pseudonyms: Sequence[str]
) -> Accounts:
    """Everybody's accounts before the first step; ``pseudonyms`` (N,) say who shares work with whom."""
    return Accounts.of(settings, settings.horizon_settings(plan.first_slot), population, pseudonyms)
