"""A budget on days of 23 and 25 hours and on holidays: kept by the ceilings, and by the exact optimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.decisions import BudgetReason, Decision, StepDecider, decide
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.exceptions import SettingsError
from accounting.settings import HorizonSettings, RiskBudget
from models.calendar import Calendar
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import CountingWindow, Sensor, SensorRegistry, StepSchedule, in_single_steps
from stream_app.steps.policy import BudgetPolicy
from stream_app.steps.policy.policies import SensorWishes
from tests.accounting.combinations.deployments import Shown, noise_of, optimum_of
from tests.accounting.decisions import deciding
from tests.accounting.enumeration import all_paths, window_optima
from tests.accounting.random_runs import channel
from tests.accounting.test_clock_changes import (
    NIGHTS,
    Night,
    calendar_of,
    on_the_wall,
    random_prior,
    spring,
    unix,
)
from tests.volume import randoms, some

LOCATIONS = 6
RELEASED = (Raw(), Gaussian(0.7))


def decide_steps(
    accountant: ContinuousAccountant, limit: RiskBudget, steps: list[list[Sensor]]
) -> list[Decision]:
    """Decide and account step after step, from the accountant's next one on."""
    what_if, found = WhatIf(accountant, limit), []
    released = RELEASED if len(steps) < 6 else (Raw(),)  # every outcome of all steps is written down
    for t, sensors in enumerate(steps):
        asked = what_if.next_step(AnnouncedStep(sensors, coming=steps[t + 1 : t + 2]))
        choices = deciding.choices_of(sensors, released=released)
        found.append(decide(StepDecider(accountant.next_step, choices, limit), asked.count_over))
        what_if.note(found[-1].schedule)
        accountant.apply(found[-1].schedule)
    return found


def one_sensor(rng: np.random.Generator, places: int) -> list[Sensor]:
    return [Sensor("s", (int(rng.integers(places)),))] if rng.random() < 0.8 else []


def limit_above_habits(
    rng: np.random.Generator, population: Population, horizon: int, mistakes: int
) -> float:
    """A limit on the risk that leaves something at most hours, and little at some."""
    settled = ContinuousAccountant(population, HorizonSettings(horizon, mistakes)).settled_accounts()
    guess = float(np.quantile(settled.constants.guess, rng.uniform(0.5, 1.0)))
    return min(0.9999, guess + (1 - guess) * float(rng.uniform(0.3, 1.0)))


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS)
def test_no_adversary_beats_the_limit_that_decisions_keep(night: Callable[[np.random.Generator], Night]):
    """By every trajectory of one person; zeros and absorbing places included."""
    counted, silent = 0, 0
    for rng in randoms(44, 40):
        given = night(rng)
        population, horizon = random_prior(rng, given.cycle), int(rng.integers(1, given.steps))
        truth = on_the_wall(population, given.origin, given.first, given.steps, given.holidays)
        calendar, mistakes = calendar_of(given.origin, given.holidays), int(rng.integers(horizon))
        limit = RiskBudget(0.0, risk=limit_above_habits(rng, population, horizon, mistakes))
        settings = HorizonSettings(
            horizon,
            mistakes,
            first_slot=calendar.first_slot,
            first_step=given.first,
            sharpen=bool(rng.random() < 0.5),
            decided=limit,
            calendar=calendar,
        )
        steps = [one_sensor(rng, 2) for _ in range(given.steps)]
        decisions = decide_steps(ContinuousAccountant(population, settings), limit, steps)
        channels = [channel(2, each.schedule) for each in decisions]
        for last in range(horizon - 1, given.steps):
            if decisions[last].natural:
                continue
            paths, first = all_paths(truth.start, truth.moves, last + 1), last + 1 - horizon
            best = window_optima(paths, channels[: last + 1], (first, last), [mistakes])[0]
            assert limit.risk is not None
            assert best <= limit.risk + 1e-9
            counted += any(each.mechanism.is_released for each in decisions[last].schedule.releases)
            silent += decisions[last].reason is BudgetReason.SPENT
    assert counted
    assert silent


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS[:3])
def test_no_adversary_beats_a_limit_in_hindsight(night: Callable[[np.random.Generator], Night]):
    """However late the releases are that tell of a horizon before clocks were changed."""
    counted = 0
    for rng in randoms(45, 40):
        given = night(rng)
        matrices = rng.dirichlet(np.full(2, 30.0), size=(24, 2))
        population = Population.pack([MovementPrior.from_dense("p", matrices)], ["0", "1"])
        truth = on_the_wall(population, given.origin, given.first, given.steps)
        calendar, horizon = calendar_of(given.origin), int(rng.integers(1, 3))
        settings = HorizonSettings(
            horizon, 0, first_slot=calendar.first_slot, first_step=given.first, calendar=calendar
        )
        limit = RiskBudget(0.0, risk=float(rng.uniform(0.95, 0.9999)), in_hindsight=True)
        steps = [one_sensor(rng, 2) for _ in range(given.steps)]
        decisions = decide_steps(ContinuousAccountant(population, settings), limit, steps)
        channels = [channel(2, each.schedule) for each in decisions]
        paths = all_paths(truth.start, truth.moves, given.steps)
        for first in range(given.steps - horizon + 1):
            if not decisions[first + horizon - 1].natural:
                best = window_optima(paths, channels, (first, first + horizon - 1), [0])[0]
                assert limit.risk is not None
                assert best <= limit.risk + 1e-9
        counted += sum(each.mechanism.is_released for d in decisions for each in d.schedule.releases)
    assert counted


