"""Priors cut into finer steps say of people what they said before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import tallyguard as tg
from models.exceptions import PriorError
from models.priors import MovementPrior, Population, in_finer_steps

PARTS = 4


def population(seed: int = 3) -> Population:
    """People with a cycle, with one matrix, and one who starts in an own way."""
    rng = np.random.default_rng(seed)

    def matrix(size: int) -> NDArray[np.float64]:
        return rng.dirichlet(np.ones(size), size)

    people = [
        MovementPrior.from_dense("cycle", [matrix(3), matrix(3)], places=[0, 2, 3]),
        MovementPrior.from_dense("one matrix", matrix(2), places=[1, 3]),
        MovementPrior.from_dense("starts", matrix(4), initial=[0.7, 0.1, 0.1, 0.1]),
    ]
    return Population.pack(people, ("A", "B", "C", "D"))


def test_people_move_where_a_long_step_ends_and_not_within_it() -> None:
    before = population()
    after = in_finer_steps(before, PARTS)
    assert (after.people, after.location_names) == (before.people, before.location_names)
    for person in range(len(before)):
        coarse, fine = before.prior(person), after.prior(person)
        assert fine.slots == PARTS * coarse.slots
        for slot, matrix in enumerate(fine.transitions):
            moves = coarse.transitions[slot // PARTS].toarray()
            expected = moves if slot % PARTS == PARTS - 1 else np.eye(coarse.size)
            assert np.array_equal(matrix.toarray(), expected)
        assert (fine.initial is None) == (coarse.initial is None)
        law = fine.chain().start.reshape(coarse.slots, PARTS, -1)
        assert law == pytest.approx(np.repeat(coarse.chain().start[:, np.newaxis], PARTS, axis=1), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_guess_is_right_as_often_as_in_long_steps(seed: int) -> None:
    """Two hours counted in some of their quarters, nothing wrong: the exact optimum is that of two hours."""
    people = population(seed)
    coarse = tg.Schedule.raw([[3], [0]])
    fine = tg.Schedule.raw([[3], [], [3], [], [], [0], [], []])
    for person in people.people:
        once = tg.audit(people.prior(person), coarse, mistakes=0)[person]
        cut = tg.audit(in_finer_steps(people, PARTS).prior(person), fine, mistakes=0)[person]
        assert cut.certified == pytest.approx(once.certified, abs=1e-9)
        assert cut.baseline == pytest.approx(once.baseline, abs=1e-12)


def test_weights_and_what_priors_rest_on_stay() -> None:
    known = replace(population(), assumed="invented", weights=np.array([1.0, 2.0, 3.0]))
    cut = in_finer_steps(known, 2)
    assert cut.assumed == "invented"
    assert cut.weights is not None and cut.weights.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("parts", [0, 1, 61])
def test_other_numbers_of_parts_are_refused(parts: int) -> None:
    with pytest.raises(PriorError, match="2 to 60 parts"):
        in_finer_steps(population(), parts)
