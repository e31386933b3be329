"""A released count seen by an adversary who does not know where the others are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from models.mechanisms import SeenRelease, Tabulated
from models.noise import InformationTable, least_information, scaled_entropy_table


@dataclass(frozen=True, slots=True)
class Crowded(SeenRelease):
    """A release as seen by somebody who does not know where the others are; ``inner`` is the release itself.

    It reveals at most ``share`` of the entropy of being counted.

    - With ``is_erased`` it is an erasure channel: the person's bit with probability ``share``, else nothing.
    - Otherwise only :meth:`information` takes the crowd into account, because a mean over what is revealed of
      the others bounds information and nothing more. Everything else is that of ``inner``.

    Differential privacy does not depend on a crowd: its figures are those of ``inner``.
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
