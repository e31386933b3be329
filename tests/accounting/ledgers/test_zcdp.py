"""The differential-privacy account, against the definition itself with the noise's own probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.ledgers import EVERY_GROUP, PrivacyAccount, ZcdpSpend, epsilon_from_zcdp
from models.mechanisms import parse
from models.releases import Sensor, SensorRelease, StepSchedule


def release(name: str, locations: tuple[int, ...], sigma: float, group: str = "default") -> SensorRelease:
    """A Gaussian release of one sensor."""
    return SensorRelease(Sensor(name, locations, group), parse("gaussian", {"sigma": sigma}))


def exact_delta(sigma: float, epsilon: float) -> float:
    """delta(epsilon) of one discrete Gaussian count by its definition: sum of (p(k) - e^eps p(k - 1))+."""
    reach = int(30 * sigma) + 10
    k = np.arange(-reach, reach + 1)
    probability = np.exp(-(k**2) / (2 * sigma**2))
    probability /= probability.sum()
    shifted = np.concatenate([[0.0], probability[:-1]])
    return float(np.maximum(probability - np.exp(epsilon) * shifted, 0.0).sum())


@given(sigma=st.floats(0.5, 50.0), log_delta=st.floats(-30.0, -2.0))
def test_the_certified_epsilon_holds_for_the_discrete_gaussian(sigma: float, log_delta: float) -> None:
    """At the epsilon found, the noise's own probabilities give no more than delta."""
    delta = math.exp(log_delta)
    epsilon = epsilon_from_zcdp(1.0 / (2.0 * sigma**2), delta)
    assert exact_delta(sigma, epsilon) <= delta * (1 + 1e-9) + 1e-15


@given(rho=st.floats(-12.0, 60.0).map(lambda power: 10.0**power), log_delta=st.floats(-30.0, -1.0))
def test_epsilon_is_at_least_as_good_as_the_classical_conversion(rho: float, log_delta: float) -> None:
    """Bun and Steinke's rho + 2 sqrt(rho ln(1/delta)) is never beaten by it."""
    classical = rho + 2.0 * math.sqrt(rho * -log_delta)
    assert 0.0 <= epsilon_from_zcdp(rho, math.exp(log_delta)) <= classical * (1 + 1e-12)


def test_nothing_released_costs_nothing_and_raw_costs_everything() -> None:
    """The two ends: epsilon 0 before any release, infinity after one raw count."""
    spend = ZcdpSpend()
    spend.add([])
    spend.add([SensorRelease(Sensor("a", (0,)), parse("suppressed", {}))])
    assert (spend.rho_value(), spend.epsilon(1e-6)) == (0.0, 0.0)
    spend.add([SensorRelease(Sensor("a", (0,)), parse("raw", {}))])
    assert (spend.rho_value(), spend.epsilon(1e-6)) == (math.inf, math.inf)


def test_a_person_is_at_one_place_so_sensors_apart_do_not_add_up_but_overlapping_ones_do() -> None:
    """One step: the dearest location decides."""
    apart, overlapping = ZcdpSpend(), ZcdpSpend()
    apart.add([release("a", (0,), 1.0), release("b", (1,), 2.0)])
    overlapping.add([release("a", (0, 1), 1.0), release("b", (1,), 2.0)])
    assert apart.rho == Fraction(1, 2)
    assert overlapping.rho == Fraction(1, 2) + Fraction(1, 8)


def test_the_sum_over_a_year_is_exact() -> None:
    """8 760 steps at sigma 10 cost exactly 8 760 times one step, whatever the order of adding."""
    spend = ZcdpSpend()
    for _ in range(8760):
        spend.add([release("a", (0,), 10.0)])
    assert spend.rho == 8760 * Fraction(parse("gaussian", {"sigma": 10.0}).zcdp_rho())
    assert spend.epsilon(1e-6) > 87.5  # the continuous curve's exact value is a floor for any certificate


def test_groups_are_charged_for_their_own_sensors_only() -> None:
    """Two groups in one step: each pays for itself."""
    step = StepSchedule(0, (release("a", (0,), 1.0, "homes"), release("b", (1,), 2.0, "work")))
    account = PrivacyAccount(["homes", "work", "silent"])
    for each in (step, step):
        account.charge(each)
    spent = {group: spend.rho_value() for group, spend in account.spends.items() if group != EVERY_GROUP}
    assert spent == pytest.approx({"homes": 1.0, "work": 0.25, "silent": 0.0})
