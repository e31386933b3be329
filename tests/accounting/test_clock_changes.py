"""Ceilings on days of 23 and 25 hours and on holidays, against every trajectory written down.

The truth here follows the clock on the wall by itself: it shares no code with the calendar.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import reduce
from itertools import product
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from accounting.audit import AttackSettings, audit_population
from accounting.bounds import Effort, horizon_risk
from accounting.continuous import ContinuousAccountant
from accounting.exposure import Exposure
from accounting.hmm.propagation import law_at
from accounting.settings import HorizonSettings
from models.calendar import Calendar
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Schedule, SensorRelease, StepSchedule
from stream_app.city import CityOptions, build_city
from stream_app.watching.hindsight import PastHorizon, hindsight
from tests.accounting.chains import random_matrix
from tests.accounting.enumeration import (
    Floats,
    all_paths,
    guess_success,
    optimum,
    prior_optimum,
    window_optima,
)
from tests.accounting.random_runs import channel, random_step
from tests.volume import randoms

HOUR, ZONE = 3600, "Europe/Vienna"
KINDS = ("full", "zeros", "absorbing", "reducible", "sticky")


def unix(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp())


def random_prior(rng: np.random.Generator, cycle: int, places: int = 2) -> Population:
    kind = KINDS[rng.integers(len(KINDS))]
    matrices = np.stack([random_matrix(rng, places, kind) for _ in range(cycle)])
    prior = MovementPrior.from_dense("p", matrices)
    return Population.pack([prior], [str(place) for place in range(places)])


def dense(population: Population) -> Floats:
    """The person's matrices (C, K, K), as they were normalised."""
    chain = population.chain(0)
    cycle, places = chain.start.shape
    found = np.zeros((cycle, places, places))
    for k in range(cycle):
        for y in range(places):
            for j in range(chain.column_start[k, y], chain.column_start[k, y + 1]):
                found[k, chain.row[j], y] = chain.value[j]
    return found


class Truth(NamedTuple):
    """How a person really moves: the law of the place in the first step, and the move out of each."""

    start: Floats
    moves: Floats  # (T, K, K)


def on_the_wall(
    population: Population, origin: int, first: int, steps: int, holidays: tuple[date, ...] = ()
) -> Truth:
    """Each step moves by its local hour's matrix, or twice in spring, or not at all in autumn."""
    matrices, zone = dense(population), ZoneInfo(ZONE)
    cycle, places, _ = matrices.shape

    def hour(step: int) -> datetime:
        return datetime.fromtimestamp(origin + step * HOUR, zone).replace(tzinfo=None)

    def slot(clock: datetime) -> int:
        day = 6 if clock.date() in holidays else clock.weekday()
        return (24 * day + clock.hour) % cycle

    moves = []
    for step in range(first, first + steps):
        passed = int((hour(step + 1) - hour(step)).total_seconds()) // HOUR
        each = [
            matrices[slot(datetime.fromtimestamp(t, UTC).replace(tzinfo=None))]
            for t in (int(hour(step).replace(tzinfo=UTC).timestamp()) + k * HOUR for k in range(passed))
        ]
        moves.append(reduce(np.matmul, each, np.eye(places)))
    return Truth(population.chain(0).start[slot(hour(first))], np.stack(moves))


def calendar_of(origin: int, holidays: tuple[date, ...] = ()) -> Calendar:
    local = datetime.fromtimestamp(origin, ZoneInfo(ZONE))
    return Calendar(ZONE, origin, HOUR, 24 * local.weekday() + local.hour, holidays)


class Night(NamedTuple):
    """A log around a change of clocks or a holiday, and where in it that is."""

    origin: int
    first: int  # step
    steps: int
    cycle: int
    holidays: tuple[date, ...] = ()


def spring(rng: np.random.Generator) -> Night:
    """At 01:00 UTC of 29 March 2026 clocks go from 02:00 to 03:00."""
    return _around(rng, unix(2026, 3, 29, 1), 24)


def autumn(rng: np.random.Generator) -> Night:
    """At 01:00 UTC of 25 October 2026 clocks go from 03:00 to 02:00."""
    return _around(rng, unix(2026, 10, 25, 1), 24)


def long_after(rng: np.random.Generator) -> Night:
    """Some hours of the summer: the hours are those of a clock that was put forward."""
    return _around(rng, unix(2026, 7, 1, int(rng.integers(24))), 24)


def holiday(rng: np.random.Generator) -> Night:
    """1 May 2026 is a Friday; it begins at 22:00 UTC."""
    return _around(rng, unix(2026, 4, 30, 22), 168, (date(2026, 5, 1),))


def end_of_holiday(rng: np.random.Generator) -> Night:
    """A day later."""
    return _around(rng, unix(2026, 5, 1, 22), 168, (date(2026, 5, 1),))


