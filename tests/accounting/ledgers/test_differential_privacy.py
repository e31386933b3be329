"""The differential-privacy ledger: exact sums, certified epsilons, and the paper's formula shown as such."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.exceptions import LedgerError, StepOrderError, UnknownReleaseError
from accounting.ledgers import DpStatement, Neighbours, ReleaseLog, oracle_epsilons, read_differential_privacy
from accounting.ledgers.differential_privacy import (
    gaussian_delta,
    gaussian_epsilon,
    paper_epsilon,
    pure_cost,
)
from accounting.ledgers.person_cost import Cost, step_cost
from models.mechanisms import Correlated, Gaussian, Mechanism, Raw, Suppressed, Tiered
from models.noise import CorrelatedNoise
from models.releases import SensorRelease, StepSchedule
from tests.accounting.ledgers.logs import A, B, C, log_of

MOVE = Neighbours.MOVE
TIERS = Tiered((("public", 0.1), ("partner", 0.5)))


def read(log: ReleaseLog, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> DpStatement:
    return read_differential_privacy(log, 1e-6, neighbours)


def test_the_papers_formula_is_shown_beside_the_exact_value_it_misses() -> None:
    """sigma 10, 8 760 steps, delta 1e-6: 49.6 by the formula, 87.5 in truth."""
    mu = math.sqrt(8760) / 10
    assert paper_epsilon(1e-6, mu) == pytest.approx(49.6, abs=0.05)
    assert gaussian_epsilon(1e-6, mu) == pytest.approx(87.5, abs=0.05)


@given(st.floats(1e-3, 30.0), st.floats(-12.0, -0.5))
@settings(max_examples=100)
def test_epsilon_and_delta_of_the_exact_curve_belong_together(mu: float, log10_delta: float) -> None:
    """The epsilon found has at most this delta, a slightly smaller one more."""
    delta = 10.0**log10_delta
    epsilon = gaussian_epsilon(delta, mu)
    assert gaussian_delta(epsilon, mu) <= delta
    assert epsilon == 0.0 or gaussian_delta(epsilon * (1 - 1e-6) - 1e-9, mu) > delta * (1 - 1e-6)


@pytest.mark.slow
@given(st.floats(0.05, 5.0), st.floats(0.0, 6.0))
@settings(max_examples=60)
def test_the_exact_curve_is_the_hockey_stick_of_two_normal_laws(mu: float, epsilon: float) -> None:
    """delta = integral of (f - e^eps g)+ for N(mu, 1) and N(0, 1), by the trapezoidal rule."""
    x = np.linspace(-14.0, 14.0 + mu, 200_001)
    excess = np.exp(-((x - mu) ** 2) / 2) - math.exp(epsilon) * np.exp(-(x**2) / 2)
    found = np.trapezoid(np.maximum(excess, 0.0), x) / math.sqrt(2 * math.pi)
    assert gaussian_delta(epsilon, mu) == pytest.approx(float(found), rel=1e-4, abs=1e-9)


def test_sums_are_exact_and_leave_nothing_behind() -> None:
    """Debiting 0.005 four times leaves exactly nothing of what four times 0.005 is."""
    four = read(log_of(*[{A: Gaussian(10.0)}] * 4)).rho
    assert four.amount == 4 * Fraction(1 / (2 * 10.0**2))
    assert four.amount - 4 * Fraction(0.005) == 0


def test_who_is_moved_changes_two_counts() -> None:
    """Two sensors with sigma 1 and 2: the dearer for adding, both for moving; tiers twice."""
    log = log_of({A: Gaussian(1.0), B: Gaussian(2.0)})
    assert float(read(log).rho) == 0.5
    assert float(read(log, MOVE).rho) == 0.5 + 0.125
    tiers = log_of({A: TIERS, B: TIERS})
    assert float(read(tiers).pure_epsilon) == 0.5
    assert read(tiers, MOVE).epsilon == pytest.approx(1.0)


def test_sensors_that_see_the_same_place_add_up_and_moving_within_one_changes_nothing() -> None:
    both = [SensorRelease(A, Gaussian(1.0)), SensorRelease(C, Gaussian(2.0))]
    cost = lambda mechanism: Cost.of(mechanism.zcdp_rho())  # noqa: E731
    assert float(step_cost(both, cost, Neighbours.ADD_REMOVE)) == 0.5 + 0.125
    alone = [SensorRelease(C, Gaussian(2.0))]
    assert float(step_cost(alone, cost, MOVE)) == 0.125  # in or out; from 0 to 2 it would be nothing
    assert step_cost([], cost, MOVE) == Cost()


def test_a_raw_count_costs_infinitely_much_and_nothing_costs_nothing() -> None:
    raw = read(log_of({A: Gaussian(1.0)}, {A: Raw()}))
    assert raw.rho.is_infinite
    assert raw.epsilon == math.inf
    nothing = read(log_of({A: Suppressed()}, {}))
    assert (nothing.epsilon, float(nothing.rho), nothing.paper_epsilon) == (0.0, 0.0, None)


def test_tiers_are_certified_by_the_smaller_of_two_ways() -> None:
    """Few releases by adding epsilons, many by zCDP."""
    few, many = read(log_of({A: TIERS})), read(log_of(*[{A: Tiered((("all", 0.1),))}] * 400))
    assert (few.certified_by, few.epsilon) == ("pure", 0.5)
    assert many.certified_by == "zcdp"
    assert many.epsilon < float(many.pure_epsilon) == pytest.approx(40.0)


def test_continuous_noise_is_certified_by_its_exact_curve_and_discrete_noise_is_not() -> None:
    noise = CorrelatedNoise.of_covariance(np.diag([4.0, 4.0]) + 1.0)
    log = log_of(*({A: Correlated.of(noise, step)} for step in range(20)))
    statement = read(log)
    assert statement.certified_by == "gaussian"
    mu, found = math.sqrt(20 / 4), statement.epsilon
    assert found == statement.exact_epsilon == pytest.approx(gaussian_epsilon(1e-6, mu), rel=0.01)
    sampled = (1.0 + math.exp(found)) * statement.truncated_mass  # both laws are off, one times e^epsilon
    assert 0.99e-6 < gaussian_delta(found, mu) + sampled <= 1e-6
    assert statement.epsilon < statement.zcdp_epsilon
    discrete = read(log_of({A: Gaussian(2.0)}))
    assert discrete.exact_epsilon is None
    assert discrete.epsilon == discrete.zcdp_epsilon
    assert discrete.paper_epsilon == pytest.approx(paper_epsilon(1e-6, 0.5))


def test_zcdp_never_certifies_less_than_the_exact_curve_of_the_same_noise() -> None:
    """For continuous noise of the same size the conversion from zCDP only gives away."""
    for sigma in (0.5, 2.0, 10.0):
        for steps in (1, 30, 1000):
            certified = read(log_of(*[{A: Gaussian(sigma)}] * steps)).epsilon
            assert certified >= gaussian_epsilon(1e-6, math.sqrt(steps) / sigma)


@pytest.mark.parametrize(("sigma", "delta"), [(1.0, 1e-6), (0.7, 1e-9), (3.0, 1e-4)])
def test_zcdp_covers_discrete_noise_by_enumeration(sigma: float, delta: float) -> None:
    """The exact delta of two releases of discrete Gaussian noise at the certified epsilon is below delta."""
    law = Gaussian(sigma).noise_law()
    pair = np.convolve(law.probabilities, law.probabilities)
    assert pair.sum() == pytest.approx(1.0)
    epsilon = read_differential_privacy(log_of(*[{A: Gaussian(sigma)}] * 2), delta).epsilon
    inner, shifted = law.probabilities, np.insert(law.probabilities, 0, 0.0)[:-1]
    two, two_shifted = np.multiply.outer(inner, inner), np.multiply.outer(shifted, shifted)
    assert np.maximum(two - math.exp(epsilon) * two_shifted, 0.0).sum() <= delta


def test_what_a_sampler_cuts_off_is_charged_to_delta() -> None:
    """With a delta below what was cut off, nothing is certified."""
    log = log_of({A: TIERS})
    mass = read(log).truncated_mass
    assert 0 < mass < 1e-30
    assert read_differential_privacy(log, mass / 2).epsilon == math.inf


@pytest.fixture
def oracle() -> None:
    """Google's accountants are part of the development extras; without them CI fails."""
    if find_spec("dp_accounting") is None:
        missing = "dp_accounting is not installed (make install-dev)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)