@pytest.mark.slow
@pytest.mark.parametrize("in_hindsight", [False, True])
def test_no_adversary_beats_the_limit_over_windows(in_hindsight: bool):
    """Counts of windows that are decided before an hour is skipped, comes twice or is a holiday's."""
    counted = 0
    # In hindsight little is published: one case in ten tells something, so all are taken.
    rngs = (np.random.default_rng([48, case]) for case in range(48)) if in_hindsight else randoms(47, 48)
    for case, rng in enumerate(rngs):
        given = NIGHTS[case % len(NIGHTS)](rng)
        if in_hindsight:
            given = given._replace(holidays=())
        population, horizon = random_prior(rng, given.cycle), int(rng.integers(1, given.steps))
        truth = on_the_wall(population, given.origin, given.first, given.steps, given.holidays)
        calendar, mistakes = calendar_of(given.origin, given.holidays), int(rng.integers(horizon))
        limit = RiskBudget(
            risk=limit_above_habits(rng, population, horizon, mistakes), in_hindsight=in_hindsight
        )
        settings = HorizonSettings(
            *(horizon, mistakes),
            first_slot=calendar.first_slot,
            first_step=given.first,
            calendar=calendar,
        )
        accountant, length = ContinuousAccountant(population, settings), int(rng.integers(1, 4))
        moves = ((0, 1, 1),) if rng.random() < 0.5 else ()
        where = (0, 1) if moves else (0,)
        sensor = Sensor("s", where, most_counts=length, window=CountingWindow(length, moves))
        registry = SensorRegistry(population.location_names, (sensor,))
        wishes = SensorWishes(noised=(Gaussian(0.7), Gaussian(2.0)), max_sigma=2.0)
        policy = BudgetPolicy(registry, wishes, {}, limit)
        deciding.bound(policy, accountant, has_windows=True)
        shown: list[Shown] = []
        seen, naturals = [], []
        for step in range(given.first, given.first + given.steps):
            names = ("s",) if sensor.window is not None and sensor.window.ends_with(step) else ()
            decided = policy.decide(step, names)
            policy.note(decided.schedule)
            accountant.apply(in_single_steps(decided.schedule, registry))
            for each in decided.schedule.releases:
                if each.mechanism.is_released:
                    at = step - given.first
                    shown.append(Shown(sensor, at, length, noise_of(each.mechanism)))
            seen.append(len(shown))
            naturals.append(decided.why is None or decided.why.natural)
        assert limit.risk is not None
        for last in range(horizon - 1, given.steps):
            known = shown if in_hindsight else shown[: seen[last]]
            within = (last - horizon + 1, last)
            best = optimum_of([(truth.start, truth.moves)], known, given.steps, within, mistakes)
            if best is not None and not naturals[last]:
                assert best <= limit.risk + 1e-9
                counted += 1
    assert counted


def people_by_the_clock(rng: np.random.Generator, count: int, own_starts: float = 0.0) -> Population:
    return deciding.people(rng, count, LOCATIONS, own_starts, cycles=(1, 5, 24, 168))


