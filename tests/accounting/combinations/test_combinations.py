"""Everything with everything: small deployments of random features against every movement written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest

from accounting.exposure.crowd import CrowdAdversary
from accounting.settings import HorizonSettings
from models.mechanisms import Correlated, Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population
from models.releases import CountingWindow, Sensor, SensorRegistry, StepSchedule, in_single_steps
from tests.accounting.combinations.deployments import (
    SHARED,
    Asked,
    Shown,
    audits,
    compare,
    draw_widely,
    law_of_two,
    noise_of,
    optimum_of,
)
from tests.accounting.crowd.both import BothAccounts
from tests.volume import randoms


def check(cases: Iterable[np.random.Generator]) -> Counter[str]:
    """No ceiling is below the best adversary, no limit below one; how often each feature was compared."""
    found: Counter[str] = Counter()
    for rng in cases:
        deployment = draw_widely(rng)
        deployment.run()
        compared, audited = compare(deployment), list(audits(deployment))
        assert not compared.wrong, (sorted(deployment.features), compared.wrong)
        assert all(best <= ceiling + 1e-9 for best, ceiling in audited), sorted(deployment.features)
        found.update(dict.fromkeys(deployment.features, compared.ceilings + len(audited)))
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
    assert min(found.values()) and len(found) > 28


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_or_a_limit_in_ten_thousand_combinations() -> None:
    check(randoms(42, 10_000))


def test_the_truth_about_a_crowd_is_that_of_everybody_written_down() -> None:
    """A companion, two who are alone with a chance or else in step, one who is vouched for, costs of labels.

    Every movement of everybody, who is alone, and every guess, one by one.
    """
    rng = np.random.default_rng(6)
    own, alike, vouched = ((rng.dirichlet([1, 1]), rng.dirichlet([1, 1], size=(1, 2))) for _ in range(3))
    alone, costs, mistakes = 0.7, (1, 2), 1
    paths = list(product((0, 1), repeat=2))
    chance = [
        {path: start[path[0]] * moves[0][path] for path in paths} for start, moves in (own, alike, vouched)
    ]
    right: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for target, step, one, other, last in product(paths, repeat=5):  # `step` is that of all who are not alone
        likely = chance[0][target] * chance[1][step] * chance[1][one] * chance[1][other] * chance[2][last]
        for first_is, second_is in product((True, False), repeat=2):
            share = (alone if first_is else 1.0 - alone) * (alone if second_is else 1.0 - alone)
            there = [target, target, one if first_is else step, other if second_is else step, last]
            seen = tuple(sum(each[t] for each in there) for t in range(2))
            for guess in paths:
                wrong = sum(cost for cost, a, b in zip(costs, guess, target, strict=True) if a != b)
                right[seen, guess] += likely * share * (wrong <= mistakes)
    best = sum(max(right[seen, guess] for guess in paths) for seen in {seen for seen, _ in right})
    shown = [Shown(Sensor("s", (1,)), step, 1, np.ones(1)) for step in range(2)]
    found = optimum_of(
        [own, alike, alike],
        shown,
        2,
        (0, 1),
        mistakes,
        vouched=[vouched],
        together=2,
        alone=alone,
        asked=Asked(np.array([1, 2]), np.array(costs)),
    )
    assert found == pytest.approx(best, abs=1e-12)
    less = optimum_of([own, alike, alike], shown, 2, (0, 1), mistakes, vouched=[vouched], together=2)
    assert found != pytest.approx(less, abs=1e-3)


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


@pytest.mark.slow
def test_sums_over_windows_hide_in_the_crowd_and_what_a_device_limits_does_not() -> None:
    """Presence and moves (of which two dozen people make few); who is counted once at most is in no sum."""
    for sensor, mechanism in ((ROOM, Raw()), (ONCE, Raw()), (BRIDGE, Gaussian(2.0))):
        accounts = after_six_steps(sensor, mechanism, CrowdAdversary())
        hides = accounts.risk()[0] < accounts.informed.risk()[0] - 0.1
        assert hides == (sensor is ROOM)
        assert all(each.units[0] > 0 for each in accounts.crowds) == (sensor is not ONCE)


def test_a_group_hides_in_no_noise_of_a_window() -> None:
    """Noise that hides one of them does not hide three; the others still do where the count is a sum."""
    group = CrowdAdversary(companions=2)
    alone, together = (after_six_steps(BRIDGE, Gaussian(8.0), each) for each in (CrowdAdversary(), group))
    assert together.risk()[0] == after_six_steps(BRIDGE, Raw(), group).risk()[0] > alone.risk()[0]