def easter(rng: np.random.Generator) -> Night:
    """31 March 2024 is Easter Sunday, with the change of clocks; Monday, a holiday, begins at 22:00 UTC."""
    change = unix(2024, 3, 31, 1) if rng.random() < 0.5 else unix(2024, 3, 31, 22)
    return _around(rng, change, 168, (date(2024, 3, 31), date(2024, 4, 1)))


def _around(rng: np.random.Generator, change: int, cycle: int, holidays: tuple[date, ...] = ()) -> Night:
    steps, origin = (
        int(rng.integers(3, 8)),
        unix(2026, 1, 5) if change > unix(2026, 1, 5) else unix(2024, 1, 1),
    )
    first = (change - origin) // HOUR - int(rng.integers(0, steps + 1))
    return Night(origin, first, steps, cycle, holidays)


NIGHTS = [spring, autumn, long_after, holiday, end_of_holiday, easter]


class Log(NamedTuple):
    """One person's random log in such a night."""

    population: Population
    truth: Truth
    calendar: Calendar
    night: Night
    steps: tuple[StepSchedule, ...]
    channels: list[Floats]

    @classmethod
    def of(cls, rng: np.random.Generator, night: Night) -> Log:
        population = random_prior(rng, night.cycle)
        truth = on_the_wall(population, night.origin, night.first, night.steps, night.holidays)
        mechanisms = (Raw(), Raw(), Gaussian(0.3)) if night.steps < 5 else (Raw(),)
        steps = tuple(random_step(rng, night.first + t, 2, mechanisms) for t in range(night.steps))
        channels = [channel(2, step) for step in steps]
        return cls(population, truth, calendar_of(night.origin, night.holidays), night, steps, channels)

    def optima(self, first: int, last: int, seen: int) -> list[float]:
        """The best success about the log's steps first..last, by mistakes, of whoever saw ``seen`` steps."""
        paths = all_paths(self.truth.start, self.truth.moves, seen)
        return window_optima(paths, self.channels[:seen], (first, last), range(last - first + 1))

    @property
    def schedule(self) -> Schedule:
        position = self.calendar.first_slot + self.night.first
        return Schedule(self.steps, position, self.calendar)


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS)
def test_running_ceilings_are_never_below_the_optimum(night: Callable[[np.random.Generator], Night]):
    """For every step of the log and every number of mistakes; and the ceiling can be exactly the optimum."""
    exact = 0
    for rng in randoms(39, 80):
        log = Log.of(rng, night(rng))
        horizon = int(rng.integers(1, log.night.steps + 1))
        mistakes = int(rng.integers(horizon))
        settings = HorizonSettings(
            horizon,
            mistakes,
            first_slot=log.calendar.first_slot,
            first_step=log.night.first,
            sharpen_above=0.0,
            sharpen=bool(rng.random() < 0.7),
            calendar=log.calendar,
        )
        accountant = ContinuousAccountant(log.population, settings)
        for last, step in enumerate(log.steps):
            accountant.apply(step)
            if last + 1 >= horizon:
                best = log.optima(last + 1 - horizon, last, last + 1)[mistakes]
                assert accountant.risk()[0] >= best - 1e-9
                exact += accountant.risk()[0] <= best + 1e-9
    assert exact


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS)
def test_audits_hold_and_their_attacks_and_guesses_are_what_they_say(
    night: Callable[[np.random.Generator], Night],
):
    exact = 0
    for rng in randoms(40, 40):
        log = Log.of(rng, night(rng))
        mistakes = int(rng.integers(log.night.steps))
        [found] = audit_population(
            log.population, log.schedule, mistakes, attacks=AttackSettings(draws=100, seed=1)
        )
        paths = all_paths(log.truth.start, log.truth.moves, log.night.steps)
        best = optimum(paths, log.channels, mistakes)
        assert found.certified >= best - 1e-9
        assert found.baseline <= prior_optimum(paths, mistakes) + 1e-9
        assert found.prior_guess.best >= prior_optimum(paths, mistakes) - 1e-9
        if all(type(each.mechanism) is Raw for step in log.steps for each in step.releases):
            exact += found.certified <= best + 1e-9
    assert exact  # some ceilings are exactly the optimum, so nothing is left between the two


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS)
def test_past_horizons_hold_at_the_moment_and_in_hindsight(night: Callable[[np.random.Generator], Night]):
    for rng in randoms(41, 40):
        log = Log.of(rng, night(rng))
        exposure = Exposure.of(log.population.chain(0), log.schedule, 2)
        first = int(rng.integers(log.night.steps))
        last = int(rng.integers(first, log.night.steps))
        mistakes = int(rng.integers(last - first + 1))
        for in_hindsight, seen in ((False, last + 1), (True, log.night.steps)):
            risk = horizon_risk(exposure, first, last, mistakes, in_hindsight=in_hindsight, effort=Effort())
            assert risk.certified >= log.optima(first, last, seen)[mistakes] - 1e-9


