"""Best attack <= true optimum <= every bound, against enumeration of every trajectory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb, exp, log, log1p

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accounting.audit import AttackSettings, Audit, audit_exposure
from accounting.bounds import Effort
from accounting.bounds.information_bounds import loose_bound, tight_bound
from accounting.bounds.patterns.moment import bound_by_hits, bound_by_pattern, moment_bound, moments_by_hits
from accounting.bounds.patterns.segments_kernel import (
    avoiding_moves,
    find_nodes,
    no_hit_weight,
    segment_polynomials,
)
from accounting.bounds.protocol import Question
from accounting.numerics import bracket, divergence_root
from tests.accounting.chains import Case, random_case
from tests.accounting.enumeration import (
    all_paths,
    joint_law,
    optimum,
    prior_optimum,
    raw_channels,
    subset_maximum,
    within,
)
from tests.accounting.exposures import case_exposure, koga_chain, raw_exposure
from tests.volume import randoms

seeds = st.integers(0, 2**32 - 1)
ROUNDING = 1e-10


def bounds_of(audit: Audit) -> dict[str, float]:
    """Those that apply."""
    return {name: value for name, value in audit.bounds.model_dump().items() if value is not None}


def assert_sandwich(case: Case) -> list[float]:
    """Baseline and every attack <= optimum <= each bound; the certified bound for each number of mistakes."""
    everything = all_paths(case.start, case.matrices, len(case.labels), case.first_slot)
    exposure = case_exposure(case)
    certified = []
    for mistakes in range(len(case.labels)):
        truth = optimum(everything, raw_channels(case.labels), mistakes)
        audit = audit_exposure(exposure, mistakes, attacks=AttackSettings(draws=1))
        assert audit.attacks is not None
        for name, attack in audit.attacks.items():
            assert attack.low == attack.high, "attacks on raw counts are exact"
            assert attack.success <= truth + ROUNDING, f"{name}: {attack.success} above the optimum {truth}"
        for name, bound in bounds_of(audit).items():
            assert truth <= bound + ROUNDING, f"{name}: {bound} below the optimum {truth}"
            assert bound <= 1.0
        assert audit.baseline <= truth + ROUNDING
        assert prior_optimum(everything, mistakes) <= audit.baseline_bound + ROUNDING
        assert audit.baseline <= audit.certified <= 1.0
        assert audit.bounds.exact is not None
        assert abs(audit.bounds.exact - truth) < ROUNDING
        certified.append(audit.certified)
    return certified


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=60)
@given(seeds)
def test_no_bound_is_below_the_optimum(seed: int) -> None:
    assert_sandwich(random_case(np.random.default_rng(seed)))


@pytest.mark.thorough
@pytest.mark.slow
def test_many_chains_without_a_violation_and_half_of_them_bounded_below_nine_tenths() -> None:
    """All kinds of chains, 0 to 3 sensors a step, 1 to 3 slots, every number of mistakes."""
    below = [min(assert_sandwich(random_case(rng))) < 0.9 for rng in randoms(20_240_601, 10_000)]
    print(f"{len(below)} chains, no violation, {sum(below)} with a bound below 0.9")
    assert np.mean(below) >= 0.5


@dataclass(frozen=True)
class MomentTruth:
    """What the moment bound is made of, by enumeration of patterns and trajectories."""

    by_pattern: float
    by_hits: float


def moment_truth(case: Case, mistakes: int, order: int) -> MomentTruth:
    """The bound's definition, pattern by pattern."""
    steps = len(case.labels)
    everything = all_paths(case.start, case.matrices, steps, case.first_slot)
    joint = joint_law(everything, raw_channels(case.labels))
    by_pattern = 0.0
    sums = np.zeros((steps + 1, order + 1))
    for column in joint.T:
        hit = case.labels[np.arange(steps), everything.paths[column.argmax()]] > 0
        k, free = int(hit.sum()), np.flatnonzero(~hit)
        moments = np.zeros(order + 1)
        moments[0] = column.sum()
        for size in range(1, order + 1):
            for chosen in combinations(free, size):
                codes = everything.paths[:, list(chosen)] @ (everything.places ** np.arange(size))
                moments[size] += np.bincount(codes, weights=column).max()
        sums[k] += moments
        rest = steps - mistakes - k
        by_pattern += min([moments[0], *(moments[j] / comb(rest, j) for j in range(1, min(rest, order) + 1))])
    by_hits = sum(
        min([sums[k, 0], *(sums[k, j] / comb(rest, j) for j in range(1, min(rest, order) + 1))])
        for k in range(steps + 1)
        for rest in [steps - mistakes - k]
    )
    return MomentTruth(by_pattern, by_hits)


