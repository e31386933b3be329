"""What every release mechanism promises. A new mechanism joins by adding a line to ``MECHANISMS_TO_TEST``."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from models.exceptions import MechanismError
from models.mechanisms import (
    MECHANISMS,
    Correlated,
    Designs,
    Gaussian,
    Mechanism,
    NoiseFamily,
    Raw,
    Suppressed,
    Tiered,
    check_mechanism,
    parse,
)
from models.noise import CorrelatedNoise, binary_entropy
from models.noise.noise_information import table_information

STEPS = np.arange(6)
FADING = CorrelatedNoise.of_covariance(9.0 * 0.5 ** np.abs(np.subtract.outer(STEPS, STEPS)))
ONE_DRAW = CorrelatedNoise.of_covariance(np.full((6, 6), 4.0))
DESIGNS = Designs((FADING, ONE_DRAW))

MECHANISMS_TO_TEST: list[Mechanism] = [
    Raw(),
    *(Gaussian(sigma) for sigma in (0.05, 0.4, 1.0, 25.0, 2000.0)),
    Suppressed(),
    *(Tiered((("public", epsilon / 3), ("partner", epsilon))) for epsilon in (0.01, 0.6, 5.0)),
    *(Correlated.of(noise, step) for noise, step in ((FADING, 0), (FADING, 5), (ONE_DRAW, 2))),
]
PROBABILITIES = np.concatenate(
    ([0.0, 1e-300, 1e-17, 1e-12], np.linspace(0.001, 0.999, 97), [1.0 - 1e-12, 1.0])
)

FLOATING_POINT = (Correlated,)  # drawn in floating point; all others from tables of exact integers
BOUNDED = (Correlated,)  # accounted by a bound on its whole noise window, not by one step's law

pytestmark = pytest.mark.parametrize("mechanism", MECHANISMS_TO_TEST, ids=repr)


def random_words(draws: int, seed: int = 3) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, size=(draws, 2), dtype=np.uint64)


def test_it_has_every_verb_and_is_registered_under_its_name(mechanism: Mechanism) -> None:
    assert isinstance(mechanism, Mechanism)
    assert MECHANISMS[mechanism.name] is type(mechanism)


def test_it_keeps_what_is_asked_of_mechanisms_of_ones_own(mechanism: Mechanism) -> None:
    """The public part of this suite; what follows asks for more than soundness."""
    check_mechanism(mechanism)


def test_it_survives_being_written_down(mechanism: Mechanism) -> None:
    """Name and parameters, through JSON, give an equal mechanism with an equal hash."""
    written = json.loads(json.dumps(dict(mechanism.parameters)))
    again = parse(mechanism.name, written, DESIGNS)
    assert again == mechanism
    assert hash(again) == hash(mechanism)


def test_it_cannot_be_changed(mechanism: Mechanism) -> None:
    """What was released with it stays what it was."""
    fields = [field.name for field in dataclasses.fields(mechanism)]  # type: ignore[arg-type]
    for name in [*fields, "name"]:
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            setattr(mechanism, name, 0)


def test_it_refuses_a_parameter_it_does_not_have(mechanism: Mechanism) -> None:
    with pytest.raises(MechanismError, match="'sgima'"):
        parse(mechanism.name, {**mechanism.parameters, "sgima": 1.0}, DESIGNS)


def test_it_publishes_exactly_where_it_says_so(mechanism: Mechanism) -> None:
    """Nothing and no law of noise when not released; otherwise an integer for each count."""
    counts = np.array([0, 7, 2**53], dtype=np.int64)
    published = mechanism.publish(counts, random_words(3))
    assert (published is not None) == (mechanism.noise_law() is not None) == mechanism.is_released
    assert np.array_equal(counts, [0, 7, 2**53]), "the counts given must stay as they were"
    if published is not None:
        assert published.shape == counts.shape
        assert published.dtype == np.int64
        assert not np.shares_memory(published, counts)
    empty = mechanism.publish(counts[:0], random_words(0))
    assert empty is None or empty.shape == (0,)


def test_each_value_depends_on_its_own_count_and_bits_alone(mechanism: Mechanism) -> None:
    """One batch, the same batch again and one by one give the same values."""
    counts, words = np.arange(60, dtype=np.int64) ** 2, random_words(60)
    batch = mechanism.publish(counts, words)
    if batch is None:
        assert all(mechanism.publish(counts[i : i + 1], words[i : i + 1]) is None for i in range(60))
        return
    singles = [mechanism.publish(counts[i : i + 1], words[i : i + 1]) for i in range(60)]
    assert np.array_equal(batch, np.concatenate([one for one in singles if one is not None]))
    assert np.array_equal(batch, mechanism.publish(counts, words))


def test_the_noise_law_is_a_law_and_exact_means_none(mechanism: Mechanism) -> None:
    """Probabilities, one in all, symmetric; exactly the point zero when the mechanism is exact."""
    law = mechanism.noise_law()
    if law is None:
        assert not mechanism.is_exact
        return
    assert np.all(law.probabilities >= 0.0)
    assert math.fsum(law.probabilities) == pytest.approx(1.0, abs=1e-13)
    assert law.first == -(law.probabilities.size // 2)
    assert np.array_equal(law.probabilities, law.probabilities[::-1])
    assert 0.0 <= law.truncated_mass < 2.0 ** (-40 if isinstance(mechanism, FLOATING_POINT) else -100)
    if mechanism.is_exact:
        assert (law.first, law.probabilities.tolist(), law.truncated_mass) == (0, [1.0], 0.0)


def test_published_values_follow_the_noise_law(mechanism: Mechanism) -> None:
    """Kolmogorov's test (conservative for integers) of 100 000 values of one count."""
    law = mechanism.noise_law()
    published = mechanism.publish(np.full(100_000, 41, dtype=np.int64), random_words(100_000))
    if law is None or published is None:
        assert law is published
        return
    noise = published - 41
    assert noise.min() >= law.first
    assert noise.max() < law.first + law.probabilities.size
    expected = np.cumsum(law.probabilities)
    observed = np.cumsum(np.bincount(noise - law.first, minlength=expected.size)) / noise.size
    distance = float(np.abs(observed - expected).max())
    assert stats.kstwo.sf(distance, noise.size) > 1e-3


