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
    """Certified risk at the log's end, its baseline, and each person's largest risk ever, (N,) each.

    ``added`` is an upper bound on what the releases added at the log's end, (N,). It and the baseline are the
    prior's, where risks hold within a radius. ``people_each`` (N,) is how many people each stands for.
    """

    risk: NDArray[np.float64]
    baseline: NDArray[np.float64]
    highest: NDArray[np.float64]
    added: NDArray[np.float64]
    people_each: NDArray[np.int64]


def read_reconstruction(
    log: ReleaseLog,
    population: Population,
    settings: HorizonSettings,
    progress: Callable[[int], None] = lambda done: None,
) -> ReconstructionStatement:
    """Replays the log through an accountant; ``progress`` is called with the steps done."""
    accountant = ContinuousAccountant(population, settings)
    highest = accountant.risk()
    for done, step in enumerate(log.steps, 1):
        accountant.apply(step)
        highest = np.maximum(highest, accountant.risk())
        progress(done)
    return ReconstructionStatement(
        accountant.risk(), accountant.baseline(), highest, accountant.added(), accountant.people_each
    )
