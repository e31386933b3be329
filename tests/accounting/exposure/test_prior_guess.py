"""The prior guess q and its subset maxima against enumeration, and where nothing can be enumerated."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accounting.exposure import prior_guess
from accounting.exposure.prior_constants_kernel import (
    gaps_affordable,
    guess_success,
    log_subset_maximum,
    prior_constants,
    subset_table,
)
from accounting.hmm.frontier.few_exits_kernel import exits_counted
from accounting.hmm.frontier.late_genie_kernel import late_genie_bound
from accounting.hmm.frontier.one_mistake_kernel import best_but_for_one
from accounting.hmm.frontier.search_kernel import best_guess
from accounting.hmm.propagation import gap_matrices, marginals
from models.priors.chain import LocalChain
from tests.accounting.chains import KINDS, chain_of, random_case, random_matrix
from tests.accounting.enumeration import all_paths, prior_optimum, subset_maximum
from tests.accounting.exposures import case_exposure, koga_chain, raw_exposure

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=40)
@given(seeds)
@example(66951)  # four steps, three of them wrong: all guesses have to be looked at
def test_prior_guess_of_a_short_horizon_is_the_optimum_and_never_above_a_formula(seed: int) -> None:
    case = random_case(np.random.default_rng(seed))
    steps = len(case.labels)
    everything = all_paths(case.start, case.matrices, steps, case.first_slot)
    exposure = case_exposure(case)
    maxima = [subset_maximum(everything, steps - wrong) for wrong in range(steps)]
    for mistakes in range(steps):
        guess = prior_guess(exposure, mistakes)
        koga = sum(comb(steps, wrong) * maxima[wrong] for wrong in range(mistakes + 1))
        markov = exposure.marginal.max(axis=1).sum() / (steps - mistakes)
        assert guess.koga is not None
        assert abs(guess.koga - min(1.0, koga)) < 1e-11
        optimum = prior_optimum(everything, mistakes)
        assert guess.best <= min(1.0, koga, comb(steps, mistakes) * maxima[mistakes], markov) + 1e-11
        assert optimum * (1 - 1e-12) <= guess.best <= optimum * (1 + 1e-11)


@settings(max_examples=40)
@given(seeds)
def test_what_the_search_has_proved_is_not_computed_again_and_nothing_changes(seed: int) -> None:
    """Accounts form products of moves only where the search leaves a better guess open, audits always."""
    exposure = case_exposure(random_case(np.random.default_rng(seed)))
    for mistakes in range(exposure.steps):
        everything = prior_constants(exposure.person, exposure.steps, mistakes, True)
        account = prior_constants(exposure.person, exposure.steps, mistakes, False)
        assert account.baseline.success == pytest.approx(everything.baseline.success, rel=1e-11)
        least = [
            min(1.0, each.guess.subsets, each.guess.markov, each.guess.frontier)
            for each in (account, everything)
        ]
        assert least[0] == pytest.approx(min(least[1], everything.guess.koga), rel=1e-11)


@settings(max_examples=60)
@given(seeds)
def test_the_best_guess_but_for_one_step_is_that_of_all_guesses(seed: int) -> None:
    case = random_case(np.random.default_rng(seed))
    steps = max(2, len(case.labels))
    optimum = prior_optimum(all_paths(case.start, case.matrices, steps, case.first_slot), 1)
    guess = np.empty(steps, np.int64)
    found = best_but_for_one(case.person, guess)
    assert found.bound >= optimum * (1 - 1e-12)
    assert found.bound == pytest.approx(optimum, rel=1e-12)
    assert guess_success(case.person, guess, 1) == pytest.approx(optimum, rel=1e-12)


@settings(max_examples=20)
@given(seeds, st.sampled_from(KINDS), st.sampled_from([1, 3]), st.integers(2, 20), st.integers(9, 40))
def test_the_best_guess_but_for_one_step_is_the_one_that_any_number_of_mistakes_is_searched_with(
    seed: int, kind: str, slots: int, places: int, steps: int
) -> None:
    """Where enumeration ends: the general search brackets it from both sides, however far either comes."""
    rng = np.random.default_rng(seed)
    matrices = np.stack([random_matrix(rng, places, kind) for _ in range(slots)])
    person = LocalChain(chain_of(matrices), rng.dirichlet(np.ones(places)), int(rng.integers(slots)))
    guess, other = np.empty(steps, np.int64), np.empty(steps, np.int64)
    found = best_but_for_one(person, guess)
    searched = best_guess(person, np.ones((steps, places)), 1, 20, other)
    success = guess_success(person, guess, 1)
    assert found.attained == pytest.approx(success, rel=1e-11)
    assert max(success, searched.attained) <= min(found.bound, searched.bound) * (1 + 1e-11)


@settings(max_examples=30)
@given(seeds, st.sampled_from([1, 3]), st.integers(1, 4), st.integers(60, 90), st.integers(2, 12))
def test_the_best_guess_among_few_exits_is_that_of_rows_of_all_places(
    seed: int, slots: int, exits: int, places: int, steps: int
) -> None:
    """A place with all others as exits, to which nobody comes, has everything computed by whole rows."""
    rng = np.random.default_rng(seed)
    matrices = np.zeros((slots, places, places))
    for row in matrices.reshape(-1, places):
        near = rng.choice(rng.choice([6, places]), rng.integers(1, exits + 1), replace=False)
        row[near] = rng.dirichlet(np.ones(near.size))
    wide = np.full((slots, places + 1, places + 1), 1.0 / places)
    wide[:, :places, :places], wide[:, :, places] = matrices, 0.0
    start, first = rng.dirichlet(np.full(places, 0.3)), int(rng.integers(slots))
    few = LocalChain(chain_of(matrices), start, first)
    rows = LocalChain(chain_of(wide), np.append(start, 0.0), first)
    assert exits_counted(few.chain).shape == (slots, places)
    assert exits_counted(rows.chain).size == 0
    guess, other = np.empty((2, steps), np.int64)
    found, expected = best_but_for_one(few, guess), best_but_for_one(rows, other)
    assert found.bound == pytest.approx(expected.bound, rel=1e-14)
    assert found.attained == pytest.approx(guess_success(few, guess, 1), rel=1e-11)


def _shown_at_once(person: LocalChain, matrices: np.ndarray, steps: int, mistakes: int) -> float:
    """What is won with a genie who shows the truth after every guess, by the recursion over what is left."""
    won = np.ones((mistakes + 1, person.start.size))
    for t in range(steps - 1, -1, -1):
        law = matrices[(person.first_slot + t - 1) % len(matrices)] if t else person.start[np.newaxis]
        less = np.vstack((np.zeros_like(won[:1]), won[:-1]))
        won = (less @ law.T) + (law * (won - less)[:, np.newaxis]).max(axis=2)
    return float(won[mistakes, 0])


@settings(max_examples=60)
@given(seeds)
def test_a_genie_who_is_late_helps_less_than_one_who_is_not_and_more_than_none(seed: int) -> None:
    case = random_case(np.random.default_rng(seed))
    steps = len(case.labels)
    everything = all_paths(case.start, case.matrices, steps, case.first_slot)
    matrices = case.matrices.reshape(-1, *case.matrices.shape[-2:])
    for mistakes in range(steps):
        bound = late_genie_bound(case.person, steps, mistakes)
        assert prior_optimum(everything, mistakes) * (1 - 1e-12) <= bound
        assert bound <= _shown_at_once(case.person, matrices, steps, mistakes) * (1 + 1e-12)


def _shown_late(person: LocalChain, matrices: np.ndarray, steps: int, mistakes: int) -> float:
    """The same with a genie who is a step late, from what is left in ``[m, x, y]``: seen at x, y guessed."""
    places = person.start.size
    won = np.ones((mistakes + 1, places, places))
    for t in range(steps - 1, -1, -1):
        law = matrices[(person.first_slot + t - 1) % len(matrices)] if t else person.start[np.newaxis]
        less = np.concatenate((np.zeros_like(won[:1]), won[:-1]))
        right = law[:, :, np.newaxis] * (won - less)[:, np.newaxis]
        won = ((law @ less)[:, :, np.newaxis] + right).max(axis=3)
    return float(won[mistakes, 0].max())


@pytest.mark.parametrize("places", [1, 8, 10, 17])
@pytest.mark.parametrize("kind", ["full", "zeros"])
def test_guesses_of_many_places_and_mistakes_win_what_the_recursions_say(places: int, kind: str) -> None:
    """A success has a row of numbers of mistakes for each place, the late genie rows of places: in eights."""
    rng = np.random.default_rng(places)
    matrices = np.stack([random_matrix(rng, places, kind) for _ in range(2)])
    person = LocalChain(chain_of(matrices), rng.dirichlet(np.ones(places)), 1)
    for steps, mistakes in ((1, 0), (7, 1), (10, 6), (12, 7), (20, 8), (20, 17)):
        guess = rng.integers(places, size=steps)
        now = np.zeros((steps + 1, places))
        now[0] = person.start
        for t in range(steps):
            if t > 0:
                now = now @ matrices[t % 2]
            is_right = np.arange(places) == guess[t]
            now = np.where(is_right, now, np.vstack((np.zeros(places), now[:-1])))
        success = guess_success(person, guess, mistakes)
        assert success == pytest.approx(now[: mistakes + 1].sum(), rel=1e-12)
        late = late_genie_bound(person, steps, mistakes)
        assert late == pytest.approx(_shown_late(person, matrices, steps, mistakes), rel=1e-12)


def test_one_table_serves_every_start() -> None:
    rng = np.random.default_rng(4)
    _, matrix = koga_chain(5, 0.3)
    view = chain_of(matrix)
    gaps = gap_matrices(view, 0, 1, 3)
    table = subset_table(gaps, 4, 2, 2)
    for start in rng.dirichlet(np.ones(5), size=5):
        got = log_subset_maximum(table, marginals(LocalChain(view, start, 0), 4), 4, 2)
        assert abs(np.exp(got) - subset_maximum(all_paths(start, matrix[None], 4), 2)) < 1e-14


@pytest.mark.parametrize("places", [2, 12])
def test_a_thousand_steps_do_not_underflow(places: int) -> None:
    """A_1000 of an unbiased walk is K^-1000, far below the smallest float."""
    view = chain_of(np.full((places, places), 1 / places))
    gaps = gap_matrices(view, 0, 1, 3)
    table = subset_table(gaps, 1000, 2, 1000)
    start = np.full((3, places), 1 / places)
    assert abs(log_subset_maximum(table, start, 1000, 0) + 1000 * np.log(places)) < 1e-8
    assert abs(log_subset_maximum(table, start, 1000, 2) + 998 * np.log(places)) < 1e-8


@pytest.mark.slow
@pytest.mark.indices
def test_prior_guess_of_a_long_horizon_is_a_probability() -> None:
    start, matrix = koga_chain(10, 0.05)
    guess = prior_guess(raw_exposure(start, matrix, [[0]] * 1000), 100)
    assert 0.0 < guess.best <= 1.0


@pytest.mark.slow
@pytest.mark.indices
def test_thousands_of_places_do_without_subset_maxima() -> None:
    places = 5000
    assert not gaps_affordable(places, 1, 10, 5)
    ring = np.zeros((places, places))
    ring[np.arange(places), np.arange(places)] = 0.5
    ring[np.arange(places), (np.arange(places) + 1) % places] = 0.5
    guess = prior_guess(raw_exposure(np.full(places, 1 / places), ring, [[0]] * 10), 5)
    assert guess.koga is None
    assert guess.best <= 10 / places / 5 + 1e-12  # Markov
