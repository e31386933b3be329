"""Where a run or a worker goes on after its last step, and what its steps have spent on privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from accounting.ledgers import PrivacyAccount
from models.releases import StepSchedule
from stream_app.wire import Exact, Step, fingerprint_of


class Position(Exact):
    """Everything before it is durable; a log keeps it with what came of it, and adds where its input is.

    ``window`` is that of :class:`stream_app.steps.window.StepWindow`; read from a log it has the ``steps``.
    It has counts, and so has what is kept of watched ``devices``: both are secret. ``account`` is the privacy
    spent by the steps before ``next_step``, and ``decided`` the fingerprint of the last of them, by which a
    position is compared with the log of decisions. Earlier versions wrote neither.
    """

    next_step: Step = 0
    window: Mapping[str, Any] = Field(default_factory=dict)
    account: Mapping[str, Any] = Field(default_factory=dict)
    decided: str | None = None
    devices: Mapping[str, Any] = Field(default_factory=dict)


class Spent:
    """What all steps so far have spent on differential privacy; a position carries it from run to run."""

    def __init__(self, account: PrivacyAccount, decided: str | None = None) -> None:
        self.account = account
        self._decided = decided
        self._last: StepSchedule | None = None

    @classmethod
    def carried(cls, position: Position, last: StepSchedule | None) -> Spent:
        """As a position has it; nothing where an earlier version kept no account, or less.

        The steps of the log from :attr:`next_step` on are then to be charged, once the account is open to the
        groups of all sensors. ``ValueError`` where it is not of the steps before the position, the ``last``
        of which the log has.
        """
        if position.decided not in (None, None if last is None else fingerprint_of(last)):
            raise ValueError("another last step")
        account = PrivacyAccount.load(position.account) if position.account else PrivacyAccount(())
        if position.account and account.steps != position.next_step:
            raise ValueError(f"an account of {account.steps} steps")
        return cls(account if account.is_of_this_version else PrivacyAccount(()), position.decided)

    @property
    def next_step(self) -> int:
        """The first step that is not charged."""
        return self.account.steps

    def charge(self, schedule: StepSchedule) -> None:
        """Add what a step spends, unless it was charged before."""
        if schedule.step >= self.next_step:
            self.account.charge(schedule)
            self._last = schedule

    @property
    def decided(self) -> str | None:
        """The fingerprint of the last step; None before the first."""
        return self._decided if self._last is None else fingerprint_of(self._last)