def test_the_reveal_probability_is_the_total_variation_at_shift_one(mechanism: Mechanism) -> None:
    """Never below half the sum of the differences, and within rounding of it."""
    law = mechanism.noise_law()
    reveal = mechanism.reveal_probability()
    if law is None:
        assert reveal == 0.0
        return
    steps = np.diff(np.concatenate(([0.0], law.probabilities, [0.0])))
    variation = 0.5 * math.fsum(np.abs(steps))
    assert reveal >= variation * (1 - 1e-12)
    assert isinstance(mechanism, BOUNDED) or reveal == pytest.approx(variation, rel=1e-12)
    assert law.probabilities.max() <= reveal <= 1.0


def test_the_divergence_is_that_of_the_noise_law(mechanism: Mechanism) -> None:
    """Kullback-Leibler at shift one, the ideal law's, where the law has mass on both sides; never below."""
    law = mechanism.noise_law()
    if law is None:
        assert mechanism.divergence() == 0.0
    elif law.probabilities.size == 1:
        assert mechanism.divergence() > 199.0
    else:
        inner, shifted = law.probabilities[1:], law.probabilities[:-1]
        found = math.fsum(inner * np.log(inner / shifted))
        # The float logarithms of 10^4 nearly equal neighbours leave an error around 1e-12.
        assert mechanism.divergence() >= found * (1 - 1e-9) - 1e-11
        assert isinstance(mechanism, BOUNDED) or mechanism.divergence() <= found * (1 + 1e-9) + 1e-11


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_renyi_divergence_stays_below_the_zcdp_promise(mechanism: Mechanism, order: float) -> None:
    """D_a(count || count + 1) <= a rho for the noise between its ends (zero-concentrated DP)."""
    law = mechanism.noise_law()
    if law is None:
        assert mechanism.zcdp_rho() == 0.0
        return
    inner, shifted = law.probabilities[1:], law.probabilities[:-1]
    if inner.size == 0:
        assert mechanism.zcdp_rho() > 199.0
        return
    log_terms = order * np.log(inner) + (1.0 - order) * np.log(shifted)
    top = log_terms.max()
    renyi = (top + math.log(math.fsum(np.exp(log_terms - top)))) / (order - 1.0)
    # Order 8 feels the rounding of the last values, a few units of 2^-128 each.
    assert renyi <= order * mechanism.zcdp_rho() * (1 + 1e-7) + 1e-12


