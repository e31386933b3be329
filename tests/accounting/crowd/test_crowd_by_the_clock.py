"""Ceilings in the crowd on days of 23 and 25 hours and on holidays, against every movement of everybody."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from accounting.audit import audit_population
from accounting.continuous import ContinuousAccountant
from accounting.continuous.crowd import CrowdAccount
from accounting.decisions import StepDecider, decide
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.exposure.crowd import CrowdAdversary, Others
from accounting.settings import HorizonSettings, RiskBudget
from models.calendar import Calendar
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import random_matrix
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.crowd.collective import Chain, Count, collective_optimum, joint_law, others_law
from tests.accounting.crowd.instances import noise_of
from tests.accounting.decisions import deciding
from tests.accounting.exposures import RAW, gaussian
from tests.accounting.test_clock_changes import KINDS, NIGHTS, Night, calendar_of, on_the_wall, unix
from tests.volume import randoms

ROUNDING = 1e-9


def crowd_of(rng: np.random.Generator, cycle: int, size: int) -> Population:
    """People of two kinds, who move a lot, and somebody of any kind before them."""
    kinds = [
        np.stack([random_matrix(rng, 2, KINDS[rng.integers(len(KINDS))]) for _ in range(cycle)]),
        *(rng.dirichlet(np.full(2, 4.0), size=(cycle, 2)) for _ in range(2)),
    ]
    chosen = [0, *rng.integers(1, 3, size - 1).tolist()]
    priors = [MovementPrior.from_dense(f"p{k}", kinds[kind]) for k, kind in enumerate(chosen)]
    return Population.pack(priors, ["0", "1"])


class Log:
    """A night's counts of such people, and how each of them really moves."""

    def __init__(self, rng: np.random.Generator, night: Night) -> None:
        self.night = night._replace(steps=min(night.steps, 5))
        first, steps = self.night.first, self.night.steps
        self.people = crowd_of(rng, night.cycle, int(rng.integers(8, 20)))
        self.calendar = calendar_of(night.origin, night.holidays)
        at = set(rng.permutation(steps)[:3].tolist())
        found = []
        for t in range(steps):
            mechanism = RAW if rng.random() < 0.8 else gaussian(0.7)
            release = (SensorRelease(Sensor("s", (int(rng.integers(2)),)), mechanism),) if t in at else ()
            found.append(StepSchedule(first + t, release))
        self.steps = tuple(found)
        self.chains = [self.chain(person) for person in range(len(self.people))]

    def chain(self, person: int) -> Chain:
        night, one = self.night, self.people.subset(np.array([person]))
        truth = on_the_wall(one, night.origin, night.first, night.steps, night.holidays)
        return truth.start, truth.moves

    def optimum(self, first: int, last: int, mistakes: int) -> float | None:
        """About the target's steps ``first..last``, seen until then; None where nothing was counted."""
        counts = [
            Count(step.step - self.night.first, np.isin(np.arange(2), each.sensor.locations), noise)
            for step in self.steps[: last + 1]
            for each in step.releases
            for noise in [noise_of(each.mechanism)]
        ]
        if not counts:
            return None
        law = others_law(self.chains[1:], counts, self.night.steps)
        return collective_optimum(joint_law(self.chains[0], counts, law, (first, last)), mistakes)


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS)
def test_no_adversary_beats_the_running_ceiling(night: Callable[[np.random.Generator], Night]) -> None:
    lowered, cases_seen = 0, 0
    for rng in randoms(50, 16):
        log = Log(rng, night(rng))
        horizon = int(rng.integers(1, log.night.steps + 1))
        mistakes = int(rng.integers(min(horizon, 2)))
        settings = HorizonSettings(
            horizon,
            mistakes,
            first_slot=log.calendar.first_slot,
            first_step=log.night.first,
            sharpen_above=0.0,
            sharpen=bool(rng.random() < 0.6),
            calendar=log.calendar,
        )
        account = BothAccounts(log.people, CrowdAdversary(), settings)
        for last, step in enumerate(log.steps):
            account.apply(step)
            first, risk = last + 1 - horizon, account.risk()[0]
            best = log.optimum(first, last, mistakes) if first >= 0 else None
            if best is not None:
                assert best <= risk + ROUNDING
                lowered += risk < account.informed.risk()[0] - 1e-6
                cases_seen += 1
    assert cases_seen
    assert lowered


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS)
def test_no_adversary_beats_an_audits_ceiling(night: Callable[[np.random.Generator], Night]) -> None:
    seen = 0
    for rng in randoms(51, 16):
        log = Log(rng, night(rng))
        mistakes = int(rng.integers(min(log.night.steps, 2)))
        schedule = Schedule(log.steps, log.calendar.first_slot + log.night.first, log.calendar)
        [found] = audit_population(log.people, schedule, mistakes, people=[0], adversary=CrowdAdversary())
        best = log.optimum(0, log.night.steps - 1, mistakes)
        assert best is not None
        assert best <= found.certified + ROUNDING
        seen += found.certified < found.certified_informed - 1e-6
    assert seen


