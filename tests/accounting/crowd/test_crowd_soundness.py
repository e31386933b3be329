"""Ceilings against a crowd hold: prior optimum <= crowd optimum <= bound <= informed, by enumeration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from accounting.bounds import Effort, certify, question
from accounting.bounds.certified import SeenInCrowd, certify_in_crowd
from accounting.exposure import Exposure, baseline
from accounting.exposure.crowd import CrowdAdversary
from models.releases import Counts, Schedule, SensorRelease
from tests.accounting.crowd.instances import Instance, TargetApart, random_instance
from tests.accounting.enumeration import all_paths, prior_optimum
from tests.volume import randoms, some

ROUNDING = 1e-9
EFFORT = Effort(patterns=64, vectors=16)


def ceilings(exposure: Exposure, seen: SeenInCrowd, mistakes: int) -> tuple[float, float]:
    """Against the crowd adversary and the informed one."""
    without = baseline(exposure, mistakes).success
    informed = certify(question(exposure, mistakes, EFFORT), without).value
    return certify_in_crowd(exposure, seen, mistakes, EFFORT, without).value, informed


def check(instance: Instance, mistakes: int, adversary: CrowdAdversary) -> bool:
    """Whether the crowd lowers the ceiling of an instance in which everything holds."""
    everything = (0, instance.steps - 1)
    found, informed = ceilings(instance.exposure(), instance.seen(adversary), mistakes)
    best = instance.optimum(everything, mistakes)
    from_habits = prior_optimum(all_paths(*instance.target, instance.steps), mistakes)
    assert from_habits <= best + ROUNDING
    assert best <= found + ROUNDING
    assert found <= informed + ROUNDING
    return found < informed - 1e-6


def check_many(seeds: Iterable[int]) -> int:
    """How many ceilings are lower than the informed one; every second target stands among the others."""
    lowered = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        among = seed % 2 == 0
        instance = random_instance(rng, target_among=among)
        mistakes = int(rng.integers(min(instance.steps, 3)))
        lowered += check(instance, mistakes, CrowdAdversary() if among else TargetApart())
    return lowered


@pytest.mark.slow
def test_no_adversary_without_the_others_places_beats_the_ceiling() -> None:
    """Every kind of chain, raw and noised, overlapping sensors, own initial laws, alike and unlike others."""
    assert check_many(range(300)) > 50


def test_nobody_hides_where_a_sensor_says_whether_anybody_is_there() -> None:
    """Its value is no sum to which others add, so everybody is charged as if all others were known."""
    for rng in randoms(5, 80):
        instance = random_instance(rng, target_among=True)
        steps = [
            replace(step, releases=tuple(map(_occupied, step.releases))) for step in instance.schedule.steps
        ]
        instance = replace(instance, schedule=Schedule(tuple(steps)))
        found, informed = ceilings(instance.exposure(), instance.seen(CrowdAdversary()), 0)
        assert found == pytest.approx(informed, abs=ROUNDING)


def _occupied(release: SensorRelease) -> SensorRelease:
    return replace(release, sensor=replace(release.sensor, counts=Counts.OCCUPIED))


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_the_ceiling_in_many_crowds() -> None:
    """The same, longer."""
    crowds = some(4_000)
    assert check_many(10_000 + crowd for crowd in crowds) > len(crowds) / 5
