"""Passages in a crowd: a person may be counted again, and others hide as far as they are counted once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from accounting.audit import audit_population
from accounting.exposure.crowd import CrowdAdversary, HidingCrowd, Others, SensorCrowd, crowds_by_sensor
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from tests.accounting.combinations.deployments import Shown, noise_of, optimum_of
from tests.accounting.crowd.both import BothAccounts
from tests.volume import randoms

DOOR = Sensor("door", (0,), most_counts=2)


def step_of(sensor: Sensor, step: int = 0, mechanism: Mechanism | None = None) -> StepSchedule:
    return StepSchedule(step, (SensorRelease(sensor, mechanism or Raw()),))


def people_of(count: int, moves: list[list[float]]) -> Population:
    return Population.pack([MovementPrior.from_dense(f"p{k}", np.array(moves)) for k in range(count)])


@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_of_passages_among_people_who_are_counted_once() -> None:
    """Among 20 to 60 alike, of whom some are counted once by chance and the others as often as may be.

    Audits and running accounts, raw and noised, one count or two.
    """
    for rng in randoms(71, 16):
        moves = rng.dirichlet([8.0, 8.0], size=2)
        people = people_of(int(rng.integers(20, 61)), moves.tolist())
        start = people.chain(0).start[0].copy()
        sensor = replace(DOOR, most_counts=int(rng.integers(2, 4)))
        mechanism = Raw() if rng.random() < 0.6 else Gaussian(float(rng.choice([0.7, 2.0])))
        steps, once = int(rng.integers(2, 5)), float(rng.choice([0.5, 0.8, 1.0]))
        at = rng.permutation(steps)[: int(rng.integers(1, 3))].tolist()
        schedule = Schedule(
            tuple(step_of(sensor, t, mechanism) if t in at else StepSchedule(t) for t in range(steps))
        )
        shown = [Shown(sensor, t, sensor.most_counts, noise_of(mechanism)) for t in at]
        mistakes, adversary = int(rng.integers(2)), CrowdAdversary(counted_once=once)
        chains = [(start, moves[None])] * len(people)
        best = optimum_of(chains, shown, steps, (0, steps - 1), mistakes, once=once)
        assert best is not None
        audits = [
            next(audit_population(people, schedule, mistakes, people=[0], adversary=each))
            for each in (adversary, None)
        ]
        crowd, informed = (each.certified for each in audits)
        assert best <= crowd + 1e-9
        assert crowd <= informed
        accounts = BothAccounts(people, adversary, HorizonSettings(steps, mistakes, sharpen_above=0.0))
        accounts.apply_all(schedule.steps)
        assert best <= accounts.risk()[0] + 1e-9


def test_among_hundreds_most_of_what_a_count_of_passages_adds_is_taken_away() -> None:
    """With nine in ten counted once; the more often a person may be counted, the less."""
    people, guess = people_of(400, [[0.5, 0.5], [0.5, 0.5]]), 0.5
    found = []
    for most_counts in (1, 2, 4):
        schedule = Schedule((step_of(replace(DOOR, most_counts=most_counts)), StepSchedule(1)))
        adversary = CrowdAdversary(counted_once=0.9)
        (audit,) = audit_population(people, schedule, 1, people=[0], adversary=adversary)
        found.append(audit.certified - audit.baseline)
    assert found == sorted(found)
    assert found[-1] < 0.5 * (1.0 - guess)


def test_if_all_others_are_counted_twice_an_odd_count_tells() -> None:
    """What is declared must be true: by the parity of a count somebody is found who is counted once.

    Declared as it is, that nobody is counted once, the ceiling is that of an adversary who knows the others.
    """
    people = people_of(41, [[0.5, 0.5], [0.5, 0.5]])
    schedule = Schedule((step_of(DOOR),))
    parity = 1.0
    (declared,) = audit_population(
        people, schedule, 0, people=[0], adversary=CrowdAdversary(counted_once=1.0)
    )
    (true,) = audit_population(people, schedule, 0, people=[0], adversary=CrowdAdversary())
    assert declared.certified < 0.75 < parity == true.certified


def test_where_nobody_is_said_to_be_counted_once_others_count_as_known() -> None:
    """To the last bit what the informed adversary gets, in audits and in running accounts."""
    people = people_of(30, [[0.6, 0.4], [0.3, 0.7]])
    schedule = Schedule(tuple(step_of(DOOR, t, Gaussian(1.0) if t % 2 else None) for t in range(4)))
    accounts = BothAccounts(people, CrowdAdversary(), HorizonSettings(4, 1, sharpen_above=0.0))
    accounts.apply_all(schedule.steps)
    assert (accounts.risk() == accounts.informed.risk()).all()
    some = BothAccounts(people, CrowdAdversary(counted_once=0.9), HorizonSettings(4, 1, sharpen_above=0.0))
    some.apply_all(schedule.steps)
    assert (some.risk() < accounts.risk()).all()


def test_one_count_of_a_sensor_of_passages_is_one_of_presence() -> None:
    """Whoever is counted once for certain at a sensor that counts nobody again is as in a count of people."""
    crowd = SensorCrowd()
    for most_counts, alone in ((1, 0.5), (2, 0.4), (3, 0.4)):
        adversary = CrowdAdversary(alone=0.5, counted_once=0.8)
        assert adversary.at(most_counts).alone == pytest.approx(alone)
        assert HidingCrowd(crowd, adversary, most_counts).sigma == 0.0


def test_what_is_said_of_a_crowd_is_of_those_who_are_counted_once() -> None:
    """As Gaussian noise that hides a person no better, whoever may be counted so often."""
    people = people_of(400, [[0.5, 0.5], [0.5, 0.5]])
    crowds = Others(people).ask(step_of(DOOR))
    for once, most_counts in ((0.0, 2), (0.5, 2), (1.0, 2), (1.0, 4)):
        sensor, adversary = replace(DOOR, most_counts=most_counts), CrowdAdversary(counted_once=once)
        found = crowds_by_sensor(step_of(sensor), crowds, adversary)["door"]
        if once == 0.0:
            assert (found.sigma, found.shown) == (0.0, 1.0)
            continue
        shift = 0.5 * most_counts / found.sigma
        assert found.shown == pytest.approx(norm.cdf(shift) - norm.cdf(-shift))
        assert found.sigma == pytest.approx(np.sqrt(once * crowds[0].variance(CrowdAdversary())), rel=0.1)