def test_a_pure_epsilon_bounds_every_ratio(mechanism: Mechanism) -> None:
    """No value is more than e^epsilon likelier under one count than under the next; rho <= epsilon^2/2."""
    law, epsilon = mechanism.noise_law(), mechanism.pure_epsilon()
    assert mechanism.zcdp_rho() <= 0.5 * epsilon**2 or mechanism.zcdp_rho() == epsilon == 0.0
    if law is None:
        assert epsilon == 0.0
    elif math.isfinite(epsilon):
        heavy = law.probabilities[law.probabilities > 1e-25]  # the last values are rounded to few digits
        assert np.abs(np.diff(np.log(heavy))).max() <= epsilon * (1 + 1e-9)


def test_gaussian_noise_is_said_to_be_so(mechanism: Mechanism) -> None:
    """Other noise has no Gaussian variance; that of Gaussian noise is the law's up to rounding."""
    variance, law = mechanism.gaussian_variance(), mechanism.noise_law()
    is_gaussian = mechanism.noise_family in (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.CONTINUOUS_GAUSSIAN)
    if law is None or not (is_gaussian or mechanism.is_exact):
        assert variance is None
        return
    assert variance is not None
    assert law.variance() == pytest.approx(variance, rel=1e-6, abs=0.1)
    assert (variance == 0.0) == mechanism.is_exact


def test_information_lies_between_nothing_and_the_entropy(mechanism: Mechanism) -> None:
    """Zero for the certain, at most h(p), symmetric in p and 1 - p, falling from 1/2; any shape."""
    found = mechanism.information(PROBABILITIES)
    entropy = binary_entropy(PROBABILITIES)
    assert found[0] == found[-1] == 0.0
    assert np.all((found >= 0.0) & (found <= entropy))
    middle = slice(4, 101)
    assert found[middle] == pytest.approx(found[middle][::-1], rel=1e-12)
    half = found[4:53]
    assert np.all(np.diff(half) >= 0.0)
    assert mechanism.information(PROBABILITIES[:100].reshape(4, 25)).shape == (4, 25)
    beyond = mechanism.information(np.array([-1e-16, 1.0 + 2.3e-16]))  # sums of probabilities, rounded
    assert np.array_equal(beyond, [0.0, 0.0])


def test_information_is_the_one_of_the_noise_law(mechanism: Mechanism) -> None:
    """Not below the plain sum over all outputs, and at most 1e-4 above it, relative."""
    law = mechanism.noise_law()
    if law is None:
        assert np.array_equal(mechanism.information(PROBABILITIES), np.zeros(PROBABILITIES.size))
        return
    absent, counted = np.append(law.probabilities, 0.0), np.insert(law.probabilities, 0, 0.0)
    for p in (0.01, 0.2, 0.5, 0.77):
        mixture = (1 - p) * absent + p * counted
        plain = math.fsum(
            weight * value * math.log(value / total)
            for weight, side in ((1 - p, absent), (p, counted))
            for value, total in zip(side, mixture, strict=True)
            if value > 0.0
        )
        found = float(mechanism.information(np.array([p]))[0])
        assert plain * (1 - 1e-9) - 1e-12 <= found
        assert isinstance(mechanism, BOUNDED) or found <= plain * (1 + 1e-4) + 1e-12


def test_a_table_for_kernels_agrees_with_the_verb(mechanism: Mechanism) -> None:
    """Who offers ``information_table`` offers it on the common grid, and never below ``information``."""
    if not hasattr(mechanism, "information_table"):
        assert mechanism.is_exact or not mechanism.is_released
        return
    table = mechanism.information_table()
    assert np.array_equal(table.grid, Gaussian(1.0).information_table().grid)
    assert table.information_nats.shape == table.grid.shape
    looked_up = np.array([table_information(table, p) for p in PROBABILITIES])
    assert np.all(looked_up >= mechanism.information(PROBABILITIES) * (1 - 1e-15))


def test_error_and_variance_are_those_of_the_noise_law(mechanism: Mechanism) -> None:
    law = mechanism.noise_law()
    if law is None:
        assert math.isnan(mechanism.expected_absolute_error())
        assert mechanism.variance() == math.inf
        return
    values = law.first + np.arange(law.probabilities.size)
    assert mechanism.expected_absolute_error() == pytest.approx(math.fsum(abs(values) * law.probabilities))
    assert mechanism.variance() == pytest.approx(math.fsum(values**2.0 * law.probabilities))
