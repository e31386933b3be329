"""The collective filter: its moments are exact, it finds what there is, it stays below the ceiling."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.crowd import city_setting, measure
from experiments.crowd_attackers import CollectiveFilter, Moments, Watched
from experiments.crowd_page import Row, page
from models.mechanisms import Raw
from models.priors import MovementPrior, Population
from models.releases import Schedule
from tests.accounting.enumeration import all_paths


def test_moments_of_a_person_are_those_of_all_trajectories() -> None:
    """Means and covariances over steps and sensors, a cycle of two slots, by enumeration."""
    rng = np.random.default_rng(1)
    moves = rng.dirichlet(np.ones(3), size=(2, 3))
    chain = Population.pack([MovementPrior.from_dense("p", moves)]).chain(0)
    steps = Schedule.of([[0, 2], [], [1], [2]], Raw()).steps
    found = Watched.of(steps, 1, 3).moments_of(chain)
    paths = all_paths(chain.start[1], moves, 4, 1)
    counted = [(0, 0), (0, 2), (2, 1), (3, 2)]
    bits = np.stack([paths.paths[:, t] == place for t, place in counted]).astype(float)
    mean = bits @ paths.probability
    second = (bits * paths.probability) @ bits.T
    assert found.mean == pytest.approx(mean, abs=1e-12)
    assert found.covariance == pytest.approx(second - np.outer(mean, mean), abs=1e-12)


def test_without_others_every_counted_place_is_found() -> None:
    moves = np.random.default_rng(2).dirichlet(np.ones(3), size=3)
    chain = Population.pack([MovementPrior.from_dense("p", moves)]).chain(0)
    watched = Watched.of(Schedule.of([[0, 1, 2]] * 4, Raw()).steps, 0, 3)
    nobody = Moments(np.zeros(12), np.zeros((12, 12)))
    attacker = CollectiveFilter(watched, chain, nobody)
    for walked in ([0, 1, 2, 0], [2, 2, 1, 1]):
        assert attacker.guess(np.eye(3)[walked].reshape(-1)).tolist() == walked


@pytest.mark.slow
def test_who_follows_the_crowd_stays_below_its_ceiling() -> None:
    """A dozen people, whom an attack finds more often than habits do; many, whom it hardly finds."""
    few = measure(city_setting(12, 32, days=25, steps=6), targets=8)
    many = measure(city_setting(400, 8, days=25, steps=6), targets=8)
    for row in (few, many):
        for attack in (row.collective, row.recovery, row.membership):
            assert attack - row.attack_error <= row.crowd <= row.informed
        assert row.area - row.area_error <= row.area_ceiling
        assert row.least_p > 1e-4
    assert few.collective > few.guess + 0.1
    assert few.membership > few.guess + 0.1
    assert many.crowd < many.informed
    assert many.collective < few.collective
    assert many.area < few.area
    assert isinstance(few, Row)
    written = page([few, many], ["gowalla"], 25)
    assert f"{few.crowd:.3f} | {few.informed:.3f}" in written
    assert f"{many.area:.3f} ± {many.area_error:.3f} | {many.area_ceiling:.3f}" in written
    assert "Without Gowalla" in written
