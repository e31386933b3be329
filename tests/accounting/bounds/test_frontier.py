"""The frontier search and the frontier bound against every trajectory and guess written down."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting.audit import AttackSettings, audit_exposure
from accounting.bounds import Effort
from accounting.bounds.patterns import Size, affordable_vectors
from accounting.bounds.patterns.frontier_bound import frontier_bound
from accounting.bounds.patterns.frontier_kernel import (
    FrontierEffort,
    FrontierQuestion,
    frontier_effort,
    frontier_of,
    raw_channels,
)
from accounting.bounds.patterns.raw_success_kernel import Outside, future_ends, history_laws, unobserved
from accounting.bounds.protocol import Question
from accounting.hmm.frontier.search_kernel import (
    Found,
    completion_gains,
    found_guess,
    new_completions,
    new_gains,
    new_memory,
    search,
)
from accounting.hmm.propagation import marginals
from models.priors.chain import LocalChain
from tests.accounting.chains import Case, random_case
from tests.accounting.enumeration import all_paths, optimum_success, within
from tests.accounting.exposures import koga_chain, raw_exposure
from tests.volume import randoms

UNLIMITED = 1 << 40
seeds = st.integers(0, 2**32 - 1)


def searched(
    case: Case, evidence: NDArray[np.float64], mistakes: int, expansions: int
) -> tuple[Found, NDArray[np.int64]]:
    """The search over a whole horizon with this evidence (T, K), and its guess."""
    steps, places = evidence.shape
    person = case.person
    gains = new_gains(steps, mistakes, places)
    completion_gains(person, evidence, steps - 1, np.ones(places), new_completions(mistakes, places), gains)
    memory = new_memory(case.view, max(expansions, steps), mistakes)
    most = max(expansions, steps)
    found = search(person, evidence, case.start, 0, steps - 1, gains, mistakes, most, 0.0, memory)
    guess = np.empty(steps, np.int64)
    found_guess(memory, found, guess)
    return found, guess


def masses_won(case: Case, evidence: NDArray[np.float64], mistakes: int) -> dict[tuple[int, ...], float]:
    """What each guess wins, by enumeration."""
    steps, places = evidence.shape
    everything = all_paths(case.start, case.matrices, steps, case.first_slot)
    mass = everything.probability * evidence[np.arange(steps), everything.paths].prod(axis=1)
    guesses = np.array(list(product(range(places), repeat=steps)))
    won = within(guesses, everything.paths, mistakes) @ mass
    return dict(zip(map(tuple, guesses.tolist()), won.tolist(), strict=True))


@pytest.mark.slow
@given(seeds)
@settings(max_examples=150)
def test_the_search_brackets_the_best_guess_and_finds_it_in_the_end(seed: int) -> None:
    """Any evidence, any number of mistakes; what it says it attains is what its guess wins."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, largest=3, longest=5)
    evidence = rng.random(case.labels.shape) * (rng.random(case.labels.shape) < 0.8)
    for mistakes in range(len(evidence)):
        won = masses_won(case, evidence, mistakes)
        best = max(won.values())
        before = np.inf
        for expansions in (1, 4, 12, 3**6):
            found, guess = searched(case, evidence, mistakes, expansions)
            assert found.attained <= best * (1 + 1e-12) <= found.bound * (1 + 2e-12)
            assert found.attained == pytest.approx(won[tuple(guess.tolist())], rel=1e-12, abs=1e-300)
            assert found.bound <= before * (1 + 1e-12)
            before = found.bound
        assert found.bound == pytest.approx(best, rel=1e-12)


def test_gains_of_another_width_are_refused() -> None:
    """The search reads whole eights, which would be others' numbers."""
    law = np.full(3, 1 / 3)
    case = Case(law, np.array([[law] * 3]), np.zeros((2, 3), np.int32))
    person = case.person
    with pytest.raises(ValueError, match="gains must be those of new_gains"):
        memory = new_memory(case.view, 2, 0)
        search(person, np.ones((2, 3)), law, 0, 1, np.ones((2, 1, 3)), 0, 2, 0.0, memory)


def test_the_worked_example_ends_after_two_expansions() -> None:
    """As the search's docstring tells it."""
    law = np.array([2 / 3, 1 / 3])
    case = Case(law, np.array([[law, law]]), np.zeros((2, 2), np.int32))
    found, guess = searched(case, np.ones((2, 2)), 0, 2)
    assert found.bound == found.attained == pytest.approx(4 / 9)
    assert guess.tolist() == [0, 0]


def horizon_bound(
    case: Case, window: tuple[int, int], mistakes: int, is_hindsight: bool, most: int, effort: FrontierEffort
) -> float:
    """The frontier bound of a window of a raw log, at most ``most`` hits outside told apart."""
    first, last = window
    marginal = marginals(case.person, len(case.labels))
    hits = (case.labels > 0) & (marginal > 0.0)
    person = case.person
    laws, shown = history_laws(person, hits[:first], marginal[:first], most)
    after = hits[last + 1 :] if is_hindsight else hits[:0]
    ends = future_ends(person, last, after, marginal[last], most)
    inside = slice(first, last + 1)
    start = LocalChain(case.view, marginal[first], (case.first_slot + first) % case.matrices.shape[0])
    return frontier_of(
        FrontierQuestion(start, marginal[inside], mistakes, Outside(laws, shown, ends), effort),
        raw_channels(hits[inside]),
    )


