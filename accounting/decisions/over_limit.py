"""How many people a step would put over the limit, candidate by candidate; answers of partitions add up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from accounting.settings import RiskBudget


@dataclass(frozen=True, slots=True)
class OverLimit:
    """Counts of people, of one partition or of all.

    ``natural_now`` are over the limit by habit alone in the horizon of the step that is asked about,
    ``natural[k]`` in horizons that start in slot ``k`` of the common cycle.
    ``over[j]`` would be over because of releases, now or in the silence after candidate ``j``; ``cleared[j]``
    of the others are within it by the refined bounds only.
    """

    people: int
    natural_now: int
    natural: tuple[int, ...]
    over: tuple[int, ...]
    cleared: tuple[int, ...]

    def __add__(self, other: OverLimit) -> OverLimit:
        """Both partitions together."""
        cycle = lcm(len(self.natural), len(other.natural))
        return OverLimit(
            self.people + other.people,
            self.natural_now + other.natural_now,
            tuple(
                self.natural[k % len(self.natural)] + other.natural[k % len(other.natural)]
                for k in range(cycle)
            ),
            tuple(a + b for a, b in zip(self.over, other.over, strict=True)),
            tuple(a + b for a, b in zip(self.cleared, other.cleared, strict=True)),
        )

    def cut_above(self, most: int) -> OverLimit:
        """The same counts, cut at ``most + 1``: partitions do not count beyond."""
        return replace(self, over=tuple(min(count, most + 1) for count in self.over))

    def spoken_for(self, limit: RiskBudget) -> int:
        """Places in the budget that habits take, at the hour at which they take most but do not break it.

        At an hour at which habits alone break the budget, nothing is released. Such hours do not lower what
        other hours may release.
        """
        allowed = limit.allowed(self.people)
        return max((count for count in self.natural if count <= allowed), default=0)

    def is_admissible(self, limit: RiskBudget) -> tuple[bool, ...]:
        """Whether each candidate keeps the budget at every step from now on, if silence follows."""
        allowed = limit.allowed(self.people)
        if self.natural_now > allowed:
            return (False,) * len(self.over)
        free = allowed - self.spoken_for(limit)
        return tuple(count <= free for count in self.over)
