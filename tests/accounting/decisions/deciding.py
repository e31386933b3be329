"""Random people, sensors and limits, and a run that decides each step before it is accounted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.continuous.crowd import CrowdAccount
from accounting.decisions import Decision, SearchSettings, SensorChoice, StepDecider, decide
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease
from stream_app.steps.policy import BudgetPolicy, settled

SIGMAS = (0.5, 1.0, 3.0)
COST_OF_SILENCE = 4.0
RELEASED: tuple[Mechanism, ...] = (Raw(), *map(Gaussian, SIGMAS))


def people(
    rng: np.random.Generator, count: int, locations: int, own_starts: float = 0.0, cycles=(1, 1, 3)
) -> Population:
    """People of few places, some with a cycle, some with a start of their own."""
    priors = []
    for i in range(count):
        size = int(rng.integers(1, 7))
        matrices = rng.dirichlet(np.full(size, 0.4), size=(int(rng.choice(cycles)), size))
        initial = rng.dirichlet(np.ones(size)) if rng.random() < own_starts else None
        places = np.sort(rng.choice(locations, size, replace=False))
        priors.append(MovementPrior.from_dense(f"p{i}", matrices, places=places, initial=initial))
    return Population.pack(priors, [str(k) for k in range(locations)])


def random_limit(rng: np.random.Generator, *, in_hindsight: bool, habits_apart: bool = False) -> RiskBudget:
    """A limit on risk, on added risk or on both."""
    kind = rng.integers(3)
    return RiskBudget(
        float(rng.choice([0.0, 0.2, 0.5])),
        float(rng.uniform(0.3, 0.95)) if kind != 1 else None,
        float(rng.uniform(0.05, 0.6)) if kind != 0 else None,
        in_hindsight=in_hindsight,
        habits_apart=habits_apart,
    )


def random_settings(rng: np.random.Generator, **changed: object) -> HorizonSettings:
    """A short horizon with few mistakes."""
    horizon = int(rng.integers(1, 7))
    mistakes = int(rng.integers(0, max(1, horizon - 1)))
    first_slot = int(rng.integers(0, 3))
    return HorizonSettings(horizon, mistakes, first_slot=first_slot, **{"sharpen": False, **changed})


def choices_of(
    sensors: Sequence[Sensor],
    weights: Sequence[float] | None = None,
    released: Sequence[Mechanism] = RELEASED,
) -> list[SensorChoice]:
    """These mechanisms or nothing for each sensor."""
    weights = weights or [1.0] * len(sensors)
    return [
        SensorChoice.of(sensor, released, weight=weight, cost_of_silence=COST_OF_SILENCE)
        for sensor, weight in zip(sensors, weights, strict=True)
    ]


def random_sensors(rng: np.random.Generator, locations: int, most: int = 5) -> list[Sensor]:
    """Up to ``most`` sensors at places of their own."""
    at = rng.choice(locations, rng.integers(0, most + 1), replace=False)
    return [Sensor(f"s{place}", (int(place),)) for place in at]


def bound(
    policy: BudgetPolicy,
    accountant: ContinuousAccountant,
    crowd: CrowdAccount | None = None,
    *,
    has_windows: bool = False,
) -> WhatIf:
    """Lets a policy ask an accountant's people; a limit in hindsight needs every step to be noted."""
    what_if = WhatIf(accountant, policy.limit, crowd, has_windows=has_windows)
    policy.bind(partial(settled, what_if), what_if.people, in_crowd=crowd is not None)
    return what_if


def over_limit(accountant: ContinuousAccountant | CrowdAccount, limit: RiskBudget) -> np.ndarray:
    """Who is over the limit by the certified risk, (N,); of several chains of a person the means count."""
    risk = accountant.risk()
    fast = accountant.fast if isinstance(accountant, CrowdAccount) else accountant
    of_chains = fast.view().accounts.state.guess.reshape(len(fast.population), -1)
    guess = fast.by_account.each(of_chains.mean(axis=1))
    over = np.zeros(risk.size, dtype=bool)
    if limit.risk is not None:
        over |= risk > limit.risk
    if limit.added is not None:
        over |= accountant.added() > limit.added
    if limit.habits_apart:
        most = 1.0 if limit.added is None else limit.added
        above_by_habit = np.minimum(limit.risk or 1.0, accountant.baseline() + most) <= guess * (1 + 1e-6)
        over &= ~above_by_habit | (risk > guess + most)
    return over


@dataclass(frozen=True)
class Done:
    """One step of a run: what was decided, and who was over the limit once it was accounted."""

    decision: Decision
    over: np.ndarray


def run(
    accountant: ContinuousAccountant,
    limit: RiskBudget,
    steps: Sequence[Sequence[Sensor]],
    search: SearchSettings | None = None,
    look_ahead: int = 0,
    released: Sequence[Mechanism] = RELEASED,
) -> Iterator[Done]:
    """Decide and account step after step."""
    what_if = WhatIf(accountant, limit)
    for t, sensors in enumerate(steps):
        next_step = what_if.next_step(AnnouncedStep(sensors, coming=steps[t + 1 : t + 1 + look_ahead]))
        decision = decide(
            StepDecider(t, choices_of(sensors, released=released), limit, search), next_step.count_over
        )
        what_if.note(decision.schedule)
        accountant.apply(decision.schedule)
        yield Done(decision, over_limit(accountant, limit))


def schedule_of_random(
    rng: np.random.Generator, choices: Sequence[SensorChoice]
) -> tuple[SensorRelease, ...]:
    """Any option for each sensor."""
    return tuple(
        SensorRelease(choice.sensor, choice.options[rng.integers(len(choice.options))]) for choice in choices
    )


def information_cap_nats(limit: float, guess: float) -> float:
    """``d(limit || guess)``."""
    inside = limit * np.log(limit / guess)
    return float(inside + (1 - limit) * (np.log1p(-limit) - np.log1p(-guess)))
