"""The accounts of an output folder: from a snapshot, and brought to the last commit by its decisions."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from models.calendar import Days
from models.exceptions import TallyguardError
from models.priors import Population
from models.releases import StepSchedule
from models.text import parse_json
from stream_app.embedded.journal import Commit, Journal
from stream_app.exceptions import DiskFullError
from stream_app.setup.run_folder.durable import SECRET_MODE, digests_of, replace_file, whole_lines
from stream_app.setup.run_folder.people_record import renewed_at
from stream_app.setup.run_folder.record import Entry
from stream_app.setup.settings import Settings
from stream_app.steps import Accounts, PeopleAccounts, Spent, carried, charge_rest, snapshot_basis
from stream_app.steps.policy import Decided
from stream_app.watching.events import Observer
from stream_app.wire import StepDecision

# A cache of the accountant's state, so that a restart need not apply years of decisions again.
#
# The decisions are the truth. A snapshot is used only if it was made by the same version from the same
# priors, settings and decisions, and is undamaged; otherwise it is as if there were none.

logger = logging.getLogger(__name__)

FILE = "accountant.snapshot"

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


# Bringing people to the journal's last commit. Read from the log are only the steps that the accounts do not
# know yet, those of the last horizon, which observers look back at, and those that the attack looks back at.


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

    ``note`` gets the last step, and ``read`` takes a decision of the log; ``days`` are those of bounds over a
    day.
    """
    spent, until = carried(journal, read, note), journal.position.next_step
    recent = max(0, until - people.accountant.settings.horizon)
    reveal = partial(reveal_renewed, people.accounts, folder, journal.record)
    for decided in map(read, journal.decisions(min(recent, people.first_to_restore), until)):
        step = decided.schedule.step
        if step == people.next_step:
            reveal(step)
        people.restore([decided])
        if step >= recent:
            observer.restored(decided.accounted)
    reveal(people.next_step)
    charge_rest(spent, journal, read, groups, days)
    observer.carried(spent.account)
    return spent


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
