"""The sandwich bound: published cases to 1e-8, and never below the optimum that enumeration finds."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.bounds.noised.sandwich_kernel import (
    AS_LOW_AS_MAY_BE,
    LIGHT,
    Counts,
    Limits,
    Window,
    counts_of,
    history_laws,
    least_cover,
    moves_of,
    sandwich_success,
)
from accounting.exposure.step_information.likelihood_levels import OwnSignals
from accounting.exposure.step_information.rays import Rays, few_rays, rays_of
from accounting.hmm.propagation import marginals
from models.mechanisms import Gaussian, Raw
from models.priors.chain import LocalChain
from tests.accounting.chains import KINDS, chain_of, random_matrix
from tests.accounting.enumeration import Floats, all_paths

CASES = json.loads((Path(__file__).parent / "noised.json").read_text())["cases"]
"""Exact numbers by another program; ``about`` in the file says what each is."""

Sensor = tuple[int, Floats, float]  # step, whether each place is counted, sigma


def cases(kind: str) -> list[dict[str, Any]]:
    return [case for case in CASES if case["kind"] == kind]


@cache
def outputs_of(sigma: float) -> Rays:
    return rays_of(Gaussian(sigma) if sigma > 0.0 else Raw())


def signals_of(sensors: list[Sensor], places: int, least: float = 0.0) -> OwnSignals:
    """All outputs of these sensors whose weight is above ``least``, in order of time."""
    sensors = sorted(sensors, key=lambda sensor: sensor[0])
    rays = [outputs_of(sigma) for *_, sigma in sensors]
    most = max((each.weight.size for each in rays), default=1)
    weight, theta = np.zeros((len(rays), most)), np.zeros((len(rays), most))
    size = np.zeros(len(rays), np.int64)
    for g, each in enumerate(rays):
        kept = each.weight > least
        size[g] = kept.sum()
        weight[g, : size[g]], theta[g, : size[g]] = each.weight[kept], each.theta[kept]
    return OwnSignals(
        np.array([step for step, *_ in sensors], np.int64),
        np.array([cover for _, cover, _ in sensors], np.bool_).reshape(len(rays), places),
        size,
        weight,
        theta,
    )


def optimum(start: Floats, matrices: Floats, sensors: list[Sensor], first: int, last: int, s: int) -> float:
    """By every trajectory, every guess of the steps ``first..last`` and every output of every sensor."""
    steps = max([last, *(step for step, *_ in sensors)]) + 1
    everything = all_paths(start, matrices, steps)
    window = everything.paths[:, first : last + 1]
    guesses = np.array(list(product(range(start.size), repeat=last - first + 1)))
    is_near = ((guesses[:, np.newaxis] != window).sum(axis=2) <= s).astype(float)
    evidence = everything.probability[np.newaxis]
    for step, cover, sigma in sensors:
        rays, is_counted = outputs_of(sigma), cover[everything.paths[:, step]]
        seen = np.where(is_counted, rays.theta[:, np.newaxis], 1.0 - rays.theta[:, np.newaxis])
        seen = 2.0 * rays.weight[:, np.newaxis] * seen
        evidence = (evidence[:, np.newaxis] * seen).reshape(-1, window.shape[0])
    return float((is_near @ evidence.T).max(axis=0).sum())


def bound(
    start: Floats,
    matrices: Floats,
    sensors: list[Sensor],
    window: tuple[int, int],
    mistakes: int,
    limits: tuple[int, float, float, int] = (2000, 1e12, 0.0, 200_000),
    most_laws: int | None = None,
    least: float = 0.0,
    enough: float = AS_LOW_AS_MAY_BE,
) -> float:
    """On the success in a window; ``limits`` are expansions, operations, how close, nodes.

    Without ``most_laws`` every law that the history may leave has its own tree. Outputs after the window are
    added up. With ``enough`` there must be one tree.
    """
    first, last = window
    places, steps, chain = start.size, last - first + 1, chain_of(matrices)
    expansions, operations, close, nodes = limits
    marginal = marginals(LocalChain(chain, start, 0), last + 1)
    before = signals_of([each for each in sensors if each[0] < first], places, least)
    inside = signals_of([(t - first, c, s) for t, c, s in sensors if first <= t <= last], places, least)
    person = LocalChain(chain, start, 0)
    laws = history_laws(person, before, start[np.newaxis], first, marginal, most_laws or 10_000)
    later = LocalChain(chain, marginal[first], first % len(matrices))
    found = sum(outputs_of(sigma).left_out for *_, sigma in sensors)
    for end in future_ends(matrices, [each for each in sensors if each[0] > last], last, places):
        question = Window(later, steps, end, mistakes, expansions, operations, moves_of(later, steps), LIGHT)
        for some in [laws] if most_laws else laws[:, np.newaxis]:
            low = enough if enough < 0.0 else max(enough - found, 0.0)
            found += sandwich_success(
                question, counts_of(inside), some, Limits(close, close, nodes, 1.0, False, low)
            )[0]
    return found


def future_ends(matrices: Floats, sensors: list[Sensor], last: int, places: int) -> list[Floats]:
    """Likelihood of each sequence of outputs after step ``last``, by the place there."""
    ends = [np.ones(places)]
    for step in range(max([last, *(step for step, *_ in sensors)]), last, -1):
        for _, cover, sigma in [each for each in sensors if each[0] == step]:
            rays = outputs_of(sigma)
            ends = [
                end * 2.0 * weight * np.where(cover, theta, 1.0 - theta)
                for end in ends
                for weight, theta in zip(rays.weight, rays.theta, strict=True)
            ]
        ends = [matrices[(step - 1) % len(matrices)] @ end for end in ends]
    return ends


@pytest.mark.parametrize("case", cases("channel"))
def test_outputs_of_a_count_and_the_best_few_are_those_of_the_reference(case: dict[str, Any]) -> None:
    mechanism = Gaussian(case["sigma"])
    rays = rays_of(mechanism)
    np.testing.assert_allclose(rays.weight, case["weight"], atol=1e-8)
    np.testing.assert_allclose(rays.theta, case["theta"], atol=1e-6)
    assert rays.distance == pytest.approx(case["total_variation"], abs=1e-8)
    few = few_rays(mechanism, case["keep"], case["p"])
    np.testing.assert_allclose(few.theta, case["kept_theta"], atol=1e-6)
    np.testing.assert_allclose(few.weight, case["kept_weight"], atol=1e-8)


@pytest.mark.parametrize("case", cases("one sensor"))
def test_one_sensor_with_all_outputs_gives_the_exact_value(case: dict[str, Any]) -> None:
    start, matrices = np.array(case["start"]), np.array(case["transition"])
    sensor = case["step"], np.isin(np.arange(start.size), case["places"]), case["sigma"]
    window, least = (0, len(matrices)), case["outputs_kept_above"]
    got = bound(start, matrices, [sensor], window, case["mistakes"], least=least)
    assert got == pytest.approx(case["exact"], abs=1e-8)


@pytest.mark.parametrize("case", cases("window"))
def test_without_a_tolerance_the_bound_is_the_optimum_of_the_reference(case: dict[str, Any]) -> None:
    start, matrices = np.array(case["start"]), np.array(case["transition"])
    sensors = [
        (each["step"], np.isin(np.arange(start.size), each["places"]), each["sigma"])
        for each in case["sensors"]
    ]
    got = bound(start, matrices, sensors, (case["first"], case["last"]), case["mistakes"])
    assert got >= case["optimum"] - 1e-9
    assert got == pytest.approx(case["optimum"], abs=1e-8)


@pytest.mark.parametrize("case", cases("cover"))
def test_the_least_cover_of_each_law_is_that_of_the_reference(case: dict[str, Any]) -> None:
    corners = np.array(case["corner_values"])
    places = corners.size
    points = np.vstack([-np.eye(places), case["points"]])  # what is covered in excess is taken away first
    cost = np.append(np.zeros(places), case["point_values"])
    count = len(points)
    tableau = np.zeros((places + 1, count // 8 * 8 + 8))  # in whole eights
    basis, outside = np.zeros(places, np.int64), np.zeros(count, np.int64)
    for law, want in zip(np.array(case["laws"]), case["cover"], strict=True):
        amount = np.zeros(count + places)
        least_cover(law, points, count, cost, corners, tableau, basis, outside, amount)
        covered = amount[places:count] @ points[places:] + amount[count:]
        assert (covered >= law - 1e-15).all()
        assert amount @ np.append(cost, corners) == pytest.approx(want, abs=1e-8)


def random_window(rng: np.random.Generator) -> tuple[Floats, Floats, list[Sensor], tuple[int, int], int]:
    """A chain, up to four sensors of any cover, overlapping too, and a window with steps before it."""
    places, first, steps = int(rng.integers(2, 4)), int(rng.integers(0, 3)), int(rng.integers(1, 4))
    matrices = np.array([random_matrix(rng, places, rng.choice(KINDS)) for _ in range(rng.integers(1, 3))])
    start = rng.dirichlet(np.full(places, rng.choice([0.3, 1.0, 3.0])))
    if rng.random() < 0.2:
        start = np.eye(places)[rng.integers(places)]
    sensors: list[Sensor] = []
    combinations = 1
    for _ in range(rng.integers(1, 5)):
        sigma = float(rng.choice([0.0, 0.3, 0.5, 1.0, 2.0, 3.0]))
        if combinations * outputs_of(sigma).weight.size <= 3000:
            combinations *= outputs_of(sigma).weight.size
            cover = rng.random(places) < 0.5
            sensors.append((int(rng.integers(first + steps)), cover, sigma))
    return start, matrices, sensors, (first, first + steps - 1), int(rng.integers(0, min(steps, 3)))


def test_what_is_within_a_limit_is_so_too_where_the_bound_is_as_low_as_may_be() -> None:
    """And the other way round, though a look ends early."""
    rng, ended_early = np.random.default_rng(17), 0
    for _ in range(60):
        start, matrices, sensors, window, mistakes = random_window(rng)
        sensors = [each for each in sensors if each[0] <= window[1]]
        asked = start, matrices, sensors, window, mistakes, (4, 20_000.0, 1e-4, 400), 3
        whole = bound(*asked)
        for factor in (0.9, 0.99, 0.99999, 1.00001, 1.01, 1.1):
            found = bound(*asked, enough=whole * factor)
            assert (found <= whole * factor) == (factor > 1.0)
            assert found >= whole
            ended_early += found > whole
    assert ended_early > 50


def test_a_tree_far_above_what_telling_apart_leaves_ends_early() -> None:
    """Its bound holds, and is no lower for that: only the work is less."""
    rng, places, steps = np.random.default_rng(5), 6, 8
    start, matrices = rng.dirichlet(np.ones(places)), np.array([random_matrix(rng, places, "full")])
    inside = signals_of([(t, np.arange(places) == 1, 2.0) for t in range(steps)], places)
    later = LocalChain(chain_of(matrices), start, 0)
    question = Window(later, steps, np.ones(places), 1, 512, 6.4e6, moves_of(later, steps), LIGHT)

    def grown(known: float, told_apart: bool) -> tuple[float, float, float]:
        limits = Limits(1e-3, 1e-6, 4000, known, told_apart, AS_LOW_AS_MAY_BE)
        return sandwich_success(question, counts_of(inside), start[np.newaxis], limits)

    bound, won, work = grown(1.0, False)
    known = won + (bound - won) / 10.0
    early, won_early, less_work = grown(known, True)
    assert early >= bound > known >= won_early
    assert less_work < work / 16.0 and less_work < grown(known, False)[2] / 3.0
    assert grown(2.0 * bound, True) == grown(2.0 * bound, False), "a tree that is near goes on"


@pytest.mark.parametrize("seed", range(12))
def test_it_is_never_below_the_optimum_whatever_work_it_may_do(seed: int) -> None:
    """Windows behind histories, overlapping sensors, several a step, absorbing places, mistakes 0 to 2.

    Searches of a step each, three nodes, two laws of the history: whatever is left out costs only tightness.
    """
    rng = np.random.default_rng(seed)
    for _ in range(25):
        start, matrices, sensors, window, mistakes = random_window(rng)
        want = optimum(start, matrices, sensors, *window, mistakes)
        limits = (
            int(rng.choice([1, 4, 50])) * 4,
            float(rng.choice([1.0, 1e4, 1e6])),
            float(rng.choice([0.0, 1e-3, 0.1])),
            int(rng.choice([6, 100, 3000])),
        )
        got = bound(start, matrices, sensors, window, mistakes, limits, int(rng.choice([1, 2, 16])))
        assert got >= want - 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_places_that_nobody_comes_to_change_nothing_however_many_they_are(seed: int) -> None:
    """More than are computed eight at a time."""
    rng, more = np.random.default_rng(seed), 20
    for _ in range(10):
        start, matrices, sensors, window, mistakes = random_window(rng)
        places = start.size
        wide = np.tile(np.eye(more), (len(matrices), 1, 1))
        wide[:, :places, :places] = matrices
        padded = [
            (step, np.append(cover, np.zeros(more - places, np.bool_)), s) for step, cover, s in sensors
        ]
        limits = 200, 1e6, 1e-3, 3000
        few = bound(start, matrices, sensors, window, mistakes, limits, 16)
        many = bound(np.append(start, np.zeros(more - places)), wide, padded, window, mistakes, limits, 16)
        assert many == pytest.approx(few, abs=1e-9)
        assert many >= optimum(start, matrices, sensors, *window, mistakes) - 1e-12


def test_thinning_out_keeps_the_sum_of_laws() -> None:
    """So the base rate is not multiplied: what the counts before the window leave adds up to the prior."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        start, matrices, sensors, (first, _), _ = random_window(rng)
        before = [each for each in sensors if each[0] < first]
        chain = chain_of(matrices)
        marginal = marginals(LocalChain(chain, start, 0), first + 1)
        signals, person = signals_of(before, start.size), LocalChain(chain, start, 0)
        laws = history_laws(person, signals, start[np.newaxis], first, marginal, 2)
        np.testing.assert_allclose(laws.sum(axis=0), marginal[first], atol=1e-7)


