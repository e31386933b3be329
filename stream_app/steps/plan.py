"""What is known before any count: sensors, announcements, policy, and how values are drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from models.keys import NoiseKey, batch_message, continuation_message
from models.mechanisms import PublishesTiers, Suppressed
from models.noise import continued_value
from models.priors import Population
from models.releases import (
    CountToPublish,
    PublishedValue,
    Schedule,
    SensorRegistry,
    StepInterval,
    StepSchedule,
    check_window_ends,
    in_single_steps,
    publish_step,
)
from stream_app.exceptions import SettingsError, TierContinuationError
from stream_app.setup.combinations import Runner, refuse
from stream_app.setup.declared import require_strangers
from stream_app.setup.exclusions import NO_EXCLUSIONS, Exclusions, load_exclusions
from stream_app.setup.run_folder.facts import Network
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.steps.policy import (
    BudgetPolicy,
    FixedPolicy,
    Policy,
    ScheduledPolicy,
    announced_sensors,
    designs_of,
    policy_from,
)
from stream_app.wire import ContinuedStep, SensorValue, StepRelease, TierValue, load_activations

# Counts of a step become public values, with the deployment's key and the step's absolute interval.


@dataclass(frozen=True)
class KeyedPublisher:
    """Publishes with keyed noise: the same reading always gives the same value.

    ``by_region`` has the keys of regions, where there are several: a sensor of any other is not published.
    """

    key: NoiseKey
    deployment: str
    origin_seconds: int
    step_seconds: int
    clamp_negative: bool = False
    by_region: Mapping[str | None, NoiseKey] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, key: NoiseKey, regions: Iterable[str] = ()) -> KeyedPublisher:
        """The publisher of a deployment whose sensors lie in several regions, or in none."""
        return cls(
            key,
            settings.deployment,
            settings.origin_seconds,
            settings.step_seconds,
            settings.release.clamp_negative,
            {region: key.of_region(region) for region in regions},
        )

    def publish(
        self, schedule: StepSchedule, counts: Sequence[int | None], version: int = 1
    ) -> list[PublishedValue]:
        """One value (or one per tier) per release, drawn in one batch; None for missing and suppressed.

        Counts over windows of several steps belong to the interval of their window: a batch for each length,
        and for each region.
        """
        values: dict[int, PublishedValue] = {}
        for (steps, region), positions in _batches(schedule).items():  # one key and one interval a batch
            batch = [
                CountToPublish(
                    schedule.releases[each].sensor.name, schedule.releases[each].mechanism, counts[each]
                )
                for each in positions
            ]
            drawn = publish_step(
                self.by_region[region] if self.by_region else self.key,
                self.deployment,
                self.interval(schedule.step, steps),
                batch,
                clamp_negative=self.clamp_negative,
                version=version,
            )
            values |= dict(zip(positions, drawn, strict=True))
        return [values[each] for each in range(len(schedule.releases))]

    def interval(self, step: int, steps: int = 1) -> StepInterval:
        """When the ``steps`` that end with a step begin and end, unix seconds: part of noise messages."""
        end = self.origin_seconds + (step + 1) * self.step_seconds
        return StepInterval(end - steps * self.step_seconds, end)


def _batches(schedule: StepSchedule) -> dict[tuple[int, str | None], list[int]]:
    """Positions of the releases by how many steps they count over, and by region."""
    found: dict[tuple[int, str | None], list[int]] = {}
    for position, release in enumerate(schedule.releases):
        sensor = release.sensor
        steps = 1 if sensor.window is None else sensor.window.steps
        found.setdefault((steps, sensor.region), []).append(position)
    return found


# Past values for a tier that was added later: the same chains of noise, read at one more level.
#
# A fresh draw at the new level would be a second observation of every count. Continuing the chain gives
# values distributed as if all tiers had been fixed from the start: a coalition knows no more than its
# best-informed member, and no account changes. Only levels below the best published one are possible: above
# it the noise would depend on the count, which is not kept.

_CONTINUED = "tiered, continued"  # no mechanism has this name, so its random words differ from first draws


ScheduledTiers: TypeAlias = Mapping[tuple[int, str], Mapping[str, float]]
"""The epsilon of each tier for the readings (step, sensor) that a schedule releases in tiers."""


def scheduled_tiers(schedule: Schedule) -> ScheduledTiers:
    """The tiers of a schedule; for other readings the deployment's hold."""
    return {
        (step.step, release.sensor.name): dict(release.mechanism.tiers)
        for step in schedule.steps
        for release in step.releases
        if isinstance(release.mechanism, PublishesTiers)
    }