def settings_by_the_clock(rng: np.random.Generator, given: Night, **chosen: object) -> HorizonSettings:
    calendar = calendar_of(given.origin, given.holidays)
    settings = deciding.random_settings(rng, first_step=given.first, **chosen)
    return replace(settings, first_slot=calendar.first_slot, calendar=calendar)


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS)
def test_no_run_through_the_night_exceeds_its_budget(night: Callable[[np.random.Generator], Night]):
    settled: Counter[str] = Counter()
    for seed in some(24):
        rng = np.random.default_rng(100 + seed)
        given = night(rng)
        given = given._replace(first=given.first - int(rng.integers(12)))
        people = people_by_the_clock(rng, 16, own_starts=0.1 if rng.random() < 0.5 else 0.0)
        settings = settings_by_the_clock(rng, given, sharpen=rng.random() < 0.5)
        risk = limit_above_habits(rng, people, settings.horizon, settings.mistakes)
        limit = RiskBudget(float(rng.choice([0.2, 0.5])), risk, habits_apart=rng.random() < 0.3)
        settings = replace(settings, decided=limit)
        accountant = ContinuousAccountant(people, settings)
        what_if = WhatIf(accountant, limit)
        steps = [deciding.random_sensors(rng, LOCATIONS) for _ in range(14)] + [[]] * 12
        for t, sensors in enumerate(steps):
            asked = what_if.next_step(AnnouncedStep(sensors, coming=steps[t + 1 : t + 2]))
            choices = deciding.choices_of(sensors)
            decision = decide(StepDecider(given.first + t, choices, limit), asked.count_over)
            accountant.apply(decision.schedule)
            over = int(deciding.over_limit(accountant, limit).sum())
            assert decision.natural > decision.allowed or over <= decision.allowed
            settled[decision.reason] += bool(decision.schedule.releases)
    assert settled[BudgetReason.FREE] + settled[BudgetReason.BUDGET]


EASTER = Night(unix(2024, 1, 1), (unix(2024, 3, 31, 1) - unix(2024, 1, 1)) // 3600 - 6, 12, 168)
MONDAY = EASTER._replace(first=EASTER.first + 16, holidays=(date(2024, 4, 1),))  # into another stretch
CALENDARS = [EASTER, MONDAY]


@pytest.mark.slow
@pytest.mark.parametrize("given", CALENDARS)
def test_a_restart_and_partitions_answer_in_the_night_of_change_as_one_that_went_on(given: Night):
    """Answers of partitions add up to those about all people; one whose questions begin anew has the same."""
    rng = np.random.default_rng(46)
    population = people_by_the_clock(rng, 24, own_starts=0.1)
    settings = replace(settings_by_the_clock(rng, given), horizon=4, mistakes=1)
    limit = RiskBudget(0.2, risk=0.8)
    whole = ContinuousAccountant(population, settings)
    parts = [ContinuousAccountant(part, settings) for part in population.split(3)]
    what_ifs = [WhatIf(each, limit) for each in [whole, *parts]]
    is_near = 0
    for t in range(given.steps):
        sensors = deciding.random_sensors(rng, LOCATIONS)
        choices = deciding.choices_of(sensors)
        at = given.first + t
        candidates = [StepSchedule(at, deciding.schedule_of_random(rng, choices)) for _ in range(4)]
        first, *others = (each.next_step(AnnouncedStep(sensors)).count_over(candidates) for each in what_ifs)
        together = others[0]
        for counts in others[1:]:
            together += counts
        assert together == first
        again = WhatIf(whole, limit).next_step(AnnouncedStep(sensors)).count_over(candidates)
        assert again == first
        is_near += bool(first.natural_ahead)
        for each in [whole, *parts]:
            each.apply(candidates[0])
    assert is_near


@pytest.mark.slow
def test_far_from_a_change_decisions_are_those_of_slots_that_count_on():
    """In summer, one slot further than without a calendar; and with a clock that is never changed."""
    rng = np.random.default_rng(47)
    population = people_by_the_clock(rng, 20)
    origin = unix(2026, 1, 5)
    first = (unix(2026, 7, 1) - origin) // 3600
    limit, steps = RiskBudget(0.1, added=0.3), [deciding.random_sensors(rng, LOCATIONS) for _ in range(5)]
    vienna, utc = calendar_of(origin), Calendar("UTC", origin, 3600, first_slot=2)
    chosen = {"first_step": first, "decided": limit}
    counted = HorizonSettings(4, 1, first_slot=vienna.first_slot + 1, **chosen)
    followed = HorizonSettings(4, 1, first_slot=vienna.first_slot, calendar=vienna, **chosen)
    both = [
        decide_steps(ContinuousAccountant(population, each), limit, steps) for each in (counted, followed)
    ]
    assert both[0] == both[1]
    assert any(each.reason is BudgetReason.BUDGET for each in both[0])
    plain, never = (HorizonSettings(4, 1, first_slot=2, calendar=each, **chosen) for each in (None, utc))
    both = [decide_steps(ContinuousAccountant(population, each), limit, steps) for each in (plain, never)]
    assert both[0] == both[1]


def test_a_limit_in_hindsight_says_that_it_cannot_follow_holidays():
    rng = np.random.default_rng(48)
    given = spring(rng)._replace(holidays=(date(2026, 4, 6),))
    accountant = ContinuousAccountant(people_by_the_clock(rng, 3), settings_by_the_clock(rng, given))
    with pytest.raises(SettingsError, match="in hindsight must have no holidays"):
        WhatIf(accountant, RiskBudget(risk=0.5, in_hindsight=True))
