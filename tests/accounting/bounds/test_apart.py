"""Patterns told apart through noise: normal values that tell no less, and the bound in a case by hand.

Against enumeration the bound is held in ``tests/accounting/continuous/test_soundness.py``.
"""

from __future__ import annotations

from math import erf, exp, log, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.bounds.noised.apart_kernel import SHOWN, normal_shifts, told_apart
from accounting.bounds.patterns.frontier_kernel import FrontierQuestion, frontier_effort
from accounting.bounds.patterns.raw_success_kernel import Outside
from accounting.exposure.step_information.likelihood_levels import levels_of
from models.mechanisms import CountedAgain, ErasureCoin, Mechanism, Tiered
from models.priors.chain import LocalChain
from tests.accounting.chains import chain_of
from tests.accounting.exposures import RAW, gaussian


def normal(x: float) -> float:
    return (1.0 + erf(x / sqrt(2.0))) / 2.0


def beyond(one: NDArray[np.float64], other: NDArray[np.float64], gamma: float) -> float:
    return float(np.maximum(0.0, one - gamma * other).sum())


@pytest.mark.parametrize(
    "mechanism",
    [
        gaussian(0.3),
        gaussian(0.5),
        gaussian(1.0),
        gaussian(3.0),
        gaussian(20.0),
        Tiered((("a", 0.5), ("b", 3.0))),
        CountedAgain(gaussian(2.0), 3),
    ],
)
def test_a_normal_value_tells_at_least_as_much_as_the_count(mechanism: Mechanism) -> None:
    """At every threshold, whichever of both laws is looked for; this is Blackwell's order of two laws."""
    tables = levels_of(mechanism)
    (shift,) = normal_shifts(tables)
    size = tables.outputs[0]
    weight, theta = tables.weight[0, :size], tables.theta[0, :size]
    absent, present = 2.0 * weight * (1.0 - theta), 2.0 * weight * theta
    for log_gamma in np.linspace(-12.0, 12.0, 241):
        gamma = exp(log_gamma)
        told = normal(shift / 2.0 - log_gamma / shift) - gamma * normal(-shift / 2.0 - log_gamma / shift)
        told = (1.0 - SHOWN) * max(0.0, told) + SHOWN
        assert beyond(present, absent, gamma) <= told + 1e-12
        assert beyond(absent, present, gamma) <= told + 1e-12
    assert shift < np.inf


@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
def test_a_normal_value_tells_hardly_more_than_a_discrete_one(sigma: float) -> None:
    (shift,) = normal_shifts(levels_of(gaussian(sigma)))
    assert 1.0 / sigma <= shift <= 1.05 / sigma


@pytest.mark.parametrize("mechanism", [RAW, ErasureCoin((gaussian(1.0),), 0.3, 0.3)])
def test_what_may_be_shown_counts_as_exact(mechanism: Mechanism) -> None:
    assert normal_shifts(levels_of(mechanism)).tolist() == [np.inf]


@pytest.mark.parametrize("shift", [0.01, 1.0, 20.0, np.inf])
def test_one_step_is_between_the_best_guess_and_what_gamma_one_gives(shift: float) -> None:
    person = LocalChain(chain_of(np.full((1, 2, 2), 0.5), np.array([0.5, 0.5])), np.array([0.5, 0.5]), 0)
    counted, marginal = np.array([[False, True]]), np.array([[0.5, 0.5]])
    outside = Outside(marginal, np.zeros(2), np.ones((1, 2)))
    nought = np.zeros(1, np.int64)
    found = told_apart(
        FrontierQuestion(person, marginal, 0, outside, frontier_effort(4)),
        counted,
        nought,
        counted,
        np.array([shift]),
    )
    best = normal(shift / 2.0)
    assert best - 1e-9 <= found <= min(1.0, 0.5 + 2.0 * normal(shift / 4.0) - 1.0) + 1e-9


@pytest.mark.parametrize(("steps", "shift"), [(60, 4.0), (250, 8.0), (250, 20.0)])
def test_weights_beyond_what_numbers_hold_lower_nothing(steps: int, shift: float) -> None:
    """Independent places, each counted: the best guess of a step is right with a known chance."""
    start = np.array([0.9, 0.1])
    person = LocalChain(chain_of(np.tile(start, (1, 2, 1)), start), start, 0)
    hits, marginal = np.ones((steps, 2), np.bool_), np.tile(start, (steps, 1))
    time, cover = np.repeat(np.arange(steps), 2), np.tile(np.eye(2, dtype=np.bool_), (steps, 1))
    outside = Outside(start[np.newaxis], np.zeros(2), np.ones((1, 2)))
    found = told_apart(
        FrontierQuestion(person, marginal, 0, outside, frontier_effort(4)),
        hits,
        time,
        cover,
        np.full(2 * steps, shift),
    )
    distance, odds = sqrt(2.0) * shift, log(9.0)
    right = 0.9 * normal(distance / 2.0 + odds / distance) + 0.1 * normal(distance / 2.0 - odds / distance)
    assert right**steps - 1e-9 <= found <= 1.0


def test_many_weak_counts_add_less_than_half_of_what_exact_ones_do() -> None:
    """Two places, ten steps, a count of each in each step."""
    matrix = np.array([[[0.8, 0.2], [0.3, 0.7]]])
    start = np.array([0.6, 0.4])
    steps, person = 10, LocalChain(chain_of(matrix, start), start, 0)
    hits, marginal = np.ones((steps, 2), np.bool_), np.tile(start, (steps, 1))
    time, cover = np.repeat(np.arange(steps), 2), np.tile(np.eye(2, dtype=np.bool_), (steps, 1))
    outside = Outside(start[np.newaxis], np.zeros(2), np.ones((1, 2)))

    def bound(shift: float) -> float:
        return told_apart(
            FrontierQuestion(person, marginal, 1, outside, frontier_effort(16)),
            hits,
            time,
            cover,
            np.full(2 * steps, shift),
        )

    guess, ceiling = bound(1e-3), bound(0.5)
    assert bound(np.inf) == pytest.approx(1.0)
    assert guess < ceiling < guess + 0.5 * (1.0 - guess)


def one_sensor(place: int, steps: int, shift: float, mistakes: int) -> float:
    """Two places, (.9, .1) of the time, each kept for the next step half the time; a count of one of them."""
    start = np.array([0.9, 0.1])
    matrix = (0.5 * np.eye(2) + 0.5 * start)[np.newaxis]
    person = LocalChain(chain_of(matrix, start), start, 0)
    hits = np.zeros((steps, 2), np.bool_)
    hits[:, place] = True
    outside = Outside(start[np.newaxis], np.zeros(2), np.ones((1, 2)))
    marginal, shifts = np.tile(start, (steps, 1)), np.full(steps, shift)
    return told_apart(
        FrontierQuestion(person, marginal, mistakes, outside, frontier_effort(16)),
        hits,
        np.arange(steps),
        hits,
        shifts,
    )


@pytest.mark.parametrize(("steps", "most"), [(12, 0.87), (24, 0.82), (40, 0.72)])
def test_a_count_of_the_likely_place_tells_no_more_than_one_of_the_other(steps: int, most: float) -> None:
    """Somebody is at the one place or the other: both counts say the same."""
    likely, rare = one_sensor(0, steps, 1.0, 1), one_sensor(1, steps, 1.0, 1)
    assert likely <= most
    assert likely == pytest.approx(rare, rel=0.01)
