"""The search: exact where everything can be tried, within its budget always, near the best otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.decisions import OPTIONS_A_ROUND, Decision, SearchSettings, SensorChoice, StepDecider, decide
from accounting.decisions.step_decision import Assignment, Search, schedule_of
from accounting.decisions.what_if import AnnouncedStep, NextStep, WhatIf
from accounting.exceptions import SettingsError
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Gaussian, Raw, Suppressed
from models.releases import Sensor, StepSchedule
from tests.accounting.decisions import deciding

LOCATIONS = 8


def cost_of(choices: Sequence[SensorChoice], assignment: Assignment) -> float:
    """What an assignment loses, summed over the sensors."""
    return sum(choice.costs[k] for choice, k in zip(choices, assignment, strict=True))


def a_question(
    seed: int, sensors: int, steps_before: int = 3
) -> tuple[NextStep, list[SensorChoice], RiskBudget]:
    """A step after some decided ones, with a limit that binds."""
    rng = np.random.default_rng(seed)
    population = deciding.people(rng, 60, LOCATIONS, cycles=(1,))
    accountant = ContinuousAccountant(population, HorizonSettings(4, 0, sharpen=False))
    limit = RiskBudget(float(rng.choice([0.02, 0.1])), added=float(rng.uniform(0.15, 0.4)), habits_apart=True)
    steps = [deciding.random_sensors(rng, LOCATIONS, most=2) for _ in range(steps_before)]
    list(deciding.run(accountant, limit, steps))
    offered = [Sensor(f"s{k}", (int(k),)) for k in rng.choice(LOCATIONS, sensors, replace=False)]
    weights = rng.choice([1.0, 2.0, 5.0], sensors).tolist()
    return (
        WhatIf(accountant, limit).next_step(AnnouncedStep(offered)),
        deciding.choices_of(offered, weights),
        limit,
    )


def best_by_enumeration(
    next_step: NextStep, choices: Sequence[SensorChoice], limit: RiskBudget, most: int | None = None
) -> tuple[float, Assignment | None]:
    """The least cost of all assignments that keep the budget."""
    every = list(product(*(range(len(choice.options)) for choice in choices)))
    if most is not None:
        silent = [len(choice.options) - 1 for choice in choices]
        every = [a for a in every if sum(k != s for k, s in zip(a, silent, strict=True)) <= most]
    counts = next_step.count_over([schedule_of(3, choices, assignment) for assignment in every])
    kept = [a for a, ok in zip(every, counts.is_admissible(limit), strict=True) if ok]
    best = min(kept, key=lambda a: cost_of(choices, a), default=None)
    return (cost_of(choices, best) if best is not None else float("inf")), best


def decide_with(
    next_step: NextStep, choices: Sequence[SensorChoice], limit: RiskBudget, settings: SearchSettings
) -> Decision:
    return decide(StepDecider(3, choices, limit, settings), next_step.count_over)


@pytest.mark.parametrize("seed", range(40))
def test_one_sensor_gets_the_least_noise_that_keeps_the_budget(seed):
    next_step, choices, limit = a_question(seed, 1)
    cost, best = best_by_enumeration(next_step, choices, limit)
    decision = decide_with(next_step, choices, limit, SearchSettings(exact_up_to=5))
    if best is None:
        assert not decision.schedule.releases[0].mechanism.is_released
    else:
        assert decision.cost == cost
        assert decision.schedule == schedule_of(3, choices, best)


@pytest.mark.slow
def test_several_sensors_are_near_the_best_assignment():
    """Measured: how much of what the best assignment saves over silence the search saves."""
    found, exact = [], 0
    for seed in range(40):
        next_step, choices, limit = a_question(seed, 3)
        cost, best = best_by_enumeration(next_step, choices, limit)
        decision = decide_with(next_step, choices, limit, SearchSettings(exact_up_to=1))
        silence = sum(choice.costs[-1] for choice in choices)
        if best is None or cost == silence:
            continue
        assert decision.cost >= cost - 1e-9
        found.append((silence - decision.cost) / (silence - cost))
        exact += decision.cost <= cost + 1e-9
    assert len(found) > 20
    assert np.mean(found) > 0.9
    assert exact > len(found) / 3


@pytest.mark.slow
def test_all_assignments_are_tried_where_they_are_few():
    for seed in range(10):
        next_step, choices, limit = a_question(seed, 2)
        cost, best = best_by_enumeration(next_step, choices, limit)
        decision = decide_with(next_step, choices, limit, SearchSettings(exact_up_to=25))
        assert best is None or decision.cost == cost


@pytest.mark.slow
def test_the_choice_of_sensors_is_exact_on_small_cases_and_never_of_more_than_may_be_on():
    """Where all assignments are tried it is the best one; where not, it is never better than that."""
    reached = 0
    for seed in range(30):
        next_step, choices, limit = a_question(seed, 3)
        cost, best = best_by_enumeration(next_step, choices, limit, most=2)
        silence = sum(choice.costs[-1] for choice in choices)
        chosen, greedy = (
            decide_with(next_step, choices, limit, SearchSettings(exact_up_to, most_released=2))
            for exact_up_to in (125, 1)
        )
        for decision in (chosen, greedy):
            assert sum(own.mechanism.is_released for own in decision.schedule.releases) <= 2
        if best is not None:
            assert chosen.cost == pytest.approx(cost)
            reached += cost < silence
        assert greedy.cost >= chosen.cost - 1e-9
    assert reached > 10


def test_the_search_ends_and_asks_nothing_twice_whatever_is_answered():
    rng = np.random.default_rng(3)
    for _ in range(100):
        sensors = [Sensor(f"s{k}", (k,)) for k in range(int(rng.integers(1, 7)))]
        search = Search(deciding.choices_of(sensors), SearchSettings(exact_up_to=8, rounds=4))
        for _ in range(20):
            candidates = search.candidates
            if not candidates:
                break
            assert len(set(candidates)) == len(candidates)
            over = rng.integers(0, 9, len(candidates)).tolist()
            search.take(over, [count < 4 for count in over])
        assert not search.candidates


@pytest.mark.slow
def test_a_round_about_ten_thousand_sensors_is_no_longer_than_one_about_five_hundred():
    """A search that asked about each of them alone would name a hundred million options a round."""
    sensors = [Sensor(f"s{k}", (k,)) for k in range(10_000)]
    search = Search(
        [
            SensorChoice.of(sensor, (Raw(), Gaussian(1.0)), weight=1.0 + k, cost_of_silence=4.0)
            for k, sensor in enumerate(sensors)
        ]
    )
    released = []
    while search.candidates:
        candidates = search.candidates
        assert sum(map(len, candidates)) <= OPTIONS_A_ROUND
        over = [sum(option == 0 for option in assignment) for assignment in candidates]
        search.take(over, [count <= 300 for count in over])
        assert search.best is not None
        released.append(sum(option == 0 for option in search.best))
    assert search.rounds < 20
    assert released[-1] > 250


def test_options_must_end_with_silence_and_cost_more_and_more():
    sensor = Sensor("s", (0,))
    with pytest.raises(SettingsError, match="publish nothing"):
        SensorChoice(sensor, (Raw(), Gaussian(1.0)), (0.0, 1.0))
    with pytest.raises(SettingsError, match="must rise"):
        SensorChoice(sensor, (Raw(), Suppressed()), (1.0, 0.0))
    with pytest.raises(SettingsError, match="limit risk or added"):
        RiskBudget(0.1)
    assert StepSchedule(0) == schedule_of(0, [], ())


LOADS = [  # weights, people over by option of each sensor (silence: nobody), how many may be
    ((3, 5, 5, 2), ((7, 6, 6), (9, 9, 7), (9, 9, 8), (7, 4, 0)), 14),
    ((2, 4, 2, 4), ((7, 4, 3), (9, 6, 6), (9, 4, 2), (9, 9, 7)), 10),
    ((3, 5, 3, 1), ((6, 5, 4), (6, 6, 3), (7, 1, 1), (9, 8, 6)), 13),
]


@pytest.mark.parametrize(("weights", "load", "allowed"), LOADS)
def test_the_search_finds_the_best_of_all_assignments_of_sensors_that_crowd_each_other_out(
    weights, load, allowed
):
    """Sensors that fit no more must be left alone, and those that fit must go on."""
    sensors = [Sensor(f"s{k}", (k,)) for k in range(4)]
    options = [Raw(), Gaussian(1.0), Gaussian(3.0)]
    choices = [
        SensorChoice.of(sensor, options, weight=float(weight), cost_of_silence=4.0)
        for sensor, weight in zip(sensors, weights, strict=True)
    ]

    def over(assignment: Assignment) -> int:
        return sum((*own, 0)[option] for own, option in zip(load, assignment, strict=True))

    search = Search(choices, SearchSettings(exact_up_to=1))
    while search.candidates:
        found = [over(assignment) for assignment in search.candidates]
        search.take(found, [count <= allowed for count in found])
    every = product(range(4), repeat=4)
    best = min((a for a in every if over(a) <= allowed), key=lambda a: cost_of(choices, a))
    assert search.best is not None
    assert search.cost(search.best) == cost_of(choices, best)
