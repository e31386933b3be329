"""Where chains settle, against linear algebra, rational arithmetic and closed forms."""

from __future__ import annotations

from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from models.priors import MovementPrior, Population
from models.priors.stationary import spectral_gap, stationary_distribution
from models.priors.stationary_kernel import fill_distributions, gth
from tests.models.chains import cycle_matrix, cycles


def settled(transitions) -> np.ndarray:
    return MovementPrior.from_dense("p", transitions).chain().start


def cesaro_limit(matrix: np.ndarray) -> np.ndarray:
    """The Cesàro limit from the uniform start: powers of the lazy chain, which shares it and converges."""
    power = (np.eye(len(matrix)) + matrix) / 2
    for _ in range(40):
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
    return power.mean(axis=0)


def exact_stationary(matrix: list[list[Fraction]]) -> list[Fraction]:
    """Stationary distribution of an irreducible matrix by elimination in rational numbers."""
    size = len(matrix)
    rows = [[matrix[j][i] - (i == j) for j in range(size)] + [Fraction(0)] for i in range(size - 1)]
    rows.append([Fraction(1)] * size + [Fraction(1)])
    for column in range(size):
        pivot = next(r for r in range(column, size) if rows[r][column] != 0)
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for r in range(size):
            if r != column and rows[r][column] != 0:
                factor = rows[r][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=200)
@given(cycles())
def test_the_distribution_is_carried_from_slot_to_slot_and_back_to_itself(transitions):
    start = settled(transitions)
    for slot, matrix in enumerate(transitions):
        next_start = start[(slot + 1) % len(transitions)]
        np.testing.assert_allclose(start[slot] @ matrix, next_start, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(start.sum(axis=1), 1, rtol=1e-15)
    assert (start >= 0).all()


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=200)
@given(cycles())
def test_it_is_the_cesaro_limit_from_the_uniform_start_for_chains_of_every_kind(transitions):
    np.testing.assert_allclose(settled(transitions)[0], cesaro_limit(cycle_matrix(transitions)), atol=1e-9)


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=200)
@given(cycles())
def test_classes_are_closed_connected_weighted_and_what_is_outside_has_probability_zero(transitions):
    prior = MovementPrior.from_dense("p", transitions)
    found = stationary_distribution(prior)
    steps = cycle_matrix(transitions) > 0
    reaches = np.linalg.matrix_power(np.eye(len(steps)) + steps, len(steps)) > 0
    for one in found.classes:
        assert not steps[one.members][:, np.setdiff1d(np.arange(len(steps)), one.members)].any()
        assert reaches[np.ix_(one.members, one.members)].all()
        assert one.weight == pytest.approx(found.probabilities[0, one.members].sum(), abs=1e-14)
        assert (found.probabilities[0, one.members] > 0).all()
    assert sum(one.weight for one in found.classes) == pytest.approx(1, abs=1e-14)
    assert (found.probabilities[0, found.transient] == 0).all()
    together = np.concatenate([found.transient, *(one.members for one in found.classes)])
    assert sorted(together) == list(range(len(steps)))
    assert found.is_irreducible == bool(reaches.all())


def test_near_deterministic_chains_are_accurate_to_rounding_in_every_entry():
    rng = np.random.default_rng(3)
    for _ in range(20):
        size = int(rng.integers(2, 7))
        leave = [
            [Fraction(2) ** -int(rng.integers(3, 60)) if i != j else Fraction(0) for j in range(size)]
            for i in range(size)
        ]
        # Only what leaves a state counts; the diagonal is one less that, rounded.
        dense = np.array([[float(value) for value in row] for row in leave])
        np.fill_diagonal(dense, 1 - dense.sum(axis=1))
        for i in range(size):
            leave[i][i] = 1 - sum(leave[i])
        exact = [float(value) for value in exact_stationary(leave)]
        np.testing.assert_allclose(settled(dense)[0], exact, rtol=1e-14)


def test_periodic_chains_settle_uniformly_on_their_ring():
    np.testing.assert_allclose(settled(np.roll(np.eye(7), 1, axis=1))[0], np.full(7, 1 / 7), rtol=1e-15)


def test_ruin_of_a_gambler_gives_the_weights_of_the_two_ends():
    size = 7
    dense = np.zeros((size, size))
    dense[0, 0] = dense[-1, -1] = 1
    for x in range(1, size - 1):
        dense[x, x - 1] = dense[x, x + 1] = 0.5
    found = stationary_distribution(MovementPrior.from_dense("p", dense))
    assert [list(one.members) for one in found.classes] == [[0], [size - 1]]
    np.testing.assert_allclose([one.weight for one in found.classes], [0.5, 0.5], rtol=1e-15)
    assert list(found.transient) == list(range(1, size - 1))


