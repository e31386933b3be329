"""Bayesian leakage by enumeration, and the rules for adding it up only where they hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting.exceptions import CompositionError, LedgerError
from accounting.ledgers.bayesian import (
    Adversary,
    Declared,
    FiniteDatabase,
    adversaries,
    compose,
    largest,
    leakage,
    leakage_to,
    read_bayesian,
    summed,
)
from models.mechanisms import Gaussian, Suppressed, Tiered
from tests.accounting.ledgers.logs import A, B, log_of

EVERYTHING = Declared(True, True, True, True)


def has_independent_tuples(database: FiniteDatabase) -> bool:
    """Whether the law is the product of its margins."""
    product = np.ones(())
    for axis in range(database.law.ndim):
        margin = database.law.sum(axis=tuple(j for j in range(database.law.ndim) if j != axis))
        product = np.multiply.outer(product, margin)
    return bool(np.allclose(product, database.law, rtol=0.0, atol=1e-12))


SEEDS = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def bit_channel(probability_of_one: NDArray[np.float64]) -> NDArray[np.float64]:
    """channel[x..., y] for one output bit."""
    return np.stack([1.0 - probability_of_one, probability_of_one], axis=-1)


def random_database(random: np.random.Generator, tuples: int) -> FiniteDatabase:
    shape = tuple(int(random.integers(2, 4)) for _ in range(tuples))
    return FiniteDatabase(random.dirichlet(np.ones(math.prod(shape))).reshape(shape))


def random_channel(
    random: np.random.Generator, database: FiniteDatabase, outputs: int = 3
) -> NDArray[np.float64]:
    return random.dirichlet(np.ones(outputs), size=database.law.shape)


def test_the_sum_fails_for_correlated_tuples() -> None:
    """The counterexample: leakages 1.565 and 1.476, together 3.203 where theorem 1 promises 3.041."""
    database = FiniteDatabase(np.array([[0.05, 0.89], [0.04, 0.02]]))
    first = bit_channel(np.array([[0.17, 0.12], [0.77, 0.22]]))
    second = bit_channel(np.array([[0.08, 0.06], [0.35, 0.08]]))
    one, two = leakage(database, first).epsilon, leakage(database, second).epsilon
    together = leakage(database, compose(first, second)).epsilon
    assert [one, two, together] == pytest.approx([1.565, 1.476, 3.203], abs=5e-4)
    assert together > one + two
    assert not has_independent_tuples(database)
    with pytest.raises(CompositionError, match="must have independent tuples"):
        summed([one, two], Declared(independent_coins=True, every_known_set=True))


def test_the_maximum_fails_for_correlated_tuples() -> None:
    """Two equal bits, each through the same randomiser: the pair leaks twice the maximum."""
    database = FiniteDatabase(np.diag([0.5, 0.5]))
    probability = np.array([0.2, 0.8])
    first = bit_channel(np.broadcast_to(probability[:, None], (2, 2)))
    second = bit_channel(np.broadcast_to(probability[None, :], (2, 2)))
    one, two = leakage(database, first).epsilon, leakage(database, second).epsilon
    assert one == two == pytest.approx(math.log(4))
    assert leakage(database, compose(first, second)).epsilon == pytest.approx(2 * math.log(4))
    with pytest.raises(CompositionError, match="must have independent tuples"):
        largest([one, two], Declared(disjoint_people=True, independent_coins=True, every_known_set=True))


def test_at_one_fixed_known_set_even_independent_tuples_do_not_add_up() -> None:
    """A bit sent through an exclusive or with an unknown one, and that one noisily: 0 + 0 gives 1.52."""
    database = FiniteDatabase(np.full((2, 2), 0.25))
    target, other = np.meshgrid([0, 1], [0, 1], indexing="ij")
    first = bit_channel(np.where((target ^ other) == 1, 0.9, 0.1))
    second = bit_channel(np.where(other == 1, 0.9, 0.1))
    nobody = Adversary(0, ())
    assert leakage_to(database, first, nobody).epsilon == pytest.approx(0.0, abs=1e-12)
    assert leakage_to(database, second, nobody).epsilon == pytest.approx(0.0, abs=1e-12)
    together = leakage_to(database, compose(first, second), nobody).epsilon
    assert together == pytest.approx(math.log((0.9**2 + 0.1**2) / (2 * 0.9 * 0.1)))
    assert together == pytest.approx(1.52, abs=5e-3)
    assert leakage(database, compose(first, second)).epsilon <= summed(
        [leakage(database, first).epsilon, leakage(database, second).epsilon], EVERYTHING
    )
    with pytest.raises(CompositionError, match="every set of known tuples"):
        summed([0.0, 0.0], Declared(independent_tuples=True, independent_coins=True))


@pytest.mark.slow
@given(SEEDS, st.integers(1, 3))
@settings(max_examples=60)
def test_with_independent_tuples_the_sum_holds(random: np.random.Generator, tuples: int) -> None:
    """Random product laws and channels of the whole database: never a violation."""
    law = np.ones(())
    for _ in range(tuples):
        law = np.multiply.outer(law, random.dirichlet(np.ones(2)))
    database = FiniteDatabase(law)
    channels = [random_channel(random, database, 2) for _ in range(3)]
    assert has_independent_tuples(database)
    together = leakage(database, compose(*channels)).epsilon
    assert together <= summed([leakage(database, each).epsilon for each in channels], EVERYTHING) + 1e-9


@given(SEEDS)
@settings(max_examples=20)
def test_with_independent_tuples_the_sum_holds_for_inputs_that_are_earlier_outputs(
    random: np.random.Generator,
) -> None:
    """Zhao's auxiliary inputs: each later channel sees what came out, and counts for its worst input."""
    database = FiniteDatabase(np.multiply.outer(random.dirichlet(np.ones(2)), random.dirichlet(np.ones(2))))
    first = random_channel(random, database, 2)
    second, third = (random.dirichlet(np.ones(2), size=(2, 2, earlier)) for earlier in (2, 4))
    joint = compose(first, second, third)
    for a, b, c in itertools.product(range(2), repeat=3):
        by_hand = first[..., a] * second[..., a, b] * third[..., 2 * a + b, c]
        np.testing.assert_allclose(joint[..., 4 * a + 2 * b + c], by_hand)
    worst = [
        max(leakage(database, each[..., earlier, :]).epsilon for earlier in range(each.shape[-2]))
        for each in (second, third)
    ]
    assert leakage(database, joint).epsilon <= leakage(database, first).epsilon + sum(worst) + 1e-9


