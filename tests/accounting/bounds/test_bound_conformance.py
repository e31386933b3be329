"""What every bound promises. A new bound joins by adding a line to ``BOUNDS_TO_TEST``."""

from __future__ import annotations

import inspect
from dataclasses import replace
from itertools import pairwise
from math import isfinite

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.audit import audit_exposure
from accounting.bounds import BOUNDS, Effort
from accounting.bounds.certified import log_question
from accounting.bounds.noised import erasure_bound
from accounting.bounds.patterns.frontier_bound import least_raw_success
from accounting.bounds.patterns.moment import moment_kernel
from accounting.bounds.patterns.raw_success_kernel import Outside, unobserved
from accounting.bounds.protocol import Bound, Question, Scope
from accounting.exposure import Exposure, baseline
from tests import ROOT
from tests.accounting.bounds.kept_sets import all_kept_sets
from tests.accounting.chains import random_case
from tests.accounting.enumeration import all_paths, optimum, raw_channels, window_optimum
from tests.accounting.exposures import (
    case_exposure,
    exposure_to,
    gaussian,
    koga_chain,
    noised_case,
    raw_exposure,
    step_of,
)

BOUNDS_TO_TEST = {
    "loose": Effort(),
    "tight": Effort(),
    "divergence": Effort(),
    "moment": Effort(order=3),
    "exact": Effort(),
    "erasure": Effort(patterns=64),
    "frontier": Effort(vectors=4),
    "levels": Effort(vectors=16),
    "sandwich": Effort(vectors=4),
    "sampled": Effort(draws=200, confidence=0.999),
}
"""Each with the effort it is tested with."""

DRAWN = ("sampled",)  # a mean of draws: rises with the mistakes on average only

ROUNDING = 1e-8
seeds = st.integers(0, 2**32 - 1)
each_bound = pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)


KERNELS = {"moment": moment_kernel, "exact or frontier": least_raw_success}
each_kernel = pytest.mark.parametrize("name", KERNELS)


def question(exposure: Exposure, mistakes: int, bound: Bound) -> Question:
    """To all bounds, with the effort of the one tested."""
    return Question(exposure, mistakes, BOUNDS_TO_TEST[bound.name], BOUNDS)


def value(exposure: Exposure, mistakes: int, bound: Bound) -> float | None:
    """The bound's answer, a probability where there is one."""
    with all_kept_sets():
        found = bound.compute(question(exposure, mistakes, bound))
    assert found is None or (isfinite(found) and 0.0 <= found <= 1.0)
    return found


def test_every_registered_bound_is_tested_under_a_name_of_its_own() -> None:
    assert list(BOUNDS_TO_TEST) == [bound.name for bound in BOUNDS]


@each_bound
@given(seeds)
@settings(max_examples=20)
def test_it_is_not_below_the_optimum_of_raw_counts(bound: Bound, seed: int) -> None:
    """All trajectories and guesses written down; what is not below the optimum is not below any guess."""
    case = random_case(np.random.default_rng(seed))
    exposure = case_exposure(case)
    everything = all_paths(case.start, case.matrices, exposure.steps, case.first_slot)
    for mistakes in range(exposure.steps):
        found = value(exposure, mistakes, bound)
        if found is not None:
            assert optimum(everything, raw_channels(case.labels), mistakes) <= found + ROUNDING
            assert baseline(exposure, mistakes).success <= found + ROUNDING


@each_bound
@given(seeds, st.booleans())
@settings(max_examples=20)
def test_within_a_log_it_is_not_below_the_optimum_either(bound: Bound, seed: int, in_hindsight: bool) -> None:
    """Raw counts before the horizon, in it and, in hindsight, after; others have no answer."""
    if bound.within_log is None:
        return
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    exposure = case_exposure(case)
    first = int(rng.integers(exposure.steps))
    last = int(rng.integers(first, exposure.steps))
    everything = all_paths(case.start, case.matrices, exposure.steps, case.first_slot)
    seen = [labels if t <= last or in_hindsight else labels * 0 for t, labels in enumerate(case.labels)]
    for mistakes in range(last - first + 1):
        effort = BOUNDS_TO_TEST[bound.name]
        found = bound.within_log(log_question(exposure, (first, last), mistakes, in_hindsight, effort))
        best = window_optimum(everything, raw_channels(np.array(seen)), (first, last), mistakes)
        assert found is None or best <= found + ROUNDING


def for_everybody(name: str, exposure: Exposure, outside: Outside, mistakes: int) -> float:
    """The bound as continuous accounts ask for it, or the erasure bound."""
    person, hits = exposure.person, exposure.hits
    if name == "moment":
        order = min(2, exposure.steps - mistakes)
        return float(moment_kernel(person, hits, mistakes, order, 1e-9, exposure.no_powers))
    return float(least_raw_success(person, hits, exposure.marginal, outside, mistakes, 4))


@pytest.mark.slow
@pytest.mark.indices
@each_kernel
@given(seeds)
@settings(max_examples=20)
def test_as_a_kernel_it_is_not_below_the_optimum_either(name: str, seed: int) -> None:
    """Nothing was released before; all trajectories and guesses written down."""
    case = random_case(np.random.default_rng(seed))
    exposure = case_exposure(case)
    everything = all_paths(case.start, case.matrices, exposure.steps, case.first_slot)
    for mistakes in range(exposure.steps):
        found = for_everybody(name, exposure, unobserved(exposure.start), mistakes)
        assert optimum(everything, raw_channels(case.labels), mistakes) <= found + ROUNDING