@settings(max_examples=25)
@given(seeds, st.integers(1, 4))
def test_moment_bound_equals_its_definition_over_all_patterns(seed: int, order: int) -> None:
    case = random_case(np.random.default_rng(seed))
    exposure = case_exposure(case)
    for mistakes in range(exposure.steps):
        usable = min(order, exposure.steps - mistakes)
        truth = moment_truth(case, mistakes, usable)
        nodes = find_nodes(exposure.hits)
        polynomials = segment_polynomials(
            exposure.person,
            no_hit_weight(exposure.hits),
            nodes,
            usable,
            exposure.powers,
        )
        by_hits = bound_by_hits(moments_by_hits(polynomials, nodes, exposure.steps), mistakes)
        by_pattern = bound_by_pattern(polynomials, nodes, exposure.steps, mistakes, 0.0)
        assert abs(by_hits - truth.by_hits) < 1e-11
        assert abs(by_pattern - truth.by_pattern) < 1e-11


def test_two_ways_to_the_moves_between_hits_agree_and_the_quick_one_is_never_smaller() -> None:
    """Powers less the paths through a hit, and products of moves that avoid it."""
    start, matrix = koga_chain(12, 0.2)
    exposure = raw_exposure(start, matrix, [[3], [], [5], [3], [11], [0]])
    nodes, weight = find_nodes(exposure.hits), no_hit_weight(exposure.hits)
    quick = avoiding_moves(exposure.person, weight, nodes, exposure.powers)
    plain = avoiding_moves(exposure.person, weight, nodes, np.empty((0, 12, 12)))
    for t in range(5):
        for g in range(5 - t):
            assert np.all(quick[t, g] >= plain[t, g])
            assert np.allclose(quick[t, g], plain[t, g], rtol=1e-12, atol=1e-15)


def orders() -> Iterator[Effort]:
    """Rising order."""
    return (Effort(order=order, patterns=0) for order in (1, 2, 3, 4))


def test_higher_order_is_never_weaker() -> None:
    start, matrix = koga_chain(30, 0.1)
    exposure = raw_exposure(start, matrix, [[14], [15], [22], [28], [1], [4], [24], [28]])
    bounds = [moment_bound(Question(exposure, 3, effort)) for effort in orders()]
    assert all(a is not None and b is not None and b <= a for a, b in pairwise(bounds))


def test_patterns_not_enumerated_count_as_success() -> None:
    """A small effort gives a valid, weaker bound; never less than with all patterns."""
    start, matrix = koga_chain(10, 0.1)
    exposure = raw_exposure(start, matrix, [[4], [5], [7], [9], [0], [1], [8], [9]])
    everything = moment_bound(Question(exposure, 3, Effort()))
    few = moment_bound(Question(exposure, 3, Effort(patterns=20)))
    assert everything is not None
    assert few is not None
    assert everything - 1e-8 <= few < 1.0


def divergence_root_by_bisection(nats: float, guess: float) -> float:
    """The root of ``d(p||q) = I`` at or above ``q``, rounded up."""
    if guess >= 1.0 or nats >= -log(guess):
        return 1.0
    if nats <= 0.0:
        return guess
    return bracket(lambda p: binary_divergence_nats(p, guess) <= nats, guess, 1.0).first_false


def binary_divergence_nats(p: float, q: float) -> float:
    """``d(p||q)``, with ``p - q`` so that it keeps its digits where ``d`` goes like ``(p - q)^2``."""
    excess = p - q
    inside = p * log1p(excess / q) if p > 0.0 else 0.0
    outside = (1.0 - p) * log1p(-excess / (1.0 - q)) if p < 1.0 else 0.0
    return inside + outside