ORIGIN = unix(2026, 1, 5)
VIENNA = calendar_of(ORIGIN)
NIGHT = (unix(2026, 3, 29, 1) - ORIGIN) // 3600


def mixed(rng: np.random.Generator, count: int) -> Population:
    """People with cycles of an hour, a day and a week."""
    priors = [
        MovementPrior.from_dense(f"p{k}", rng.dirichlet(np.ones(3), size=((1, 24, 168)[k % 3], 3)))
        for k in range(count)
    ]
    return Population.pack(priors, list("abc"))


def settings_of(calendar: Calendar | None, first: int, **chosen: object) -> HorizonSettings:
    slot = 0 if calendar is None else calendar.first_slot
    return HorizonSettings(
        3,
        1,
        **{"first_slot": slot, "first_step": first, "calendar": calendar, "sharpen_above": 0.0, **chosen},
    )


def steps_from(rng: np.random.Generator, first: int, count: int) -> list[StepSchedule]:
    return [
        StepSchedule(first + t, (SensorRelease(Sensor("s", (int(rng.integers(3)),)), RAW),))
        for t in range(count)
    ]


@pytest.mark.slow
def test_a_restart_and_parts_have_the_same_bits_in_the_night_of_change() -> None:
    rng = np.random.default_rng(52)
    people, steps = mixed(rng, 12), steps_from(rng, NIGHT - 5, 10)
    settings = settings_of(VIENNA, NIGHT - 5)

    def account() -> CrowdAccount:
        return CrowdAccount(ContinuousAccountant(people, settings, apart=True))

    def apply(to: CrowdAccount, step: StepSchedule) -> None:
        to.informed.apply(step)
        to.apply(step)

    whole, saved = account(), []
    for step in steps:
        saved.append(whole.snapshot())
        apply(whole, step)
    for at, snapshot in enumerate(saved):
        again = account()
        again.restore(snapshot)
        for step in steps[at:]:
            apply(again, step)
        assert again.snapshot() == whole.snapshot()
    where = VIENNA.first_slot, NIGHT - 5
    together = Others(people, *where, calendar=VIENNA)
    parts = [Others(part, *where, calendar=VIENNA) for part in people.split(3)]
    for step in steps:
        sums = [part.apply(step) for part in parts]
        assert together.apply(step) == tuple(map(lambda *each: each[0] + each[1] + each[2], *sums))


def test_far_from_a_change_the_sums_are_those_of_slots_that_count_on() -> None:
    rng = np.random.default_rng(53)
    people, first = mixed(rng, 12), NIGHT + 1000
    steps = steps_from(rng, first, 6)
    followed = Others(people, VIENNA.first_slot, first, calendar=VIENNA)
    counted = Others(people, VIENNA.first_slot + 1, first)
    assert [followed.apply(step) for step in steps] == [counted.apply(step) for step in steps]


@pytest.mark.slow
def test_a_budget_in_the_crowd_is_kept_through_the_night() -> None:
    rng, released = np.random.default_rng(54), 0
    people, first = mixed(rng, 30), NIGHT - 4
    limit = RiskBudget(0.1, risk=0.95)
    informed = ContinuousAccountant(people, settings_of(VIENNA, first, decided=limit), apart=True)
    crowd = CrowdAccount(informed, decided=limit)
    what_if = WhatIf(informed, limit, crowd)
    for t in range(12):
        sensors = [Sensor("s", (int(rng.integers(3)),))] if t < 8 else []
        silent = StepSchedule(first + t, tuple(SensorRelease(each, RAW) for each in sensors))
        crowds = crowd.ask(silent)
        asked = what_if.next_step(AnnouncedStep(sensors, crowds))
        decision = decide(StepDecider(first + t, deciding.choices_of(sensors), limit), asked.count_over)
        informed.apply(decision.schedule)
        crowd.apply(decision.schedule)
        over = int(deciding.over_limit(crowd, limit).sum())
        assert decision.natural > decision.allowed or over <= decision.allowed
        released += sum(each.mechanism.is_released for each in decision.schedule.releases)
    assert released
