"""Counts in a crowd: ceilings against the crowd adversary, and how much a raw count hides where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from accounting.continuous import ContinuousAccountant, RiskSummary
from accounting.continuous.crowd import CrowdAccount
from accounting.exposure.crowd import CrowdAdversary, HidingCrowd, StepCrowd, crowds_by_sensor
from accounting.settings import HorizonSettings
from models.calendar import slot_of_cycle
from models.priors import Population
from models.releases import StepSchedule
from stream_app.steps import condition_of
from stream_app.watching.prior_notes import crowd_clause, crowd_note

# A plan against the crowd adversary: people's risk after each step, and how much each sensor's crowd hides.


@dataclass(frozen=True)
class HiddenCount:
    """What the crowd at one sensor hides in one slot of the day, at the worst of the planned steps.

    A raw count reveals whether a person was there in at most ``revealed`` of all cases, as Gaussian noise of
    ``sigma`` people would. With sigma 0 nobody is hidden: there are too few people, or all of them already
    count as hiding people at another sensor.
    """

    sensor: str
    slot: int
    steps: int
    sigma: float
    revealed: float


@dataclass(frozen=True)
class PlannedCrowd:
    """Risks against the crowd adversary after each step, what is hidden where, and the condition of both.

    ``informed`` are the risks of the same steps against an adversary who knows where everybody else is.
    """

    adversary: CrowdAdversary
    others: int
    steps: tuple[RiskSummary, ...]
    informed: tuple[RiskSummary, ...]
    hidden: tuple[HiddenCount, ...]
    of_personas: bool = False

    @property
    def condition(self) -> str:
        """When the ceilings hold, in words."""
        return crowd_note(self.adversary, self.others, of_personas=self.of_personas)

    @property
    def clause(self) -> str:
        """The same before a sentence that goes on."""
        return crowd_clause(self.adversary, self.others, of_personas=self.of_personas)

    def as_json(self) -> dict[str, Any]:
        """The fields beside the steps."""
        return {
            **_assumed(self.adversary, self.others),
            "condition": self.condition,
            "hidden": [vars(each) for each in self.hidden],
        }


def crowd_document(adversary: CrowdAdversary, population: Population) -> dict[str, Any]:
    """What is assumed of the others of a population, as JSON values, and the condition in words."""
    others, of_personas = population.everybody - 1, population.weights is not None
    return {
        **_assumed(adversary, others),
        "condition": crowd_note(adversary, others, of_personas=of_personas),
    }


def _assumed(adversary: CrowdAdversary, others: int) -> dict[str, Any]:
    said = condition_of(adversary)
    return {"others": others, **{name: value for name, value in said.items() if value is not None}}


class CrowdSoFar:
    """Collects what a crowd account says step by step; the account must be before its first step."""

    def __init__(self, account: CrowdAccount) -> None:
        self._account = account
        cycles = [each.cycle for each in account.adversary.strangers]
        self._cycle = lcm(*np.unique(account.population.arrays.slots).tolist(), *cycles)
        self._steps: list[RiskSummary] = []
        self._informed: list[RiskSummary] = []
        self._found: dict[tuple[str, int], list[HidingCrowd]] = {}

    def note(self, step: StepSchedule, crowds: StepCrowd) -> None:
        """The step that was accounted last, and what its counts hid among."""
        self._steps.append(self._account.summary())
        self._informed.append(self._account.informed.summary())
        settings = self._account.settings
        slot = slot_of_cycle(settings.first_slot, step.step, self._cycle, settings.calendar)
        for name, crowd in crowds_by_sensor(step, crowds, self._account.adversary).items():
            self._found.setdefault((name, slot), []).append(crowd)

    def planned(self) -> PlannedCrowd:
        """All of it."""
        adversary = self._account.adversary
        thinnest = {where: min(found, key=lambda each: each.variance) for where, found in self._found.items()}
        hidden = tuple(
            HiddenCount(*where, len(self._found[where]), crowd.sigma, crowd.shown)
            for where, crowd in thinnest.items()
        )
        others = max(0, int(self._account.people_each.sum()) - 1)
        steps, informed = tuple(self._steps), tuple(self._informed)
        of_personas = self._account.informed.holders.stands_for is not None
        return PlannedCrowd(adversary, others, steps, informed, hidden, of_personas)


def plan_in_crowd(
    population: Population,
    steps: Sequence[StepSchedule],
    settings: HorizonSettings,
    adversary: CrowdAdversary,
    done: Callable[[], None],
) -> PlannedCrowd:
    """Account these steps against the crowd adversary; ``done`` is called after each."""
    informed_account = ContinuousAccountant(population, settings, apart=True)
    account = CrowdAccount(informed_account, adversary, weights=population.weights)
    so_far = CrowdSoFar(account)
    for step in steps:
        informed_account.apply(step)
        so_far.note(step, account.apply(step))
        done()
    return so_far.planned()
