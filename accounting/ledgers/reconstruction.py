"""The reconstruction reader: everybody's certified risk at each step of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant
from accounting.ledgers.release_log import ReleaseLog
from accounting.settings import HorizonSettings
from models.priors import Population


@dataclass(frozen=True, slots=True, eq=False)
class ReconstructionStatement:
    """Certified risk at the log's end (N,), its baseline (N,), and each person's largest risk ever (N,)."""

    risk: NDArray[np.float64]
    baseline: NDArray[np.float64]
    highest: NDArray[np.float64]

    @property
    def added(self) -> NDArray[np.float64]:
        """Upper bound on what the releases added at the log's end, (N,)."""
        return self.risk - self.baseline


def read_reconstruction(
    log: ReleaseLog,
    population: Population,
    settings: HorizonSettings,
    progress: Callable[[int], None] = lambda done: None,
) -> ReconstructionStatement:
    """Replays the log through the accountant that ran beside it; ``progress`` is told the steps done."""
    accountant = ContinuousAccountant(population, settings)
    highest = accountant.risk()
    for done, step in enumerate(log.steps, 1):
        accountant.apply(step)
        highest = np.maximum(highest, accountant.risk())
        progress(done)
    return ReconstructionStatement(accountant.risk(), accountant.baseline(), highest)