def test_the_best_guess_from_habits_is_scored_by_the_moves_of_that_night():
    """Its success is exact, not that of another sequence of hours."""
    rng = np.random.default_rng(42)
    for night in (spring(rng), autumn(rng), holiday(rng)):
        log = Log.of(rng, night)
        exposure = Exposure.of(log.population.chain(0), log.schedule, 2)
        best = exposure.prior_constants(0).baseline
        paths = all_paths(log.truth.start, log.truth.moves, log.night.steps)
        assert best.success == pytest.approx(guess_success(paths, best.guess.tolist(), 0), abs=1e-12)


@pytest.mark.slow
def test_past_horizons_on_the_page_hold_and_the_law_is_carried_through_changes_and_holidays():
    """As the page, the report and ``audit --hindsight`` compute them, from a log that begins at step 0."""
    for night, rng in product(NIGHTS, randoms(43, 8)):
        given = night(rng)
        log = Log.of(rng, given._replace(origin=given.origin + given.first * HOUR, first=0))
        first = int(rng.integers(log.night.steps))
        past = PastHorizon(first, log.night.steps - 1, int(rng.integers(log.night.steps - first)))
        where = log.population, 0, log.steps, log.calendar.first_slot, past
        found = hindsight(*where, calendar=log.calendar)
        assert found is not None
        best = log.optima(first, past.last, log.night.steps)[past.mistakes]
        assert min(found.then, found.now) >= best - 1e-9
    origin, days = unix(2026, 2, 28, 23), (date(2026, 3, 19), date(2026, 4, 6))
    people = random_prior(rng, 168)
    truth = on_the_wall(people, origin, 0, 1500, days)
    calendar = calendar_of(origin, days)
    law = law_at(people.chain(0), None, 0, 1500, calendar.first_slot, calendar)
    assert law == pytest.approx(reduce(np.matmul, truth.moves, truth.start), abs=1e-9)


def early_riser() -> Population:
    """Somebody who stays where they are, and tosses a coin at 08:00 by the clock."""
    stay, toss = np.eye(2) * 0.98 + 0.01, np.full((2, 2), 0.5)
    matrices = np.stack([toss if hour == 8 else stay for hour in range(24)])
    return Population.pack([MovementPrior.from_dense("p", matrices)], ["0", "1"])


def test_without_a_calendar_a_ceiling_is_below_the_optimum_of_people_who_live_by_the_clock():
    """What the calendar is for: in summer, slots counted in steps since winter promise too little."""
    people, origin = early_riser(), unix(2026, 1, 4, 23)
    first = (unix(2026, 7, 1, 7) - origin) // HOUR  # 09:00: by a clock that was never changed, 08:00
    steps = tuple(StepSchedule(first + t) for t in range(2))
    truth = on_the_wall(people, origin, first, 2)
    best = prior_optimum(all_paths(truth.start, truth.moves, 2), 0)
    assert best == pytest.approx(0.5 * 0.99)
    calendar, ceilings = calendar_of(origin), []
    for given in (None, calendar):
        settings = HorizonSettings(2, 0, first_step=first, sharpen_above=0.0, calendar=given)
        accountant = ContinuousAccountant(people, settings)
        accountant.apply_all(steps)
        ceilings.append(float(accountant.risk()[0]))
    assert ceilings == pytest.approx([0.25, best], abs=1e-6)


@pytest.mark.slow
def test_no_ceiling_of_the_citys_people_is_below_their_optimum_in_summer():
    """Raw counts of six hours of a morning; without a calendar the optimum exceeds most people's ceilings."""
    city, origin, rng = (
        build_city(CityOptions(people=40, seed=7)),
        unix(2026, 1, 4, 23),
        np.random.default_rng(1),
    )
    sensors, calendar = city.registry.sensors, calendar_of(origin)
    below, above = np.zeros(40, np.bool_), np.zeros(40, np.bool_)
    for hour in (6, 7):
        first = (unix(2026, 7, 1, hour) - origin) // HOUR
        steps = tuple(
            StepSchedule(
                first + t,
                tuple(SensorRelease(sensors[k], Raw()) for k in rng.permutation(len(sensors))[:8]),
            )
            for t in range(6)
        )
        by_the_clock = list(audit_population(city.population, Schedule(steps, first, calendar), 0))
        counted = list(audit_population(city.population, Schedule(steps, first), 0))
        best = np.array([each.bounds.exact for each in by_the_clock])
        below |= np.array([each.certified for each in counted]) < best - 1e-6
        above |= np.array([each.certified for each in by_the_clock]) < best - 1e-9
    assert below.mean() > 0.5
    assert not above.any()
