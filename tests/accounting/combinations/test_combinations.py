"""Everything with everything: small deployments of random features against every movement written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from accounting.exposure.crowd import CrowdAdversary
from accounting.settings import HorizonSettings
from models.mechanisms import Correlated, Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population
from models.releases import CountingWindow, Sensor, SensorRegistry, StepSchedule, in_single_steps
from tests.accounting.combinations.deployments import SHARED, compare, draw, law_of_two, noise_of
from tests.accounting.crowd.both import BothAccounts
from tests.volume import randoms


def check(cases: Iterable[np.random.Generator]) -> Counter[str]:
    """No ceiling is below the best adversary, no limit below one; how often each feature was compared."""
    found: Counter[str] = Counter()
    for rng in cases:
        deployment = draw(rng)
        deployment.run()
        compared, wrong = compare(deployment)
        assert not wrong, (sorted(deployment.features), wrong)
        found.update(dict.fromkeys(deployment.features, compared))
        pairs = zip(deployment.crowd, deployment.informed, strict=False)
        found["lower in the crowd"] += any(crowd < informed - 1e-6 for crowd, informed in pairs)
    return found


def test_no_adversary_beats_a_ceiling_or_a_limit_in_any_combination() -> None:
    found = check(randoms(40, 40))
    assert sum(found.values()) > 10


@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_or_a_limit_in_many_combinations() -> None:
    """And each feature is among them."""
    found = check(randoms(41, 1200))
    assert found["lower in the crowd"]
    assert min(found.values()) and len(found) > 15


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_or_a_limit_in_ten_thousand_combinations() -> None:
    check(randoms(42, 10_000))


def test_two_values_of_one_draw_have_the_law_of_rounded_draws() -> None:
    """The truth about correlated noise knows both values' own laws, and how they go together."""
    law = law_of_two(SHARED.covariance)
    draws = np.rint(np.random.default_rng(44).multivariate_normal(np.zeros(2), SHARED.covariance, 400_000))
    middle = law.shape[0] // 2
    sampled = np.array([[np.mean((draws == (i, j)).all(axis=1)) for j in (-1, 0, 2)] for i in (-1, 0, 2)])
    some = middle + np.array([-1, 0, 2])
    assert np.abs(law[np.ix_(some, some)] - sampled).max() < 0.002
    one = noise_of(Correlated.of(SHARED, 0))
    assert law.sum(axis=1) == pytest.approx(one, abs=2e-4)
    assert np.abs(law - np.outer(one, one)).max() > 0.005


# A window of steps in the crowd.

MOVES = np.array([[0.6, 0.2, 0.2], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]])
ROOM = Sensor("room", (0,), most_counts=2, window=CountingWindow(2))
ONCE = Sensor("room", (0,), most_counts=1, window=CountingWindow(2))
BRIDGE = Sensor("room", (0, 1), most_counts=2, window=CountingWindow(2, ((0, 1, 1),)))


def after_six_steps(sensor: Sensor, mechanism: Mechanism, adversary: CrowdAdversary) -> BothAccounts:
    """Two dozen people who live alike: with forty, the exact law of their sum took twenty times as long."""
    people = Population.pack([MovementPrior.from_dense(f"p{k}", MOVES) for k in range(24)], ["a", "b", "c"])
    registry = SensorRegistry(people.location_names, (sensor,)).with_windows({sensor.name: mechanism})
    accounts = BothAccounts(people, adversary, HorizonSettings(4, 1, sharpen_above=0.0))
    for step in range(6):
        accounts.apply(in_single_steps(StepSchedule(step), registry))
    return accounts


def test_the_steps_of_a_sum_of_presence_hide_in_the_crowd_and_nothing_else_of_a_window() -> None:
    """Moves, and counts that a device limits, are no sums of counts in single steps."""
    for sensor, mechanism in ((ROOM, Raw()), (ONCE, Raw()), (BRIDGE, Gaussian(2.0))):
        accounts = after_six_steps(sensor, mechanism, CrowdAdversary())
        hides = accounts.risk()[0] < accounts.informed.risk()[0] - 0.1
        assert hides == (sensor is ROOM)
        assert all(each.units[0] > 0 for each in accounts.crowds) == (sensor is ROOM)


def test_a_group_hides_in_no_noise_of_a_window() -> None:
    """Noise that hides one of them does not hide three; the others still do where the count is a sum."""
    group = CrowdAdversary(companions=2)
    alone, together = (after_six_steps(BRIDGE, Gaussian(8.0), each) for each in (CrowdAdversary(), group))
    assert together.risk()[0] == after_six_steps(BRIDGE, Raw(), group).risk()[0] > alone.risk()[0]
