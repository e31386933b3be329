"""Noise against a person who can be counted more than once."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.mechanisms import Gaussian, most_revealed
from models.noise import own_count_information, shift_probability
from models.noise.integer_chain import discrete_gaussian_table


def total_variation(noise: np.ndarray, shift: int) -> float:
    return 0.5 * float(np.abs(np.append(noise, np.zeros(shift)) - np.append(np.zeros(shift), noise)).sum())


def shared_mass(noise: np.ndarray, shift: int) -> float:
    """What all shifts 0..shift have in common."""
    shifted = [np.pad(noise, (k, shift - k)) for k in range(shift + 1)]
    return float(np.min(shifted, axis=0).sum())


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5, 20.0])
@pytest.mark.parametrize("shift", [1, 2, 3, 7])
def test_delta_is_the_largest_run_and_what_all_shifts_do_not_share(sigma: float, shift: int) -> None:
    noise = discrete_gaussian_table(sigma).probabilities
    runs = max(noise[k : k + shift].sum() for k in range(noise.size))
    found = shift_probability(noise, shift)
    assert found == pytest.approx(runs, abs=1e-14)
    assert found >= total_variation(noise, shift) - 1e-15
    assert found == pytest.approx(1.0 - shared_mass(noise, shift), abs=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
@settings(max_examples=200)
def test_a_noise_with_several_modes_is_bounded_too(seed: int, shift: int) -> None:
    noise = np.random.default_rng(seed).dirichlet(np.full(9, 0.5))
    assert shift_probability(noise, shift) >= 1.0 - shared_mass(noise, shift) - 1e-12


def test_a_shift_beyond_the_table_leaves_nothing_in_common() -> None:
    assert shift_probability(np.array([0.25, 0.5, 0.25]), 3) == pytest.approx(1.0)
    assert shift_probability(np.array([0.25, 0.5, 0.25]), 30) == pytest.approx(1.0)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5), st.sampled_from([0.3, 1.0, 4.0, 30.0]))
@settings(max_examples=60, deadline=None)
def test_information_is_that_of_the_joint_law(weights: list[float], sigma: float) -> None:
    law = np.array(weights) / sum(weights)
    noise = discrete_gaussian_table(sigma).probabilities
    joint = np.stack([law[k] * np.pad(noise, (k, law.size - 1 - k)) for k in range(law.size)])
    seen = joint.sum(axis=0)
    ratio = np.divide(joint, law[:, None] * seen, out=np.ones_like(joint), where=joint > 0.0)
    expected = float((joint * np.log(ratio)).sum())
    found = own_count_information(law, noise)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert found <= most_revealed(Gaussian(sigma), law.size - 1) + 1e-12 or law.size == 1


def information_in_decimals(law: list[float], noise: NDArray[np.float64]) -> Decimal:
    """The same with 60 digits; what the likeliest count leaves of 1 is exactly the others."""
    with localcontext(prec=60):
        chance = list(map(Decimal, law))
        chance[int(np.argmax(law))] += 1 - sum(chance)
        mass = list(map(Decimal, noise.tolist()))
        seen = [Decimal(0)] * (len(mass) + len(law) - 1)
        pairs = [(n, k) for n in range(len(law)) for k in range(len(mass)) if mass[k] > 0 and chance[n] > 0]
        for n, k in pairs:
            seen[n + k] += chance[n] * mass[k]
        return sum((chance[n] * mass[k] * (mass[k] / seen[n + k]).ln() for n, k in pairs), Decimal(0))


@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.3, 1.0, 8.0])
@pytest.mark.parametrize("rare", [1e-30, 1e-20, 1e-17, 1.6e-16, 5e-16, 3e-14, 1e-9, 1e-3])
def test_a_count_that_hardly_ever_comes_is_not_rounded_away(sigma: float, rare: float) -> None:
    noise = discrete_gaussian_table(sigma).probabilities
    for law in ([1.0 - rare, rare], [rare, 1.0 - 2.0 * rare, rare], [0.5, 0.5 - rare, rare]):
        exact = information_in_decimals(law, noise)
        found = Decimal(own_count_information(np.array(law), noise))
        assert exact * (1 - Decimal("1e-13")) <= found <= exact * (1 + Decimal("1e-9"))


def test_a_count_of_at_most_one_has_the_information_of_presence() -> None:
    mechanism = Gaussian(2.0)
    exact = own_count_information(np.array([0.7, 0.3]), mechanism.noise_law().probabilities)
    table = float(mechanism.information(np.array(0.3)))
    assert exact <= table <= exact * (1.0 + 1e-4)
