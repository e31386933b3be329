"""Tiers of real-valued data: Laplace at every level, few jumps, independent increments, one path a value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, special, stats

from models.exceptions import MechanismError, NoiseKeyError
from models.keys import UniformStream
from models.noise.continuous_process import Grid, PrivateProcess, jump_vector, publish_tiers

DRAWS = 4000


def stream(number: int) -> UniformStream:
    return UniformStream(b"a secret of tests" + number.to_bytes(4, "big"))


def norms_at(level: float, dimension: int, highest: float = 2.0) -> NDArray[np.float64]:
    """Norm of the noise of many values, read at one level."""
    return np.array(
        [np.linalg.norm(PrivateProcess(dimension, highest, stream(i)).at(level)) for i in range(DRAWS)]
    )


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.1, 0.7, 2.0])
def test_one_dimensional_noise_is_laplace_at_every_level(level: float) -> None:
    """Kolmogorov-Smirnov against Laplace(1 / epsilon) after any number of jumps."""
    noise = np.array([PrivateProcess(1, 2.0, stream(i)).at(level)[0] for i in range(DRAWS)])
    assert stats.kstest(noise, stats.laplace(scale=1 / level).cdf).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("dimension", "level"), [(2, 0.3), (2, 2.0), (3, 0.3), (7, 1.0)])
def test_the_norm_has_its_gamma_law_in_any_dimension(dimension: int, level: float) -> None:
    """Density proportional to exp(-epsilon ||v||) in n dimensions: the norm is Gamma(n, 1 / epsilon)."""
    assert stats.kstest(norms_at(level, dimension), stats.gamma(dimension, scale=1 / level).cdf).pvalue > 1e-3


@pytest.mark.parametrize("dimension", [1, 2, 3, 6])
def test_jumps_have_the_norm_of_the_papers_table(dimension: int) -> None:
    """Norm density x^(n/2) K_(n/2 - 1)(x eps) of Koufogiannis and Pappas, Table I, by quadrature."""
    epsilon = 1.7
    norms = np.array([np.linalg.norm(jump_vector(dimension, epsilon, stream(i))) for i in range(DRAWS)])

    def density(x: float) -> float:
        beta, half = 1 / epsilon, dimension / 2
        constant = 4 / (special.gamma(half) * (2 * beta) ** (half + 1))
        return float(constant * x**half * special.kv(half - 1, x / beta))

    at = np.quantile(norms, [0.05, 0.2, 0.4, 0.6, 0.8, 0.95])
    expected = np.diff([0.0, *(integrate.quad(density, 0, x)[0] for x in at), 1.0])
    observed = np.histogram(norms, [0.0, *at, np.inf])[0]
    assert stats.chisquare(observed, expected * DRAWS).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_jumps_are_poisson_with_the_papers_mean(dimension: int) -> None:
    """(n + 1) ln(eps_2 / eps_1) jumps on average, as often none, one, two ... as a Poisson number."""
    lowest, highest = 0.5, 2.0
    mean = (dimension + 1) * math.log(highest / lowest)
    counts = [PrivateProcess(dimension, highest, stream(i)).jumps(lowest).size for i in range(DRAWS)]
    cells = int(mean + 3 * math.sqrt(mean)) + 1
    observed = np.bincount(np.minimum(counts, cells), minlength=cells + 1)
    expected = np.append(stats.poisson.pmf(np.arange(cells), mean), stats.poisson.sf(cells - 1, mean))
    assert stats.chisquare(observed, expected * DRAWS).pvalue > 1e-3


@pytest.mark.slow
def test_the_increment_to_a_lower_level_is_independent_of_the_higher_one() -> None:
    """Quadrants and sizes of V_0.4 - V_1.2 against V_1.2; and a jump occurs as often as the atom says."""
    paths = [PrivateProcess(1, 1.2, stream(i)) for i in range(DRAWS)]
    better = np.array([path.at(1.2)[0] for path in paths])
    increment = np.array([path.at(0.4)[0] for path in paths]) - better
    assert stats.binomtest(int((increment == 0).sum()), DRAWS, (0.4 / 1.2) ** 2).pvalue > 1e-3
    cells = np.zeros((4, 5))
    np.add.at(
        cells, (np.digitize(better, [-0.5, 0, 0.5]), np.digitize(increment, [-1.5, -1e-12, 1e-12, 1.5])), 1
    )
    assert stats.chi2_contingency(cells).pvalue > 1e-3


def density_below(low: float, high: float, x: float) -> float:
    """Density at ``x`` of the noise at ``low``: that at ``high`` plus the increment, an atom or Laplace."""
    atom = (low / high) ** 2
    near, far = stats.laplace(scale=1 / high).pdf, stats.laplace(scale=1 / low).pdf
    first, second = sorted((0.0, x))
    pieces = [(-np.inf, first), (first, second), (second, np.inf)]
    convolved = sum(integrate.quad(lambda y: near(y) * far(x - y), *piece)[0] for piece in pieces)
    return float(atom * near(x) + (1 - atom) * convolved)


@pytest.mark.slow
@given(st.floats(0.1, 3.0), st.floats(0.1, 3.0), st.floats(-4, 4))
@settings(max_examples=40)
def test_a_tier_plus_its_increment_is_the_noisier_tier_by_density(
    first: float, second: float, x: float
) -> None:
    """Atom (e1/e2)^2 plus the rest of a Laplace(1/e1) jump: the convolution's density is Laplace(1/e1)."""
    low, high = sorted((first, second))
    assert density_below(low, high, x) == pytest.approx(stats.laplace(scale=1 / low).pdf(x), rel=1e-6)


