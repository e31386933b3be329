"""Windows under a budget that is kept in the crowd: decided among whom they will hide, and never over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from accounting.decisions import SearchSettings
from accounting.decisions.what_if import KnownStep
from accounting.exposure.crowd import CrowdAdversary
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Gaussian
from models.priors import MovementPrior, Population
from models.releases import CountingWindow, Sensor, SensorRegistry, SensorRelease, in_single_steps
from stream_app.steps.policy import BudgetPolicy, steps_asked
from stream_app.steps.policy.policies import SensorWishes
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.decisions import deciding
from tests.volume import randoms

LOCATIONS, STEPS = 6, 12
WISHES = SensorWishes(noised=(Gaussian(0.5), Gaussian(2.0), Gaussian(8.0)), max_sigma=8.0)


@dataclass
class Run:
    """Decides and accounts step after step, and looks at everybody after each."""

    accounts: BothAccounts
    policy: BudgetPolicy
    registry: SensorRegistry
    announced: dict[int, tuple[str, ...]]
    silence: int  # steps without announcements at the end
    looks_ahead: bool = True
    steps_ahead: int = 0

    def released(self) -> Iterator[SensorRelease]:
        """Counts over windows as they were decided."""
        limit = self.policy.limit
        deciding.bound(self.policy, self.accounts.informed, self.accounts, has_windows=True)
        for t in range(len(self.announced) + self.silence):
            names = self.announced.get(t, ())
            asked = steps_asked(self.policy, t, names, self.registry)[: None if self.looks_ahead else 1]
            known = tuple(map(KnownStep, asked, self.accounts.ask_ahead(asked)))
            self.steps_ahead += len(known) - 1
            decided = self.policy.decide(t, names, known)
            self.policy.note(decided.schedule)
            crowds = self.accounts.apply(in_single_steps(decided.schedule, self.registry), known[0].crowds)
            assert crowds == known[0].crowds
            over = deciding.over_limit(self.accounts, limit) @ self.accounts.people_each
            assert decided.why is not None
            assert decided.why.natural > decided.why.allowed or over <= decided.why.allowed
            yield from (each for each in decided.schedule.releases if each.sensor.window is not None)


def random_sensors(rng: np.random.Generator) -> list[Sensor]:
    """Sums of presence, moves, devices that count everybody once; sometimes counts of single steps, too."""
    found = []
    for number in range(int(rng.integers(1, 4))):
        steps, moves = int(rng.integers(1, 5)), ()
        where = tuple(sorted(rng.choice(LOCATIONS, int(rng.integers(1, 3)), replace=False).tolist()))
        most = steps if rng.random() < 0.8 else 1
        if rng.random() < 0.5:
            one, other = rng.choice(LOCATIONS, 2, replace=False).tolist()
            both = ((one, other, 1), (other, one, 1))
            moves, most = tuple(sorted(both[: int(rng.integers(1, 3))])), steps
            where = tuple(sorted((one, other)))
        found.append(Sensor(f"w{number}", where, most_counts=most, window=CountingWindow(steps, moves)))
    if rng.random() < 0.5:
        found += [Sensor(f"p{k}", (k,)) for k in rng.choice(LOCATIONS, 2, replace=False).tolist()]
    return found


def random_run(rng: np.random.Generator) -> Run:
    """People or personas of many, any adversary, and a schedule that is known beforehand or not."""
    people = deciding.people(
        rng, int(rng.choice([10, 40])), LOCATIONS, own_starts=float(rng.choice([0, 0, 0.3]))
    )
    adversary = CrowdAdversary(
        known=int(rng.choice([0, 3])),
        companions=int(rng.random() < 0.15),
        alone=float(rng.choice([1.0, 0.7])),
        least=float(rng.choice([1.0, 0.9])),
    )
    if rng.random() < 0.6:
        people = replace(people, weights=rng.choice([3.0, 30.0, 400.0], len(people)))
    limit = deciding.random_limit(rng, in_hindsight=False, habits_apart=rng.random() < 0.3)
    registry = SensorRegistry(people.location_names, tuple(random_sensors(rng)))
    announced = {t: announced_in(t, registry, rng) for t in range(STEPS)}
    is_known = rng.random() < 0.7
    policy = BudgetPolicy(
        registry,
        WISHES,
        {},
        limit,
        SearchSettings(exact_up_to=int(rng.choice([1, 64]))),
        announced if is_known else None,
        look_ahead=int(rng.integers(0, 3)) if is_known else 0,
    )
    settings = deciding.random_settings(rng)
    accounts = BothAccounts(people, adversary, settings, decided=limit)
    return Run(accounts, policy, registry, announced, settings.horizon + 4)


def announced_in(
    step: int, registry: SensorRegistry, rng: np.random.Generator | None = None
) -> tuple[str, ...]:
    """What may be published in a step, or most of it."""
    ending = (each for each in registry.sensors if each.window is None or each.window.ends_with(step))
    return tuple(each.name for each in ending if rng is None or rng.random() < 0.9)


def check(seed: int, cases: int) -> None:
    steps_ahead = released = 0
    for rng in randoms(seed, cases):
        run = random_run(rng)
        released += sum(each.mechanism.is_released for each in run.released())
        steps_ahead += run.steps_ahead
    assert steps_ahead > cases and released > cases / 4


def test_no_run_exceeds_its_budget_nor_does_the_silence_after_it() -> None:
    """What is decided of a window is enough for its steps to come, whoever is counted beside it."""
    check(70, 24)


@pytest.mark.thorough
@pytest.mark.slow
def test_no_run_exceeds_its_budget_in_many_runs() -> None:
    check(71, 1_200)


@pytest.mark.parametrize("is_of_moves", [False, True])
def test_among_many_windows_are_published_as_they_are(is_of_moves: bool) -> None:
    """In a city of 60,000 counts over two steps need no noise; as if others were known they needed much."""
    rng = np.random.default_rng(5)
    priors = [
        MovementPrior.from_dense(
            f"p{k}",
            rng.dirichlet(np.full(5, 1.5), size=5),
            places=np.sort(rng.choice(LOCATIONS, 5, replace=False)),
        )
        for k in range(30)
    ]
    people = Population.pack(priors, [str(place) for place in range(LOCATIONS)])
    people = replace(people, weights=np.full(30, 2000.0))
    moves = ((0, 1, 1), (1, 0, 1)) if is_of_moves else ()
    sensor = Sensor("s", (0, 1), most_counts=2, window=CountingWindow(2, moves))
    registry = SensorRegistry(people.location_names, (sensor,))
    announced = {t: announced_in(t, registry) for t in range(STEPS)}
    limit = RiskBudget(0.1, added=0.1)
    errors = []
    for looks_ahead in (False, True):
        policy = BudgetPolicy(registry, WISHES, {}, limit, SearchSettings(), announced, look_ahead=6)
        accounts = BothAccounts(people, CrowdAdversary(), HorizonSettings(6, 2, sharpen=False), decided=limit)
        run = Run(accounts, policy, registry, announced, 4, looks_ahead)
        errors.append(sum(each.mechanism.expected_absolute_error() for each in run.released()))
    assert errors[0] > 1.0 and errors[1] == 0.0
