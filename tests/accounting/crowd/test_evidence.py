"""What a count says among others of a known variance, against exact laws of sums of independent bits."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from accounting.exposure.crowd import revealed
from accounting.exposure.crowd.evidence import MOST_BITS, outputs_among, worth_of_bits
from models.mechanisms import Raw, Tiered
from tests.accounting.exposures import gaussian
from tests.volume import some

Floats = NDArray[np.float64]

ODDS = np.exp(np.concatenate(([0.0], np.geomspace(0.01, 17.0, 60))))
NOISES = [
    None,
    None,
    None,
    gaussian(0.4),
    gaussian(0.8),
    gaussian(1.5),
    gaussian(4.0),
    Tiered((("public", 0.8),)),
]


def worth(absent: Floats, present: Floats) -> Floats:
    """``e`` at each of the ``ODDS`` for "counted" against "not counted", and the other way round, (2, O)."""
    raised = np.maximum(0.0, present - ODDS[:, None] * absent).sum(axis=1)
    return np.array([raised, np.maximum(0.0, absent - ODDS[:, None] * present).sum(axis=1)])


def bits_of_two_probabilities(rng: np.random.Generator) -> tuple[Floats, float]:
    """The law of a sum of bits of at most two probabilities, and its variance: 0.02 to 80."""
    variance = float(np.exp(rng.uniform(np.log(0.02), np.log(80.0))))
    first = int(np.exp(rng.uniform(0.0, np.log(400.0))))
    shares = min(variance * rng.random(), first / 4.0), 0.0
    rest = variance - shares[0]
    numbers = first, int(np.ceil(4.0 * rest) + np.exp(rng.uniform(0.0, np.log(1000.0)))) - 1
    law, variance = np.ones(1), 0.0
    for number, part in zip(numbers, (shares[0], rest), strict=True):
        q = 0.5 - sqrt(max(0.0, 0.25 - part / max(number, 1)))
        q = 1.0 - q if rng.random() < 0.5 else q
        law = np.convolve(law, binom.pmf(np.arange(number + 1), number, q))
        variance += number * q * (1.0 - q)
    return law, variance


def bits_of_many_probabilities(rng: np.random.Generator) -> tuple[Floats, float]:
    """The law of a sum of unlike bits."""
    q = rng.beta(*rng.choice([0.1, 0.5, 1.0, 5.0], 2), size=int(rng.integers(1, 120)))
    law = np.ones(1)
    for each in q:
        law = np.convolve(law, [1.0 - each, each])
    return law, float((q * (1.0 - q)).sum())


def check(rng: np.random.Generator) -> None:
    """No sum of bits is worth more at any odds than the channel that stands for its variance."""
    law, variance = (bits_of_two_probabilities if rng.random() < 0.8 else bits_of_many_probabilities)(rng)
    mechanism = NOISES[int(rng.integers(len(NOISES)))]
    noise = None if mechanism is None else mechanism.noise_law()
    if noise is not None:
        law = np.convolve(law, noise.probabilities)
    most_counts = int(rng.choice([1, 2, 3, 5], p=[0.6, 0.2, 0.1, 0.1]))
    shown = revealed(variance, mechanism or Raw(), 0, most_counts)
    absent, present, left_out = outputs_among(variance, noise, shown, most_counts)
    assert absent.sum() == pytest.approx(1.0, abs=1e-5)  # rounded up
    assert present.sum() == pytest.approx(1.0, abs=1e-5)
    assert 0.0 <= left_out < 1e-6
    for often in range(1, most_counts + 1):
        none = np.zeros(often)
        exact = worth(np.append(law, none), np.append(none, law))
        assert (exact <= worth(absent, present) + 1e-12).all()


@pytest.mark.slow
def test_no_sum_of_bits_is_worth_more_than_its_channel() -> None:
    """Every odds, both ways round, raw and under noise, of people who may be counted again."""
    for seed in (21_056, 25_837, *range(1_000)):  # in the first two rounding once won 4e-10
        check(np.random.default_rng(seed))


@pytest.mark.thorough
@pytest.mark.slow
def test_no_sum_of_bits_is_worth_more_than_its_channel_in_many_trials() -> None:
    """The same, longer."""
    for seed in some(40_000):
        check(np.random.default_rng(10_000 + seed))


def test_more_bits_are_worth_less_and_their_worth_is_convex_in_their_number() -> None:
    """What the average over a Poisson count rests on; never below a law of as many bits."""
    for mechanism in NOISES[2:5]:
        law = None if mechanism is None else mechanism.noise_law()
        noise = np.ones(1) if law is None else law.probabilities
        found = worth_of_bits(noise, ODDS, 24, 1)
        twice = worth_of_bits(noise, ODDS, 24, 2)
        assert (twice >= found - 1e-12).all()
        assert (np.diff(twice, axis=0) <= 1e-12).all()
        assert (np.diff(found, axis=0) <= 1e-12).all()
        assert (np.diff(found, 2, axis=0) >= -1e-12).all()
        for number, seldom in ((1, 1), (2, 0), (3, 2), (8, 4), (24, 5)):
            laws = [binom.pmf(np.arange(n + 1), n, q) for n, q in ((seldom, 0.25), (number - seldom, 0.75))]
            sums = np.convolve(np.convolve(*laws), noise)
            exact = worth(np.append(sums, 0.0), np.append(0.0, sums))
            assert (exact <= found[number] + 1e-12).all()


def test_a_channel_says_less_of_larger_crowds() -> None:
    """At every odds, beyond the largest table, too; of nobody it says all."""
    variances = (0.0, 0.02, 0.3, 1.0, 4.0, 20.0, MOST_BITS / 4.0, 1000.0)
    found = [worth(*outputs_among(each, None, revealed(each, Raw()))[:2]) for each in variances]
    assert (found[0] >= 1.0 - 1e-9).all()
    for fewer, more in pairwise(found):
        assert (more <= fewer + 1e-12).all()
    assert found[-1][0, 0] == pytest.approx(revealed(1000.0, Raw()), rel=1e-9)