@pytest.mark.slow
@given(seeds, st.booleans())
@settings(max_examples=20)
def test_the_kernel_that_knows_the_history_holds_with_it(seed: int, is_shown: bool) -> None:
    """The adversary has seen one of two things before, or the first place itself."""
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    exposure = case_exposure(case)
    share = rng.random(case.start.size)
    apart = np.stack((case.start * share, case.start * (1.0 - share)))
    laws, shown = (apart[:1], apart[1]) if is_shown else (apart, np.zeros(case.start.size))
    seen_first = [*laws, *np.diag(shown)]
    outside = Outside(laws, shown, np.ones((1, case.start.size)))
    for mistakes in range(exposure.steps):
        most = sum(
            law.sum()
            * optimum(
                all_paths(law / law.sum(), case.matrices, exposure.steps, case.first_slot),
                raw_channels(case.labels),
                mistakes,
            )
            for law in seen_first
            if law.sum() > 0.0
        )
        assert most <= for_everybody("exact or frontier", exposure, outside, mistakes) + ROUNDING


@each_kernel
def test_its_kernel_stands_where_a_change_is_noticed(name: str) -> None:
    """Compiled kernels are kept by the files that their own file imports; who calls it imports this one."""
    where = inspect.unwrap(KERNELS[name]).__module__
    assert f"from {where} import" in (ROOT / str(erasure_bound.__file__)).read_text()


@each_bound
@given(seeds, st.lists(st.sampled_from([0.3, 0.5, 1.5, None]), min_size=3, max_size=3))
@settings(max_examples=8)
def test_it_is_not_below_the_optimum_of_noised_counts(
    bound: Bound, seed: int, sigmas: list[float | None]
) -> None:
    """All published values written down; None is a raw step."""
    case = random_case(np.random.default_rng(seed), largest=3, longest=3)
    exposure, channels = noised_case(case, sigmas)
    everything = all_paths(case.start, case.matrices, exposure.steps, case.first_slot)
    for mistakes in range(exposure.steps):
        found = value(exposure, mistakes, bound)
        assert found is None or optimum(everything, channels, mistakes) <= found + ROUNDING


@pytest.mark.slow
@pytest.mark.indices
@each_bound
@pytest.mark.parametrize("sigma", [None, 1.0])
def test_it_does_not_fall_with_the_mistakes_allowed(bound: Bound, sigma: float | None) -> None:
    """From none to all but one step, on the paper's synthetic chain."""
    start, matrix = koga_chain(8, 0.1)
    sensors = [[4], [5], [7], [6], [0], [1]]
    noised = [step_of(where, [gaussian(sigma or 1.0)]) for where in sensors]
    exposure = exposure_to(start, matrix, noised) if sigma else raw_exposure(start, matrix, sensors)
    found = [value(exposure, mistakes, bound) for mistakes in range(6)]
    given = [each for each in found if each is not None]
    slack = 0.05 if bound.name in DRAWN else ROUNDING
    assert all(later >= earlier - slack for earlier, later in pairwise(given)), found


EDGES = {
    "no sensors": ([0.3, 0.7], [[0.5, 0.5], [0.2, 0.8]], [[], [], []]),
    "one place": ([1.0], [[1.0]], [[0], [], [0]]),
    "one step": ([0.3, 0.7], [[0.5, 0.5], [0.2, 0.8]], [[0]]),
    "never moving": ([0.3, 0.7], [[1.0, 0.0], [0.0, 1.0]], [[0], [], [1]]),
    "known from the start": ([1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]], [[0], [1], []]),
}


@each_bound
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("sigma", [None, 1.0])
def test_it_answers_at_the_edges(bound: Bound, edge: str, sigma: float | None) -> None:
    """No sensors, one location, T = 1, s = T - 1, a person who never moves; raw and noised."""
    start, matrix, sensors = (EDGES[edge][0], EDGES[edge][1], EDGES[edge][2])
    law, moves = np.array(start), np.array(matrix)
    noised = [step_of(where, [gaussian(sigma or 1.0)] * len(where)) for where in sensors]
    exposure = exposure_to(law, moves, noised) if sigma else raw_exposure(law, moves, sensors)
    for mistakes in range(exposure.steps):
        found = value(exposure, mistakes, bound)
        assert found is None or found >= baseline(exposure, mistakes).success - ROUNDING


@each_bound
def test_it_answers_where_its_scope_says_so(bound: Bound) -> None:
    """None for raw counts from a bound on noise, and never elsewhere on a small horizon with full effort."""
    start, matrix = koga_chain(3, 0.2)
    raw = raw_exposure(start, matrix, [[0], [1]])
    noised = exposure_to(start, matrix, [step_of([0], [gaussian(1.0)])] * 2)
    assert (value(raw, 1, bound) is None) == (bound.scope is Scope.NOISED)
    assert value(noised, 1, bound) is not None


@each_bound
def test_it_gives_the_same_bits_again_and_what_others_asked_changes_nothing(bound: Bound) -> None:
    start, matrix = koga_chain(5, 0.2)
    exposure = exposure_to(start, matrix, [step_of([2], [gaussian(1.0)])] * 4)
    first = question(exposure, 1, bound)
    again = replace(first, exposure=exposure.under(exposure.observations))
    again.values(), again.values(certain=False)
    assert first.once(bound.compute) == again.once(bound.compute)


def test_the_audit_and_the_documentation_list_the_bounds_of_the_registry() -> None:
    """A field of the audit for each certain bound, in the registry's order; a row of the page for each."""
    start, matrix = koga_chain(3, 0.2)
    audit = audit_exposure(raw_exposure(start, matrix, [[0], [1]]), 1)
    assert list(audit.bounds.model_dump()) == [bound.name for bound in BOUNDS if bound.is_certain]
    page = (ROOT / "docs" / "explanation" / "bounds.md").read_text()
    rows = [f"| `{bound.name}` | {bound.idea} | {bound.scope.value} | {bound.cost} |" for bound in BOUNDS]
    assert "\n".join(rows) in page