def test_a_cycle_that_swaps_two_places_keeps_its_phase():
    swap, settle = np.array([[0.0, 1], [1, 0]]), np.array([[1.0, 0], [0.5, 0.5]])
    np.testing.assert_allclose(settled([swap, settle]), [[2 / 3, 1 / 3], [1 / 3, 2 / 3]], rtol=1e-15)


def test_probabilities_down_to_1e_300_give_no_nan():
    for tiny in (1e-300, 5e-324):
        dense = np.array([[1 - tiny, tiny, 0], [0, 0.5, 0.5], [tiny, 0.5, 0.5]])
        start = settled(dense)[0]
        assert np.isfinite(start).all()
        assert start.sum() == pytest.approx(1)
        assert start[0] == pytest.approx(start[2], rel=1e-9)


def test_large_matrices_worked_on_in_panels_agree_with_a_direct_solution():
    rng = np.random.default_rng(5)
    size = 700  # several panels and more than one strip
    dense = rng.random((size, size)) ** 8
    dense /= dense.sum(axis=1, keepdims=True)
    system = np.vstack([(dense.T - np.eye(size))[:-1], np.ones(size)])
    direct = np.linalg.solve(system, np.eye(size)[-1])
    np.testing.assert_allclose(gth(dense.copy()), direct, rtol=1e-11)


@pytest.mark.slow
def test_a_sparse_chain_of_2000_places_is_stationary_to_rounding():
    rng = np.random.default_rng(7)
    size = 2000
    row = np.repeat(np.arange(size), 4)
    column = np.concatenate(
        [np.r_[(x + 1) % size, rng.choice(np.arange(2, size), 3, replace=False) + x] for x in range(size)]
    )
    matrix = csr_array((rng.random(row.size), (row, column % size)), shape=(size, size))
    matrix = csr_array(matrix / matrix.sum(axis=1)[:, np.newaxis])
    prior = MovementPrior.from_csr("p", [matrix])
    start = prior.chain().start[0]
    np.testing.assert_allclose(start @ prior.transitions[0], start, rtol=1e-13)
    assert 0 < spectral_gap(prior) < 1


def test_distributions_are_the_same_bit_for_bit_for_any_number_of_threads():
    rng = np.random.default_rng(11)
    dense = rng.random((40, 8, 8)) * (rng.random((40, 8, 8)) < 0.4) + np.eye(8) * 0.1
    dense /= dense.sum(axis=2, keepdims=True)
    arrays = Population.pack([MovementPrior.from_dense(f"p{i}", m) for i, m in enumerate(dense)]).arrays
    before = numba.get_num_threads()
    found = []
    for threads in (1, before):
        numba.set_num_threads(threads)
        arrays.distribution[:] = 0
        fill_distributions(arrays)
        found.append(arrays.distribution.tobytes())
    numba.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=100)
@given(cycles())
def test_the_spectral_gap_is_one_less_the_second_modulus(transitions):
    moduli = np.sort(np.abs(np.linalg.eigvals(cycle_matrix(transitions))))
    expected = 1.0 if len(moduli) == 1 else 1 - moduli[-2]
    # Nearly defective matrices move eigenvalues by the root of the rounding error.
    assert spectral_gap(MovementPrior.from_dense("p", transitions)) == pytest.approx(expected, abs=1e-3)


def test_the_spectral_gap_of_two_places_in_closed_form_and_of_chains_that_never_forget():
    def gap(dense):
        return spectral_gap(MovementPrior.from_dense("p", dense))

    assert gap([[0.9, 0.1], [0.3, 0.7]]) == pytest.approx(0.4, abs=1e-15)
    assert gap([[1.0]]) == 1
    assert gap(np.roll(np.eye(4), 1, axis=1)) == pytest.approx(0, abs=1e-15)
    assert gap(np.eye(3)) == 0


@pytest.mark.slow
def test_the_spectral_gap_of_a_large_chain_agrees_with_all_its_eigenvalues():
    size = 450
    ring = np.roll(np.eye(size), 1, axis=1)
    dense = 0.5 * ring + 0.2 * np.eye(size) + 0.3 / size  # eigenvalues 0.2 + 0.5 w off the first
    slow = np.eye(size) * 0.5 + 0.5 * np.eye(size)[::-1]
    assert spectral_gap(MovementPrior.from_dense("p", dense)) == pytest.approx(
        1 - abs(0.2 + 0.5 * np.exp(2j * np.pi / size)), abs=1e-7
    )
    moduli = np.sort(np.abs(np.linalg.eigvals(dense @ slow)))
    assert spectral_gap(MovementPrior.from_dense("p", [dense, slow])) == pytest.approx(
        1 - moduli[-2], abs=1e-7
    )