def random_counts(rng: np.random.Generator, places: int, steps: int) -> Counts:
    """Up to three counts of up to five values, by noise or by any outputs, in no order but that of time."""
    laws = []
    for _ in range(rng.integers(1, 4)):
        values = int(rng.integers(2, 6))
        if rng.random() < 0.5:
            noise = Gaussian(float(rng.choice([0.3, 0.6, 1.0]))).noise_law().probabilities
            seen = np.array([np.pad(noise, (v, values - 1 - v)) for v in range(values)]).T
        else:
            seen = rng.dirichlet(np.full(int(rng.integers(2, 6)), 0.7), values).T
            seen[1:][rng.random(seen[1:].shape) < 0.3] = 0.0
            seen /= seen.sum(axis=0)
        laws.append(seen[seen.any(axis=1)])
    size, values = (np.array(each, np.int64) for each in zip(*(own.shape for own in laws), strict=True))
    weight = np.zeros((len(laws), size.max()))
    likely = np.zeros((*weight.shape, values.max()))
    for g, each in enumerate(laws):
        weight[g, : size[g]] = each.mean(axis=1)
        likely[g, : size[g], : values[g]] = each / each.mean(axis=1)[:, np.newaxis]
    value = np.array([rng.integers(0, most, places) for most in values])
    return Counts(np.sort(rng.integers(0, steps, len(laws))), value, values, size, weight, likely)


