"""What a log has cost in differential privacy so far: a few figures for each group of sensors.

The figures are as many however long the log is, so whoever continues a log keeps them beside its place in it
and need not read it again. An account that was saved and loaded goes on as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from accounting.ledgers.zcdp import ZcdpSpend
from models.releases import StepSchedule

EVERY_GROUP = "all"


class PrivacyAccount:
    """The zCDP spent by each group of sensors, and by all of them together; ``steps`` were charged."""

    def __init__(self, groups: Iterable[str]) -> None:
        self.steps = 0
        self.spends = {group: ZcdpSpend() for group in sorted({*groups, EVERY_GROUP})}

    def charge(self, schedule: StepSchedule) -> tuple[str, ...]:
        """Add the next step; the groups that it cost anything."""
        charged = []
        for group, spend in self.spends.items():
            own = [r for r in schedule.releases if group in (EVERY_GROUP, r.sensor.group)]
            if own:
                spend.add(own)
                charged.append(group)
        self.steps += 1
        return tuple(charged)

    def save(self) -> dict[str, Any]:
        """The account as JSON values."""
        spends = {
            group: [str(spend.rho), spend.is_infinite, spend.truncated_mass]
            for group, spend in self.spends.items()
        }
        return {"steps": self.steps, "spends": spends}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> PrivacyAccount:
        """The account that :meth:`save` gave; ``ValueError`` for anything else."""
        try:
            account = cls(saved["spends"])
            account.steps = int(saved["steps"])
            for group, (rho, is_infinite, truncated_mass) in saved["spends"].items():
                spent = Fraction(*map(int, rho.split("/")))  # an exponent would be worked out, however large
                account.spends[group] = ZcdpSpend(spent, bool(is_infinite), float(truncated_mass))
        except (ArithmeticError, AttributeError, KeyError, TypeError) as error:
            raise ValueError("a privacy account must have steps and spends") from error
        return account
