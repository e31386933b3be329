"""The least error that keeps a risk budget, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accounting.continuous import ContinuousAccountant
from accounting.continuous.crowd import CrowdAccount
from accounting.decisions import Decision, SearchSettings, StepDecider, decide
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.exposure.crowd import StepCrowd
from accounting.settings import RiskBudget
from models.releases import Schedule, Sensor, SensorRegistry, StepSchedule
from stream_app.exceptions import SettingsError
from stream_app.steps.policy.base import Decided, announced_sensors
from stream_app.steps.policy.fixed import StepMechanism
from stream_app.steps.policy.menu import Menu
from stream_app.wire import DecisionReason


class BudgetPolicy:
    """Asks the accounts what each way of releasing a step would do to people, and takes the best left.

    In one process :meth:`bind` gives it the accounts; where they are elsewhere, whoever runs it talks them
    through :meth:`decider` (see :mod:`stream_app.steps.policy.proposals`).
    """

    def __init__(
        self,
        registry: SensorRegistry,
        menu: Menu,
        limit: RiskBudget,
        search: SearchSettings | None = None,
        announced: Mapping[int, tuple[str, ...]] | None = None,
        look_ahead: int = 0,
    ) -> None:
        """``look_ahead`` steps beyond the one at hand share what is left, if they are ``announced``."""
        self.limit = limit
        self._registry = registry
        self._menu = menu
        self._search = search or SearchSettings()
        self._announced = dict(announced or {})
        self._look_ahead = look_ahead
        self._wished: dict[int, StepSchedule] = {}
        self._what_if: WhatIf | None = None
        self._in_crowd = False

    def follow(self, schedule: Schedule) -> None:
        """Take a schedule's mechanisms as the best that its sensors may be released with."""
        self._wished = {step.step: step for step in schedule.steps}
        self._announced = announced_sensors(schedule)

    def bind(self, accountant: ContinuousAccountant, crowd: CrowdAccount | None = None) -> None:
        """Decide for the people of this accountant, from its next step on; for risks in the ``crowd``."""
        self._what_if = WhatIf(accountant, self.limit, crowd)
        self._in_crowd = crowd is not None

    def decider(self, step: int, sensors: Sequence[str]) -> StepDecider:
        """The questions to ask about a step."""
        known = [self._registry.get(name) for name in sensors]
        wished = self._wished.get(step)
        at_best = {} if wished is None else {r.sensor.name: r.mechanism for r in wished.releases}
        choices = [self._menu.choice(sensor, step, at_best.get(sensor.name)) for sensor in known]
        people = None if self._what_if is None else self._what_if.people
        must_be_raw = self._menu.must_be_raw(known)
        return StepDecider(step, choices, self.limit, self._search, must_be_raw, people)

    def coming(self, step: int) -> tuple[tuple[Sensor, ...], ...]:
        """The announced sensors of each of the steps that what is left is shared with."""
        return tuple(
            tuple(self._registry.get(name) for name in self._announced.get(later, ()))
            for later in range(step + 1, step + 1 + self._look_ahead)
        )

    def decide(self, step: int, sensors: Sequence[str], crowds: StepCrowd | None = None) -> Decided:
        """The decision for the people at hand; :class:`SettingsError` if there are none bound."""
        if self._what_if is None:
            raise SettingsError(
                "a risk budget must know whose risk it limits",
                "no accounts",
                "bind the policy to an accountant",
            )
        known = [self._registry.get(name) for name in sensors]
        next_step = self._what_if.next_step(AnnouncedStep(known, crowds, self.coming(step)))
        decision = decide(self.decider(step, sensors), next_step.count_over)
        return decided(decision, in_crowd=self._in_crowd)

    def accounted(self, step: StepSchedule, crowds: StepCrowd | None = None) -> None:
        """Note who was over the limit, where that matters later."""
        if self._what_if is not None:
            self._what_if.note(step, crowds)

    def mechanisms(self) -> tuple[StepMechanism, ...]:
        """Every mechanism beside noise and raw that may be decided on."""
        return self._menu.mechanisms()


def decided(decision: Decision, *, in_crowd: bool) -> Decided:
    """A decision as the engine and its log take it; ``in_crowd`` by ceilings against that adversary."""
    why = DecisionReason(
        reason=decision.reason,
        people=decision.people,
        allowed=decision.allowed,
        natural=decision.natural,
        over=decision.over,
        cleared=decision.cleared,
        rounds=decision.rounds,
        adversary="crowd" if in_crowd else None,
    )
    return Decided(decision.schedule, why)
