"""One person's prior: the ways to make one, and what is refused with which words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from models.exceptions import PriorError
from models.priors import MovementPrior, Triplets
from models.priors.prior import transition_matrices
from tests.models.chains import cycles

RING = np.array([[0.0, 1, 0], [0, 0.5, 0.5], [1, 0, 0]])


def dense_of(prior: MovementPrior) -> np.ndarray:
    return np.stack([matrix.toarray() for matrix in prior.transitions])


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=100)
@given(cycles())
def test_dense_sparse_and_triplets_give_the_same_prior(transitions):
    dense = MovementPrior.from_dense("p", transitions)
    sparse = MovementPrior.from_csr("p", [csr_array(matrix) for matrix in transitions])
    slot, row, column = np.nonzero(transitions)
    order = np.random.default_rng(1).permutation(row.size)
    triplets = MovementPrior.from_triplets(
        "p",
        np.arange(transitions.shape[1]),
        Triplets(row[order], column[order], transitions[slot, row, column][order], slot[order]),
        slots=len(transitions),
    )
    for prior in (dense, sparse, triplets):
        np.testing.assert_allclose(dense_of(prior), transitions, rtol=1e-15)
        assert (prior.slots, prior.size) == transitions.shape[:2]


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=100)
@given(cycles())
def test_the_chain_holds_every_slot_by_columns_with_increasing_rows(transitions):
    view = MovementPrior.from_dense("p", transitions).chain()
    rebuilt = np.zeros_like(transitions)
    for slot, bounds in enumerate(view.column_start):
        for y in range(transitions.shape[1]):
            entries = slice(bounds[y], bounds[y + 1])
            assert (np.diff(view.row[entries]) > 0).all()
            rebuilt[slot, view.row[entries], y] = view.value[entries]
    np.testing.assert_allclose(rebuilt, transitions, rtol=1e-15)
    again = np.stack([matrix.toarray() for matrix in transition_matrices(view)])
    np.testing.assert_array_equal(again, rebuilt)


def test_rows_within_the_tolerance_are_renormalised_and_exact_ones_kept_bit_for_bit():
    near = MovementPrior.from_dense("p", [[0.3, 0.7000005], [0.1, 0.9]])
    assert dense_of(near)[0].sum(axis=1) == pytest.approx(1, abs=1e-15)
    thirds = np.array([[1 / 3, 1 / 3, 1 / 3], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8]])
    np.testing.assert_array_equal(dense_of(MovementPrior.from_dense("p", thirds))[0], thirds)


def test_zeros_given_explicitly_are_no_entries():
    prior = MovementPrior.from_triplets("p", [4, 9], Triplets([0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1]))
    assert prior.chain().value.size == 2
    assert prior.transitions[0].nnz == 2


def test_the_start_of_a_person_is_kept_and_normalised():
    prior = MovementPrior.from_dense("p", RING, initial=[0.2, 0.3, 0.5000001])
    assert prior.initial.sum() == pytest.approx(1, abs=1e-15)
    assert MovementPrior.from_dense("p", RING).initial is None


FRAME = pd.DataFrame([[0.9, 0.1], [0.4, 0.6]], index=["x", "y"], columns=["x", "y"])
REFUSED = {
    "a row that misses one": (
        {"matrices": [[0.5, 0.47], [0, 1]], "places": [3, 8]},
        "transition row 0 (location 3) of person 'ann' must sum to 1, got 0.97; "
        "renormalise it, or drop the place",
    ),
    "an empty row": (
        {"matrices": [[0, 1], [0, 0]]},
        "transition row 1 (location 1) of person 'ann' must sum to 1, got 0; "
        "give the row its probabilities, or drop the place",
    ),
    "a row of one slot": (
        {"matrices": [[[0, 1], [1, 0]], [[0, 1], [1, 1]]]},
        "transition row 1 (location 1) of person 'ann' in slot 1 must sum to 1, got 2; "
        "renormalise it, or drop the place",
    ),
    "a negative probability": (
        {"matrices": [[1.5, -0.5], [0, 1]]},
        "the probability from row 0 (location 0) to column 1 (location 1) of person 'ann' "
        "must be finite and at least 0, got -0.5; correct it, or leave the move out",
    ),
    "no number": ({"matrices": [[np.nan, 1], [0, 1]]}, "must be finite and at least 0, got nan"),
    "infinity": ({"matrices": [[np.inf, 1], [0, 1]]}, "must be finite and at least 0, got inf"),
    "what lies below a mask": (
        {"matrices": np.ma.array([[0.5, 0.5], [0, 1]], mask=[[0, 1], [0, 0]])},
        "matrices must be numbers in rows of one length, got a MaskedArray of float64",
    ),
    "columns in another order than rows": (
        {"matrices": FRAME[["y", "x"]]},
        "rows, columns and start of person 'ann' must be of the same places in one order",
    ),
    "moves from other places than to": (
        {"matrices": [FRAME, pd.DataFrame(np.eye(2), index=["x", "y"], columns=["y", "z"])]},
        "rows, columns and start of person 'ann' must be of the same places in one order",
    ),
    "a start in another order": (
        {"matrices": FRAME, "initial": pd.Series([0.5, 0.5], index=["y", "x"])},
        "rows, columns and start of person 'ann' must be of the same places in one order",
    ),
    "not square": (
        {"matrices": [[0.5, 0.5]]},
        "transition matrices of person 'ann' must be square and of one size, got 1 x 2",
    ),
    "too few places": (
        {"matrices": [[0, 1], [1, 0]], "places": [3]},
        "transition matrices of person 'ann' must be 1 x 1, one row a place, got 2 x 2",
    ),
    "places out of order": (
        {"matrices": [[0, 1], [1, 0]], "places": [8, 3]},
        "places of person 'ann' must be increasing location indices, got 3 at position 1",
    ),
    "no place at all": ({"matrices": np.empty((1, 0, 0))}, "'ann' must have at least one place, got none"),
    "no matrix at all": (
        {"matrices": np.empty((0, 1, 1)), "places": [1]},
        "person 'ann' must have at least one slot, got 0",
    ),
    "a start of the wrong length": (
        {"matrices": [[0, 1], [1, 0]], "initial": [1.0]},
        "initial of person 'ann' must be 2 probabilities that sum to 1, got 1",
    ),
    "a start that misses one": (
        {"matrices": [[0, 1], [1, 0]], "initial": [0.5, 0.4]},
        "initial of person 'ann' must be 2 probabilities that sum to 1, got 0.9",
    ),
    "a negative start": (
        {"matrices": [[0, 1], [1, 0]], "initial": [1.5, -0.5]},
        "initial of person 'ann' at place 1 (location 1) must be finite and at least 0, got -0.5",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_names_person_row_and_remedy(case):
    given_, words = REFUSED[case]
    with pytest.raises(PriorError) as caught:
        MovementPrior.from_dense("ann", **given_)
    assert words in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("named", [FRAME, FRAME.to_numpy(), pd.DataFrame(FRAME.to_numpy(), index=["x", "y"])])
def test_a_frame_is_its_numbers_where_its_names_do_not_contradict(named):
    assert (MovementPrior.from_dense("ann", named).transitions[0].toarray() == FRAME.to_numpy()).all()


def test_indices_that_are_no_whole_numbers_are_refused_rather_than_rounded():
    with pytest.raises(PriorError, match="places of person 'ann' must be whole numbers, got float64"):
        MovementPrior.from_dense("ann", [[1.0]], [0.5])
    with pytest.raises(PriorError, match="columns of person 'ann' must be whole numbers"):
        MovementPrior.from_triplets("ann", [0], Triplets([0], [0.5], [1]))


def test_a_prior_does_not_change_with_the_arrays_it_was_made_from():
    places, dense = np.array([3, 5], dtype=np.int32), np.array([[0.5, 0.5], [1, 0]])
    prior = MovementPrior.from_dense("ann", dense, places)
    places[0], dense[0, 0] = 0, 7
    assert prior.places.tolist() == [3, 5]
    assert dense_of(prior)[0].tolist() == [[0.5, 0.5], [1, 0]]


def test_a_move_given_twice_or_outside_is_refused():
    with pytest.raises(PriorError, match=r"row 0 \(location 4\) to column 0 .* must be given once"):
        MovementPrior.from_triplets("ann", [4, 9], Triplets([0, 0, 1], [0, 0, 1], [0.5, 0.5, 1]))
    with pytest.raises(PriorError, match=r"must lie in rows and columns 0..1 .*got row 1, column 2, slot 0"):
        MovementPrior.from_triplets("ann", [4, 9], Triplets([0, 1], [0, 2], [1, 1]))
    with pytest.raises(PriorError, match=r"slots 0..0, got row 1, column 1, slot 1"):
        MovementPrior.from_triplets("ann", [4, 9], Triplets([0, 1], [0, 1], [1, 1], [0, 1]))
