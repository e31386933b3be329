"""How fast a chain forgets: the coefficient must never be too small."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.exposure.step_information.contraction_kernel import (
    GAPS,
    contraction,
    doeblin,
    gap_contractions,
    product,
)
from tests.accounting.chains import KINDS, chain_of, random_matrix


def _mutual_information(joint: np.ndarray) -> float:
    independent = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    positive = joint > 0
    return float((joint[positive] * np.log(joint[positive] / independent[positive])).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_no_side_information_survives_a_move_better_than_the_coefficient_says(kind):
    rng = np.random.default_rng(7)
    for _ in range(150):
        places = int(rng.integers(2, 5))
        matrix = random_matrix(rng, places, kind)
        coefficient = contraction(matrix)
        for _ in range(10):
            side_information = rng.dirichlet(np.full(3, rng.choice([0.1, 1.0, 10.0])), size=places)
            joint = (
                rng.dirichlet(np.full(places, rng.choice([0.1, 1.0])))[:, None] * side_information
            )  # (place, told)
            before = _mutual_information(joint)
            after = _mutual_information(matrix.T @ joint)
            assert after <= coefficient * before + 1e-13


def test_two_nearly_equal_rows_forget_quadratically_faster_than_dobrushin_says():
    matrix = np.array([[0.51, 0.49], [0.49, 0.51]])
    total_variation = 0.02
    assert contraction(matrix) < total_variation**2 * 1.01
    assert contraction(matrix) >= total_variation**2 * 0.99  # the channel's true coefficient is about TV^2


@pytest.mark.parametrize("places", [1, 7, 16, 17, 33, 40])
def test_the_coefficient_is_that_of_the_two_rows_that_differ_most(places):
    rng = np.random.default_rng(places)
    for exits in {1, 3, places}:
        matrix = np.zeros((places, places))
        for x in range(places):
            reached = rng.permutation(places)[:exits]
            matrix[x, reached] = rng.dirichlet(np.full(reached.size, 2.0))
        for _ in range(4):
            overlap = np.sqrt(matrix) @ np.sqrt(matrix).T
            common = np.minimum(matrix[:, None], matrix[None]).sum(axis=2)
            apart = np.minimum(1.0 - common, 1.0 - overlap**2)
            np.fill_diagonal(apart, 0.0)
            assert contraction(matrix) == pytest.approx(apart.max(), abs=1e-13)
            assert contraction(matrix) >= apart.max() - 1e-15
            matrix = matrix @ matrix


def test_one_who_never_moves_forgets_nothing_and_one_without_memory_everything():
    assert contraction(np.eye(3)) == 1.0
    assert contraction(np.full((4, 4), 0.25)) < 1e-14


@pytest.mark.slow
def test_gaps_are_those_of_the_products_that_end_in_each_slot():
    rng = np.random.default_rng(3)
    matrices = np.stack([random_matrix(rng, 4, "full") for _ in range(3)])
    found = gap_contractions(chain_of(matrices))
    for slot in range(3):
        for j, gap in enumerate(GAPS):
            walked = np.eye(4)
            for k in range(slot - gap, slot):
                walked = product(walked, matrices[k % 3])
            np.testing.assert_allclose(found[slot, j], contraction(walked), rtol=1e-9, atol=1e-14)


def test_doeblin_is_an_upper_bound_on_the_contraction():
    rng = np.random.default_rng(11)
    for kind in KINDS:
        matrix = random_matrix(rng, 5, kind)
        assert doeblin(chain_of(matrix), 0) >= contraction(matrix) - 1e-14


def test_large_chains_use_the_one_pass_coefficient():
    places = 400
    matrix = np.full((places, places), 0.5 / places) + 0.5 * np.eye(places)
    found = gap_contractions(chain_of(matrix))
    np.testing.assert_allclose(found, 0.5, atol=1e-9)
