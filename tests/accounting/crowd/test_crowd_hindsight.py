"""Ceilings of past steps against a crowd hold, at the moment and in hindsight, by enumeration."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from accounting.bounds import Effort, horizon_risk, horizon_risk_in_crowd
from accounting.exposure.crowd import CrowdAdversary
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from stream_app.watching.hindsight import PastHorizon, hindsight
from tests.accounting.crowd.instances import Instance, TargetApart, large_instance, random_instance
from tests.accounting.exposures import RAW
from tests.volume import some

ROUNDING = 1e-9
EFFORT = Effort(order=2, patterns=64, vectors=16)


def check(instance: Instance, rng: np.random.Generator, adversary: CrowdAdversary) -> list[bool]:
    """One window of a log, before and after what came later; whether the crowd lowers each ceiling."""
    first = int(rng.integers(instance.steps))
    last = int(rng.integers(first, instance.steps))
    mistakes = int(rng.integers(last - first + 1))
    exposure, seen = instance.exposure(), instance.seen(adversary)
    lowered = []
    for in_hindsight in (False, True):
        informed = horizon_risk(
            exposure, first, last, mistakes, in_hindsight=in_hindsight, effort=EFFORT
        ).certified
        found = horizon_risk_in_crowd(
            exposure, seen, (first, last), mistakes, in_hindsight=in_hindsight, effort=EFFORT
        )
        if any(in_hindsight or count.step <= last for count in instance.counts()):
            best = instance.optimum((first, last), mistakes, None if in_hindsight else last)
            assert found.baseline <= best + ROUNDING
            assert best <= found.certified + ROUNDING
        assert found.certified <= informed + ROUNDING
        lowered.append(found.certified < informed - 1e-6)
    return lowered


def check_many(seeds: Iterable[int]) -> np.ndarray:
    """How often the crowd lowers the ceiling at the moment, and in hindsight; every third crowd is large."""
    lowered = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        among = seed % 2 == 0
        is_large = seed % 3 == 0
        instance = large_instance(rng) if is_large else random_instance(rng, target_among=among)
        adversary = CrowdAdversary() if among or is_large else TargetApart()
        lowered.append(check(instance, rng, adversary))
    return np.array(lowered).sum(axis=0)


@pytest.mark.slow
def test_no_adversary_without_the_others_places_beats_a_ceiling_in_hindsight() -> None:
    """Windows with a past and a future, raw and noised."""
    assert (check_many(range(60)) > 5).all()


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_in_hindsight_in_many_crowds() -> None:
    """The same, longer."""
    crowds = some(400)
    assert (check_many(5_000 + crowd for crowd in crowds) > len(crowds) / 20).all()


def test_a_log_that_is_cut_shows_the_place_and_nothing_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within reach it is the risk of the whole log; beyond it never lower, and below the informed one."""
    rng = np.random.default_rng(3)
    pool = [rng.dirichlet(np.full(3, 3.0), size=3) for _ in range(2)]
    priors = [MovementPrior.from_dense(f"p{k}", pool[k % 2]) for k in range(80)]
    people = Population.pack(priors)
    log = [StepSchedule(t, (SensorRelease(Sensor("s", (t % 3,)), RAW),) if t % 2 else ()) for t in range(12)]
    from accounting.audit import seen_among

    crowd = seen_among(people, Schedule(tuple(log)), CrowdAdversary(known=3))
    past = PastHorizon(5, 7, 0)
    whole = hindsight(people, 1, log, 0, past, EFFORT, crowd)
    informed = hindsight(people, 1, log, 0, past, EFFORT)
    assert whole is not None and informed is not None
    assert whole.baseline < whole.then <= whole.now < informed.now
    monkeypatch.setattr("stream_app.watching.hindsight.REACH", 2)
    cut = hindsight(people, 1, log, 0, past, EFFORT, crowd)
    cut_informed = hindsight(people, 1, log, 0, past, EFFORT)
    assert cut is not None and cut_informed is not None
    assert cut.now >= whole.now - 1e-9
    assert cut.now <= cut_informed.now + 1e-9
