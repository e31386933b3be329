"""Everybody's certified risk against a crowd adversary, step by step, beside the informed one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from accounting.bounds import BY_INFORMATION, BY_LEVELS
from accounting.bounds.radius import ceilings_within
from accounting.continuous import ContinuousAccountant, RiskSummary, no_moments, summarise
from accounting.continuous.accounts_kernel import HISTORY, NEGLIGIBLE, Accounts
from accounting.continuous.crowd.erased_success_kernel import find_erased_success
from accounting.continuous.refine_kernel import find_operations
from accounting.exposure.crowd import LEVELS, CrowdAdversary, Others, StepCrowd, at_level, in_crowd
from accounting.exposure.step_information import followed_by, nothing_seen_for, seen_release
from accounting.exposure.step_information.seen_steps_kernel import SeenSteps
from accounting.settings import HorizonSettings
from models.priors import Population
from models.releases import StepSchedule

_INFORMED, _INFORMATION, _LEVELS = range(3)


@dataclass
class CrowdAccount:
    """Risks of a population in which everybody hides among the others, moved on by :meth:`apply`.

    ``informed`` is the account against whoever knows where everybody else is, as ever; whoever does not know
    does no better. Beside it the fast bound is computed from what each count reveals in the crowd, and, for
    those whom that leaves high, the bound through noise at each of ``LEVELS``, as far as ``operations`` go:
    highest added first. Risks hold if the others move independently, as their priors say.

    What is told of the others follows from priors and announced sensors, so a replay gives the same bits.
    """

    population: Population
    adversary: CrowdAdversary = field(default_factory=CrowdAdversary)
    settings: HorizonSettings = field(default_factory=HorizonSettings)
    effective_from: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Nothing is released yet."""
        settings, since = self.settings, self.effective_from
        people, locations = len(self.population), self.population.location_count
        self.informed = ContinuousAccountant(self.population, settings, since)
        self._everything = self.informed
        if self.adversary.companions:  # no noise is known to hide a group: its counts as if they were exact
            self._everything = ContinuousAccountant(self.population, settings, since)
        fast = replace(settings, sharpen=False, decided=None)
        self._fast = ContinuousAccountant(self.population, fast, since)
        first_seen = self._accounts.since
        self._others = Others(self.population, settings.first_slot, settings.first_step, first_seen)
        self._seen = [nothing_seen_for(HISTORY + settings.horizon, locations) for _ in LEVELS]
        self._worst = no_moments(people)
        self._by = np.zeros(people, dtype=np.int8)
        self._risk = self._everything.view().accounts.state.risk.copy()
        self._crowds: StepCrowd = ()
        self._not_reached = 0

    @property
    def next_step(self) -> int:
        """The step that :meth:`apply` expects."""
        return self.informed.next_step

    @property
    def crowds(self) -> StepCrowd:
        """What each release of the last step hides among, everybody counted."""
        return self._crowds

    def apply(self, step: StepSchedule) -> None:
        """Account one step; steps come in order without gaps, empty ones included."""
        crowds = self._others.apply(step)
        self.informed.apply(step)
        if self._everything is not self.informed:
            self._everything.apply(at_level(step, crowds, self.adversary, 0.0))
        self._fast.apply(in_crowd(step, crowds, self.adversary))
        self._crowds = crowds
        counts = max(1, sum(each.mechanism.is_released for each in step.releases))
        self._seen = [
            followed_by(seen, self._erased(step, level / counts))
            for seen, level in zip(self._seen, LEVELS, strict=True)
        ]
        self._lower(step.step)
        self._worst.note(step.step, self._risk, self._accounts.state.baseline, self._accounts.since)

    def apply_all(self, steps: Iterable[StepSchedule]) -> None:
        """Account several steps, as after a restart."""
        for step in steps:
            self.apply(step)

    def risk(self) -> NDArray[np.float64]:
        """Certified risk of each person against the crowd adversary, within the settings' radius, (N,)."""
        return ceilings_within(self.settings.within_nats, self._risk).copy()

    def baseline(self) -> NDArray[np.float64]:
        """Success of the best guess from the prior alone, (N,)."""
        return self.informed.baseline()

    def added(self) -> NDArray[np.float64]:
        """Upper bound on what the releases added under the prior, against the crowd adversary, (N,)."""
        return self._risk - self._accounts.state.baseline

    def information_nats(self) -> NDArray[np.float64]:
        """Bound on what everything released tells this adversary about the horizon, nats, (N,)."""
        informed = self._everything.information_nats()
        return np.minimum(self._fast.information_nats(), informed)

    def decided_by(self, person: int) -> str:
        """Which bound gave a person's risk."""
        if self._by[person] == _INFORMED:
            return self._everything.decided_by(person)
        return BY_LEVELS if self._by[person] == _LEVELS else BY_INFORMATION

    def summary(self) -> RiskSummary:
        """The last step in a few numbers, against the crowd adversary."""
        worst = self._worst.copy()
        raised = worst._replace(highest_risk=ceilings_within(self.settings.within_nats, worst.highest_risk))
        figures = self.risk(), self.baseline(), self.added()
        found = summarise(self.next_step - 1, *figures, self.settings.thresholds, raised)
        return replace(found, not_reached=self._not_reached, within_nats=self.settings.within_nats)

    @property
    def _accounts(self) -> Accounts:
        return self._fast.view().accounts

    def _erased(self, step: StepSchedule, level: float) -> SeenSteps:
        """The step at a level that is shared among all steps that a refined bound looks at."""
        share = level / (HISTORY + self.settings.horizon)
        erased = at_level(step, self._crowds, self.adversary, share)
        return seen_release(erased.releases, self.population.location_count)

    def _lower(self, step: int) -> None:
        """The least of the three ways, the dear one as far as the work of a step goes."""
        state, everything = self._accounts.state, self._everything.view().accounts.state.risk
        self._by = np.where(state.risk < everything, _INFORMATION, _INFORMED).astype(np.int8)
        self._risk = np.minimum(state.risk, everything)
        due = self._due()
        if due.size == 0:
            return
        # (1 - b_1) f(b_1) + (b_1 - b_2) f(b_2) + .. + b_k f(1), from the widest level on.
        least = everything[due].copy()
        total, smaller = LEVELS[-1] * least, LEVELS[-1]
        success = np.empty(due.size)
        for k in range(len(LEVELS) - 1, -1, -1):
            find_erased_success(self._accounts, due, step, self._seen[k], success)
            least = np.minimum(least, np.maximum(success, state.baseline[due]))
            larger = LEVELS[k - 1] if k else 1.0
            total += (larger - smaller) * least
            smaller = larger
        total *= 1.0 + 1e-12
        lowered = total < self._risk[due]
        self._by[due[lowered]] = _LEVELS
        self._risk[due] = np.minimum(self._risk[due], total)

    def _due(self) -> NDArray[np.int64]:
        """Whom the bound at levels could lower, and the work of a step suffices for."""
        state, settings = self._accounts.state, self.settings
        self._not_reached = 0
        if not settings.refines or not any(seen.is_noised for seen in self._seen):
            return np.empty(0, dtype=np.int64)
        is_raised = self._risk > np.maximum(state.baseline, state.guess * (1.0 + NEGLIGIBLE))
        due = np.flatnonzero(is_raised & (self._risk >= self._accounts.horizon.refined_from))
        if settings.operations is None or due.size == 0:
            return due
        cost = np.empty(due.size, dtype=np.int64)
        find_operations(self._accounts, due, settings.vectors, self._seen[0], cost)
        order = np.argsort(-(self._risk - state.baseline)[due], kind="stable")
        paid = np.cumsum(cost[order] * len(LEVELS)) <= settings.operations
        self._not_reached = int(np.count_nonzero(~paid))
        return np.sort(due[order[paid]])
