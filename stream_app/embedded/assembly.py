"""Puts an embedded run together from settings, priors and options, and runs it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from accounting.ledgers import PrivacyAccount
from models.calendar import Days
from models.exceptions import TallyguardError
from models.priors import Population
from models.releases import StepSchedule
from models.text import parse_json
from stream_app.embedded.journal import Commit, Journal
from stream_app.embedded.panel import panel_observer
from stream_app.embedded.runner import EmbeddedRunner, MessageReader, RunReport
from stream_app.exceptions import DiskFullError, InputError, OutputError, restoring
from stream_app.setup.combinations import Runner
from stream_app.setup.declared import bounded_days, require_most_counts
from stream_app.setup.given_priors import PRIORS_REST_ON, drawn_from, rests_on
from stream_app.setup.keys import Keys, load_keys, require_private_panel
from stream_app.setup.option_settings import NewPriors, RiskFormat
from stream_app.setup.release_settings import CROWD
from stream_app.setup.run_folder.description import Description, keep_named
from stream_app.setup.run_folder.durable import SECRET_MODE, digests_of, replace_file, whole_lines
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
    people_from_now,
    refuse_told,
    renewed_at,
)
from stream_app.setup.run_folder.record import DESCRIPTION, Author, Entry, held
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
    Accounts,
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
    snapshot_basis,
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

# A cache of the accountant's state, so that a restart need not apply years of decisions again.
#
# The decisions are the truth. A snapshot is used only if it was made by the same version from the same
# priors, settings and decisions, and is undamaged; otherwise it is as if there were none.

logger = logging.getLogger(__name__)

FILE = "accountant.snapshot"
_TOGETHER = 128  # steps of an archive in one commit

MOST_EXPOSED = 10
"""People named in the risk summaries of an output folder, unless the settings say otherwise."""


class SnapshotCache:
    """Keeps one snapshot in an output folder.

    ``basis`` is everything but the decisions that the state follows from; ``every_seconds`` 0 keeps none. The
    decisions are known by their digest in the ``commit`` that has as many steps as the state.
    """

    def __init__(self, folder: Path, basis: Mapping[str, Any], every_seconds: float) -> None:
        self._folder = folder
        self._basis = snapshot_basis(basis)
        self._every_seconds = every_seconds
        self._saved_at: float | None = None
        self._saved_step = 0  # nothing to spare before there is a step

    def save_sometimes(self, accounts: Accounts, commit: Commit, now_seconds: float) -> None:
        """Save if steps closed and the last snapshot is ``every_seconds`` old; call after a commit."""
        if self._saved_at is None:
            self._saved_at = now_seconds
        is_time = 0 < self._every_seconds <= now_seconds - self._saved_at
        if is_time and accounts.next_step != self._saved_step:
            self._saved_at = now_seconds
            self.save(accounts, commit)

    def save(self, accounts: Accounts, commit: Commit) -> None:
        """Save the state after the last commit."""
        self._saved_step = accounts.next_step
        state = accounts.snapshot()
        decisions = [commit.lengths["decisions"], commit.digests["decisions"]]
        heading = self._heading(accounts.next_step, decisions, state)
        try:
            replace_file(self._folder / FILE, json.dumps(heading).encode() + b"\n" + state, SECRET_MODE)
        except DiskFullError as error:
            logger.warning("no snapshot is kept, a restart takes longer: %s", error)

    def restore(self, accounts: Accounts, limit_step: int) -> bool:
        """Bring the accounts as far as the snapshot goes, if it is sound and not beyond ``limit_step``.

        False when that failed half way: the accounts must be replaced by new ones then.
        """
        path = self._folder / FILE
        if not path.exists():
            return True
        first, _, state = path.read_bytes().partition(b"\n")
        if not self._is_sound(first, state, limit_step):
            logger.warning("%s does not fit and is not used; the decisions are applied again", path)
            return True
        try:
            accounts.restore(state)
            self._saved_step = accounts.next_step
        except (TallyguardError, ValueError, KeyError) as error:
            logger.warning("%s is of another version and is not used: %s", path, error)
            return False
        return True

    def _is_sound(self, first: bytes, state: bytes, limit_step: int) -> bool:
        """Whether a file's heading says what it must."""
        try:
            heading = parse_json(first)
            step, (length, digest) = heading["next_step"], heading["decisions"]
            is_own = step <= limit_step and heading == self._heading(step, [length, digest], state)
            decisions = self._folder / "decisions.jsonl"
            return bool(is_own and digests_of(whole_lines(decisions), [length])[length] == digest)
        except (ValueError, KeyError, TypeError):
            return False

    def _heading(self, step: int, decisions: Sequence[object], state: bytes) -> dict[str, object]:
        """What a snapshot of the state after the steps before ``step`` must say of itself."""
        return {
            "next_step": step,
            "basis": self._basis,
            "decisions": decisions,
            "state": hashlib.sha256(state).hexdigest(),
        }


