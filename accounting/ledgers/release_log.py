"""The log that all readers share: frozen facts of what was released, never a count.

A reader computes a statement of the log and changes nothing. A mechanism it does not know is refused: a guess
would be a promise nobody can keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from accounting.exceptions import StepOrderError, UnknownReleaseError
from models.mechanisms import Mechanism
from models.releases import StepSchedule


@dataclass(frozen=True, slots=True)
class ReleaseLog:
    """All closed steps of a deployment, in order, without a gap, as they were decided and accounted."""

    steps: tuple[StepSchedule, ...]

    def __post_init__(self) -> None:
        """:class:`StepOrderError` when a step is missing or out of order."""
        for expected, step in enumerate(self.steps, self.steps[0].step if self.steps else 0):
            if step.step != expected:
                raise StepOrderError(
                    f"step {expected} must come next in a release log",
                    step.step,
                    "give every closed step in order, empty ones included",
                )

    @classmethod
    def of(cls, steps: Iterable[StepSchedule]) -> ReleaseLog:
        """The log of these steps."""
        return cls(tuple(steps))

    def releases_by_mechanism(self) -> Mapping[str, int]:
        """How many sensor-steps were released with each mechanism."""
        return Counter(release.mechanism.name for step in self.steps for release in step.releases)

    def groups(self) -> tuple[str, ...]:
        """Groups of the sensors that occur, sorted."""
        return tuple(sorted({release.sensor.group for step in self.steps for release in step.releases}))

    def of_group(self, group: str) -> ReleaseLog:
        """The same steps with the releases of one group of sensors only."""
        return ReleaseLog(
            tuple(
                StepSchedule(step.step, tuple(r for r in step.releases if r.sensor.group == group))
                for step in self.steps
            )
        )


def known(reader: str, mechanism: Mechanism) -> Mechanism:
    """The mechanism; :class:`UnknownReleaseError` where it does not answer what readers ask."""
    if not _answers(type(mechanism)):
        raise refuse(reader, mechanism)
    return mechanism


@cache
def _answers(kind: type) -> bool:
    return all(hasattr(kind, verb) for verb in ("zcdp_rho", "pure_epsilon", "gaussian_variance", "noise_law"))


def refuse(reader: str, mechanism: Mechanism) -> UnknownReleaseError:
    """The error of a reader that does not know a mechanism."""
    return UnknownReleaseError(
        f"the {reader} ledger must know every mechanism of the log",
        repr(mechanism.name),
        "teach it the mechanism's cost; until then it promises nothing for this log",
    )
