"""Bringing a run to the journal's last commit: what was accounted, and what was spent on privacy.

The privacy account stands in the commit, so a start reads no step for it. Only the steps that the accountant
does not know yet are read from the log, those of the last horizon, which observers look back at, and those
that an attack beside the ceiling looks back at.
"""

from __future__ import annotations

from accounting.continuous.shadow import Shadow, recent_step_count
from accounting.ledgers import PrivacyAccount
from models.releases import SensorRegistry, in_single_steps
from stream_app.embedded.journal import Commit, Journal
from stream_app.exceptions import OutputError, restoring
from stream_app.steps import Accounts
from stream_app.steps.policy import Policy
from stream_app.watching.events import Observer
from stream_app.wire import crowds_of, fingerprint_of, schedule_of


def restore_account(
    accounts: Accounts,
    policy: Policy,
    registry: SensorRegistry,
    journal: Journal,
    observer: Observer,
    shadow: Shadow | None = None,
) -> PrivacyAccount:
    """Apply the decisions before the last commit that the accountant lacks; what all of them have spent.

    :class:`OutputError` where the commit's account is not that of the logged steps.
    """
    accountant, commit = accounts.informed, journal.last_commit
    recent = max(0, commit.next_step - accountant.settings.horizon)
    account = _carried(commit)
    charged = PrivacyAccount(sensor.group for sensor in registry.sensors) if account is None else account
    first = 0 if account is None else min(recent, accountant.next_step)
    if shadow is not None:
        first = min(first, max(0, commit.next_step - recent_step_count(accountant.settings.horizon)))
    for decision in journal.accounted(first):
        schedule = schedule_of(decision, registry)
        accounted = in_single_steps(schedule, registry)
        if decision.step >= accountant.next_step:
            crowds = None if accounts.crowd is None else crowds_of(decision)
            policy.accounted(schedule, crowds)
            accounts.apply(accounted, crowds)
        if shadow is not None:
            shadow.note(accounted)
        if account is None:
            charged.charge(schedule)
        if decision.step == commit.next_step - 1 and commit.decided not in (None, fingerprint_of(schedule)):
            raise _other_steps(commit)
        if decision.step >= recent:
            observer.restored(accounted)
    observer.carried(charged)
    return charged


def _carried(commit: Commit) -> PrivacyAccount | None:
    """The account in a commit; None where an earlier version kept none, or less."""
    if not commit.account:
        return None
    try:
        account = PrivacyAccount.load(commit.account)
    except ValueError as error:
        raise _other_steps(commit) from error
    if account.steps != commit.next_step:
        raise _other_steps(commit)
    return account if account.is_of_this_version else None


def _other_steps(commit: Commit) -> OutputError:
    return OutputError(
        f"progress.json must hold the privacy account of the {commit.next_step} steps in decisions.jsonl",
        "that of others",
        restoring("decisions.jsonl and progress.json"),
    )
