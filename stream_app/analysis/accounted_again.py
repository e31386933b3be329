"""Accounting a run again from its log: each person's worst moment, and what other noise would have done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant, WorstMoments
from accounting.continuous.shadow import Shadow, drawn_parts
from accounting.settings import HorizonSettings
from models.mechanisms import Mechanism, public_error
from models.priors import Population
from models.releases import SensorRegistry, SensorRelease, StepSchedule, in_single_steps
from stream_app.setup.run_folder.progress import parsed_lines
from stream_app.setup.run_folder.run_settings import registries_of
from stream_app.wire import StepDecision, schedule_of


@dataclass(frozen=True)
class Account:
    """One way of releasing a schedule, accounted for all people over all of its steps."""

    worst: WorstMoments
    risk_by_step: NDArray[np.float64]  # (T,) mean over people
    baseline_by_step: NDArray[np.float64]  # (T,) mean over people
    mean_attack: float | None = None  # mean over people and steps, where an attack was tried at each step

    @property
    def mean_risk(self) -> float:
        """Mean risk over people and steps."""
        return float(self.risk_by_step.mean())

    @property
    def mean_baseline(self) -> float:
        """Mean baseline over people and steps."""
        return float(self.baseline_by_step.mean())

    def people_at_risk(self, threshold: float) -> int:
        """People whose risk reached the threshold at some step."""
        return int(np.count_nonzero(self.worst.highest_risk >= threshold))

    def people_added(self, threshold: float) -> int:
        """People to whose risk the releases added at least the threshold at some step."""
        return int(np.count_nonzero(self.worst.added >= threshold))


def read_decisions(path: Path, registry: SensorRegistry) -> list[StepSchedule]:
    """The decided schedule of a run from its decisions log; each step with the sensors it had."""
    registries = registries_of(path.parent, registry)
    decisions = parsed_lines(StepDecision, path)
    return [schedule_of(each, registries.at(each.step)) for each in decisions]


def read_accounted(path: Path, registry: SensorRegistry) -> list[StepSchedule]:
    """The same as accounts know it: windows in the steps they cover."""
    return [in_single_steps(step, registry) for step in read_decisions(path, registry)]


def released_with(steps: Iterable[StepSchedule], mechanism: Mechanism) -> Iterator[StepSchedule]:
    """The same sensors in the same steps, all released with one mechanism."""
    for step in steps:
        yield StepSchedule(step.step, tuple(SensorRelease(r.sensor, mechanism) for r in step.releases))


def account(
    population: Population, steps: Iterable[StepSchedule], settings: HorizonSettings, draws: int = 0
) -> Account:
    """Account the steps, keeping each person's worst moment; needs no count, so it releases nothing.

    With ``draws`` an attack is tried so often after every step.
    """
    accountant = ContinuousAccountant(population, settings, population.effective_from, told=population.told)
    shadow = None
    if draws:
        parts = drawn_parts(accountant.people_shares, draws, accountant.holders.stands_for)
        shadow = Shadow(accountant, parts)
    risk_by_step, baseline_by_step, attacks = [], [], []
    for step in steps:
        accountant.apply(step)
        risk_by_step.append(accountant.risk().mean())
        baseline_by_step.append(accountant.baseline().mean())
        if shadow is not None:
            shadow.note(step)
            attacks.append(shadow.mean())
    means = np.array(risk_by_step), np.array(baseline_by_step)
    tried = [attack.success for attack in attacks if attack is not None]
    mean_attack = float(np.mean(tried)) if tried and len(tried) == len(risk_by_step) else None
    return Account(accountant.worst(), *means, mean_attack)


def mean_error(steps: Sequence[StepSchedule]) -> float | None:
    """Expected absolute error of a published count, averaged over all of them; None if there is none."""
    mechanisms = (release.mechanism for step in steps for release in step.releases)
    errors = [public_error(each) for each in mechanisms if each.is_released]
    return float(np.mean(errors)) if errors else None
