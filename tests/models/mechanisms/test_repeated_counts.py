"""One person counted again: what accountants are told of a mechanism then."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.exceptions import MechanismError
from models.mechanisms import (
    Correlated,
    CountedAgain,
    Gaussian,
    Mechanism,
    Raw,
    Suppressed,
    Tiered,
    counted_again,
)
from models.noise import CorrelatedNoise
from models.releases import Sensor, SensorRelease

TIERED = Tiered((("public", 0.2), ("officers", 1.0)))
NOISED: list[Mechanism] = [Gaussian(0.7), Gaussian(3.0), Gaussian(200.0), TIERED]


def information(read: np.ndarray, mechanism: Mechanism, probability: float) -> float:
    """``I(here; published)`` by the whole joint law, who is here being read ``k`` times with ``read[k]``."""
    law = mechanism.noise_law()
    assert law is not None
    absent = np.append(law.probabilities, np.zeros(read.size - 1))
    here = np.convolve(law.probabilities, read)
    mixture = (1.0 - probability) * absent + probability * here
    total = 0.0
    for weight, own in ((1.0 - probability, absent), (probability, here)):
        seen = own > 0.0
        total += weight * float((own[seen] * np.log(own[seen] / mixture[seen])).sum())
    return total


@pytest.mark.parametrize("mechanism", NOISED, ids=str)
@pytest.mark.parametrize("most", [2, 3, 7])
def test_every_law_of_readings_up_to_the_most_is_bounded(mechanism: Mechanism, most: int) -> None:
    """Always so often, by chance, or seldom: information and total variation stay below what is said."""
    counted = counted_again(mechanism, most)
    rng = np.random.default_rng(most)
    noise = mechanism.noise_law().probabilities
    laws = [np.eye(most + 1)[k] for k in range(most + 1)] + list(rng.dirichlet(np.ones(most + 1), 5))
    for read in laws:
        apart = np.convolve(noise, read) - np.append(noise, np.zeros(most))
        assert 0.5 * np.abs(apart).sum() <= counted.reveal_probability() + 1e-15
        for probability in (1e-4, 0.1, 0.5, 0.9):
            below = float(counted.information(np.array(probability)))
            assert information(read, mechanism, probability) <= below + 1e-12


@pytest.mark.parametrize("mechanism", NOISED, ids=str)
def test_once_is_the_mechanism_itself_and_more_reveals_more(mechanism: Mechanism) -> None:
    assert counted_again(mechanism, 1) is mechanism
    each = [counted_again(mechanism, most) for most in (1, 2, 4)]
    shown = [one.reveal_probability() for one in each]
    assert shown == sorted(shown)
    assert counted_again(mechanism, 4).zcdp_rho() == 16 * mechanism.zcdp_rho()
    assert counted_again(mechanism, 4).pure_epsilon() == 4 * mechanism.pure_epsilon()
    assert each[2].variance() == mechanism.variance()


def test_an_exact_count_and_none_are_what_they_are() -> None:
    assert counted_again(Raw(), 5) == Raw()
    assert counted_again(Suppressed(), 5) == Suppressed()


def test_an_account_is_not_made_of_an_account() -> None:
    counted = counted_again(Gaussian(2.0), 3)
    assert counted_again(counted, 3) is counted
    release = SensorRelease(Sensor("door", (0,), most_counts=3), Gaussian(2.0))
    assert release.accounted == counted == CountedAgain(Gaussian(2.0), 3)
    assert math.isinf(counted.divergence())


def test_noise_that_steps_share_is_refused() -> None:
    shared = Correlated(CorrelatedNoise.of_covariance(np.array([[2.0, 0.5], [0.5, 2.0]])), 0)
    with pytest.raises(MechanismError, match="once in a step"):
        counted_again(shared, 2)
    assert counted_again(shared, 1) is shared