@pytest.mark.slow
@given(st.lists(st.floats(0.1, 1.9), min_size=2, max_size=2, unique=True), st.floats(-3, 3), st.floats(-3, 3))
@settings(max_examples=40)
def test_a_coalition_learns_no_more_than_its_best_member(
    levels: list[float], one: float, other: float
) -> None:
    """By density: two tiers below a third that is not in the coalition, pooled, at two values of the data."""
    low, high = sorted(levels)
    path = PrivateProcess(1, 2.0, stream(1))
    value_low, value_high = one + path.at(low)[0], one + path.at(high)[0]
    step = value_low - value_high

    def log_density(value: float) -> float:
        """Of the better value through the process from level 2, and of the step down to the other."""
        jump = (
            (low / high) ** 2
            if step == 0.0
            else (1 - (low / high) ** 2) * stats.laplace(scale=1 / low).pdf(step)
        )
        return math.log(density_below(high, 2.0, value_high - value) * jump)

    assert abs(log_density(one) - log_density(other)) <= high * abs(one - other) + 1e-6


def test_a_level_read_later_lies_on_the_same_path() -> None:
    """Order of reading does not matter; up to the largest level a recipient can be raised at any time."""
    levels = [0.1, 0.9, 0.4, 2.0, 0.05]
    forwards, backwards = PrivateProcess(3, 2.0, stream(8)), PrivateProcess(3, 2.0, stream(8))
    read = {level: forwards.at(level) for level in levels}
    for level in reversed(levels):
        assert np.array_equal(backwards.at(level), read[level])
    with pytest.raises(MechanismError, match="fix the largest level before the first release"):
        forwards.at(2.5)


def test_published_tiers_lie_on_the_grid_and_differ_by_the_process_alone() -> None:
    """Multiples of the step, value and noise rounded apart: no low bits that tell values apart."""
    grid = Grid.for_level(1.0)
    for value in (0.123456789, 5.0, -17.25):
        published = publish_tiers(np.array([value, 1.0]), PrivateProcess(2, 1.0, stream(3)), [0.2, 1.0], grid)
        assert np.array_equal(published / grid.step, np.rint(published / grid.step))
        noise = published - grid.round(np.array([value, 1.0]))
        expected = publish_tiers(np.zeros(2), PrivateProcess(2, 1.0, stream(3)), [0.2, 1.0], grid)
        assert np.array_equal(noise, expected)
    assert grid.step == 2.0**-10
    assert grid.epsilon(0.5, 2.0, 4) == pytest.approx(0.5 * (2.0 + 2 * 2.0**-10))


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(NoiseKeyError, match="16 bytes"):
        UniformStream(b"short")
    with pytest.raises(MechanismError, match="dimension"):
        PrivateProcess(0, 1.0, stream(1))
    with pytest.raises(MechanismError, match="positive"):
        PrivateProcess(1, math.inf, stream(1))
    with pytest.raises(MechanismError, match="coarser grid"):
        Grid(-40).round(np.array([1e9]))


def test_a_stream_is_uniform_and_repeats_for_the_same_seed() -> None:
    numbers = stream(5).uniforms(20_000)
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3
    again, apart = stream(5), stream(6)
    assert np.array_equal(np.concatenate([again.uniforms(3), again.uniforms(70)]), numbers[:73])
    assert not np.array_equal(apart.uniforms(3), numbers[:3])
