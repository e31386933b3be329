"""A released count seen by an adversary who does not know where the others are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from models.mechanisms import SeenRelease, Tabulated
from models.noise import InformationTable, least_information, scaled_entropy_table


@dataclass(frozen=True, slots=True)
class Crowded(SeenRelease):
    """``inner`` in a crowd, as accountants of one person ask it.

    It reveals at most ``share`` of the entropy of being counted. With ``is_erased`` it stands for the channel
    that reveals the person's bit with probability ``share`` and else nothing, and all its verbs are that
    channel's. Otherwise only :meth:`information` knows of the crowd, and all else is as for whoever knows
    where the others are: the mean over what is revealed of them is a bound on information, not on more.
    Differential privacy knows no crowd: its figures are the release's.
    """

    share: float
    is_erased: bool
    name: ClassVar[str] = "crowded"

    def reveal_probability(self) -> float:
        """Of the erasure; else that of the noise alone."""
        return self.share if self.is_erased else self.inner.reveal_probability()

    def information_table(self) -> InformationTable:
        """The smaller of what the crowd leaves and what the noise does."""
        return _information_table(self)


@lru_cache(4096)
def _information_table(crowded: Crowded) -> InformationTable:
    hidden = scaled_entropy_table(crowded.share)
    if crowded.is_erased or not isinstance(crowded.inner, Tabulated):
        return hidden
    return least_information(hidden, crowded.inner.information_table())
