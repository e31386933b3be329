"""Epsilon of noise as it is sampled: from tables that end, against the definition and other accountants."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting.ledgers import (
    PrivacyAccount,
    ReleaseLog,
    ZcdpSpend,
    epsilon_from_zcdp,
    oracle_epsilons,
    read_differential_privacy,
)
from accounting.ledgers.differential_privacy import (
    SamplerDistance,
    Unprotected,
    furthest,
    gaussian_epsilon,
    sampler_distance,
)
from models.mechanisms import Correlated, Gaussian, Mechanism, NoiseLaw, Raw, Tiered
from models.noise import FAITHFUL_LOG_RATIO, TOTAL, CorrelatedNoise, discrete_gaussian_table, geometric_table
from models.releases import CountingWindow, Schedule, Sensor, SensorRelease, StepSchedule
from stream_app.watching.wording import epsilon_in_words
from tests.models.noise.test_discrete_gaussian import ideal_law

YEAR = 8_760
DELTA = 1e-6


def spend_of(mechanism: Mechanism, steps: int, most_counts: int = 1) -> ZcdpSpend:
    spend = ZcdpSpend()
    for _ in range(steps):
        spend.add([SensorRelease(Sensor("a", (0,), most_counts=most_counts), mechanism)])
    return spend


def coarse_law(weights: NDArray[np.float64], units: int, faithful_units: int) -> NoiseLaw:
    """A table of so few units that what it misses can be seen; ``weights`` of 0..K, ideal beyond its end."""
    ideal = weights / (2 * weights.sum() - weights[0])
    rounded = np.rint(ideal * units)
    rounded[0] = units - 2 * rounded[1:].sum()
    last = int(np.flatnonzero(rounded)[-1])
    faithful = int(np.flatnonzero(rounded >= faithful_units)[-1])
    side = rounded[: last + 1] / units
    ratio = float(np.abs(np.log(side[: faithful + 1] / ideal[: faithful + 1])).max())
    law = np.concatenate((side[:0:-1], side))
    gaps = np.abs(np.pad(side, (0, ideal.size - last - 1)) - ideal)
    mass = float((2 * gaps.sum() - gaps[0]) / 2) + 2 * float(ideal[-1])
    return NoiseLaw(-last, law, mass, faithful, ratio)


def hockey_stick(law: NDArray[np.float64], shift: int, times: int, epsilon: float) -> float:
    """delta(epsilon) of so many releases: sum of (P - e^epsilon Q)+ over outputs, the larger of both ways."""
    moved = np.concatenate((np.zeros(shift), law)), np.concatenate((law, np.zeros(shift)))
    found = 0.0
    for present, absent in (moved, moved[::-1]):
        joint_p, joint_q = np.ones(1), np.ones(1)
        for _ in range(times):
            joint_p = np.multiply.outer(joint_p, present).ravel()
            joint_q = np.multiply.outer(joint_q, absent).ravel()
        found = max(found, float(np.maximum(joint_p - math.exp(epsilon) * joint_q, 0.0).sum()))
    return found


@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.3, 1.0, 2.5, 10.0])
def test_faithful_values_are_within_the_ratio_of_the_definition(sigma: float) -> None:
    """In exact fractions: each value that is called faithful, and the next one is not called so."""
    table, ideal = discrete_gaussian_table(sigma), ideal_law(sigma)
    most = Fraction(math.expm1(-FAITHFUL_LOG_RATIO)), Fraction(math.expm1(FAITHFUL_LOG_RATIO))
    for value in range(table.faithful_last + 1):
        assert most[0] < Fraction(table.units[value], TOTAL) / ideal[value] - 1 < most[1], value
    beyond = table.units[table.faithful_last + 1 :]
    assert all(unit < 2**40 for unit in beyond)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 40.0])
def test_faithful_values_of_tiers_are_within_the_ratio_of_the_definition(epsilon: float) -> None:
    from decimal import Decimal, localcontext

    table = geometric_table(epsilon)
    with localcontext() as context:
        context.prec = 80
        q = Fraction((-Decimal(epsilon)).exp())
    for value in range(0, table.faithful_last + 1, max(1, table.faithful_last // 50)):
        ideal = (1 - q) / (1 + q) * q**value
        assert abs(Fraction(table.units[value], TOTAL) / ideal - 1) < Fraction(math.expm1(FAITHFUL_LOG_RATIO))


@settings(max_examples=150, deadline=None)
@given(
    sigma=st.floats(0.6, 3.0),
    bits=st.integers(9, 12),
    faithful=st.integers(1, 5),
    shift=st.integers(1, 3),
    times=st.integers(1, 2),
    epsilon=st.floats(0.1, 8.0),
)
def test_a_coarse_table_keeps_what_is_certified_for_it(
    sigma: float, bits: int, faithful: int, shift: int, times: int, epsilon: float
) -> None:
    """By enumeration of all outputs, at every delta: neither way of charging a sampler is below the truth."""
    weights = np.exp(-(np.arange(60) ** 2) / (2.0 * sigma**2))
    law = coarse_law(weights, 2**bits, 2**faithful)
    distance = SamplerDistance(law.truncated_mass, law.faithful_log_ratio, law.outside_faithful(shift))
    distance = sum([distance] * times, SamplerDistance())
    rho = times * shift**2 / (2.0 * sigma**2)
    true = hockey_stick(law.probabilities, shift, times, epsilon)
    for delta in (true * 0.999, true * 0.5):  # at less than the true delta no such epsilon may be certified
        if delta > 0.0:
            assert distance.epsilon(lambda left: epsilon_from_zcdp(rho, left), delta) > epsilon


def test_the_last_values_inside_the_table_are_charged() -> None:
    """To charge the mass that is cut off would be false: values whose neighbours are cut off count, too."""
    weights = np.exp(-(np.arange(60) ** 2) / 8.0)
    law = coarse_law(weights, 2**10, 1)
    true = hockey_stick(law.probabilities, 1, 1, 20.0)
    assert law.outside_faithful(1) >= true > law.truncated_mass / 2**6
    assert law.outside_faithful(40) == 1.0


@pytest.mark.parametrize(
    ("sigma", "steps", "stated"),
    [(3.0, 500, 65.3), (3.0, YEAR, 647.8), (10.0, YEAR, 91.2), (10.0, 10 * YEAR, 590.8), (1.0, YEAR, 4868.1)],
)
def test_years_of_hourly_counts_have_an_epsilon(sigma: float, steps: int, stated: float) -> None:
    """What was called spent is finite: zCDP's epsilon, but for a millionth; the continuous curve is below."""
    spend = spend_of(Gaussian(sigma), 1)
    whole = ZcdpSpend(spend.rho * steps, distance=sum([spend.distance] * steps, SamplerDistance()))
    found, rho = whole.epsilon(DELTA), steps / (2.0 * sigma**2)
    assert found == pytest.approx(stated, abs=0.1)
    assert epsilon_from_zcdp(rho, DELTA) <= found <= epsilon_from_zcdp(rho, DELTA) + 1e-6
    assert found > gaussian_epsilon(DELTA, math.sqrt(steps) / sigma)


