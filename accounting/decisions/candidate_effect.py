"""What one candidate step does to the people whom some candidate could put over the limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.mechanisms import Mechanism
from models.releases import StepSchedule


@dataclass(frozen=True, eq=False)
class CandidateEffect:
    """Units, (n,) each: ``excess`` over the limit (positive = over) and, where that is positive, the terms.

    ``conditional`` and ``unconditioned`` are 0 where a quick bound showed a person to be within the limit.
    """

    mechanisms: dict[str, Mechanism]
    conditional: NDArray[np.int64]
    unconditioned: NDArray[np.int64]
    excess: NDArray[np.int64]

    @classmethod
    def of(cls, step: StepSchedule, people: int) -> CandidateEffect:
        """An effect still to be filled in."""
        return cls(mechanisms_of(step), *(np.zeros(people, dtype=np.int64) for _ in range(3)))

    def copied_for(self, step: StepSchedule) -> CandidateEffect:
        """The same effect for another candidate, to be changed where the two differ."""
        return replace(
            self,
            mechanisms=mechanisms_of(step),
            conditional=self.conditional.copy(),
            unconditioned=self.unconditioned.copy(),
            excess=self.excess.copy(),
        )

    @property
    def is_exact(self) -> bool:
        """Whether all that is released is exact: then the terms of everybody are others than under noise."""
        return all(how.is_exact for how in self.mechanisms.values() if how.is_released)

    def differing(self, step: StepSchedule) -> list[str]:
        """Sensors that another candidate releases in another way."""
        others = mechanisms_of(step)
        return [name for name, how in self.mechanisms.items() if others[name] != how]


def mechanisms_of(step: StepSchedule) -> dict[str, Mechanism]:
    """The mechanism of each sensor of a step."""
    return {release.sensor.name: release.mechanism for release in step.releases}
