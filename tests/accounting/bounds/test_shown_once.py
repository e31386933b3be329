"""Completions of whoever is shown the place once, and whole guesses made better, against enumeration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from accounting.hmm.frontier.ascent_kernel import ascend, new_ascent_memory
from accounting.hmm.frontier.search_kernel import (
    SearchMemory,
    completion_gains,
    new_completions,
    new_gains,
    new_memory,
)
from accounting.hmm.frontier.shown_once_kernel import (
    first_right_bound,
    lower_completion,
    new_first_right,
    new_lowering,
)
from tests.accounting.bounds.test_frontier import masses_won, seeds
from tests.accounting.chains import Case, random_case


def random_evidence(rng: np.random.Generator) -> tuple[Case, NDArray[np.float64]]:
    """A small case and any evidence, zeros included."""
    case = random_case(rng, largest=3, longest=5)
    return case, rng.random(case.labels.shape) * (rng.random(case.labels.shape) < 0.8)


def genie_gains(case: Case, evidence: NDArray[np.float64], mistakes: int) -> NDArray[np.float64]:
    """Completions of whoever is shown the place after every guess."""
    steps, places = evidence.shape
    gains = new_gains(steps, mistakes, places)
    walk = new_completions(mistakes, places)
    completion_gains(case.person, evidence, steps - 1, np.ones(places), walk, gains)
    return gains


def lower_completions(
    case: Case,
    evidence: NDArray[np.float64],
    gains: NDArray[np.float64],
    expansions: int,
    memory: SearchMemory,
) -> None:
    """Those of every step, from the last to the first."""
    last, work = len(evidence) - 1, new_lowering(case.start.size, gains.shape[1] - 1)
    for t in range(last - 1, -1, -1):
        lower_completion(case.person, evidence, evidence[t], t, last, gains, expansions, memory, work)


def best_from(case: Case, evidence: NDArray[np.float64], t: int, x: int, mistakes: int) -> float:
    """What is won at most after step ``t`` from place ``x``, by enumeration of all guesses."""
    if mistakes < 0 or t == len(evidence) - 1:
        return float(mistakes >= 0)
    slot = (case.first_slot + t) % case.matrices.shape[0]
    onwards = replace(case, start=case.matrices[slot, x], first_slot=slot + 1)
    return max(masses_won(onwards, evidence[t + 1 :], mistakes).values())


@pytest.mark.slow
@given(seeds)
@settings(max_examples=40, deadline=None)
def test_completions_lie_between_the_best_guess_and_the_genie(seed: int) -> None:
    """Of every step, place and number of mistakes, with and without searches."""
    rng = np.random.default_rng(seed)
    case, evidence = random_evidence(rng)
    steps = len(evidence)
    mistakes, expansions = int(rng.integers(steps)), int(rng.choice([0, 1, 4, 50]))
    genie = genie_gains(case, evidence, mistakes)
    lowered = genie.copy()
    memory = new_memory(case.view, max(steps, expansions), mistakes)
    lower_completions(case, evidence, lowered, expansions, memory)
    least, most = (gains[:, :, : case.start.size].cumsum(axis=1) for gains in (lowered, genie))
    assert (least <= most * (1 + 1e-12)).all()
    for t, m, x in np.ndindex(*least.shape):
        assert least[t, m, x] >= best_from(case, evidence, t, x, m) * (1 - 1e-12)
    bounds, work = np.ones(mistakes + 1), new_first_right(case.start.size, mistakes)
    first_right_bound(case.person, evidence, case.start, 0, steps - 1, lowered, bounds, work)
    for m in range(mistakes + 1):
        assert bounds[m] >= max(masses_won(case, evidence, m).values()) * (1 - 1e-12)


def test_being_shown_once_wins_less_than_being_shown_every_step() -> None:
    """On average, with about half of the steps wrong, and never more (above)."""
    rng = np.random.default_rng(7)
    ratios = []
    for _ in range(40):
        case, evidence = random_evidence(rng)
        steps = len(evidence)
        mistakes = steps // 2
        genie = genie_gains(case, evidence, mistakes)
        lowered = genie.copy()
        lower_completions(case, evidence, lowered, 50, new_memory(case.view, 50, mistakes))
        ratios.append(lowered[0].sum() / max(genie[0].sum(), 1e-300))
    assert np.mean(ratios) < 0.97


def test_the_worked_example_of_being_shown_when_right() -> None:
    """As the docstring tells it: a half, for a success of 7/16."""
    law = np.array([1 / 4, 1 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 8])
    case = Case(law, np.array([[law] * 7]), np.zeros((2, 7), np.int32))
    evidence = np.ones((2, 7))
    assert max(masses_won(case, evidence, 1).values()) == pytest.approx(7 / 16)
    bounds, gains = np.ones(2), genie_gains(case, evidence, 1)
    first_right_bound(case.person, evidence, law, 0, 1, gains, bounds, new_first_right(7, 1))
    assert bounds[1] == pytest.approx(1 / 2)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_a_guess_never_gets_worse_and_wins_what_is_said(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case, evidence = random_evidence(rng)
    steps, places = evidence.shape
    mistakes = int(rng.integers(steps))
    won = masses_won(case, evidence, mistakes)
    guess = rng.integers(places, size=steps)
    before = won[tuple(guess.tolist())]
    found = ascend(case.person, evidence, guess, new_ascent_memory(steps, mistakes, places))
    assert found == pytest.approx(won[tuple(guess.tolist())], rel=1e-12, abs=1e-300)
    assert before * (1 - 1e-12) <= found <= max(won.values()) * (1 + 1e-12)


def test_the_worked_example_of_a_guess_made_better() -> None:
    """Half of the people stay at either place: naming each once is within one mistake of everybody."""
    case = Case(np.array([0.5, 0.5]), np.eye(2)[np.newaxis], np.zeros((2, 2), np.int32))
    guess = np.zeros(2, np.int64)
    assert ascend(case.person, np.ones((2, 2)), guess, new_ascent_memory(2, 1, 2)) == pytest.approx(1.0)
    assert sorted(guess.tolist()) == [0, 1]