@pytest.mark.usefixtures("oracle")
@pytest.mark.parametrize(
    ("mechanism", "steps"), [(Gaussian(2.0), 50), (TIERS, 40), (Gaussian(10.0), 300), (Gaussian(1.0), 3)]
)
def test_googles_accountants_agree(mechanism: Mechanism, steps: int) -> None:
    """PLD and RDP: never above what tallyguard certifies, and not far below."""
    log = log_of(*[{A: mechanism}] * steps)
    certified, found = read(log), oracle_epsilons(log, 1e-6)
    assert found is not None
    assert found.pld <= certified.epsilon * (1 + 1e-3)
    assert certified.epsilon <= 1.25 * found.pld
    if isinstance(mechanism, Tiered):
        assert found.rdp is None
    else:  # zCDP is the Renyi curve of Gaussian noise: both convert the same, but for the orders looked at
        assert found.rdp == pytest.approx(certified.zcdp_epsilon, rel=0.01)
        assert found.pld <= found.rdp * (1 + 1e-3)


@pytest.mark.usefixtures("oracle")
def test_the_oracle_refuses_what_it_cannot_read() -> None:
    with pytest.raises(LedgerError, match="one sensor at a time"):
        oracle_epsilons(log_of({A: Gaussian(1.0), C: Gaussian(1.0)}), 1e-6)
    with pytest.raises(LedgerError, match="must have noise"):
        oracle_epsilons(log_of({A: Raw()}), 1e-6)


def test_a_mechanism_the_ledger_does_not_know_is_refused_not_guessed() -> None:
    class Tomorrow:
        name = "tomorrow"
        is_released = True

    with pytest.raises(UnknownReleaseError, match="'tomorrow'"):
        pure_cost(Tomorrow())  # type: ignore[arg-type]


def test_a_log_has_no_gap_and_knows_its_groups() -> None:
    log = log_of({A: Raw(), B: TIERS}, {B: TIERS})
    assert log.groups() == ("default", "north")
    assert dict(log.releases_by_mechanism()) == {"raw": 1, "tiered": 2}
    assert float(read(log.of_group("north")).pure_epsilon) == 1.0
    with pytest.raises(StepOrderError, match="step 1 must come next"):
        ReleaseLog.of([StepSchedule(0), StepSchedule(2)])
    with pytest.raises(LedgerError, match="delta must lie"):
        read_differential_privacy(log, 0.0)
