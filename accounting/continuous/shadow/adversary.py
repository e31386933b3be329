"""The shadow adversary of a run: it attacks drawn people after every step, and sees no count.

Trajectories are drawn from people's priors, releases from the schedule and its mechanisms as they were
decided. So what it shows is a function of priors and schedule, like the ceiling it stands beside, and reveals
nothing about anybody. Its memory are the steps of the last horizon and of as much history before as the
refined bounds follow; what was released earlier it does not use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.continuous.accounts_kernel import HISTORY
from accounting.continuous.shadow.adversary_kernel import Sampled, attack_people
from accounting.continuous.shadow.drawn_attacks import (
    AttackedPart,
    MeanAttack,
    MeanCeiling,
    PriorGuesses,
    mean_attack,
)
from accounting.continuous.shadow.drawn_people import DrawnPart
from accounting.continuous.shadow.noted_steps import NotedStep, noted, recent_log
from accounting.exceptions import StepOrderError
from models.releases import StepSchedule


def recent_step_count(horizon: int) -> int:
    """How many of the last steps the attack uses."""
    return HISTORY + horizon


class Shadow:
    """Attacks ``drawn`` people of an accountant; :meth:`note` every step that the accountant applies.

    ``confidence`` is that of the interval of :meth:`mean`.
    """

    def __init__(
        self, accountant: ContinuousAccountant, drawn: Sequence[DrawnPart], confidence: float = 0.95
    ) -> None:
        self._accountant = accountant
        whose = accountant.by_account
        self._drawn = tuple(part._replace(person=whose.of(part.person)) for part in drawn)  # their accounts
        self._sampled = _sampled(self._drawn, accountant)
        self._confidence = confidence
        self._last_step = -1
        self._steps: deque[NotedStep] = deque(maxlen=recent_step_count(accountant.settings.horizon))
        self._found: tuple[AttackedPart, ...] | None = None  # after the last step, once it was attacked
        self._is_attacked = False

    def take_over_log(self, other: Shadow) -> None:
        """Take over the steps that the shadow of other people has noted."""
        self._last_step, self._is_attacked = other._last_step, False
        self._steps = other._steps.copy()

    def note(self, step: StepSchedule) -> None:
        """Remember a step; steps come in order without gaps. Nothing is attacked yet."""
        if self._steps and step.step != self._last_step + 1:
            raise StepOrderError(
                f"the next step to remember must be {self._last_step + 1}",
                step.step,
                "note steps in order, empty ones included",
            )
        self._steps.append(noted(step.releases, self._accountant.population.location_count))
        self._last_step, self._is_attacked = step.step, False

    def mean(self) -> MeanAttack | None:
        """The mean success of the attack over everybody, at most the ceiling; None where none was tried.

        :class:`~accounting.exceptions.AttackAboveCeilingError` where it proves the ceiling wrong.
        """
        found = self.attack()
        if found is None:
            return None
        guesses = self._accountant.account_baseline(), self._accountant.by_account.people
        ceiling = MeanCeiling(self._accountant.mean_prior_risk(), self._last_step)
        return mean_attack(found, PriorGuesses(*guesses), self._confidence, ceiling)

    def attack(self) -> tuple[AttackedPart, ...] | None:
        """How the attack goes after the last step noted, which is the last one accounted.

        None where noise is shared by steps, which cannot be drawn from one step's law.
        """
        if self._last_step != self._accountant.next_step - 1:
            raise StepOrderError(
                f"the last step noted must be {self._accountant.next_step - 1}, the last accounted",
                self._last_step,
                "note every step that is applied",
            )
        if not self._is_attacked:
            can_be_drawn = self._steps and all(step.can_be_drawn for step in self._steps)
            self._found = self._attack() if can_be_drawn else None
            self._is_attacked = True
        return self._found

    def _attack(self) -> tuple[AttackedPart, ...]:
        sampled = self._sampled
        added = np.zeros(int(sampled.first[-1]), np.int64)
        log = recent_log(self._last_step - len(self._steps) + 1, self._steps)
        attack_people(added, sampled, self._accountant.view().accounts, log, self._last_step)
        ends = np.cumsum([part.person.size * part.draws for part in self._drawn])
        return tuple(
            AttackedPart(part.people, own.size, tuple(np.sort(own[own > 0]).tolist()))
            for part, own in zip(self._drawn, np.split(added, ends), strict=False)
        )


def _sampled(parts: Sequence[DrawnPart], accountant: ContinuousAccountant) -> Sampled:
    """The draws of each part; a person's are spread over the chains that stand for the person.

    With 3 chains and 5 draws of the person whose stream is 7, chains 1, 2 and 0 are drawn 2, 2 and 1 times.
    """
    person, seed, draws = [], [], []
    chains = accountant.population.draws
    for part in parts:
        drawn = np.arange(min(chains, part.draws))
        chain = (part.seed[:, np.newaxis] + drawn) % chains
        person.append((part.person[:, np.newaxis] * chains + chain).reshape(-1))
        seed.append((part.seed[:, np.newaxis] * chains + chain).reshape(-1))
        each = part.draws // drawn.size + (drawn < part.draws % drawn.size)
        draws.append(np.tile(each, part.person.size))
    whose = np.concatenate([np.empty(0, np.int64), *person])
    slots = int(accountant.population.accounted.arrays.slots[whose].max(initial=1))
    return Sampled(
        whose,
        np.concatenate([np.empty(0, np.int64), *seed]),
        np.concatenate([[0], *draws]).cumsum().astype(np.int64),
        np.zeros((whose.size, slots, accountant.settings.horizon), np.int64),
        np.zeros((whose.size, slots), np.bool_),
    )
