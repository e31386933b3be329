"""The outputs of a count, as bounds through noise read them: they reveal no less than what is published."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from accounting.exposure.step_information.rays import Rays, rays_of
from models.mechanisms import Correlated, Gaussian, Mechanism, Tiered, all_versions, counted_again
from models.noise import CorrelatedNoise
from tests.accounting.enumeration import Floats

PRIORS = np.linspace(0.0, 1.0, 41)  # of being counted
NOISES = (Gaussian(0.4), Gaussian(1.0), Gaussian(4.0), Tiered((("public", 0.4), ("partner", 1.3))))


def guessed(absent: Floats, present: Floats) -> Floats:
    """How often whether somebody is counted is guessed right, for each prior, (P,)."""
    won = np.maximum.outer((1.0 - PRIORS), np.zeros(1)) * absent, PRIORS[:, np.newaxis] * present
    return np.asarray(np.maximum(*won).sum(axis=1))


def guessed_through(rays: Rays) -> Floats:
    weight, theta = 2.0 * rays.weight, rays.theta
    return guessed(weight * (1.0 - theta), weight * theta) + rays.left_out


def joint(mechanisms: tuple[Mechanism, ...], shifts: tuple[int, ...]) -> tuple[Floats, Floats]:
    """The laws of all values together, of nobody and of somebody counted so often in each."""
    absent = present = np.ones(1)
    for mechanism, shift in zip(mechanisms, shifts, strict=True):
        law = mechanism.noise_law()
        assert law is not None
        nothing = np.zeros(shift)
        absent = np.outer(absent, np.append(law.probabilities, nothing)).ravel()
        present = np.outer(present, np.append(nothing, law.probabilities)).ravel()
    return absent, present


@pytest.mark.parametrize("most", [1, 2, 4])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_who_is_counted_more_often_is_no_better_hidden(noise: Mechanism, most: int) -> None:
    """A binary experiment reveals no less than another if no prior makes the other better (Blackwell)."""
    rays = rays_of(counted_again(noise, most))
    for shift in range(most + 1):
        assert (guessed_through(rays) >= guessed(*joint((noise,), (shift,))) - 1e-9).all()
    assert guessed_through(rays) == pytest.approx(guessed(*joint((noise,), (most,))), abs=2e-3)


@pytest.mark.parametrize("most", [1, 2])
def test_values_of_one_count_reveal_what_they_do_together(most: int) -> None:
    """Whichever of them count the person, and however often."""
    noises = Gaussian(0.8), Gaussian(1.5)
    rays = rays_of(counted_again(all_versions(noises), most))
    for shifts in product(range(most + 1), repeat=2):
        assert (guessed_through(rays) >= guessed(*joint(noises, shifts)) - 1e-9).all()
    assert guessed_through(rays) == pytest.approx(guessed(*joint(noises, (most, most))), abs=5e-3)


@pytest.mark.parametrize("sigma", [0.1, 0.7, 3.0])
@pytest.mark.parametrize("values", [1, 2])
def test_of_noise_that_steps_share_the_independent_part_hides(sigma: float, values: int) -> None:
    """Against the best test of Gaussians at each prior, of which rounding shows no more."""
    shared = CorrelatedNoise.of_covariance(np.full((2, 2), 4.0) + sigma**2 * np.eye(2))
    own = np.sqrt(float(shared.independent_variance[0]))
    rays, shift = rays_of(all_versions((Correlated.of(shared, 0),) * values)), np.sqrt(values) / own
    inner = PRIORS[1:-1]
    edge = shift / 2.0 + np.log((1.0 - inner) / inner) / shift
    best = (1.0 - inner) * stats.norm.cdf(edge) + inner * stats.norm.sf(edge - shift)
    assert (guessed_through(rays)[1:-1] >= best - 1e-9).all()
    assert guessed_through(rays)[1:-1] == pytest.approx(best, abs=2e-2)
