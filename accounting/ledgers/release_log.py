"""The log that all readers share: frozen facts of what was released, never a count.

A reader computes a statement from the log and changes nothing. It refuses a mechanism whose cost it does not
know, because a guessed cost guarantees nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.exceptions import StepOrderError, UnknownReleaseError
from accounting.settings import HorizonSettings
from models.mechanisms import Mechanism
from models.numerics.arrays import Floats, Integers
from models.priors import Population
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

    @property
    def is_bounded(self) -> bool:
        """Whether it is declared of any sensor how often it counts a person in a day."""
        return any(each.sensor.per_day is not None for step in self.steps for each in step.releases)

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


# The reconstruction reader: the certified risk of each person at each step of the log.


@dataclass(frozen=True, slots=True, eq=False)
class ReconstructionStatement:
    """Certified risk at the log's end, its baseline, and the highest risk at any step, (N,) each.

    ``added`` (N,) is an upper bound on what the releases added at the log's end. If risks hold within a
    radius, ``added`` and ``baseline`` are still those under the prior. ``people_each`` (N,) is how many
    people each name stands for.
    """

    risk: Floats
    baseline: Floats
    highest: Floats
    added: Floats
    people_each: Integers


def read_reconstruction(
    log: ReleaseLog,
    population: Population,
    settings: HorizonSettings,
    progress: Callable[[int], None] = lambda done: None,
) -> ReconstructionStatement:
    """Replays the log through an accountant; ``progress`` is called with the steps done."""
    accountant = ContinuousAccountant(population, settings, population.effective_from, told=population.told)
    highest = accountant.risk()
    for done, step in enumerate(log.steps, 1):
        accountant.apply(step)
        highest = np.maximum(highest, accountant.risk())
        progress(done)
    return ReconstructionStatement(
        accountant.risk(), accountant.baseline(), highest, accountant.added(), accountant.people_each
    )
