"""Windows and moves under a risk budget, against the best adversary by enumeration.

Small logs are decided and accounted step by step. Whatever was published by a step, no adversary may be above
the limit about the horizon that ends there; in hindsight, given the whole log, about any horizon.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.decisions import SearchSettings
from accounting.exposure import baseline, prior_guess, window_of
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import ErasureCoin, Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import (
    CountingWindow,
    Sensor,
    SensorRegistry,
    ShownPlaces,
    StepSchedule,
    in_single_steps,
    schedule_in_single_steps,
    together,
    without_coins,
)
from models.releases.schedule import PlacesInStep
from stream_app.steps.policy import BudgetPolicy
from stream_app.steps.policy.policies import SensorWishes
from tests.accounting.decisions.deciding import bound
from tests.accounting.own_counts_enumerated import Counted, Log, with_mechanism
from tests.volume import some

STEPS, MOST_CELLS = 6, 3e6


@dataclass(frozen=True)
class Decided:
    """A log as it was decided, and what it shows for enumeration."""

    log: Log
    steps: list[StepSchedule]
    limit: RiskBudget
    accountant: ContinuousAccountant

    def published(self, until: int) -> list[Counted]:
        found = []
        for step in self.steps[: until + 1]:
            for release in step.releases:
                if release.mechanism.is_released:
                    window = release.sensor.window
                    times = times_of(release.sensor, self.log.start.size)
                    first = step.step if window is None else window.first_of(step.step)
                    own = Counted(first, step.step, times, np.ones(1))
                    found.append(Shown.of(with_mechanism(own, release.mechanism)))
        return found

    def most(self, first: int, last: int, mistakes: int) -> float | None:
        """The limit on the horizon; None where habits alone are above it, or may be by their bound."""
        horizon = window_of(self.log.exposure, first, last)
        guess = baseline(horizon, mistakes).success
        most = min(
            1.0 if self.limit.risk is None else self.limit.risk,
            1.0 if self.limit.added is None else guess + self.limit.added,
        )
        return None if prior_guess(horizon, mistakes).best >= most - 1e-6 else most


class Shown(Counted):
    """Counts whose first step may be that of the log, before which nothing is known."""

    @classmethod
    def of(cls, counted: Counted) -> Shown:
        return cls(counted.first, counted.last, counted.times, counted.noise)

    def fine(self, paths: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        steps = range(self.first, self.last + 1)
        return np.stack([self.times[paths[:, max(t - 1, 0)], paths[:, t]] for t in steps], axis=1)


def times_of(sensor: Sensor, places: int) -> np.ndarray:  # type: ignore[type-arg]
    times = np.zeros((places, places), np.int64)
    if sensor.window is None or not sensor.window.moves:
        times[:, list(sensor.locations)] = 1
        return times
    for start, end, often in sensor.window.moves:
        times[start, end] = often
    return times


def sensors_of(rng: np.random.Generator, places: int) -> list[Sensor]:
    """One or two counters with windows of 1-3 steps, and sometimes one of presence in single steps."""
    found = []
    for number in range(int(rng.integers(1, 3))):
        length, moves = int(rng.integers(1, 4)), ()
        where: tuple[int, ...] = (int(rng.integers(places)),)
        if rng.random() < 0.6:
            pair = rng.permutation(places)[:2]
            moves = ((int(pair[0]), int(pair[1]), 1),)
            where = tuple(sorted(int(each) for each in pair))
        window = CountingWindow(length, moves)
        found.append(Sensor(f"w{number}", where, most_counts=length, window=window))
    if rng.random() < 0.4:
        found.append(Sensor("plain", (int(rng.integers(places)),)))
    return found


def decide(seed: int, *, in_hindsight: bool = False, knows_what_comes: bool = False) -> Decided:
    """A stationary person of 2-3 places, with zeros, over a cycle of one or two slots."""
    rng = np.random.default_rng(seed)
    places, slots = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    weights = rng.gamma(0.4, size=(slots, places, places)) + 1e-3
    weights[rng.random(weights.shape) < 0.15] = 0.0
    weights += 1e-2 * np.eye(places)
    matrices = weights / weights.sum(axis=2, keepdims=True)
    population = Population.pack(
        [MovementPrior.from_dense("ada", matrices)], [str(place) for place in range(places)]
    )
    whole = np.stack([matrices[step % slots] for step in range(STEPS - 1)])
    horizon = int(rng.integers(1, 4))
    log = Log(population.chain(0).start[0], whole, (0, 0), int(rng.integers(0, horizon)))
    registry = SensorRegistry(population.location_names, tuple(sensors_of(rng, places)))
    announced = {
        step: tuple(
            sensor.name
            for sensor in registry.sensors
            if (sensor.window is None or sensor.window.ends_with(step)) and rng.random() < 0.9
        )
        for step in range(STEPS)
    }
    limit = RiskBudget(added=float(rng.choice([0.1, 0.3, 0.5])), in_hindsight=in_hindsight)
    if rng.random() < 0.3:
        limit = RiskBudget(risk=float(rng.choice([0.7, 0.9])), in_hindsight=in_hindsight)
    policy = BudgetPolicy(
        registry,
        SensorWishes(noised=(Gaussian(0.5), Gaussian(1.0), Gaussian(4.0)), max_sigma=4.0),
        {},
        limit,
        SearchSettings(),
        announced if knows_what_comes else None,
        look_ahead=int(rng.integers(0, 3)) if knows_what_comes else 0,
    )
    accountant = ContinuousAccountant(population, HorizonSettings(horizon, log.mistakes, sharpen=False))
    what_if = bound(policy, accountant, has_windows=bool(registry.windowed))
    steps = []
    for step in range(STEPS):
        decided = policy.decide(step, announced[step]).schedule
        what_if.note(decided)
        policy.note(decided)
        accountant.apply(in_single_steps(decided, registry))
        steps.append(decided)
    return Decided(replace(log, horizon=(0, horizon - 1)), steps, limit, accountant)


def is_enumerable(log: Log, counted: list[Counted]) -> bool:
    size = float(np.prod([each.noise.size + 3.0 for each in counted]))
    return len(log.everything.paths) * size <= MOST_CELLS


def check(found: Decided, *, in_hindsight: bool) -> int:
    """How many horizons were compared."""
    log, compared = found.log, 0
    horizon = log.horizon[1] + 1
    for last in range(horizon - 1, STEPS):
        first = last - horizon + 1
        most = found.most(first, last, log.mistakes)
        counted = found.published(STEPS - 1 if in_hindsight else last)
        if most is None or not counted or not is_enumerable(log, counted):
            continue
        now = replace(log, horizon=(first, last))
        assert now.optimum(now.noised(counted)) <= most + 1e-9
        compared += 1
    return compared


@pytest.mark.parametrize("knows_what_comes", [False, True])
@pytest.mark.parametrize("in_hindsight", [False, True])
def test_no_adversary_is_above_the_limit(in_hindsight: bool, knows_what_comes: bool) -> None:
    """Of anybody whose habits keep it; with windows that were decided before it was known what is counted."""
    compared = released = 0
    for seed in some(96 if in_hindsight else 40):
        found = decide(seed, in_hindsight=in_hindsight, knows_what_comes=knows_what_comes)
        compared += check(found, in_hindsight=in_hindsight)
        released += sum(
            each.mechanism.is_released and each.sensor.window is not None
            for step in found.steps
            for each in step.releases
        )
    assert compared > 5 and released > 5


def test_what_was_decided_keeps_its_limit_in_silence() -> None:
    """The account itself, step by step, and every window is published as it was decided."""
    for seed in some(25):
        found = decide(seed)
        for step in found.steps:
            for each in step.releases:
                if each.sensor.window is not None and each.mechanism.is_released:
                    begun = found.steps[each.sensor.window.first_of(step.step)].windows
                    assert any(own.last == step.step and own.release == each for own in begun or ())
        shown = schedule_in_single_steps(found.steps)
        assert len(shown) == STEPS


def test_places_of_many_moves_with_little_noise_are_accounted_by_what_the_noise_reveals() -> None:
    """As decisions take each of them: next to certain coins are one exact count only if one of them is."""
    coin = ErasureCoin((Gaussian(0.5),), 0.99999, 0.99999)
    exact = ErasureCoin((Raw(),), 1.0, 1.0)
    for more, left in (((), 0), ((exact,), 1)):
        shown = tuple(ShownPlaces(PlacesInStep(0, (0,)), each) for each in (*[coin] * 4, *more))
        assert len(without_coins(together((), shown))) == left
