"""The baseline is the exact success of a real guess, and the best of the guesses it promises."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.exposure import baseline
from accounting.exposure.prior_constants_kernel import guess_success as success_of_guess
from accounting.exposure.prior_constants_kernel import promising_constants
from tests.accounting.chains import random_case
from tests.accounting.enumeration import all_paths, guess_success, prior_optimum
from tests.accounting.exposures import case_exposure, raw_exposure

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=40)
@given(seeds)
def test_baseline_is_the_best_guess_and_no_other_is_better(seed: int) -> None:
    case = random_case(np.random.default_rng(seed))
    steps, places = case.labels.shape
    everything = all_paths(case.start, case.matrices, steps, case.first_slot)
    exposure = case_exposure(case)
    path = everything.paths[everything.probability.argmax()]
    guesses = [path, exposure.marginal.argmax(axis=1), *np.repeat(np.arange(places)[:, None], steps, 1)]
    for mistakes in range(steps):
        best = baseline(exposure, mistakes)
        assert abs(best.success - guess_success(everything, best.guess.tolist(), mistakes)) < 1e-12
        for guess in guesses[1:]:
            assert guess_success(everything, guess.tolist(), mistakes) <= best.success + 1e-12
        assert abs(best.success - prior_optimum(everything, mistakes)) < 1e-12
    # Without mistakes no guess is better than the most likely path.
    assert abs(baseline(exposure, 0).success - everything.probability.max()) < 1e-12


@settings(max_examples=40)
@given(seeds)
def test_the_best_constant_is_the_best_of_all_places(seed: int) -> None:
    """Though the search over places visited less and less may end early; and only if above a known guess."""
    case = random_case(np.random.default_rng(seed), longest=6)
    steps, places = case.labels.shape
    exposure = case_exposure(case)
    for mistakes in range(steps):
        each = [success_of_guess(exposure.person, np.full(steps, place), mistakes) for place in range(places)]
        for above in (-1.0, 0.5):
            found = promising_constants(exposure.person, exposure.marginal, mistakes, places, above)
            assert found.place == -1 if max(each) <= above else abs(found.success - max(each)) < 1e-12


def test_ties_go_to_the_lowest_place() -> None:
    exposure = raw_exposure(np.full(3, 1 / 3), np.full((3, 3), 1 / 3), [[], []])
    assert baseline(exposure, 0).guess.tolist() == [0, 0]


def test_person_at_home_is_guessed_by_a_constant() -> None:
    """Staying away once costs the path nothing and the constant one mistake; names tell which guess won."""
    matrix = np.array([[0.9, 0.1], [0.9, 0.1]])
    best = baseline(raw_exposure(np.array([0.9, 0.1]), matrix, [[]] * 4), 1)
    assert best.guess.tolist() == [0, 0, 0, 0]
    assert best.name == "prior"
    assert abs(best.success - (0.9**4 + 4 * 0.9**3 * 0.1)) < 1e-14
