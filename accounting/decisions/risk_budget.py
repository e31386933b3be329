"""The risk budget: how many people may have how much risk."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from accounting.exceptions import SettingsError


@dataclass(frozen=True, slots=True)
class RiskLimit:
    """At most a ``share`` of people may have a certified risk above ``risk``, or more ``added``.

    Whoever is above either counts once. People whom habits alone put above it count too; with
    ``habits_apart`` only when releases raise their risk by ``added`` over the bound with nothing released.
    ``in_hindsight`` also counts what later releases tell about a horizon; ``reserve`` is then the share of
    each person's information that is set aside for them.
    """

    share: float = 0.0
    risk: float | None = None
    added: float | None = None
    habits_apart: bool = False
    in_hindsight: bool = False
    reserve: float = 0.5

    def __post_init__(self) -> None:
        """:class:`~accounting.exceptions.SettingsError` names what is out of range."""
        if self.risk is None and self.added is None:
            raise SettingsError("a risk budget must limit risk or added risk", "neither", "set one of them")
        for name, value in (("share", self.share), ("risk", self.risk), ("added", self.added)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise SettingsError(f"{name} of a risk budget must lie in 0..1", value, "correct it")
        if not 0.0 < self.reserve < 1.0:
            raise SettingsError("reserve must lie between 0 and 1", self.reserve, "use 0.5 for a start")

    def allowed(self, people: int) -> int:
        """How many of so many people may be above the limit; the share counts as it is written."""
        return int(Fraction(repr(float(self.share))) * people)