@dataclass(frozen=True)
class TierContinuation:
    """Continues the chains of published steps, with the key they were drawn with.

    ``tiers`` are the epsilons of the deployment's tiers in nats, except for readings that are ``scheduled``.
    ``first_step`` is the first step whose values a tier added later receives.
    """

    publisher: KeyedPublisher
    tiers: Mapping[str, float]
    scheduled: ScheduledTiers
    first_step: int = 0

    @classmethod
    def of(cls, settings: Settings, key: NoiseKey, scheduled: ScheduledTiers) -> TierContinuation:
        """The continuation of a deployment."""
        release = settings.release
        return cls(KeyedPublisher.of(settings, key), release.tiers, scheduled, release.new_tiers_from)

    def continue_step(
        self, release: StepRelease, tier: str, key_of: Callable[[int], str | None]
    ) -> ContinuedStep | None:
        """A tier's values of a published step that has none for it; None when there is nothing to draw.

        ``release`` holds every level published so far, ``key_of`` gives the fingerprint of a step's noise
        key. :class:`TierContinuationError` when that is not the publisher's key.
        """
        wanted = self._wanted(release, tier)
        if not wanted:
            return None
        if key_of(release.step) != self.publisher.key.fingerprint():
            raise TierContinuationError(
                f"past values of tier {tier!r} must be drawn with the noise key of their step",
                f"another key than at step {release.step}: replaced, or of an epoch that was erased",
                "set release.new_tiers_from to the first step of the key in use; the tier then begins there",
            )
        words = self.publisher.key.uniform_words([self._message(release.step, *each) for each in wanted])
        values = {}
        for (entry, epsilon), (high, low) in zip(wanted, words.tolist(), strict=True):
            drawn = continued_value(_known(entry), epsilon, high << 64 | low)
            released = max(drawn, 0) if self.publisher.clamp_negative else drawn
            values[entry.sensor] = TierValue.of(epsilon, drawn, released)
        return ContinuedStep(step=release.step, tier=tier, values=values)

    def _wanted(self, release: StepRelease, tier: str) -> list[tuple[SensorValue, float]]:
        """Readings that lack the tier and can be continued to its level."""
        if release.step < self.first_step:
            return []
        wanted = []
        for entry in release.releases:
            if entry.tiers is None or tier in entry.tiers:
                continue
            epsilon = self.scheduled.get((release.step, entry.sensor), self.tiers).get(tier)
            if epsilon is not None and epsilon <= max(_known(entry)):
                wanted.append((entry, epsilon))
        return wanted

    def _message(self, step: int, entry: SensorValue, epsilon: float) -> bytes:
        """The message whose keyed hash is the random word: the reading, the level, all published levels."""
        publisher = self.publisher
        interval, level = publisher.interval(step), {"epsilon": epsilon}
        batch = batch_message(publisher.deployment, *interval, _CONTINUED, level, publisher.key.epoch)
        return continuation_message(batch, entry.sensor, _known(entry))


def with_continued(release: StepRelease, continued: Iterable[ContinuedStep]) -> StepRelease:
    """A published step with the values that tiers added later were given."""
    steps = tuple(continued)
    return _each(release, lambda entry: _with_tiers(entry, steps)) if steps else release