@given(SEEDS)
@settings(max_examples=40)
def test_with_independent_tuples_the_maximum_holds_for_disjoint_people(random: np.random.Generator) -> None:
    database = FiniteDatabase(np.multiply.outer(random.dirichlet(np.ones(3)), random.dirichlet(np.ones(2))))
    first = np.repeat(random.dirichlet(np.ones(3), size=3)[:, None, :], 2, axis=1)
    second = np.repeat(random.dirichlet(np.ones(3), size=2)[None, :, :], 3, axis=0)
    separate = [leakage(database, each).epsilon for each in (first, second)]
    assert leakage(database, compose(first, second)).epsilon == pytest.approx(largest(separate, EVERYTHING))


@given(SEEDS)
@settings(max_examples=40)
def test_post_processing_never_adds(random: np.random.Generator) -> None:
    """Any random function of the output leaks at most as much, correlated tuples included.

    Zhao, theorem 3.
    """
    database = random_database(random, 2)
    channel = random_channel(random, database, 4)
    processed = channel @ random.dirichlet(np.ones(3), size=4)
    before = leakage(database, channel).epsilon
    assert leakage(database, processed).epsilon <= before + 1e-9


@given(SEEDS, st.integers(1, 3))
@settings(max_examples=30)
def test_the_leakage_is_the_definition_written_out(random: np.random.Generator, tuples: int) -> None:
    """Loops over targets, known sets, values and outputs, with zeros in the law."""
    database = random_database(random, tuples)
    law = np.where(random.random(database.law.shape) < 0.2, 0.0, database.law)
    if law.sum() == 0.0:
        return
    database, channel = FiniteDatabase(law / law.sum()), random_channel(random, database)
    worst = 0.0
    cells = list(itertools.product(*map(range, law.shape)))
    for adversary in adversaries(database.law.ndim):
        kept = (adversary.target, *adversary.known)
        for known in itertools.product(*(range(law.shape[j]) for j in adversary.known)):
            for y in range(channel.shape[-1]):
                ratios = []
                for value in range(law.shape[adversary.target]):
                    rows = [x for x in cells if tuple(x[j] for j in kept) == (value, *known)]
                    mass = sum(database.law[x] for x in rows)
                    if mass > 0.0:
                        ratios.append(sum(database.law[x] * channel[(*x, y)] for x in rows) / mass)
                worst = max(worst, math.log(max(ratios) / min(ratios)) if ratios else 0.0)
    assert leakage(database, channel).epsilon == pytest.approx(worst, abs=1e-9)


