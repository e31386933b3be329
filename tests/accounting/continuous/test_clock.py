"""An accountant that follows the clock: restarted, joined and taken apart in the nights of change."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.shadow import Shadow, drawn_parts
from accounting.exceptions import SettingsError
from accounting.settings import HorizonSettings
from models.calendar import Calendar
from models.priors import MovementPrior, Population
from models.releases import StepSchedule
from tests.accounting.random_runs import random_step, with_few_data
from tests.accounting.test_clock_changes import unix

PLACES, HORIZON = 3, 4
ORIGIN = unix(2026, 3, 27, 23)  # midnight of a Saturday in Vienna; in its second night clocks are put forward
CLOCK = Calendar("Europe/Vienna", ORIGIN, 3600, first_slot=120)
WITH_HOLIDAY = Calendar("Europe/Vienna", ORIGIN, 3600, first_slot=120, holidays=(date(2026, 3, 30),))
NIGHT = range(20, 34)
CALENDARS = [CLOCK, WITH_HOLIDAY]


def people(seed: int, count: int, cycles: tuple[int, ...] = (1, 24, 168)) -> Population:
    rng = np.random.default_rng(seed)
    priors = []
    for number in range(count):
        matrices = rng.dirichlet(np.ones(PLACES), size=(cycles[number % len(cycles)], PLACES))
        initial = rng.dirichlet(np.ones(PLACES)) if number % 4 == 3 else None
        priors.append(MovementPrior.from_dense(f"p{seed}-{number}", matrices, initial=initial))
    return Population.pack(priors, [str(place) for place in range(PLACES)])


def log(steps: range) -> list[StepSchedule]:
    rng = np.random.default_rng(5)
    return [random_step(rng, step, PLACES) for step in steps]


def settings(calendar: Calendar | None, **chosen: object) -> HorizonSettings:
    given = {"first_slot": 120, "first_step": NIGHT.start, "sharpen_above": 0.0, "calendar": calendar}
    return HorizonSettings(HORIZON, 1, **{**given, **chosen})


@pytest.mark.slow
@pytest.mark.parametrize("calendar", CALENDARS)
def test_a_restart_in_the_night_of_change_has_the_same_bits(calendar: Calendar):
    """At every step, for people with several chains, too."""
    population = with_few_data(people(1, 4), 6.0, 2)
    whole = ContinuousAccountant(population, settings(calendar))
    saved = []
    for step in log(NIGHT):
        saved.append(whole.snapshot())
        whole.apply(step)
    for at, snapshot in enumerate(saved):
        again = ContinuousAccountant(population, settings(calendar))
        again.restore(snapshot)
        again.apply_all(log(NIGHT)[at:])
        assert again.snapshot() == whole.snapshot()


@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("came", [22, 26, 29])
def test_who_joins_or_leaves_in_the_night_of_change_changes_nobody_elses_account(
    calendar: Calendar, came: int
):
    first, second, steps = people(1, 4), people(2, 3), log(NIGHT)
    running = ContinuousAccountant(first, settings(calendar))
    running.apply_all(steps[:8])
    newcomers = ContinuousAccountant(second, settings(calendar), np.full(3, came))
    newcomers.apply_all(steps[:8])
    joined = running.with_people(newcomers)
    everybody = Population.concatenate([first, second])
    whole = ContinuousAccountant(everybody, settings(calendar), np.array([20] * 4 + [came] * 3))
    whole.apply_all(steps[:8])
    left = whole.of_people(np.arange(4))
    for step in steps[8:]:
        for each in (joined, whole, left, running):
            each.apply(step)
    assert joined.snapshot() == whole.snapshot()
    assert left.snapshot() == running.snapshot()


def test_far_from_a_change_the_bits_are_those_of_slots_that_count_on_from_another_hour():
    """Long after clocks were put forward: one slot further than without a calendar."""
    population, steps = people(3, 4), log(range(2000, 2006))
    by_the_clock = ContinuousAccountant(population, settings(CLOCK, first_step=2000))
    counted = ContinuousAccountant(population, settings(None, first_slot=121, first_step=2000))
    for step in steps:
        by_the_clock.apply(step)
        counted.apply(step)
        assert by_the_clock.stretch.is_regular
        assert (by_the_clock.risk() == counted.risk()).all()
        assert (by_the_clock.baseline() == counted.baseline()).all()


def test_a_calendar_without_changes_leaves_every_bit_as_it_was():
    population, steps = people(3, 4), log(NIGHT)
    utc = Calendar("UTC", ORIGIN, 3600, first_slot=120)
    both = [ContinuousAccountant(population, settings(each)) for each in (utc, None)]
    for each in both:
        each.apply_all(steps)
    assert (both[0].risk() == both[1].risk()).all()
    assert (both[0].information_nats() == both[1].information_nats()).all()


@pytest.mark.parametrize("calendar", CALENDARS)
def test_the_attack_beside_the_ceiling_goes_on_through_the_night(calendar: Calendar):
    """It finds something, and :class:`AttackAboveCeilingError` would say if it found too much."""
    population = people(4, 6, cycles=(24, 168))
    accountant = ContinuousAccountant(population, settings(calendar))
    shadow = Shadow(accountant, drawn_parts(PeopleShares.single(len(population)), 2000))
    gained = 0.0
    for step in log(NIGHT):
        accountant.apply(step)
        shadow.note(step)
        mean = shadow.mean()
        assert mean is not None
        gained = max(gained, mean.success - float(accountant.baseline().mean()))
    assert gained > 0.01


def test_a_calendar_begins_with_the_slot_of_the_settings():
    with pytest.raises(SettingsError, match="the calendar's first_slot must be 3"):
        settings(CLOCK, first_slot=3)