def _each(release: StepRelease, changed: Callable[[SensorValue], SensorValue]) -> StepRelease:
    return release.model_copy(update={"releases": tuple(map(changed, release.releases))})


def _with_tiers(entry: SensorValue, continued: Iterable[ContinuedStep]) -> SensorValue:
    more = {step.tier: step.values[entry.sensor] for step in continued if entry.sensor in step.values}
    if entry.tiers is None or not more:
        return entry
    return entry.model_copy(update={"tiers": {**entry.tiers, **more}})


def _known(entry: SensorValue) -> dict[float, int]:
    """The values on the chain, by level."""
    return {tier.epsilon: tier.on_chain for tier in (entry.tiers or {}).values()}


# What the public and each tier of recipients receive: projections of the one log that holds all tiers.
#
# The log keeps every tier's value of a reading, drawn once from one chain. A tier's file is made from it and
# can be made again: to raise a recipient, hand over another file; nothing is drawn. A level that no tier had
# is read from the same chain (:class:`TierContinuation`).

_SUPPRESSED = Suppressed().name


def tier_file(tier: str, log: str = "releases") -> str:
    """Name of a tier's file in the output folder; ``log`` may also be ``revised``."""
    return f"{log}-{tier}.jsonl"


def public_release(release: StepRelease, tiers: Collection[str] | None = None) -> StepRelease:
    """The public message of a step: a tiered reading shows the value of its least informed tier.

    A reading carries that value in addition to its tiers, which its mechanism ranks by epsilon. ``tiers`` are
    those with a log of their own (None: any); :class:`SettingsError` for a reading with another one.
    """
    if all(entry.tiers is None for entry in release.releases):
        return release
    named = {name for entry in release.releases for name in entry.tiers or ()}
    if tiers is not None and (unknown := named - set(tiers)):
        raise SettingsError(
            "every tier must have a log of its own before a reading is released to it",
            ", ".join(sorted(unknown)),
            "name it in release.tiers; on Kafka then run `tallyguard topics create`",
        )
    return _each(
        release, lambda each: each if each.tiers is None else each.model_copy(update={"tiers": None})
    )


def release_for_tier(release: StepRelease, tier: str) -> StepRelease:
    """What one tier receives of a step: its own value of tiered readings, all others as they are."""
    return _each(release, lambda entry: _for_tier(entry, tier))


def tier_names(mechanisms: Iterable[object]) -> tuple[str, ...]:
    """Names of the tiers that mechanisms publish for, least informed first; empty without tiers.

    :class:`SettingsError` when two mechanisms have different tiers: a recipient's file would have gaps.
    """
    found = {
        tuple(name for name, _ in mechanism.tiers)
        for mechanism in mechanisms
        if isinstance(mechanism, PublishesTiers)
    }
    if len(found) > 1:
        raise SettingsError(
            "all tiered releases must have the same tiers in the same order",
            " and ".join(", ".join(names) for names in sorted(found)),
            "name every tier wherever a release is tiered; the epsilons may differ",
        )
    return next(iter(found), ())


def _for_tier(entry: SensorValue, tier: str) -> SensorValue:
    if entry.tiers is None:
        return entry
    value = entry.tiers.get(tier)
    if value is None:
        return SensorValue(sensor=entry.sensor, mechanism=_SUPPRESSED)
    return entry.model_copy(update={"tiers": None, "epsilon": value.epsilon, "value": value.value})


@dataclass(frozen=True)
class Plan:
    """What is known before any count: sensors, announcements, mechanisms, the slot of step 0, tiers.

    ``announced`` and ``policy`` have nothing of sensors in steps of their ``exclusions``.
    """

    registry: SensorRegistry
    announced: Mapping[int, tuple[str, ...]]
    policy: Policy
    first_slot: int
    tiers: tuple[str, ...] = ()
    scheduled_tiers: ScheduledTiers = field(default_factory=dict)
    exclusions: Exclusions = NO_EXCLUSIONS