def test_an_output_that_excludes_a_value_leaks_without_limit() -> None:
    database = FiniteDatabase(np.array([0.5, 0.5]))
    assert leakage(database, np.eye(2)).epsilon == math.inf
    assert leakage(database, np.full((2, 2), 0.5)).epsilon == 0.0


def test_what_cannot_be_answered_exactly_is_refused() -> None:
    database = FiniteDatabase(np.full((2,) * 12, 2.0**-12))
    with pytest.raises(LedgerError, match="use fewer tuples"):
        leakage(database, np.full((*database.law.shape, 16), 1 / 16))
    with pytest.raises(LedgerError, match="sum to 1"):
        FiniteDatabase(np.array([0.5, 0.6]))
    with pytest.raises(LedgerError, match="law of outputs for each"):
        leakage(FiniteDatabase(np.array([1.0])), np.ones((2, 1)))
    with pytest.raises(LedgerError, match="sum to 1"):
        leakage(FiniteDatabase(np.array([0.5, 0.5])), np.ones((2, 2)))


@pytest.mark.parametrize("missing", ["independent_coins", "disjoint_people"])
def test_each_condition_is_asked_for_by_name(missing: str) -> None:
    """Two sensors in one step are not disjoint: a person is at one or the other."""
    declared = Declared(**{name: name != missing for name in EVERYTHING.__dataclass_fields__})
    with pytest.raises(CompositionError, match=r"randomness of its own|two sensors in one step"):
        largest([1.0, 2.0], declared)
    assert largest([1.0, 2.0], EVERYTHING) == 2.0
    assert largest([], EVERYTHING) == summed([], EVERYTHING) == 0.0


def test_a_log_adds_up_for_independent_people_only() -> None:
    """Each releasing step costs moving a person between two sensors: twice the largest epsilon."""
    tiers = Tiered((("public", 0.1), ("partner", 0.5)))
    log = log_of({A: tiers, B: tiers}, {A: Suppressed()}, {A: tiers})
    statement = read_bayesian(log, Declared(independent_tuples=True), 1e-6)
    assert statement.epsilon == pytest.approx(1.5)
    assert statement.releasing_steps == 2
    with pytest.raises(CompositionError, match="independent tuples"):
        read_bayesian(log, Declared(), 1e-6)
    noised = read_bayesian(log_of({A: Gaussian(1.0)}), Declared(independent_tuples=True), 1e-6)
    assert noised.epsilon == math.inf


def test_what_a_sampler_cuts_off_is_charged_to_delta() -> None:
    """A table ends: the value beyond it has a log-ratio without limit, which pure epsilon would deny."""
    tiers = Tiered((("public", 0.1), ("partner", 0.5)))
    law = tiers.noise_law()
    assert law.probabilities[0] > 0.0  # the lowest value of one place is impossible from the other
    log = log_of({A: tiers, B: tiers}, {A: tiers})
    statement = read_bayesian(log, Declared(independent_tuples=True), 1e-6)
    assert statement.truncated_mass == pytest.approx(3 * law.truncated_mass)
    assert statement.epsilon == pytest.approx(1.5)
    needed = (1.0 + math.exp(1.5)) * statement.truncated_mass
    assert read_bayesian(log, Declared(independent_tuples=True), needed / 2).epsilon == math.inf
    with pytest.raises(LedgerError, match="delta must lie"):
        read_bayesian(log, Declared(independent_tuples=True), 0.0)