@settings(max_examples=400)
@given(st.floats(1e-12, 1 - 1e-9), st.one_of(st.floats(0, 5), st.floats(-40, 0).map(exp)))
@example(0.37890625, 2.220446049250313e-16)
def test_divergence_root_is_on_the_safe_side_and_never_above_the_papers(guess: float, nats: float) -> None:
    """Newton's root is never below the one by bisection, and above it by its last digits only."""
    root = divergence_root(nats, guess)
    bisected = divergence_root_by_bisection(nats, guess)
    assert guess <= bisected <= root <= 1.0
    assert root <= bisected * (1 + 2e-9) + 1e-12
    assert root <= tight_bound(nats, guess) * (1 + 2e-9) + 1e-12
    if nats >= -log(guess):
        assert root == tight_bound(nats, guess) == 1.0


@pytest.mark.parametrize(
    ("places", "steps", "mistakes"), [(1, 5, 0), (2, 1, 0), (300, 1000, 10), (5000, 1000, 0)]
)
def test_paper_bounds_stay_probabilities_at_the_edges(places: int, steps: int, mistakes: int) -> None:
    entropy = steps * log(places)
    assert 0.0 < loose_bound(entropy, 0.0, places, steps, mistakes) <= 1.0
    assert loose_bound(entropy, entropy, places, steps, mistakes) == 1.0


@pytest.mark.parametrize("away", [0.0, 1e-12, 1e-10, 5.6e-10, 1e-9, 1e-8, 1e-4])
@pytest.mark.parametrize("places", [2, 3, 50])
def test_the_loose_bound_of_a_nearly_fair_draw_is_not_rounded_below_it(places: int, away: float) -> None:
    """The entropy misses that of a fair draw by the square of what the likeliest place has more."""
    law = np.full(places, 1 / places)
    law[0] += away
    law[1] -= away
    entropy = float(-(law * np.log(law)).sum())
    assert law[0] <= loose_bound(entropy, 0.0, places, 1, 0) <= law[0] + 3e-7 + away * places
    assert tight_bound(0.0, 1.0) == divergence_root(0.0, 1.0) == 1.0
    assert divergence_root(0.0, 0.25) == 0.25


def test_raw_sensor_added_never_lowers_the_exact_optimum() -> None:
    start, matrix = koga_chain(6, 0.2)
    steps: list[list[int]] = [[] for _ in range(5)]
    before = 0.0
    for t, location in [(0, 2), (3, 1), (3, 4), (4, 0), (1, 5)]:
        steps[t].append(location)
        exact = audit_exposure(raw_exposure(start, matrix, steps), 0).bounds.exact
        assert exact is not None
        assert exact >= before - 1e-12
        before = exact


def test_moment_bound_is_close_to_the_optimum_on_small_chains() -> None:
    """On average within 15 % of the truth: the bound is worth its work."""
    rng = np.random.default_rng(5)
    ratios = []
    while len(ratios) < 60:
        case = random_case(rng)
        steps = len(case.labels)
        everything = all_paths(case.start, case.matrices, steps, case.first_slot)
        if steps < 3 or subset_maximum(everything, 1) > 0.8:
            continue
        truth = optimum(everything, raw_channels(case.labels), 1)
        bound = moment_bound(Question(case_exposure(case), 1, Effort()))
        assert bound is not None
        ratios.append(bound / truth)
    assert np.mean(ratios) < 1.15


def test_enumeration_finds_the_optimum_of_a_coin() -> None:
    """The oracle itself, where the answer is known: three fair coins, one seen, one mistake allowed."""
    everything = all_paths(np.array([0.5, 0.5]), np.full((1, 2, 2), 0.5), 3)
    labels = np.array([[1, 0], [0, 0], [0, 0]], dtype=np.int32)
    assert abs(optimum(everything, raw_channels(labels), 1) - 0.75) < 1e-15
    assert within(everything.paths[:1], everything.paths, 0).sum() == 1
