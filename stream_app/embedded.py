"""Puts an embedded run together from settings, priors and options, and runs it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accounting.continuous import ContinuousAccountant, HorizonSettings
from models.population import Population
from models.schedule import Schedule
from models.sensors import SensorRegistry
from stream_app.carrying import carry_on
from stream_app.clock import Clock, SystemClock
from stream_app.csv_messages import load_activations
from stream_app.decisions import schedule_of
from stream_app.engine import Accountant, Publisher, StepEngine, StoredStep
from stream_app.events import Observer
from stream_app.exceptions import SettingsError
from stream_app.habits import basis_note, habits_warning
from stream_app.input_format import check_file, checked_chunks
from stream_app.inputs import Chunks, FileChunks, LineReader, open_input
from stream_app.intake import Intake
from stream_app.journal import Journal
from stream_app.keys import Keys, load_keys
from stream_app.manifest import ACCEPTABLE, TOLD
from stream_app.people import PeopleView
from stream_app.people_shards import decision_shares
from stream_app.policy import (
    BudgetPolicy,
    FixedPolicy,
    Policy,
    ScheduledPolicy,
    announced_sensors,
    policy_from,
)
from stream_app.publisher import KeyedPublisher
from stream_app.risk_output import JsonlRisks, ParquetRisks, RiskFormat, RiskWriter
from stream_app.run_settings import sensors_fingerprint
from stream_app.runner import EmbeddedRunner, RunReport
from stream_app.schedule_files import load_schedule, schedule_fingerprint
from stream_app.sensor_files import load_registry
from stream_app.settings import Settings
from stream_app.signals import StopRequest, stop_on_signals
from stream_app.snapshots import SnapshotCache
from stream_app.steps import StepWindow
from stream_app.ticks import StepClock
from stream_app.tier_continuation import TierContinuation, TierLevels
from stream_app.tiers import tier_names

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunOptions:
    """What one run reads and writes.

    ``input`` None or ``-`` is standard input. ``is_csv`` None goes by the file's extension. ``schedule`` is a
    schedule (JSON) or activations (CSV) known beforehand. With ``keep_open`` the end of the input closes
    nothing. ``accept_changes`` lets release policy, schedule and noise key differ from the earlier run's.
    """

    output: Path
    input: Path | None = None
    is_csv: bool | None = None
    schedule: Path | None = None
    risk_format: RiskFormat = RiskFormat.JSONL
    keep_open: bool = False
    create_keys: bool = False
    accept_changes: bool = False

    @property
    def file(self) -> Path | None:
        """The input file; None for standard input."""
        return None if self.input is None or str(self.input) == "-" else self.input

    @property
    def reads_csv(self) -> bool:
        """Whether the input is CSV."""
        if self.is_csv is not None:
            return self.is_csv
        return self.file is not None and self.file.suffix.lower() == ".csv"

    def check_input(self) -> None:
        """:class:`InputError` for an input file of another kind than messages, before anything is made."""
        if self.file is not None:
            check_file(self.file, is_csv=self.reads_csv)


@dataclass(frozen=True)
class Plan:
    """What is known before any count: sensors, announcements, mechanisms, the slot of step 0, tiers."""

    registry: SensorRegistry
    announced: Mapping[int, tuple[str, ...]]
    policy: Policy
    first_slot: int
    tiers: tuple[str, ...] = ()
    tier_levels: TierLevels = field(default_factory=TierLevels)


SHARPENED_UNASKED = 5_000
"""People up to whom the dear bounds cost less than a second a step, so that nobody has to ask for them."""


def run(
    settings: Settings,
    options: RunOptions,
    population: Population,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
    chunks: Chunks | Iterable[bytes] | None = None,
) -> RunReport:
    """Run the engine on an input until its end, or until SIGINT or SIGTERM.

    Continues where an earlier run on ``options.output`` stopped, however it stopped. ``chunks`` replaces the
    input by bytes from within the program. Raises a :class:`models.exceptions.TallyguardError` for
    everything a person can mend; nothing that was not accounted has been published then.
    """
    clock, step_clock = clock or SystemClock(), StepClock.of(settings)
    if chunks is None:
        options.check_input()
    plan = make_plan(settings, options, population)
    keys = load_keys(settings, options.output, create=options.create_keys)
    manifest = make_manifest(settings, options, population, plan, keys)
    replaceable = ACCEPTABLE if options.accept_changes else frozenset()
    continuation = TierContinuation.of(settings, keys.noise, plan.tier_levels)
    journal = Journal(options.output, manifest, replaceable, plan.tiers, continuation)
    try:
        basis = {key: value for key, value in manifest.items() if key not in ACCEPTABLE | TOLD}
        snapshots = SnapshotCache(options.output, basis, settings.snapshot_seconds)
        accountant = new_accountant(settings, plan, population)
        if _remembers(plan) or not snapshots.restore(accountant, journal.last_commit.next_step):
            accountant = new_accountant(settings, plan, population)
        if isinstance(plan.policy, BudgetPolicy):
            names = keys.pseudonyms.pseudonyms(population.people)
            plan.policy.bind(accountant, decision_shares(settings, names))
        for warning in (basis_note(len(population), population.assumed), habits_warning(accountant)):
            if warning is not None:
                logger.warning("%s", warning)
        observer = observer or Observer()
        account = carry_on(accountant, plan.policy, plan.registry, journal, observer)
        engine = restore_engine(settings, plan, accountant, KeyedPublisher.of(settings, keys.noise), journal)
        risks = _risk_writer(options, keys, population)
        with (
            stop_on_signals() as request,
            _open(options, request, chunks, lambda: step_clock.wait_seconds(clock.now_seconds())) as opened,
        ):
            runner = EmbeddedRunner(
                engine,
                journal,
                risks,
                _reader(options, journal, opened),
                account=account,
                clock=clock,
                step_clock=step_clock,
                observer=observer,
                people=len(population),
                view=_people_view(population, accountant, keys),
                most_exposed=settings.most_exposed,
                is_csv=options.reads_csv,
                snapshot=lambda now: snapshots.save_sometimes(accountant, now),
            )
            return runner.run(lambda: request.is_set, keep_open=options.keep_open)
    finally:
        journal.close()


def make_plan(settings: Settings, options: RunOptions, population: Population) -> Plan:
    """Sensors, announcements and policy of a run."""
    registry = load_registry(settings.sensors, population.location_names)
    if options.schedule is None or is_activations(options.schedule):
        announced = {} if options.schedule is None else load_activations(options.schedule, registry)
        policy = policy_from(settings.release, registry, announced)
        levels = TierLevels.of(settings.release.tiers)
        tiers = tier_names(policy.mechanisms())
        return Plan(registry, announced, policy, settings.first_slot, tiers, levels)
    return follow_schedule(settings, load_schedule(options.schedule, registry), registry)


def follow_schedule(settings: Settings, schedule: Schedule, registry: SensorRegistry) -> Plan:
    """Sensors, announcements and policy where a schedule says what is released at best."""
    policy = policy_from(settings.release, registry)
    tiers = tiers_of(schedule, policy)
    levels = TierLevels.of(settings.release.tiers, schedule.steps)
    first_slot = first_slot_of(settings, schedule)
    announced = announced_sensors(schedule)
    return Plan(registry, announced, following(schedule, policy), first_slot, tiers, levels)


def is_activations(path: Path) -> bool:
    """Whether a file of what is known beforehand holds activations (CSV), else it is a schedule (JSON)."""
    return path.suffix.lower() == ".csv"


def tiers_of(schedule: Schedule, policy: FixedPolicy | BudgetPolicy) -> tuple[str, ...]:
    """The tiers that a schedule file and the settings release to, least informed first."""
    scheduled = (release.mechanism for step in schedule.steps for release in step.releases)
    return tier_names([*policy.mechanisms(), *scheduled])


def following(schedule: Schedule, policy: FixedPolicy | BudgetPolicy) -> Policy:
    """The policy of a schedule file: its mechanisms, or under a risk budget none better."""
    if isinstance(policy, BudgetPolicy):
        policy.follow(schedule)
        return policy
    return ScheduledPolicy(schedule, policy)


def _remembers(plan: Plan) -> bool:
    """Whether decisions depend on earlier steps beyond the accounts, so that all have to be walked over."""
    return isinstance(plan.policy, BudgetPolicy) and plan.policy.limit.in_hindsight


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


def sharpens(settings: Settings, people: int) -> bool:
    """Whether a run with so many people looks again at high risks; what the settings say counts first.

    Workers on Kafka never do so unasked: none of them knows how many people there are.
    """
    if settings.sharpen is not None:
        return settings.sharpen
    return not settings.kafka.servers and people <= SHARPENED_UNASKED


def new_accountant(settings: Settings, plan: Plan, population: Population) -> ContinuousAccountant:
    """The accountant before the first step."""
    return ContinuousAccountant(population, horizon_settings(settings, plan.first_slot, len(population)))


def horizon_settings(settings: Settings, first_slot: int, people: int) -> HorizonSettings:
    """What the accountant of a run with so many people is told."""
    return HorizonSettings(
        settings.horizon,
        settings.mistakes,
        settings.thresholds,
        first_slot,
        sharpen=sharpens(settings, people),
        sharpen_above=settings.sharpen_above,
    )


def _people_view(population: Population, accountant: ContinuousAccountant, keys: Keys) -> PeopleView:
    """What observers may ask about people."""
    return PeopleView(
        population, accountant, accountant.settings, keys.pseudonyms.pseudonyms(population.people)
    )


def restore_engine(
    settings: Settings,
    plan: Plan,
    accountant: Accountant,
    publisher: Publisher,
    journal: Journal,
) -> StepEngine:
    """The engine as the journal's last commit left it, around an accountant that knows the steps before."""
    window = StepWindow(
        settings.grace,
        plan.announced,
        watermark_share=settings.watermark_share,
        by_clock=settings.grace_seconds is not None,
    )
    if journal.last_commit.window:
        window.load(journal.last_commit.window)
    stored = (
        StoredStep(schedule_of(step.decision, plan.registry), step.release, step.decision.why)
        for step in journal.published_since()
    )
    return StepEngine(
        Intake(plan.registry, window, settings.max_ahead),
        plan.policy,
        publisher,
        accountant,
        risk_every=settings.risk_every,
        stored=stored,
    )


