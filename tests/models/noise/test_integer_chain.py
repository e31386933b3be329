"""Tiers of a count: each has exactly its own noise, together they reveal what the best-informed one does."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from models.exceptions import MechanismError
from models.keys import expand_words
from models.mechanisms import Tiered
from models.noise import TOTAL, chain_noise, geometric_table
from models.noise.integer_chain import (
    MAX_EPSILON,
    MIN_EPSILON,
    IntegerTable,
    ReleasedNoise,
    between_weights,
    increment_table,
)

LEVELS = st.lists(st.floats(0.05, 6.0), min_size=2, max_size=4, unique=True).map(sorted)


def random_words(*shape: int, seed: int = 5) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, size=(*shape, 2), dtype=np.uint64)


def ideal(epsilon: float, last: int) -> NDArray[np.float64]:
    """Two-sided geometric probabilities of -last..last from the definition."""
    q = math.exp(-epsilon)
    return (1 - q) / (1 + q) * q ** np.abs(np.arange(-last, last + 1.0))


def cell_p_value(noise: NDArray[np.int64], table: IntegerTable) -> float:
    """Pearson's test against the table's probabilities, rare values pooled at both ends."""
    reach = int(np.quantile(np.abs(noise), 0.99)) + 1
    clipped = np.clip(noise, -reach, reach) + reach
    law = table.probabilities
    middle = law[table.last - reach : table.last + reach + 1].copy()
    middle[0], middle[-1] = law[: table.last - reach + 1].sum(), law[table.last + reach :].sum()
    return float(stats.chisquare(np.bincount(clipped, minlength=2 * reach + 1), middle * noise.size).pvalue)


@given(st.floats(MIN_EPSILON * 10, MAX_EPSILON))
@settings(max_examples=40)
def test_the_table_is_the_two_sided_geometric_law(epsilon: float) -> None:
    """All mass there, each probability the definition's, and less than 2^-100 cut off."""
    table = geometric_table(epsilon)
    assert table.units[0] + 2 * sum(table.units[1:]) == TOTAL
    assert np.allclose(table.probabilities, ideal(epsilon, table.last), rtol=1e-12, atol=2.0**-127)
    assert table.truncated_mass < 2.0**-100


@given(st.floats(0.05, 6.0), st.floats(0.05, 6.0))
@settings(max_examples=40)
def test_a_tier_plus_its_increment_is_the_noisier_tier_exactly(first: float, second: float) -> None:
    """The convolution of noise and increment is the lower level's noise, to 1e-15."""
    lower, higher = sorted((first, second))
    if lower == higher:
        return
    noise, increment = geometric_table(higher), increment_table(lower, higher)
    summed = np.convolve(noise.probabilities, increment.probabilities)
    last = noise.last + increment.last
    assert np.abs(summed - ideal(lower, last)).max() < 1e-15


def test_the_convolution_is_exact_far_beyond_floating_point() -> None:
    """In exact fractions the error is what the tables report to have cut off, about 2^-120."""
    higher, increment, lower = geometric_table(2.0), increment_table(1.5, 2.0), geometric_table(1.5)
    allowed = Fraction(higher.truncated_mass + increment.truncated_mass + lower.truncated_mass)
    for k in (0, 1, 2, 7):
        total = Fraction(sum(between_weights(higher, increment, k).values()), TOTAL**2)
        assert abs(total - Fraction(lower.units[k], TOTAL)) <= allowed


@pytest.mark.parametrize("levels", [[0.2, 0.5, 1.5], [0.05, 3.0]])
def test_every_tier_of_a_chain_has_the_noise_of_its_level(levels: list[float]) -> None:
    noise = chain_noise(levels, random_words(100_000, len(levels)))
    for position, level in enumerate(levels):
        assert cell_p_value(noise[:, position], geometric_table(level)) > 1e-3


