"""Extreme eigenvalues against the linear algebra library's."""

from __future__ import annotations

import numpy as np
import pytest

from models.numerics.eigenvalues import extreme_eigenvalues

RANDOM = np.random.default_rng(5)


def symmetric(kind: str, size: int) -> np.ndarray:
    square = RANDOM.normal(size=(size, size))
    return {
        "indefinite": square + square.T,
        "semidefinite": square[:, : size // 2] @ square[:, : size // 2].T,
        "ones": np.ones((size, size)),
        "diagonal": np.diag(square[0]),
        "tiny": 1e-200 * (square + square.T),
        "zero": np.zeros((size, size)),
    }[kind]


@pytest.mark.parametrize("kind", ["indefinite", "semidefinite", "ones", "diagonal", "tiny", "zero"])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 33, 90])
def test_the_least_and_largest_eigenvalue_are_right_within_what_noise_is_charged(
    kind: str, size: int
) -> None:
    matrix = symmetric(kind, size)
    expected = np.linalg.eigvalsh(matrix)
    norm = float(np.abs(expected).max())
    for found, true in zip(extreme_eigenvalues(matrix), expected[[0, -1]], strict=True):
        assert abs(found - true) <= size * 2.0**-50 * norm  # correlated noise is charged four times as much
