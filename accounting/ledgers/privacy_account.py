"""What a log has cost in differential privacy so far: a few figures for each group of sensors.

The figures are as many however long the log is, so whoever continues a log keeps them beside its place in it
and need not read it again. An account that was saved and loaded goes on as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple
from fractions import Fraction
from math import inf
from typing import Any

from accounting.ledgers.sampling import SamplerDistance
from accounting.ledgers.zcdp import Unprotected, ZcdpSpend
from models.releases import StepSchedule

EVERY_GROUP = "all"


class PrivacyAccount:
    """The zCDP spent by each group of sensors, and by all of them together; ``steps`` were charged.

    ``is_of_this_version`` is False of one that an earlier version saved: it is true, but says of samplers
    only by mass how far they are from ideal noise, and not which releases cost infinitely much. Whoever has
    the log charges its steps anew.
    """

    def __init__(self, groups: Iterable[str]) -> None:
        self.steps = 0
        self.is_of_this_version = True
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
            group: [
                str(spend.rho),
                spend.is_infinite,
                spend.truncated_mass,
                list(astuple(spend.distance)[1:]),
                list(astuple(spend.unprotected)),
            ]
            for group, spend in self.spends.items()
        }
        return {"steps": self.steps, "spends": spends}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> PrivacyAccount:
        """The account that :meth:`save` gave; ``ValueError`` for anything else."""
        try:
            account = cls(saved["spends"])
            account.steps = int(saved["steps"])
            for group, (rho, is_infinite, mass, *later) in saved["spends"].items():
                spent = Fraction(*map(int, rho.split("/")))  # an exponent would be worked out, however large
                distance, unprotected = later or ((0.0, 0.0, mass), ())
                account.is_of_this_version &= bool(later)
                sampled = SamplerDistance(*map(float, (mass, *distance)))
                if spent < 0 or not all(0.0 <= each < inf for each in astuple(sampled)):
                    raise TypeError("an amount below 0, or none")
                account.spends[group] = ZcdpSpend(
                    spent, bool(is_infinite), sampled, _unprotected(*unprotected)
                )
        except (ArithmeticError, AttributeError, KeyError, TypeError) as error:
            raise ValueError("a privacy account must have steps and spends") from error
        return account


def _unprotected(
    counts: int = 0, sensor: str = "", of_others: bool = False, is_exact: bool = True
) -> Unprotected:
    return Unprotected(int(counts), str(sensor), bool(of_others), bool(is_exact))
