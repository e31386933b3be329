"""Both accounts of some people, moved on together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant
from accounting.continuous.crowd import CrowdAccount
from accounting.exposure.crowd import CrowdAdversary, StepCrowd
from accounting.settings import HorizonSettings, RiskBudget
from models.priors import Population
from models.releases import StepSchedule


class BothAccounts(CrowdAccount):
    """A crowd's account that moves the informed one on by itself."""

    def __init__(
        self,
        population: Population,
        adversary: CrowdAdversary | None = None,
        settings: HorizonSettings | None = None,
        since: NDArray[np.int64] | None = None,
        decided: RiskBudget | None = None,
    ) -> None:
        informed = ContinuousAccountant(population, settings or HorizonSettings(), since, apart=True)
        super().__init__(informed, adversary, decided=decided, weights=population.weights)
        self.crowds: StepCrowd = ()

    def apply(self, step: StepSchedule, crowds: StepCrowd | None = None) -> StepCrowd:
        """To the informed account first."""
        self.informed.apply(step)
        self.crowds = super().apply(step, crowds)
        return self.crowds

    def apply_all(self, steps: Iterable[StepSchedule]) -> None:
        """One after the other."""
        for step in steps:
            self.apply(step)