@pytest.mark.parametrize("seed", range(12))
def test_counts_of_several_values_are_never_below_the_optimum_and_reach_it(seed: int) -> None:
    """Of every sequence of outputs the best guess, written down; whatever work may be done, and with all."""
    rng, reached = np.random.default_rng((seed, 21)), 0
    for _ in range(10):
        places, steps = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        matrices = np.array([random_matrix(rng, places, rng.choice(KINDS))])
        laws, mistakes = rng.dirichlet(np.ones(places), 2) / 2.0, int(rng.integers(0, min(steps, 3)))
        counts = random_counts(rng, places, steps)
        everything = all_paths(laws.sum(axis=0), matrices, steps)
        guesses = np.array(list(product(range(places), repeat=steps)))
        is_near = ((guesses[:, np.newaxis] != everything.paths).sum(axis=2) <= mistakes).astype(float)
        evidence = np.array([law[everything.paths[:, 0]] for law in laws])
        evidence *= everything.probability / laws.sum(axis=0)[everything.paths[:, 0]]
        for g, t in enumerate(counts.time):
            seen = (
                counts.weight[g, :, np.newaxis]
                * counts.likely[g, :, counts.value[g, everything.paths[:, t]]].T
            )
            evidence = (evidence[:, np.newaxis] * seen[: counts.size[g]]).reshape(-1, len(everything.paths))
        best = float(sum((is_near @ each).max() for each in evidence))
        person = LocalChain(chain_of(matrices), laws.sum(axis=0), 0)
        for expansions, operations, close, nodes, light in (
            (2000, 1e12, 0.0, 200_000, 0.0),
            (4, 3e3, 1e-3, 400, LIGHT),
            (3, 3e4, 1e-3, 60, np.inf),
        ):
            window = Window(
                person,
                steps,
                np.ones(places),
                mistakes,
                expansions,
                operations,
                moves_of(person, steps),
                light,
            )
            limits = Limits(close, close, nodes, 1.0, False, AS_LOW_AS_MAY_BE)
            found = sandwich_success(window, counts, laws, limits)[0]
            assert found >= best - 1e-12
            reached += close == 0.0 and found <= best + 1e-7
            assert close > 0.0 or found <= best + 0.02  # what it expects to gain is an estimate
    assert reached >= 9