def make_plan(
    settings: Settings,
    schedule: Path | None,
    population: Population,
    runner: Runner,
    *,
    known: Network | None = None,
) -> Plan:
    """Sensors, announcements and policy of a run with a schedule (JSON), activations (CSV) or neither.

    Raises what the ``runner`` refuses. Sensors ``known`` from earlier runs keep their order, and exclusions
    may name those that are no longer there.
    """
    registry = load_registry(settings.sensors, population.location_names)
    if known is not None:
        registry = known.arranged(registry)
    registry = registry.with_designs(designs_of(settings.release))
    require_strangers(registry, settings.crowd)
    refuse(runner, settings, len(population))
    plan = plan_of(settings, schedule, registry)
    plan.exclusions.require_known(() if known is None else (each.name for each in known.sensors))
    return plan


def plan_of(settings: Settings, schedule: Path | None, registry: SensorRegistry) -> Plan:
    """The same for these sensors, whoever runs it, and whatever their exclusions name."""
    if schedule is not None and not is_activations(schedule):
        return follow_schedule(settings, load_schedule(schedule, registry), registry)
    named = {} if schedule is None else load_activations(schedule, registry)
    exclusions = load_exclusions(settings, registry)
    announced = exclusions.announced(named)
    policy = policy_from(settings.release, registry, announced)
    registry = with_windows(registry, policy)
    for step, names in named.items():
        for name in names:
            check_window_ends(registry.get(name), step)
    tiers = tier_names(policy.mechanisms())
    return Plan(registry, announced, policy, settings.first_slot, tiers, exclusions=exclusions)


def follow_schedule(settings: Settings, schedule: Schedule, registry: SensorRegistry) -> Plan:
    """Sensors, announcements and policy where a schedule has the most that may be released."""
    if schedule.calendar is not None:
        raise SettingsError(
            "the clock of a plan or run must be in its settings",
            f"{schedule.calendar.zone} in the schedule",
            "set timezone, origin and step_seconds there, and take calendar out of the schedule",
        )
    otherwise = policy_from(settings.release, registry)
    registry = with_windows(registry, otherwise)
    exclusions = load_exclusions(settings, registry)
    active = exclusions.without(schedule)
    policy: Policy
    if isinstance(otherwise, BudgetPolicy):  # which decides each window when it begins
        otherwise.follow(active)
        policy = otherwise
    else:
        for step in schedule.steps:
            in_single_steps(step, registry)  # which refuses a count of a window that is not the one accounted
        policy = ScheduledPolicy(active, otherwise)
    scheduled = (release.mechanism for step in schedule.steps for release in step.releases)
    return Plan(
        registry,
        announced_sensors(active),
        policy,
        first_slot_of(settings, schedule),
        tier_names([*otherwise.mechanisms(), *scheduled]),
        scheduled_tiers(schedule),
        exclusions,
    )


def with_windows(registry: SensorRegistry, policy: FixedPolicy | BudgetPolicy) -> SensorRegistry:
    """The registry with the mechanisms of sensors with windows, which are accounted in every step."""
    if not registry.windowed or isinstance(policy, BudgetPolicy):
        return registry
    return registry.with_windows(policy.in_windows())


def is_activations(path: Path) -> bool:
    """Whether a file of what is known beforehand holds activations (CSV), else it is a schedule (JSON)."""
    return path.suffix.lower() == ".csv"


def first_slot_of(settings: Settings, schedule: Schedule) -> int:
    """The slot of step 0, from the settings or the schedule; 0 means that it is not set."""
    said = {settings.first_slot, schedule.first_slot} - {0}
    if len(said) > 1:
        raise SettingsError(
            "first_slot must be the same in settings and schedule",
            f"{settings.first_slot} and {schedule.first_slot}",
            "correct one of them",
        )
    return said.pop() if said else 0