@pytest.mark.parametrize(("sigma", "steps"), [(3.0, 600), (2.0, 400)])
def test_exact_composition_of_hundreds_of_steps_stays_below(sigma: float, steps: int) -> None:
    """The law of the sum of all noises decides how likely the person was there: convolved, not bounded."""
    law = Gaussian(sigma).noise_law().probabilities
    spectrum_size = 1 << (steps * law.size).bit_length()
    spectrum = np.fft.rfft(law, spectrum_size) ** steps
    total = np.maximum(np.fft.irfft(spectrum, spectrum_size)[: steps * (law.size - 1) + 1], 0.0)
    sums = np.arange(total.size) - (total.size - 1) // 2
    loss = (2.0 * sums + steps) / (2.0 * sigma**2)
    certified = spend_of(Gaussian(sigma), steps).epsilon(DELTA)
    assert 45.0 < certified < math.inf
    exact = float(np.sum(total * -np.expm1(np.minimum(certified - loss, 0.0))))
    below = float(np.sum(total * -np.expm1(np.minimum(0.9 * certified - loss, 0.0))))
    assert exact <= DELTA < below


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "steps"), [(Gaussian(10.0), YEAR), (Tiered((("all", 0.1),)), 4_000)])
def test_googles_accountant_agrees_for_a_year(mechanism: Mechanism, steps: int) -> None:
    pytest.importorskip("dp_accounting")
    log = ReleaseLog.of(
        StepSchedule(step, (SensorRelease(Sensor("a", (0,)), mechanism),)) for step in range(steps)
    )
    found, certified = oracle_epsilons(log, DELTA), read_differential_privacy(log, DELTA)
    assert found is not None
    assert found.pld <= certified.epsilon <= 1.2 * found.pld
    assert found.rdp is None or found.rdp == pytest.approx(certified.epsilon, rel=0.01)


def test_noise_that_shows_the_count_has_no_epsilon() -> None:
    """sigma 0.05 never changes a count, and a person who is counted as often as a table is wide shows."""
    assert spend_of(Gaussian(0.05), 1).epsilon(DELTA) == math.inf
    assert spend_of(Gaussian(1.0), 1, most_counts=100).epsilon(DELTA) == math.inf
    assert spend_of(Gaussian(1.0), 1, most_counts=3).epsilon(DELTA) < math.inf


def test_noise_in_floating_point_is_charged_by_its_mass_alone() -> None:
    noise = CorrelatedNoise.of_covariance(np.diag([4.0, 4.0]))
    distance = sampler_distance(Correlated.of(noise, 0))
    assert distance.untabled_mass == distance.truncated_mass > 0.0
    assert (distance.log_ratio, distance.outside) == (0.0, 0.0)
    assert spend_of(Correlated.of(noise, 0), 1).epsilon(DELTA) < math.inf
    assert spend_of(Correlated.of(noise, 0), YEAR).epsilon(DELTA) == math.inf
    assert spend_of(Gaussian(2.0), YEAR).epsilon(DELTA) < math.inf