def make_manifest(
    settings: Settings, options: RunOptions, population: Population, plan: Plan, keys: Keys
) -> dict[str, Any]:
    """What must not change while an output folder is continued: values and fingerprints, no secret."""
    fixed = settings.model_dump(
        mode="json",
        include={
            "deployment",
            "step_seconds",
            "origin",
            "horizon",
            "mistakes",
            "thresholds",
            "sharpen",
            "sharpen_above",
            "release",
            "delta",
        },
    )
    schedule = None if options.schedule is None else schedule_fingerprint(options.schedule)
    return {
        **fixed,
        "first_slot": plan.first_slot,
        "people": len(population),
        "assumed_habits": population.assumed,
        "priors": population.fingerprint,
        "sensors": sensors_fingerprint(plan.registry),
        "schedule": schedule,
        "risk_format": options.risk_format.value,
        "noise_key": keys.noise.fingerprint(),
        "pseudonym_key": keys.pseudonyms.fingerprint(),
    }


def _risk_writer(options: RunOptions, keys: Keys, population: Population) -> RiskWriter:
    """The writer of the chosen format, with everybody's pseudonym."""
    pseudonyms = keys.pseudonyms.pseudonyms(population.people)
    if options.risk_format is RiskFormat.PARQUET:
        return ParquetRisks(options.output, pseudonyms)
    return JsonlRisks(pseudonyms)


@contextmanager
def _open(
    options: RunOptions,
    request: StopRequest,
    chunks: Chunks | Iterable[bytes] | None,
    wait_seconds: Callable[[], float],
) -> Iterator[Chunks | Iterable[bytes]]:
    """The bytes of the input."""
    if chunks is not None:
        yield chunks
    elif options.file is None:
        whole = FileChunks(sys.stdin.fileno(), request.wake, wait_seconds)
        yield checked_chunks("stdin", whole, is_csv=options.reads_csv)
    else:
        descriptor = open_input(options.file)
        try:
            whole = FileChunks(descriptor, request.wake, wait_seconds)
            yield checked_chunks(options.file.name, whole, is_csv=options.reads_csv)
        finally:
            os.close(descriptor)


def _reader(options: RunOptions, journal: Journal, chunks: Chunks | Iterable[bytes]) -> LineReader:
    """The lines of the input from where the journal's last commit left it."""
    return LineReader(
        "stdin" if options.file is None else options.file.name,
        chunks,
        journal.last_commit.position or None,
        head_lines=2 if options.reads_csv else 1,
        keep_torn=options.keep_open,
        is_fleeting=options.file is None,
    )