# Bringing a run to the journal's last commit: what was accounted, and what was spent on privacy.
#
# What was spent is part of the commit, so a start reads no step for it. Read from the log are only the steps
# that the accounts do not know yet, those of the last horizon, which observers look back at, and those that
# the attack looks back at.


def reveal_renewed(accounts: Accounts, folder: Path, entries: Iterable[Entry], step: int) -> None:
    """Count at this step on nobody in a crowd of whom the record says something else from it on.

    Under another prior other steps were free (:meth:`.Accounts.reveal_next`).
    """
    if accounts.crowd is not None and any(each.step == step and each.about.get("people") for each in entries):
        accounts.reveal_next(renewed_at(folder, entries, step))


def restore_accounts(
    people: PeopleAccounts,
    note: Callable[[StepSchedule], object],
    folder: Path,
    journal: Journal,
    read: Callable[[StepDecision], Decided],
    groups: Sequence[str],
    observer: Observer,
    days: Days | None = None,
) -> Spent:
    """Apply the decisions before the last commit that the accounts lack; what all of them have spent.

    ``note`` gets each step that is read, and ``read`` takes a decision of the log; ``days`` are those of
    bounds over a day. :class:`OutputError` where
    what the commit has spent is not that of the logged steps.
    """
    commit, settings = journal.last_commit, people.accountant.settings
    recent = max(0, commit.next_step - settings.horizon)
    last = None
    if commit.next_step:
        last = next(map(read, journal.accounted(commit.next_step - 1))).schedule
    try:
        carried = Spent.carried(commit.account, commit.decided, commit.next_step, last)
    except ValueError as error:
        raise OutputError(
            f"progress.json must hold the privacy account of the {commit.next_step} steps in decisions.jsonl",
            "that of others",
            restoring("decisions.jsonl and progress.json"),
        ) from error
    spent = carried or Spent(PrivacyAccount(groups, days), commit.decided)
    spent.account.open(groups, days)
    first = 0 if carried is None else min(recent, people.first_to_restore)
    reveal = partial(reveal_renewed, people.accounts, folder, journal.record)
    for decided in map(read, journal.accounted(first)):
        schedule = decided.schedule
        note(schedule)
        if schedule.step == people.next_step:
            reveal(schedule.step)
        people.restore([decided])
        if carried is None:
            spent.charge(schedule)
        if schedule.step >= recent:
            observer.restored(decided.accounted)
    reveal(people.next_step)
    observer.carried(spent.account)
    return spent


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
        refuse_told(settings, plan.registry)
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
        keep=lambda: keep_named(options.output, people.hidden, settings),
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


def people_accounts(
    settings: Settings,
    first_slot: int,
    population: Population,
    pseudonyms: Sequence[str],
    snapshots: SnapshotCache | None = None,
    limit_step: int = 0,
    *,
    has_windows: bool,
) -> PeopleAccounts:
    """The people of an output folder, as far as a snapshot takes them: not beyond ``limit_step``.

    New ones where the policy needs every step again.
    """

    def new() -> Accounts:
        return Accounts.of(
            *(settings, settings.horizon_settings(first_slot), population, pseudonyms),
            population.effective_from,
        )

    accounts = new()
    is_used = not settings.needs_every_step
    if snapshots is not None and is_used and not snapshots.restore(accounts, limit_step):
        accounts = new()  # a restore that failed half way leaves an accountant that must not be used
    return PeopleAccounts(
        settings,
        accounts,
        has_windows=has_windows,
        most_exposed=MOST_EXPOSED if settings.most_exposed is None else settings.most_exposed,
        pseudonyms=pseudonyms,
    )


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
    engine.resume(spent, journal.last_commit.devices)
    if window.first_revisable < window.next_step:
        decided = journal.accounted(window.first_revisable)
        engine.recall(read(each).schedule for each in decided)
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