@pytest.mark.parametrize("ideal", [lambda _: 3.0, lambda delta: epsilon_from_zcdp(0.5, delta)])
def test_what_samplers_miss_is_paid_for_by_delta(ideal: Callable[[float], float]) -> None:
    distance = SamplerDistance(1e-9, untabled_mass=1e-9)
    found = distance.epsilon(ideal, DELTA)
    assert found >= ideal(DELTA - (1.0 + math.exp(found)) * 1e-9)
    assert distance.epsilon(ideal, 1e-9) == math.inf


def test_a_window_charges_the_furthest_sampler_even_if_other_noise_costs_more() -> None:
    """Wide noise costs less rho and has the longer tails: each is charged for what it is."""
    near, far = sampler_distance(Gaussian(1000.0)), sampler_distance(Gaussian(2000.0))
    assert near.outside < far.outside
    window = CountingWindow(2, most_sensors=1)
    spend = ZcdpSpend()
    spend.add(
        SensorRelease(Sensor(name, (0,), window=window), Gaussian(sigma))
        for name, sigma in (("a", 1000.0), ("b", 2000.0))
    )
    assert spend.distance.outside == far.outside
    assert furthest([near, far, near], 2).outside == near.outside + far.outside


def test_an_account_says_which_releases_cost_infinitely_much() -> None:
    account = PrivacyAccount(["default"])
    for step, mechanisms in enumerate(([Raw(), Raw()], [Gaussian(1.0), Raw()], [])):
        releases = tuple(
            SensorRelease(Sensor(name, (k,)), mechanism)
            for k, (name, mechanism) in enumerate(zip("ab", mechanisms, strict=False))
        )
        account.charge(StepSchedule(step, releases))
    assert account.spends["all"].unprotected == Unprotected(3, "a", of_others=True)
    again = PrivacyAccount.load(account.save())
    assert again.spends == account.spends
    assert again.is_of_this_version


def test_an_account_of_an_earlier_version_is_true_but_says_less() -> None:
    spend = spend_of(Gaussian(3.0), 1)
    saved = {"steps": 1, "spends": {"all": [str(spend.rho), False, spend.truncated_mass]}}
    old = PrivacyAccount.load(saved)
    assert not old.is_of_this_version
    assert old.spends["all"].epsilon(DELTA) == pytest.approx(spend.epsilon(DELTA))
    assert old.spends["all"].distance.untabled_mass == spend.truncated_mass


def test_the_guarantees_page_states_the_ledgers_figure_for_a_year() -> None:
    """docs/explanation/guarantees.md promises a number: it is the ledger's own."""
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "guarantees.md").read_text()
    stated = re.search(r"year of hourly counts \(8,760\).*sigma (\d+)\) costs epsilon ([\d.]+) at", page)
    assert stated is not None
    log = Schedule.gaussian([[0]] * YEAR, float(stated[1]))
    found = read_differential_privacy(ReleaseLog.of(log.steps), DELTA).epsilon
    assert stated[2] == epsilon_in_words(found)


@pytest.mark.parametrize(
    "spend",
    [
        ["1/2", False],
        ["-1/2", False, 0.0],
        ["1/2", False, math.nan],
        ["1/2", False, -1.0],
        ["1/2", False, 0.0, [0.0, 0.0, "x"], [0, "", False, True]],
        ["1/2", False, 0.0, [0.0, math.inf, 0.0], [0, "", False, True]],
        ["1/2", False, 0.0, [0.0, 0.0, 0.0], [0, "", False, True, 5]],
        ["1/2", False, 0.0, [0.0, 0.0, 0.0]],
        ["1/2", True, 0.0, [0.0, 0.0, 0.0], ["many", "", False, True]],
    ],
)
def test_a_saved_account_with_wrong_values_is_refused(spend: list[object]) -> None:
    """A negative amount, or none, would make epsilon too small for ever."""
    with pytest.raises(ValueError, match=r"privacy account|float|int|unpack"):
        PrivacyAccount.load({"steps": 1, "spends": {"all": spend}})


@pytest.mark.parametrize("most_counts", [1, 2, 5])
@pytest.mark.parametrize("corrections", [0, 2])
def test_several_values_and_several_counts_are_as_far_as_all_of_them(
    most_counts: int, corrections: int
) -> None:
    release = SensorRelease(
        Sensor("a", (0,), most_counts=most_counts, corrections=corrections), Gaussian(4.0)
    )
    one = sampler_distance(Gaussian(4.0), most_counts)
    found = sampler_distance(release.charged)
    assert found.outside == pytest.approx((1 + corrections) * one.outside)
    assert found.log_ratio == (1 + corrections) * one.log_ratio
    law = Gaussian(4.0).noise_law()
    assert one.outside >= law.probabilities[-most_counts:].sum()
