"""Mechanisms are found by name, and a mistake in naming them is answered with a remedy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.exceptions import MechanismError
from models.mechanisms import (
    MECHANISMS,
    Correlated,
    CountedAgain,
    Gaussian,
    Mechanism,
    Raw,
    Suppressed,
    Tiered,
    all_versions,
    counted_again,
    parse,
    shares_noise,
    truncated_mass,
)
from models.mechanisms.window_parts import NoiseShare
from models.noise import CorrelatedNoise, shift_probability
from models.releases import Sensor, SensorRelease


def test_each_contract_name_gives_its_mechanism() -> None:
    assert parse("raw", {}) == Raw()
    assert parse("gaussian", {"sigma": 2}) == Gaussian(2.0)
    assert parse("suppressed", {}) == Suppressed()
    assert list(MECHANISMS)[:5] == ["raw", "gaussian", "suppressed", "tiered", "correlated"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("gausian", "did you mean 'gaussian'?"), ("RAW", "did you mean 'raw'?"), ("laplace", "choose one of")],
)
def test_an_unknown_name_is_answered_with_the_closest_known_one(name: str, remedy: str) -> None:
    with pytest.raises(MechanismError) as refused:
        parse(name, {})
    assert remedy in refused.value.remedy
    assert repr(name) in str(refused.value)


@pytest.mark.parametrize("sigma", [None, "1.0", True, [1.0], math.nan, math.inf, -1.0, 0, 1e9])
def test_a_sigma_that_is_no_usable_number_is_refused(sigma: object) -> None:
    with pytest.raises(MechanismError, match="sigma"):
        parse("gaussian", {"sigma": sigma})


def test_a_missing_sigma_is_asked_for() -> None:
    with pytest.raises(MechanismError, match=r"must have a number 'sigma', got nothing"):
        parse("gaussian", {})


def test_a_misspelled_parameter_is_answered_with_the_known_one() -> None:
    with pytest.raises(MechanismError, match=r"did you mean 'sigma'\?"):
        parse("gaussian", {"sigma": 1.0, "sigm": 2.0})
    with pytest.raises(MechanismError, match="must have no parameters"):
        parse("raw", {"sigma": 1.0})


def test_mechanisms_with_equal_parameters_are_one_mechanism() -> None:
    """Integer or float sigma: one key in a batch, one table."""
    assert {Gaussian(1), Gaussian(1.0)} == {Gaussian(1.0)}  # type: ignore[arg-type]
    assert Gaussian(1.0) != Gaussian(1.5)
    assert len({Raw(), Suppressed(), Gaussian(1.0)}) == 3


def test_divergence_and_zcdp_are_exactly_half_the_inverse_variance_scale() -> None:
    """1 / (2 sigma^2), bit for bit: the number accountants and the differential-privacy ledger share."""
    for sigma in (0.05, 0.3, 1.0, 7.0, 10_000.0):
        assert Gaussian(sigma).divergence() == Gaussian(sigma).zcdp_rho() == 1.0 / (2.0 * sigma**2)


def test_discrete_noise_never_has_a_larger_variance_than_sigma_squared() -> None:
    """Canonne, Kamath and Steinke (2020): small sigmas lose variance, large ones do not."""
    assert Gaussian(0.3).variance() < 0.5 * 0.3**2
    for sigma in (1.0, 3.0, 250.0):
        assert Gaussian(sigma).variance() == pytest.approx(sigma**2, rel=1e-6)
        assert Gaussian(sigma).expected_absolute_error() == pytest.approx(
            sigma * math.sqrt(2 / math.pi), rel=0.2 / sigma**2
        )


def test_a_mechanism_made_of_others_is_charged_what_these_may_miss() -> None:
    """Also where it has a law of its own: a share's covers what its steps show besides."""
    whole = Gaussian(1.0)
    assert truncated_mass(NoiseShare(whole, 4, 0)) == 4 * truncated_mass(whole) > 0.0


# One person counted again: what accountants are told of a mechanism then.

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


def test_noise_that_steps_share_hides_a_larger_shift_by_its_independent_part() -> None:
    """The rest may be known from other steps; several values have no law of a single step either."""
    shared = Correlated(CorrelatedNoise.of_covariance(np.array([[2.0, 0.5], [0.5, 2.0]])), 0)
    assert counted_again(shared, 1) is shared
    again, sigma = counted_again(shared, 2), math.sqrt(shared.noise.independent_variance[0])
    exact = math.erf(1.0 / (math.sqrt(2.0) * sigma))  # P[|Z| < 1 / sigma], of a shift by two
    assert exact <= again.reveal_probability() < exact + 1e-6
    alone = shift_probability(shared.noise_law().probabilities, 2)
    assert again.reveal_probability() > alone, "the marginal law would hide too much"
    both = all_versions([shared, shared])
    assert both.reveal_probability() >= 1.0 - (1.0 - shared.reveal_probability()) ** 2 - 1e-12
    assert (both.gaussian_variance(), shares_noise(both), shares_noise(again)) == (None, True, True)
