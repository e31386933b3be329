"""Chains that the data could have given: Dirichlet draws around the fitted rows, and their file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models.exceptions import PriorError, PriorFileError
from models.prior_files import load_evidence, save_evidence
from models.priors import Evidence, Lists, MovementPrior, Population, posterior_draws

ROWS = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5], [0.25, 0.25, 0.5]])
PEOPLE = Population.pack(
    [
        MovementPrior.from_dense("ann", ROWS),
        MovementPrior.from_dense("bob", [ROWS, ROWS[::-1]], places=[0, 2, 3], initial=[1.0, 0.0, 0.0]),
    ]
)


def evidence(ann: list[float], bob: list[float]) -> Evidence:
    return Evidence(("ann", "bob"), Lists(np.array([0, 3, 9]), np.array([*ann, *bob])))


def matrices(draws: Population) -> np.ndarray:
    """(draws, slots, K, K)."""
    return np.array([[m.toarray() for m in prior.transitions] for prior in draws.priors()])


@pytest.mark.slow
def test_draws_have_the_fitted_rows_as_mean_and_spread_as_the_evidence_says() -> None:
    weight = np.array([2.0, 10.0, 100.0])
    draws = posterior_draws(PEOPLE, 0, evidence([*weight], [1.0] * 6), 4000, 0)
    found = matrices(draws)[:, 0]
    np.testing.assert_allclose(found.sum(axis=2), 1.0, atol=1e-12)
    np.testing.assert_allclose(found.mean(axis=0), ROWS, atol=0.02)
    expected = ROWS * (1 - ROWS) / (weight[:, None] + 1)
    np.testing.assert_allclose(found.var(axis=0), expected, rtol=0.12, atol=1e-12)
    assert (found[:, 1, 0] == 0.0).all()


def test_each_slot_is_drawn_places_and_start_are_kept_and_certain_rows_stay() -> None:
    weight = [np.inf, 3.0, np.inf, 4.0, np.inf, 1e-3]
    draws = posterior_draws(PEOPLE, 1, evidence([1.0] * 3, weight), 50, 1)
    found, fitted = matrices(draws), matrices(PEOPLE.subset([1]))[0]
    for slot, row in ((0, 0), (0, 2), (1, 1)):
        assert (found[:, slot, row] == fitted[slot, row]).all()
    for slot, row in ((0, 1), (1, 0), (1, 2)):
        assert np.unique(found[:, slot, row], axis=0).shape[0] > 1
    assert draws.chain(7).places.tolist() == [0, 2, 3]
    assert draws.location_names == PEOPLE.location_names
    assert draws.initial(7).tolist() == [1.0, 0.0, 0.0]  # type: ignore[union-attr]


def test_next_to_no_evidence_gives_chains_and_no_nan() -> None:
    draws = posterior_draws(PEOPLE, 0, evidence([1e-6] * 3, [1.0] * 6), 200, 2)
    found = matrices(draws)
    assert np.isfinite(found).all()
    assert (found.max(axis=3) > 0.99).mean() > 0.99


def test_the_same_seed_gives_the_same_chains() -> None:
    both = [posterior_draws(PEOPLE, 0, evidence([2.0] * 3, [1.0] * 6), 5, 3) for _ in range(2)]
    assert both[0].fingerprint == both[1].fingerprint


@pytest.mark.parametrize("wrong", [[1.0] * 2, [1.0, -1.0, 1.0], [1.0, np.nan, 1.0]])
def test_evidence_of_other_priors_is_refused(wrong: list[float]) -> None:
    other = Evidence(("ann",), Lists(np.array([0, len(wrong)]), np.array(wrong)))
    for person in (0, 1):
        with pytest.raises(PriorError, match="evidence must have a number above 0"):
            posterior_draws(PEOPLE, person, other, 2, 0)


def test_evidence_comes_back_from_its_file_bit_for_bit(tmp_path: Path) -> None:
    written = evidence([0.1, np.inf, 1 / 3], [2.0] * 6)
    save_evidence(written, tmp_path / "evidence.parquet")
    found = load_evidence(tmp_path / "evidence.parquet")
    assert found.people == written.people
    assert found.rows.start.tolist() == [0, 3, 9]
    assert found.rows.values.tobytes() == written.rows.values.tobytes()
    assert [path.name for path in tmp_path.iterdir()] == ["evidence.parquet"]


def test_what_is_no_evidence_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("{}")
    pq.write_table(pa.table({"person": ["a"]}), tmp_path / "other.parquet")
    pq.write_table(pa.table({"person": ["a"], "evidence": [["x"]]}), tmp_path / "words.parquet")
    pq.write_table(pa.table({"person": ["a"], "evidence": [[1.0, None]]}), tmp_path / "gaps.parquet")
    for name in ("text", "other", "words", "gaps"):
        with pytest.raises(PriorFileError, match="must be evidence of priors"):
            load_evidence(tmp_path / f"{name}.parquet")
    with pytest.raises(PriorFileError, match="must exist"):
        load_evidence(tmp_path / "none.parquet")


def test_a_file_that_names_a_person_twice_is_no_evidence(tmp_path: Path) -> None:
    """One of the two rows would have been taken without a word."""
    pq.write_table(pa.table({"person": ["a", "a"], "evidence": [[1.0], [2.0]]}), tmp_path / "twice.parquet")
    with pytest.raises(PriorFileError, match="each person once"):
        load_evidence(tmp_path / "twice.parquet")
