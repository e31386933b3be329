"""Names that differ from a wrong one by a single slip: what to suggest, at a cost that no name can raise.

An index from each name's variants to the names: its letters without regard to case and punctuation, and
those with one letter left out. Two names share a variant when one letter was added, left out, replaced or
swapped with its neighbour: ``statoin`` and ``station`` without their ``o`` are the same. Looking a name up
costs one visit a letter, however many names there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MOST_LETTERS = 48
"""Longer names are compared as a whole only, so that an index stays small."""


class CloseNames:
    """Suggestions among some names; building it costs one entry a letter."""

    def __init__(self, names: Iterable[str], at_most: int = 3) -> None:
        self._at_most = at_most
        self._by_variant: dict[str, list[str]] = {}
        for name in names:
            for variant in _variants(name):
                found = self._by_variant.setdefault(variant, [])
                if len(found) < at_most:
                    found.append(name)

    def like(self, name: str) -> tuple[str, ...]:
        """A few names within one slip of this one, the nearest kind of slip first."""
        close: dict[str, None] = {}
        for variant in _variants(name):
            close |= dict.fromkeys(self._by_variant.get(variant, ()))
        return tuple(close)[: self._at_most]


def _variants(name: str) -> Iterator[str]:
    """The letters and digits of a name, then those with each one left out."""
    if len(name) > 4 * MOST_LETTERS:
        return
    folded = "".join(filter(str.isalnum, name)).casefold()
    yield folded
    if len(folded) <= MOST_LETTERS:
        yield from dict.fromkeys(folded[:k] + folded[k + 1 :] for k in range(len(folded)))
