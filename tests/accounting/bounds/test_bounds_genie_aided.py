"""The genie-aided adversary against its definition on all trajectories, and what the bound promises."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting.audit import AttackSettings, audit_exposure
from accounting.bounds import Effort
from accounting.bounds.patterns.exact import exact_bound
from accounting.bounds.patterns.genie_aided import genie_aided_bound
from accounting.bounds.patterns.moment import hit_moments, moment_bound
from accounting.bounds.protocol import Question
from tests.accounting.chains import random_case
from tests.accounting.enumeration import all_paths
from tests.accounting.exposures import case_exposure, koga_chain, raw_exposure

seeds = st.integers(0, 2**32 - 1)
CHARGED = 1.01  # light patterns may make the bound one in a hundred larger


def without_moments(question: Question) -> float | None:
    """What the genie-aided adversary wins, not sharpened by the moment bound."""
    with mock.patch.dict(question._answers, {hit_moments: None}):
        return genie_aided_bound(question)


def genie_aided(
    paths: NDArray[np.int64], probability: NDArray[np.float64], step: int, mistakes: int
) -> float:
    """What is won from ``step`` on by who knows the places before it, among these trajectories."""
    if mistakes < 0:
        return 0.0
    if step == paths.shape[1]:
        return float(probability.sum())
    here = paths[:, step]
    groups = [(paths[here == x], probability[here == x]) for x in np.unique(here)]
    right = [genie_aided(*group, step + 1, mistakes) for group in groups]
    wrong = [genie_aided(*group, step + 1, mistakes - 1) for group in groups]
    return sum(wrong) + max(r - w for r, w in zip(right, wrong, strict=True))


@pytest.mark.slow
@pytest.mark.indices
@given(seeds, st.integers(0, 3))
@settings(max_examples=60)
def test_the_genie_aided_adversary_wins_what_the_definition_says(seed: int, mistakes: int) -> None:
    case = random_case(np.random.default_rng(seed))
    mistakes = min(mistakes, len(case.labels) - 1)
    everything = all_paths(case.start, case.matrices, len(case.labels), case.first_slot)
    exposure = case_exposure(case)
    hits = [exposure.hits[t][everything.paths[:, t]] for t in range(exposure.steps)]
    seen = np.stack([np.where(hit, everything.paths[:, t], -1) for t, hit in enumerate(hits)], axis=1)
    expected = 0.0
    for pattern in np.unique(seen, axis=0):
        fits = (seen == pattern).all(axis=1)
        expected += genie_aided(everything.paths[fits], everything.probability[fits], 0, mistakes)
    found = without_moments(Question(exposure, mistakes, Effort()))
    assert found is not None
    assert expected - 1e-12 <= found <= min(1.0, expected * CHARGED) + 1e-12


def test_without_mistakes_it_is_the_optimum() -> None:
    start, matrix = koga_chain(30, 0.1)
    exposure = raw_exposure(start, matrix, [[3], [7], [9, 12], [], [20], [3]])
    optimum = exact_bound(Question(exposure, 0, Effort()))
    found = without_moments(Question(exposure, 0, Effort()))
    assert optimum is not None
    assert found is not None
    assert optimum <= found <= optimum * CHARGED


@pytest.mark.parametrize("mistakes", [1, 3, 5])
def test_with_moments_it_is_not_above_either(mistakes: int) -> None:
    start, matrix = koga_chain(30, 0.1)
    exposure = raw_exposure(start, matrix, [[t] for t in (3, 7, 9, 12, 20, 3, 28, 15)])
    without_moment = without_moments(Question(exposure, mistakes, Effort()))
    both = genie_aided_bound(Question(exposure, mistakes, Effort()))
    moment = moment_bound(Question(exposure, mistakes, Effort()))
    assert without_moment is not None
    assert moment is not None
    assert both is not None
    assert both <= CHARGED * min(without_moment, moment)


def test_patterns_that_are_not_walked_count_as_success() -> None:
    start, matrix = koga_chain(10, 0.1)
    exposure = raw_exposure(start, matrix, [[t] for t in (3, 7, 9, 2, 5, 3)])
    everything = without_moments(Question(exposure, 2, Effort()))
    few = without_moments(Question(exposure, 2, Effort(patterns=20)))
    assert everything is not None
    assert few is not None
    assert everything < few <= 1.0
    assert without_moments(Question(exposure, 2, Effort(patterns=0))) is None


def test_horizons_with_a_million_patterns_are_bounded_by_the_ones_that_matter() -> None:
    """Twenty steps: the patterns walked hold nearly all that can be won; walking more never hurts."""
    start, matrix = koga_chain(30, 0.1)
    sensors = np.random.default_rng(3).integers(30, size=20)
    exposure = raw_exposure(start, matrix, [[int(sensor)] for sensor in sensors])
    bounds = [
        without_moments(Question(exposure, 3, Effort(patterns=patterns))) for patterns in (64, 512, 4096)
    ]
    assert None not in bounds
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.1 * bounds[0]


@pytest.mark.slow
@pytest.mark.indices
def test_hundred_places_and_two_mistakes_are_bounded_near_the_best_attack() -> None:
    """Where the moment bound looks at too few steps jointly: it is more than 50 times larger here."""
    start, matrix = koga_chain(100, 0.1)
    exposure = raw_exposure(start, matrix, [[t] for t in (47, 51, 75, 95, 3, 14, 82, 94, 24, 31)])
    audit = audit_exposure(exposure, 2, attacks=AttackSettings(draws=1))
    assert audit.attacks is not None
    assert audit.attacks["either"] is not None
    bounds = audit.bounds.model_dump()
    assert bounds["genie_aided"] <= 2.0 * audit.attacks["either"].success
    assert bounds["moment"] > 50 * bounds["genie_aided"]


def test_a_thousand_steps_of_near_certain_moves_stay_probabilities() -> None:
    matrix = np.array([[1 - 1e-300, 1e-300], [1e-9, 1 - 1e-9]])
    exposure = raw_exposure(np.array([0.5, 0.5]), matrix, [[0]] + [[]] * 998 + [[1]])
    for mistakes in (0, 3, 999):
        found = without_moments(Question(exposure, mistakes, Effort()))
        assert found is not None
        assert 0.9 <= found <= 1.0