def check(rng: np.random.Generator, largest: int, longest: int) -> float:
    """One random log, window, number of mistakes and effort; how far above the optimum the bound is."""
    case = random_case(rng, largest, longest)
    steps = len(case.labels)
    first = int(rng.integers(steps))
    last = int(rng.integers(first, steps))
    mistakes = int(rng.integers(last - first + 1))
    is_hindsight = bool(rng.random() < 0.4)
    seen = case.labels if is_hindsight else case.labels[: last + 1]
    best = optimum_success(case.start, case.matrices, seen, (first, last), mistakes, case.first_slot)
    most, tolerance = int(rng.choice([0, 1, 2, 100])), float(rng.choice([0.0, 1e-4]))
    expansions = int(rng.choice([0, 5, 50])) if rng.random() < 0.2 else UNLIMITED
    shown_once = int(rng.choice([-1, 0, 1, 20]))
    effort = FrontierEffort(int(rng.choice([1, 2, 8])), tolerance, expansions, shown_once)
    found = horizon_bound(case, (first, last), mistakes, is_hindsight, most, effort)
    assert best * (1 - 1e-11) <= found <= 1.0
    is_whole = most == 100 and effort.vectors == 8 and effort.expansions == UNLIMITED
    return found / best if is_whole else 1.0


@pytest.mark.parametrize("seed", range(3))
def test_no_adversary_beats_the_bound(seed: int) -> None:
    """History and future, told apart or shown; zeros, closed classes, cycles, starts of their own."""
    rng = np.random.default_rng(seed)
    ratios = np.array([check(rng, largest=3, longest=5) for _ in range(150)])
    assert ratios.mean() < 1.003


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_the_bound_on_ten_thousand_logs() -> None:
    ratios = np.array([check(rng, largest=3, longest=5) for rng in randoms(2026, 10_000)])
    assert ratios.mean() < 1.001
    assert ratios.max() < 1.3


@given(seeds)
@settings(max_examples=30)
def test_more_effort_never_raises_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = random_case(rng, largest=4, longest=7)
    window, mistakes, shown_once = (2, 6), 1, int(rng.choice([-1, 0, 8]))
    if len(case.labels) == 7:
        values = [
            horizon_bound(
                case, window, mistakes, False, 100, FrontierEffort(vectors, 0.0, UNLIMITED, shown_once)
            )
            for vectors in (1, 2, 4, 16)
        ]
        assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(values))


@given(seeds)
@settings(max_examples=40)
def test_an_exact_count_is_a_channel_of_one_level_and_a_suppressed_one_is_none(seed: int) -> None:
    """Sensors of one step as one channel or as many; a count of nobody changes nothing either."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, largest=4, longest=5)
    marginal = marginals(case.person, len(case.labels))
    hits = (case.labels > 0) & (marginal > 0.0)
    mistakes, outside = int(rng.integers(len(hits))), unobserved(case.start)
    effort = frontier_effort(4, int(rng.choice([-1, 8])))
    raw = frontier_of(FrontierQuestion(case.person, marginal, mistakes, outside, effort), raw_channels(hits))
    joined = raw_channels(hits)
    step, place = np.nonzero(hits)
    apart = raw_channels(np.zeros((step.size, hits.shape[1]), np.bool_))._replace(time=step.copy())
    apart.cover[np.arange(step.size), place] = True
    silent = raw_channels(np.zeros_like(hits))
    both = type(joined)(*(np.concatenate(pair) for pair in zip(joined, silent, strict=True)))
    order = np.argsort(both.time, kind="stable")
    with_silent = type(joined)(*(array[order] for array in both))
    for channels in (joined, apart, with_silent):
        found = frontier_of(FrontierQuestion(case.person, marginal, mistakes, outside, effort), channels)
        assert found == pytest.approx(raw, rel=1e-12)


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
    assert bounds["frontier"] <= 2.0 * audit.attacks["either"].success
    assert bounds["moment"] > 50 * bounds["frontier"]


@pytest.mark.slow
def test_a_week_of_hours_is_bounded_near_the_best_attack() -> None:
    """However many segments a long horizon has, all its searches end after so many expansions."""
    random = np.random.default_rng(1)
    matrix = 0.05 * random.dirichlet(np.ones(6), size=6) + 0.95 * np.eye(6)
    counted = [[int(random.integers(0, 6))] for _ in range(168)]
    exposure = raw_exposure(np.full(6, 1.0 / 6.0), matrix, counted)
    audit = audit_exposure(exposure, 5, attacks=AttackSettings(draws=1))
    assert audit.attacks is not None
    attack = max(each.success for each in audit.attacks.values() if each is not None)
    assert attack <= audit.certified + 1e-9
    assert audit.certified <= 1.3 * attack < 0.7
    wide = Size(steps=168, places=100, moves=10_000, hits=3360, has_cycle=False)
    assert affordable_vectors(wide, 20, 64) == 0, "completions alone would take minutes"


@pytest.mark.slow
def test_a_thousand_steps_of_near_certain_moves_stay_probabilities() -> None:
    matrix = np.array([[1 - 1e-300, 1e-300], [1e-9, 1 - 1e-9]])
    exposure = raw_exposure(np.array([0.5, 0.5]), matrix, [[0]] + [[]] * 998 + [[1]])
    for mistakes in (0, 3):
        found = frontier_bound(Question(exposure, mistakes, Effort()))
        assert found is not None
        assert 0.9 <= found <= 1.0
