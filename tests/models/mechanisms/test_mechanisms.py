"""Mechanisms are found by name, and a mistake in naming them is answered with a remedy."""

from __future__ import annotations

import math

import pytest

from models.exceptions import MechanismError
from models.mechanisms import MECHANISMS, Gaussian, Raw, Suppressed, parse, truncated_mass
from models.mechanisms.window_parts import NoiseShare


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
