"""A device that errs, against everything written down; states taken for places."""

from __future__ import annotations

import numpy as np
import pytest

import tallyguard as tg
from models.exceptions import PriorError
from models.priors import Population, states_that_look_like_places, with_device
from tests.accounting.enumeration import all_paths, optimum, prior_optimum


@pytest.mark.parametrize(("misses", "falsely"), [(0.1, 0.0), (0.3, 0.05), (0.0, 0.0), (1.0, 0.0), (0.5, 0.5)])
def test_a_ceiling_through_a_device_is_not_below_the_best_adversary_and_near_it(
    misses: float, falsely: float
) -> None:
    """Zeros, a place that is never left, one and two mistakes; where it shows nothing nothing is added."""
    matrix = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
    start = np.array([0.5, 0.5, 0.0])
    prior = tg.Prior.from_dense("ada", matrix, initial=start)
    view = with_device(prior, [1], misses, falsely)
    everything = all_paths(start, matrix[np.newaxis], 3)
    channel = np.array([[1 - falsely, falsely], [misses, 1 - misses], [1 - falsely, falsely]])
    for mistakes in range(3):
        found = tg.certify(
            view.prior, tg.Schedule.raw([[view.counted]] * 3), mistakes, question=view.question
        )[0]
        best = optimum(everything, [channel] * 3, mistakes)
        assert best - 1e-9 <= found.certified <= best + 0.02
        assert found.baseline == pytest.approx(prior_optimum(everything, mistakes))
        exact = tg.certify(prior, tg.Schedule.raw([[1]] * 3), mistakes)[0].certified
        assert best <= exact + 1e-9  # a device that errs shows no more than an exact one


def test_several_devices_miss_people_each_in_its_way() -> None:
    """Zeros and an absorbing place; as one device, and with a sensor of each, against enumeration."""
    matrix = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
    start = np.array([0.5, 0.5, 0.0])
    view = with_device(tg.Prior.from_dense("ada", matrix, initial=start), [0, 1], {0: 0.1, 1: 0.4})
    everything = all_paths(start, matrix[np.newaxis], 3)
    apart = np.array([[0.1, 0.9, 0.0], [0.4, 0.0, 0.6], [1.0, 0.0, 0.0]])
    as_one = np.stack((apart[:, 0], 1.0 - apart[:, 0]), axis=1)
    for counts, channel in (([view.counted_at(0), view.counted_at(1)], apart), ([view.counted], as_one)):
        for mistakes in range(3):
            found = tg.certify(view.prior, tg.Schedule.raw([counts] * 3), mistakes, question=view.question)[0]
            best = optimum(everything, [channel] * 3, mistakes)
            assert best - 1e-9 <= found.certified <= best + 0.02


def test_without_a_start_the_device_does_not_change_where_somebody_settles() -> None:
    prior = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
    view = with_device(prior, [1], 0.2, 0.1)
    people = Population.pack([view.prior], ["0", "1", "2", "3"])
    assert people.chain(0).start[0] == pytest.approx([0.8 * 0.9, 0.2 * 0.2, 0.8 * 0.1, 0.2 * 0.8])


def test_a_device_that_cannot_be_is_refused() -> None:
    prior = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
    with pytest.raises(PriorError, match=r"misses must lie in 0\.\.1, got 1\.5"):
        with_device(prior, [1], 1.5)
    with pytest.raises(PriorError, match="must be at a place of person 'ada'"):
        with_device(prior, [7], 0.5)
    with pytest.raises(PriorError, match="a rate for each place of at"):
        with_device(prior, [0, 1], {1: 0.5})


def pairs_as_places() -> tg.Prior:
    """A habit of second order whose pairs are written as if they were four places."""
    moves = np.zeros((4, 4))
    for (a, b), stays in {(0, 0): 0.05, (0, 1): 0.7, (1, 0): 0.3, (1, 1): 0.9}.items():
        moves[2 * a + b, 2 * b + 1], moves[2 * a + b, 2 * b] = stays, 1 - stays
    return tg.Prior.from_dense("x", moves)


def test_states_written_as_places_are_told_from_what_moves_and_sensors_give_away() -> None:
    """The note stands beside the ceiling; a sensor at one of them, shared places, or another chain: none."""
    said = "places 1, 3 look like states of one place"
    assert said in tg.certify(pairs_as_places(), tg.Schedule.raw([[(1, 3)], [], [(1, 3)]])).caption()
    assert said in tg.audit(pairs_as_places(), tg.Schedule.raw([[(1, 3)]]), 0, draws=0).caption()
    apart = tg.certify(pairs_as_places(), tg.Schedule.raw([[1], [], [(1, 3)]]))
    assert "look like states" not in apart.caption()
    shared = tg.Prior.from_dense("x", pairs_as_places().transitions[0].toarray(), [0, 1, 0, 1])
    assert "look like states" not in tg.certify(shared, tg.Schedule.raw([[1]]), 0).caption()
    for matrix in (np.full((4, 4), 0.25), np.eye(4), np.roll(np.eye(4), 1, axis=1), np.ones((1, 1))):
        one = Population.pack([tg.Prior.from_dense("a", matrix)], [str(k) for k in range(len(matrix))])
        assert states_that_look_like_places(one.chain(0), []) is None
