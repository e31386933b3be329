"""The audit gives the reference numbers, field by field."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from accounting.audit import Audit, audit_exposure
from accounting.bounds import BOUNDS, Effort
from accounting.exceptions import EffortError, HorizonError
from accounting.exposure import Exposure
from accounting.numerics import divergence_root
from tests.accounting.exposures import gaussian, koga_chain, raw_exposure
from tests.shared_files import shared


def cases(name: str, rows: str) -> list[dict[str, Any]]:
    """The rows of a reference file."""
    return list(json.loads(shared(f"reference/{name}.json").read_text())[rows])


def assert_equal(got: float | None, want: float | None, what: str, relative: float = 1e-8) -> None:
    """1e-8 relative or 1e-12 absolute, as the reference files ask."""
    assert (got is None) == (want is None), what
    if got is not None and want is not None:
        assert abs(got - want) <= max(1e-12, relative * abs(want)), f"{what}: {got} for {want}"


def assert_audit(exposure: Exposure, audit: Audit, row: dict[str, Any]) -> None:
    """What both reference files hold; their ``q`` and divergence bound know no frontier search yet."""
    assert_equal(audit.entropy, row["entropy"], "entropy")
    assert_equal(audit.information.koga, row["information_koga"], "information.koga")
    assert_equal(audit.information.exact, row["information_exact"], "information.exact")
    assert_equal(audit.prior_guess.koga, row["prior_guess_paper"], "prior_guess.koga")
    known = exposure.prior_constants(row["mistakes"]).guess
    formulas = min(1.0, known.koga, known.subsets, known.markov)
    assert_equal(formulas, row["prior_guess"], "prior_guess without the search")
    assert audit.prior_guess.best <= formulas
    assert_equal(audit.bounds.loose, row["bound_loose"], "loose")
    assert_equal(audit.bounds.tight, row["bound_tight"], "tight")
    # For tiny information the divergence bound goes like a square root.
    relative = 1e-6 if row["information_exact"] < 1e-9 else 1e-8
    divergence = float(divergence_root(row["information_exact"], formulas))
    assert_equal(divergence, row["bound_divergence"], "divergence", relative)
    assert audit.bounds.divergence <= divergence * (1 + 1e-8)


def test_audit_of_small_chains_gives_the_reference_by_enumeration() -> None:
    for row in cases("reconstruction", "cases"):
        exposure = raw_exposure(np.array(row["initial"]), np.array(row["transition"]), row["steps"])
        audit = audit_exposure(exposure, row["mistakes"])
        assert_audit(exposure, audit, row)
        assert_equal(audit.bounds.moment, row["bound_moment"], "moment")
        assert_equal(audit.bounds.exact, row["optimum"], "exact")
        assert_equal(audit.baseline, row["prior_optimum"], "baseline")
        assert row["prior_optimum"] <= audit.prior_guess.best + 1e-12
        assert row["prior_optimum"] <= audit.baseline_bound + 1e-12
        assert row["optimum"] <= audit.certified + 1e-12


@pytest.mark.slow
def test_audit_of_the_papers_synthetic_chains_gives_the_reference() -> None:
    for row in cases("koga_synthetic", "rows"):
        start, matrix = koga_chain(row["M"], row["tau"])
        exposure = raw_exposure(start, matrix, [[sensor] for sensor in row["sensors"]])
        audit = audit_exposure(exposure, row["mistakes"])
        assert_audit(exposure, audit, row)
        alone = audit_exposure(exposure, row["mistakes"], effort=Effort(vectors=0))  # beside a frontier: less
        assert_equal(alone.bounds.moment, row["bound_moment_order4"], "moment, order 4")
        assert audit.certified <= row["bound_moment_order4"] * (1.0 + 1e-9) + 1e-12
        first_order = audit_exposure(exposure, row["mistakes"], effort=Effort(order=1))
        assert_equal(first_order.bounds.moment, row["bound_moment_order1"], "moment, order 1")
        assert_equal(audit.bounds.exact, row.get("bayes_exact"), "exact")


def test_audit_names_the_bound_that_is_smallest() -> None:
    start, matrix = koga_chain(30, 0.1)
    audit = audit_exposure(raw_exposure(start, matrix, [[3], [7], [9], [9]]), 1)
    shown = {name: value for name, value in audit.bounds.model_dump().items() if value is not None}
    assert audit.certified == shown[audit.certified_by] == min(shown.values())
    assert audit.confidence == 1.0


def test_person_who_never_moves_has_loss_one_and_adds_nothing() -> None:
    audit = audit_exposure(raw_exposure(np.ones(1), np.ones((1, 1)), [[0], [], [0]]), 0)
    assert audit.certified == audit.baseline == audit.baseline_bound == 1.0
    assert audit.entropy == audit.information.exact == 0.0


def test_json_has_exactly_the_documented_fields() -> None:
    audit = audit_exposure(raw_exposure(np.array([0.3, 0.7]), np.full((2, 2), 0.5), [[0], []]), 0)
    document = json.loads(audit.model_dump_json())
    assert list(document) == [
        "person", "steps", "mistakes", "entropy", "information", "prior_guess", "bounds", "certified",
        "certified_by", "confidence", "baseline", "baseline_bound", "attacks",
        "adversary", "certified_informed",
    ]  # fmt: skip
    promised = ["loose", "tight", "divergence", "moment", "exact", "erasure"]
    assert list(document["bounds"])[: len(promised)] == promised
    assert list(document["bounds"]) == [bound.name for bound in BOUNDS if bound.is_certain]
    assert list(document["information"]) == ["koga", "exact", "per_step"]
    assert document["information"]["koga"] is None  # one step has no sensor


def test_mistakes_must_stay_below_the_horizon() -> None:
    exposure = raw_exposure(np.array([0.3, 0.7]), np.full((2, 2), 0.5), [[0], []])
    with pytest.raises(HorizonError, match=r"mistakes must lie in 0\.\.1"):
        audit_exposure(exposure, 2)


def test_effort_names_the_parameter_out_of_range() -> None:
    with pytest.raises(EffortError, match="order must be at least 1"):
        Effort(order=0)


def test_shares_of_the_steps_add_up_to_the_exact_information() -> None:
    start, matrix = koga_chain(10, 0.1)
    information = audit_exposure(raw_exposure(start, matrix, [[1], [2, 3], [], [1]]), 1).information
    assert information.exact is not None
    assert abs(sum(information.per_step) - information.exact) < 1e-12
    assert information.per_step[2] == 0.0


def test_noise_changes_no_field_of_the_prior() -> None:
    from tests.accounting.exposures import exposure_to, step_of

    start, matrix = koga_chain(5, 0.3)
    noised = exposure_to(start, matrix, [step_of([1], [gaussian(1.0)])] * 3)
    raw = raw_exposure(start, matrix, [[1]] * 3)
    left, right = audit_exposure(noised, 1), audit_exposure(raw, 1)
    assert (left.entropy, left.baseline, left.prior_guess) == (
        right.entropy,
        right.baseline,
        right.prior_guess,
    )
    assert left.information.exact is None
    assert left.certified <= right.certified
