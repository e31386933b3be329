"""Puts an embedded run together from settings, priors and options, and runs it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from models.priors import Population
from stream_app.embedded.journal import Commit, Journal
from stream_app.embedded.panel import panel_observer
from stream_app.embedded.restored_accounts import SnapshotCache, people_accounts, restore_accounts
from stream_app.embedded.runner import EmbeddedRunner, MessageReader, RunReport
from stream_app.exceptions import InputError
from stream_app.setup.combinations import Runner, refuse
from stream_app.setup.declared import bounded_days, require_most_counts
from stream_app.setup.given_priors import PRIORS_REST_ON, clock_warning, drawn_from, rests_on
from stream_app.setup.keys import Keys, load_keys, require_private_panel
from stream_app.setup.option_settings import NewPriors, RiskFormat
from stream_app.setup.release_settings import CROWD
from stream_app.setup.run_folder.description import Description, keep_named
from stream_app.setup.run_folder.facts import NETWORK, Network, Registries
from stream_app.setup.run_folder.key_record import KeyRecord, record_file
from stream_app.setup.run_folder.manifest import (
    ACCEPTABLE,
    ACCOUNTED_WITH,
    EXCLUSIONS,
    NOT_IN_SNAPSHOTS,
    PARTITIONS,
    refuse_copy,
)
from stream_app.setup.run_folder.people_record import (
    Joining,
    PeopleOfRun,
    change_in_words,
    keep_evidence,
    people_from_now,
)
from stream_app.setup.run_folder.record import DESCRIPTION, Author, held
from stream_app.setup.run_folder.run_settings import (
    UNLESS_SET,
    counted_again,
    counted_in_a_step,
    facts_if_set,
    mechanisms_of_windows,
    recorded_network,
    sensors_fingerprint,
    with_known_names,
)
from stream_app.setup.schedule_files import schedule_fingerprint
from stream_app.setup.settings import Settings
from stream_app.setup.this_process import StopRequest, stop_on_signals
from stream_app.steps import (
    DeviceWatch,
    Intake,
    JsonlRisks,
    KeyedPublisher,
    ParquetRisks,
    PeopleAccounts,
    Plan,
    Publisher,
    RiskWriter,
    Spent,
    StepClock,
    StepEngine,
    StepWindow,
    TierContinuation,
    TotalsFile,
    make_plan,
    resume,
)
from stream_app.steps.policy import Decided
from stream_app.watching.events import Observer, Observers
from stream_app.watching.people import PeopleView
from stream_app.watching.prior_notes import basis_note, evidence_warning, rule_warning
from stream_app.watching.wording import habits_warning
from stream_app.wire import (
    Chunks,
    Clock,
    FileChunks,
    FollowedFile,
    LineReader,
    StepDecision,
    check_file,
    checked_chunks,
    find_start,
    is_regular,
    open_input,
    require_lines,
)

logger = logging.getLogger(__name__)

_TOGETHER = 128  # steps of an archive in one commit


@dataclass(frozen=True)
class RunOptions:
    """What one run reads and writes.

    ``input`` None or ``-`` is standard input. ``is_csv`` None goes by the file's extension. ``schedule`` is a
    schedule (JSON) or activations (CSV) known beforehand. With ``keep_open`` the end of the input closes
    nothing. ``accept_changes`` lets sensors, further places, release policy, schedule, noise key and people
    differ from the earlier run's; the record says who did that (``by``), for which ``reason``, and what the
    ``priors`` file is called. People of whom the file does not say when they came are accounted from step
    ``effective_from`` on (None: the log's first); ``new_priors`` says what new priors of people who are there
    mean for past steps.
    ``take_over`` is the reason to continue although more was published with the noise key than the folder
    holds.
    """

    output: Path
    input: Path | None = None
    is_csv: bool | None = None
    schedule: Path | None = None
    risk_format: RiskFormat = RiskFormat.JSONL
    keep_open: bool = False
    follow: bool = False
    create_keys: bool = False
    accept_changes: bool = False
    by: str | None = None
    reason: str | None = None
    priors: str | None = None
    take_over: str | None = None
    effective_from: int | None = None
    new_priors: NewPriors | None = None

    @property
    def file(self) -> Path | None:
        """The input file; None for standard input."""
        return None if self.input is None or str(self.input) == "-" else self.input

    @property
    def is_archive(self) -> bool:
        """Whether all of the input is there, so that nobody waits for a single step."""
        return self.file is not None and not self.follow and self.file.is_file()

    @property
    def reads_csv(self) -> bool:
        """Whether the input is CSV."""
        if self.is_csv is not None:
            return self.is_csv
        return self.file is not None and self.file.suffix.lower() == ".csv"

    def check_input(self) -> None:
        """:class:`InputError` for an input file of another kind than messages, before anything is made."""
        if self.follow and self.file is None:
            raise InputError(
                "an input that is followed must be a file or a named pipe",
                "standard input, which ends when its writer does",
                "name it with --input; or leave --follow out, and keep steps open with --keep-open",
            )
        if self.file is not None:
            check_file(self.file, is_csv=self.reads_csv)


def prepared(
    settings: Settings, schedule: Path | None, population: Population, known: Network | None = None
) -> Plan:
    """What is known of a run before its keys and its input are looked at; ``known`` is what its folder names.

    Raises whatever of the configuration a run refuses: `tallyguard check` asks it, too.
    """
    require_private_panel(settings)
    plan = make_plan(settings, schedule, population, Runner.RUN, known=known)
    require_most_counts(plan.registry, settings.connect.scaled)
    bounded_days(settings, plan.registry)
    if schedule is None:
        require_lines(plan.registry)
    return plan


def run(
    settings: Settings,
    options: RunOptions,
    population: Population,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
    chunks: Chunks | None = None,
) -> RunReport:
    """Run the engine on an input until its end, or until SIGINT or SIGTERM.

    Continues where an earlier run on ``options.output`` stopped, however it stopped. ``chunks`` replaces the
    input by bytes from within the program. Raises a :class:`models.exceptions.TallyguardError` for
    every problem that a person can fix; nothing that was not accounted has been published then.
    """
    refuse_copy(options.output)
    clock, observer, step_clock = clock or Clock(), observer or Observers(), StepClock.of(settings)
    if chunks is None:
        options.check_input()
    known, population = recorded_network(options.output), with_known_names(options.output, population)
    plan = prepared(settings, options.schedule, population, known)
    network = Network.of(plan.registry) if known is None else known.grown_to(plan.registry)
    devices = DeviceWatch.of(settings.quality, plan.registry)
    keys = load_keys(settings, options.output, create=options.create_keys)
    author = Author.given(options.by, options.reason)
    pseudonyms = keys.pseudonyms.pseudonyms(population.people)
    people = people_from_now(
        options.output,
        population,
        pseudonyms,
        Joining(options.effective_from, options.new_priors, options.accept_changes, author.reason),
        settings.horizon_settings(plan.first_slot),
        known,
    )
    population = people.population
    if population.told is not None:
        refuse(Runner.RUN, settings, len(population), NewPriors.TOLD)
    manifest = make_manifest(settings, options, people, plan, keys, network)
    journal = Journal(
        options.output,
        manifest,
        ACCEPTABLE if options.accept_changes else frozenset(),
        plan.tiers,
        TierContinuation.of(settings, keys.noise, plan.scheduled_tiers),
        KeyRecord(record_file(settings, options.output, keys.noise), options.take_over),
        author=author,
        about={
            **people.about(),
            "priors_file": options.priors,
            PRIORS_REST_ON: rests_on(population),
            "counted_in_a_step": counted_in_a_step(plan.registry),
            DESCRIPTION: Description.of(settings, plan.registry).document(),
        },
        keep=lambda: _keep(options.output, people, settings),
        now_seconds=clock.now_seconds,
        watches_devices=devices is not None,
    )
    try:
        registries = Registries(plan.registry, held(journal.record))
        basis = {key: value for key, value in manifest.items() if key not in NOT_IN_SNAPSHOTS}
        snapshots = SnapshotCache(options.output, basis, settings.snapshot_seconds)
        accounted = people_accounts(
            *(settings, plan.first_slot, population, pseudonyms, snapshots, journal.last_commit.next_step),
            has_windows=bool(plan.registry.windowed),
        )
        accounted.bind(plan.policy)
        check, limit = settings.priors_check, settings.release.budget.limit
        said = (
            basis_note(len(population), population.assumed, check, population.draws),
            *map(change_in_words, journal.record),
        )
        note = "; ".join(filter(None, said)) or None
        is_fitted = population.fitted is not None
        for warning in (
            note,
            rule_warning(check, limit),
            evidence_warning(check, population.draws, is_fitted=is_fitted),
            clock_warning(population, settings, plan.first_slot),
            habits_warning(accounted.accountant),
        ):
            if warning is not None:
                logger.warning("%s", warning)

        def read(decision: StepDecision) -> Decided:
            return Decided.logged(decision, registries.at(decision.step), has_crowd=settings.has_crowd)

        days = bounded_days(settings, plan.registry)
        spent = restore_accounts(
            *(accounted, plan.policy.note, options.output, journal, read, registries.groups, observer, days)
        )
        publisher = KeyedPublisher.of(settings, keys.noise, registries.regions)
        engine = restore_engine(settings, plan, accounted, publisher, journal, read, spent, devices)
        engine.intake.window.drop(network.removed)
        risks: RiskWriter = JsonlRisks(pseudonyms)
        if options.risk_format is RiskFormat.PARQUET:
            risks = ParquetRisks(options.output, pseudonyms)

        def wait_seconds() -> float:
            return step_clock.wait_seconds(clock.now_seconds())

        with (
            stop_on_signals() as request,
            _open(options, request, chunks, journal.last_commit, wait_seconds) as lines,
        ):
            has_totals = settings.totals or settings.occupancy or settings.total_of
            totals = [TotalsFile(options.output)] if has_totals else []
            panel = panel_observer(settings, population, accounted.accountant.settings, observer)
            observers = Observers([observer, panel, *totals])
            runner = EmbeddedRunner(
                engine,
                MessageReader(lines, is_csv=options.reads_csv),
                journal,
                risks,
                accounted,
                PeopleView([accounted], note),
                clock=clock,
                step_clock=step_clock,
                observer=observers,
                snapshot=lambda now: snapshots.save_sometimes(accounted.accounts, journal.last_commit, now),
                together=_TOGETHER if options.is_archive and observers.may_lag else 1,
            )
            return runner.run(lambda: request.is_set, keep_open=options.keep_open)
    finally:
        journal.close()


def _keep(folder: Path, people: PeopleOfRun, settings: Settings) -> None:
    """Make durable what the record names and accounts follow from."""
    keep_named(folder, people.hidden, settings)
    if settings.evidence is not None and people.people:
        keep_evidence(folder, people, settings.evidence)


def restore_engine(
    settings: Settings,
    plan: Plan,
    people: PeopleAccounts,
    publisher: Publisher,
    journal: Journal,
    read: Callable[[StepDecision], Decided],
    spent: Spent,
    devices: DeviceWatch | None = None,
) -> StepEngine:
    """The engine as the journal's last commit left it; the accounts of ``people`` know the steps before."""
    window = StepWindow.of(settings, plan.announced, journal.last_commit.window)
    engine = StepEngine(
        Intake(plan.registry, window, settings.max_ahead, plan.exclusions),
        plan.policy,
        publisher,
        people,
        devices=devices,
    )
    resume(engine, journal, read, spent)
    return engine


def make_manifest(
    settings: Settings,
    options: RunOptions,
    people: PeopleOfRun,
    plan: Plan,
    keys: Keys,
    network: Network,
) -> dict[str, Any]:
    """What must not change while an output folder is continued: values and fingerprints, no secret."""
    population = people.population
    said = {*ACCOUNTED_WITH, "release", "priors_check"} - set(UNLESS_SET)
    fixed = settings.model_dump(mode="json", include=said) | facts_if_set(settings)
    schedule = None if options.schedule is None else schedule_fingerprint(options.schedule)
    windows = mechanisms_of_windows(plan.registry)
    crowd = None
    if settings.has_crowd:
        crowd = settings.crowd.facts()
        crowd["decides"] = settings.adversary == CROWD
        if population.weights is not None:
            crowd["personas"] = True
    return {
        **fixed,
        **({} if settings.offset is None else {"offset": settings.offset}),
        **({"windows": windows} if windows else {}),
        "first_slot": plan.first_slot,
        PARTITIONS: settings.kafka.partitions,
        "people": population.everybody,
        "drawn": drawn_from(population),
        "assumed_habits": population.assumed,
        "crowd": crowd,
        **people.facts(),
        "sensors": sensors_fingerprint(plan.registry),
        NETWORK: network.save(),
        **({"counted_again": again} if (again := counted_again(network.sensors)) else {}),
        "schedule": schedule,
        **({EXCLUSIONS: plan.exclusions.facts()} if plan.exclusions.rows else {}),
        "risk_format": options.risk_format.value,
        "noise_key": keys.noise.fingerprint(),
        "pseudonym_key": keys.pseudonyms.fingerprint(),
    }


@contextmanager
def _open(
    options: RunOptions,
    request: StopRequest,
    chunks: Chunks | None,
    commit: Commit,
    wait_seconds: Callable[[], float],
) -> Iterator[LineReader]:
    """The lines of the input from where the last commit left it."""
    lines = partial(
        LineReader,
        saved=commit.position or None,
        marks=commit.marks,
        head_lines=2 if options.reads_csv else 1,
        keep_torn=options.keep_open or options.follow,
    )
    is_csv, path = options.reads_csv, options.file
    if chunks is not None:
        yield lines("stdin" if path is None else path.name, chunks, is_fleeting=path is None)
    elif path is not None and options.follow and is_regular(path):
        start = find_start(path, commit.position, accept_changes=options.accept_changes)
        followed = FollowedFile(path, start, request.wake, wait_seconds)
        saved = commit.position if start.is_known else None
        whole = checked_chunks(path.name, followed, is_csv=is_csv)
        try:
            yield lines(path.name, whole, saved=saved, is_away=lambda: followed.is_away)
        finally:
            followed.close()
    else:
        name = "stdin" if path is None else path.name
        if path is not None:
            descriptor = open_input(path, follow=options.follow)
        elif sys.stdin is not None:
            descriptor = sys.stdin.fileno()
        else:
            raise InputError("there must be an input", "standard input is closed", "name a file with --input")
        try:
            read = FileChunks(descriptor, request.wake, wait_seconds, name)
            whole = checked_chunks(name, read, is_csv=is_csv)
            yield lines(name, whole, is_fleeting=not read.is_regular)
        finally:
            if path is not None:
                os.close(descriptor)