def test_increments_do_not_depend_on_the_tier_they_are_added_to() -> None:
    """Independence of V_1 - V_2 and V_2: their joint table against the product of its margins."""
    noise = chain_noise([0.5, 1.0], random_words(200_000, 2))
    better, increment = np.clip(noise[:, 1], -3, 3), np.clip(noise[:, 0] - noise[:, 1], -3, 3)
    table = np.zeros((7, 7))
    np.add.at(table, (better + 3, increment + 3), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-3
    fresh = chain_noise([0.5], random_words(200_000, 1, seed=6))[:, 0]  # what independence is not
    np.add.at(table := np.zeros((7, 7)), (better + 3, np.clip(fresh - noise[:, 1], -3, 3) + 3), 1)
    assert stats.chi2_contingency(table).pvalue < 1e-9


@given(LEVELS, st.integers(-6, 6), st.data())
@settings(max_examples=60)
def test_a_coalition_learns_no_more_than_its_best_member(
    levels: list[float], own: int, data: st.DataObject
) -> None:
    """The likelihood ratio of all pooled values at neighbouring counts stays within e^(max epsilon)."""
    steps = [data.draw(st.integers(-6, 6)) for _ in levels[1:]]
    falling = levels[::-1]

    def log_density(shift: int) -> float:
        """Log-probability of the coalition's values when the count is ``shift`` higher."""
        value = geometric_table(falling[0]).units[abs(own - shift)] / TOTAL
        for low, high, step in zip(falling[1:], falling, steps, strict=False):
            value *= (
                increment_table(low, high).units[abs(step)] / TOTAL
            )  # the difference of two published values
        return math.log(value)

    assert abs(log_density(0) - log_density(1)) <= levels[-1] * (1 + 1e-12)


def test_two_independent_tiers_would_leak_more_than_the_better_one() -> None:
    """What the chain is for: levels 0.6 and 0.3 drawn apart reveal 0.9 together, from one chain 0.6."""
    apart = math.log(ideal(0.6, 9)[9] * ideal(0.3, 9)[9] / (ideal(0.6, 9)[8] * ideal(0.3, 9)[8]))
    assert apart == pytest.approx(0.9)


three_levels = st.lists(st.floats(0.1, 5.0), min_size=3, max_size=3, unique_by=lambda level: math.exp(-level))


@given(three_levels, st.integers(0, 2))
@settings(max_examples=25)
def test_a_level_read_later_has_the_law_it_would_have_had_from_the_start(
    levels: list[float], late: int
) -> None:
    """Joint probability of all three levels: chain fixed beforehand = two levels first, then the third."""
    levels = sorted(levels)
    q = [math.exp(-level) for level in levels]
    values = (4, -1, 1)  # at the three levels

    def beforehand() -> float:
        value = ideal(levels[2], 9)[9 + values[2]]
        for low in (1, 0):
            table = increment_table(levels[low], levels[low + 1])
            value *= table.units[abs(values[low] - values[low + 1])] / TOTAL
        return float(value)

    def later() -> float:
        kept = [i for i in range(3) if i != late]
        first = ideal(levels[kept[1]], 9)[9 + values[kept[1]]]
        table = increment_table(levels[kept[0]], levels[kept[1]])
        first *= table.units[abs(values[kept[0]] - values[kept[1]])] / TOTAL
        if late == 0:
            return float(
                first * increment_table(levels[0], levels[1]).units[abs(values[0] - values[1])] / TOTAL
            )
        if late == 1:
            steps = increment_table(levels[1], levels[2]), increment_table(levels[0], levels[1])
            weights, own = between_weights(*steps, values[0] - values[2]), values[1] - values[2]
        else:
            steps = geometric_table(levels[2]), increment_table(levels[1], levels[2])
            weights, own = between_weights(*steps, values[1]), values[2]
        return float(first * weights[own] / sum(weights.values()))

    assert q[0] > q[1] > q[2]
    assert later() == pytest.approx(beforehand(), rel=1e-12)


@pytest.mark.parametrize("late", [0.2, 0.7, 3.0])
def test_raising_a_recipient_later_continues_the_same_process(late: float) -> None:
    """Sampled: below, between and above the levels read, the new level has its own law, none is redrawn."""
    levels = (0.4, 1.2)
    first = chain_noise(levels, random_words(8_000, 2))
    words = random_words(8_000, seed=9)
    noise = np.empty(8_000, dtype=np.int64)
    for i, (pair, word) in enumerate(zip(first.tolist(), words.tolist(), strict=True)):
        raised = ReleasedNoise(levels, tuple(pair)).with_level(late, (word[0] << 64) | word[1])
        assert tuple(raised.at(level) for level in levels) == tuple(pair)
        assert raised.with_level(late, 0) is raised
        noise[i] = raised.at(late)
    assert cell_p_value(noise, geometric_table(late)) > 1e-3


def test_all_tiers_of_a_value_come_from_its_one_word() -> None:
    """The same reading gives the same tiers; the published value is the best-informed tier's."""
    mechanism = Tiered((("partner", 1.0), ("public", 0.2)))
    counts, words = np.arange(50, dtype=np.int64), random_words(50)
    tiers = mechanism.publish_tiers(counts, words)
    assert tiers.shape == (50, 2)
    assert np.array_equal(tiers[:, 1], mechanism.publish(counts, words))
    assert np.array_equal(tiers[7:8], mechanism.publish_tiers(counts[7:8], words[7:8]))
    assert mechanism.tiers == (("public", 0.2), ("partner", 1.0))


def test_stretched_words_do_not_depend_on_how_many_are_asked_for() -> None:
    words = random_words(20)
    assert np.array_equal(expand_words(words, 5)[:, :3], expand_words(words, 3))
    assert np.unique(expand_words(words, 5)).size == 200
    assert expand_words(words[:0], 4).shape == (0, 4, 2)


@pytest.mark.parametrize(
    ("parameters", "must"),
    [
        ({}, "at least one"),
        ({"epsilon_a": 0.5, "epsilon_b": 0.5}, "levels of their own"),
        ({"epsilon_Public": 0.5}, "small letters"),
        ({"epsilon_a": 0.0}, "epsilon must lie in"),
        ({"epsilon_a": math.nan}, "epsilon must lie in"),
        ({"epsilon_a": "1"}, "must have a number"),
        ({"epsilon": 1.0}, "must be epsilon_<tier>"),
    ],
)
def test_tiers_that_cannot_be_are_refused(parameters: dict[str, object], must: str) -> None:
    with pytest.raises(MechanismError, match=must):
        Tiered.from_parameters(parameters)


def test_noise_that_was_never_read_is_not_made_up() -> None:
    with pytest.raises(MechanismError, match="must have been read"):
        ReleasedNoise((0.5,), (2,)).at(0.6)
    with pytest.raises(MechanismError, match="each level must have its noise"):
        ReleasedNoise((0.5, 0.6), (2,))
