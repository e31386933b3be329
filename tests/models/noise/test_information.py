"""What one noised count reveals about one person: exact, and never understated."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from models.exceptions import MechanismError
from models.mechanisms import Gaussian
from models.noise import TOTAL, binary_entropy, discrete_gaussian_table, truncation_information_nats
from models.noise.noise_information import _divergences, _of_noise, table_information
from tests.models.noise.continuous_gaussian import continuous_gaussian_information

TABLE_SLACK = 1e-4  # relative; documented at Gaussian.information
PROBABILITIES = st.one_of(
    st.floats(0.0, 1.0),
    st.floats(-300.0, -1.0).map(lambda power: 10.0**power),
    st.floats(-15.0, -1.0).map(lambda power: 1.0 - 10.0**power),
)


def exact_information(noise: NDArray[np.float64], probability: float) -> float:
    """``I(B; B + Z)`` in nats by the sum over all outputs, for a symmetric ``noise`` (n,)."""
    p = min(probability, 1.0 - probability)
    if p <= 0.0:
        return 0.0
    channel = _of_noise(noise)
    absent, counted = _divergences(channel.probability, channel.ratio, channel.unseen, np.array([p]))
    return float(p * counted[0] + (1.0 - p) * absent[0])


def enumerated_information(sigma: float, probability: float) -> Decimal:
    """I(B; Y) over all outputs from the table's integers, 60 digits, straight from the definition."""
    units = discrete_gaussian_table(sigma).units
    last = len(units) - 1

    def mass(value: int) -> Decimal:
        return Decimal(units[abs(value)]) / Decimal(TOTAL) if abs(value) <= last else Decimal(0)

    with localcontext() as context:
        context.prec = 60
        p = Decimal(probability)
        total = Decimal(0)
        for y in range(-last, last + 2):
            mixture = (1 - p) * mass(y) + p * mass(y - 1)
            for weight, law in ((1 - p, mass(y)), (p, mass(y - 1))):
                if weight * law > 0:
                    total += weight * law * (law / mixture).ln()
        return total


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.62, 1.0, 3.0])
@pytest.mark.parametrize("probability", [1e-12, 1e-5, 0.03, 0.5, 0.9, 1 - 1e-12])
def test_the_exact_sum_is_the_enumeration_of_all_outputs(sigma: float, probability: float) -> None:
    found = exact_information(discrete_gaussian_table(sigma).probabilities, probability)
    assert found == pytest.approx(float(enumerated_information(sigma, probability)), rel=1e-11)


@pytest.mark.slow
@pytest.mark.indices
@given(st.sampled_from([0.05, 0.3, 0.62, 1.0, 5.0, 50.0, 64.5, 900.0]), PROBABILITIES)
@example(0.05, 0.7411107870275885)  # its entropy rounds otherwise than that of the complement
@settings(max_examples=400)
def test_the_table_errs_upwards_and_little(sigma: float, probability: float) -> None:
    """Never below the exact sum, never above the entropy, within 1e-4; both look-ups agree."""
    mechanism = Gaussian(sigma)
    exact = exact_information(mechanism.noise_law().probabilities, probability)
    entropy = float(binary_entropy(np.array(probability)))
    found = float(mechanism.information(np.array([probability]))[0])
    # At sigma 900 it is the float sum that is good to 1e-11 only: compare up to its own rounding.
    assert min(exact * (1 - 2e-11), entropy) <= found <= entropy
    assert found <= exact * (1.0 + TABLE_SLACK) + 1e-17
    assert table_information(mechanism.information_table(), probability) >= found * (1 - 1e-15)


@pytest.mark.parametrize("sigma", [0.05, 1.0, 100.0, 10_000.0])
def test_nothing_is_learnt_about_what_was_certain(sigma: float) -> None:
    """Exactly zero at probability 0 and 1."""
    mechanism = Gaussian(sigma)
    assert np.array_equal(mechanism.information(np.array([0.0, 1.0])), [0.0, 0.0])
    assert table_information(mechanism.information_table(), 0.0) == 0.0
    assert table_information(mechanism.information_table(), 1.0) == 0.0


@pytest.mark.slow
@pytest.mark.indices
@given(st.sampled_from([0.1, 0.7, 4.0]), PROBABILITIES)
@settings(max_examples=100)
def test_information_stays_below_what_erasure_and_the_papers_bound_allow(sigma: float, p: float) -> None:
    """I <= reveal * h(p), and I <= the pairwise form of Koga, Meehan and Chaudhuri, equation 4."""
    mechanism = Gaussian(sigma)
    exact = exact_information(mechanism.noise_law().probabilities, p)
    likeness = np.exp(-mechanism.divergence())
    entropy = float(binary_entropy(np.array(p)))
    assert exact <= mechanism.reveal_probability() * entropy * (1 + 1e-12) + 1e-300
    if 0.0 < p < 1.0:
        pairwise = -p * np.log(p + (1 - p) * likeness) - (1 - p) * np.log1p(-p * (1 - likeness))
        assert exact <= pairwise * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("probability", [1e-4, 0.1, 0.5, 0.9])
def test_continuous_information_agrees_with_a_plain_sum(sigma: float, probability: float) -> None:
    """Adaptive quadrature against a trapezoidal rule on 400 000 points."""
    x = np.linspace(-14 * sigma, 1 + 14 * sigma, 400_001)
    absent, counted = (stats.norm.pdf(x, mean, sigma) for mean in (0.0, 1.0))
    mixture = (1 - probability) * absent + probability * counted
    tiny = np.finfo(float).tiny
    terms = (
        weight * law * np.log(np.maximum(law, tiny) / np.maximum(mixture, tiny))
        for weight, law in ((probability, counted), (1 - probability, absent))
    )
    plain = float(np.trapezoid(sum(terms), x))
    assert continuous_gaussian_information(probability, sigma) == pytest.approx(plain, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("probability", [1e-12, 0.02, 0.5])
def test_discrete_and_continuous_noise_are_alike_where_sigma_is_large(probability: float) -> None:
    exact = exact_information(discrete_gaussian_table(6.0).probabilities, probability)
    assert exact == pytest.approx(continuous_gaussian_information(probability, 6.0), rel=1e-6)


def test_discrete_noise_gives_away_up_to_a_fifth_more_than_continuous() -> None:
    """The largest ratio lies near sigma 0.357 at p = 1/2: using the papers' noise there would understate."""

    def ratio(sigma: float, p: float) -> float:
        exact = exact_information(discrete_gaussian_table(sigma).probabilities, p)
        return exact / continuous_gaussian_information(p, sigma)

    ratios = [ratio(float(s), p) for s in np.arange(0.2, 1.6, 0.05) for p in (1e-3, 0.1, 0.3, 0.5)]
    assert max(ratios) < 1.2093
    assert ratio(0.357, 0.5) == pytest.approx(1.20927, abs=1e-4)


def test_continuous_information_refuses_a_sigma_that_is_none() -> None:
    for sigma in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(MechanismError, match="positive and finite"):
            continuous_gaussian_information(0.5, sigma)
    assert continuous_gaussian_information(0.0, 1.0) == continuous_gaussian_information(1.0, 1.0) == 0.0


def test_what_the_cut_tails_can_add_is_far_below_what_matters() -> None:
    """Charged, and below 1e-28 nats a release, at every sigma."""
    for sigma in (0.05, 1.0, 10_000.0):
        added = truncation_information_nats(discrete_gaussian_table(sigma).truncated_mass)
        assert 0.0 < added < 1e-28
    assert truncation_information_nats(0.0) == 0.0
