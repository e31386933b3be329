"""Noise on several levels: reference numbers, least squares by matrices, and consistent whole numbers."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from experiments.nested_levels import NestedLevels, coarse_share
from models.noise_design.levels import consistent, whole_numbers
from tests.shared_files import shared


def case(kind: str) -> dict[str, Any]:
    cases = json.loads(shared("reference/living.json").read_text())["cases"]
    return next(each for each in cases if each["kind"] == kind)


def test_variances_of_nested_levels_are_those_of_the_reference() -> None:
    known = case("nested")
    levels = NestedLevels(tuple(known["time_sizes"]), tuple(known["space_sizes"]))
    np.testing.assert_allclose(levels.variances(known["precision"]), known["variance"], rtol=1e-10)


def test_the_best_split_is_that_of_the_reference() -> None:
    known = case("split")
    levels = NestedLevels(tuple(known["time_sizes"]), tuple(known["space_sizes"]))
    found = levels.best_split(known["D2"], known["omega"], known["rho"])
    assert found.objective == pytest.approx(known["objective"], rel=1e-8)
    np.testing.assert_allclose(found.precision, known["precision"], atol=1e-5)
    two = known["two_level"]
    share = coarse_share(two["H"], two["k"], two["omega_hour"], two["omega_day"])
    assert share == pytest.approx(two["theta"], abs=1e-9)
    pair = NestedLevels((1, two["H"]), (1,))
    best = pair.best_split([[two["k"]], [two["k"] ** 2]], [[1.0], [two["omega_day"]]], known["rho"])
    hour, day = best.precision[0][0], best.precision[1][0]
    assert day * two["k"] ** 2 / (2.0 * known["rho"]) == pytest.approx(share, abs=1e-5)
    variances = pair.variances([[hour], [day]])
    assert variances[0][0] == pytest.approx(two["hour_variance"], rel=1e-4)
    assert variances[1][0] == pytest.approx(two["day_variance"], rel=1e-4)
    # With equal relative errors a level for the day pays only where a person is counted once a day.
    assert [coarse_share(24, k, 1.0, 1.0 / 24**2) > 0.0 for k in (1, 2, 4, 24)] == [True, False, False, False]


def test_the_tree_is_that_of_the_reference() -> None:
    known = case("tree")
    found = consistent(known["children"], known["values"], known["variances"], "r")
    for name, estimate in found.items():
        assert estimate.value == pytest.approx(known["estimates"][name], abs=1e-9)
        assert estimate.variance == pytest.approx(known["estimate_variances"][name], abs=1e-9)
    assert whole_numbers(known["children"], found, "r") == known["integers"]


def by_matrices(
    leaves: list[str], under: dict[str, list[str]], variances: dict[str, float | None]
) -> tuple[np.ndarray[Any, Any], list[str]]:
    """The weighted least-squares estimator of the leaves, as a matrix over the published nodes."""
    nodes = [name for name in under if variances[name] is not None]
    rows = np.array([[float(leaf in under[name]) for leaf in leaves] for name in nodes])
    weights = np.diag([1.0 / variances[name] for name in nodes])  # type: ignore[operator]
    return np.linalg.solve(rows.T @ weights @ rows, rows.T @ weights), nodes


@pytest.mark.parametrize("seed", range(30))
def test_estimates_are_least_squares_unbiased_and_consistent(seed: int) -> None:
    draw = np.random.default_rng(seed)
    children = {"r": ["a", "b", "c"], "a": ["a0", "a1"], "b": ["b0"], "c": ["c0", "c1", "c2"]}
    leaves = [kid for own in ("a", "b", "c") for kid in children[own]]
    under = {**{leaf: [leaf] for leaf in leaves}, **{own: children[own] for own in "abc"}, "r": leaves}
    variances: dict[str, float | None] = {name: float(draw.uniform(0.5, 9.0)) for name in under}
    for name in draw.choice(["r", "a", "b", "c"], 2, replace=False):
        variances[str(name)] = None
    matrix, nodes = by_matrices(leaves, under, variances)
    truth = {leaf: float(draw.integers(0, 40)) for leaf in leaves}
    values = {name: sum(truth[leaf] for leaf in own) + float(draw.normal()) for name, own in under.items()}
    found = consistent(children, values, variances, "r")
    wanted = matrix @ np.array([values[name] for name in nodes])
    np.testing.assert_allclose([found[leaf].value for leaf in leaves], wanted, atol=1e-9)
    covariance = matrix @ np.diag([variances[name] for name in nodes]) @ matrix.T
    np.testing.assert_allclose([found[leaf].variance for leaf in leaves], np.diag(covariance), atol=1e-9)
    for name, kids in children.items():
        assert found[name].value == pytest.approx(sum(found[kid].value for kid in kids), abs=1e-9)
        chosen = np.array([float(leaf in under[name]) for leaf in leaves])
        assert found[name].variance == pytest.approx(float(chosen @ covariance @ chosen), abs=1e-9)
    # Unbiased: estimates of exact values are these.
    exact = consistent(
        children, {name: sum(truth[x] for x in own) for name, own in under.items()}, variances, "r"
    )
    assert [exact[leaf].value for leaf in leaves] == pytest.approx(list(truth.values()), abs=1e-9)
    numbers = whole_numbers(children, found, "r")
    assert min(numbers.values()) >= 0
    assert all(numbers[name] == sum(numbers[kid] for kid in kids) for name, kids in children.items())


def test_variances_of_nested_levels_are_those_of_least_squares() -> None:
    """Two hours of two places, and their sums, by the matrix of all that is published."""
    levels = NestedLevels((1, 2), (1, 2))
    precision = [[0.7, 0.3], [0.5, 1.1]]
    cells = list(product(range(2), range(2)))
    rows, weights = [], []
    for j, p in cells:
        for time, place in product(range(2 // (1 + j)), range(2 // (1 + p))):
            rows.append([float((t == time or j) and (s == place or p)) for t, s in cells])
            weights.append(precision[j][p])
    design = np.array(rows)
    covariance = np.linalg.inv(design.T @ np.diag(weights) @ design)
    found = levels.variances(precision)
    assert found[0][0] == pytest.approx(covariance[0, 0])
    assert found[1][1] == pytest.approx(covariance.sum())
    assert found[1][0] == pytest.approx(covariance[np.ix_([0, 2], [0, 2])].sum())
    assert found[0][1] == pytest.approx(covariance[np.ix_([0, 1], [0, 1])].sum())
