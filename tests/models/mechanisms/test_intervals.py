"""Intervals: the exact law against convolution, reference numbers, and how often they hold the count."""

from __future__ import annotations

import json
from functools import reduce

import numpy as np
import pytest

from models.mechanisms import Correlated, Gaussian, Mechanism, Raw, Tiered, half_width, largest_sigma
from models.mechanisms.intervals import gaussian_coverage, interval_of_mean, log_ratio_of_sum, sigma_of_sum
from models.noise import CorrelatedNoise, discrete_gaussian_table
from tests.shared_files import shared


def law_of_sum(noises: list[Mechanism]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    laws = [law.probabilities for each in noises if (law := each.noise_law()) is not None]
    return reduce(np.convolve, laws)


def least_width(noises: list[Mechanism], level: float) -> int:
    law = law_of_sum(noises)
    middle = law.size // 2
    return next(h for h in range(middle + 1) if law[middle - h : middle + h + 1].sum() >= level)


def test_widths_and_targets_are_those_of_the_reference() -> None:
    for case in json.loads(shared("reference/living.json").read_text())["cases"]:
        if case["kind"] == "interval":
            noises = [Gaussian(sigma) for sigma in case["sigmas"]]
            assert log_ratio_of_sum(case["sigmas"]) == pytest.approx(case["tau"], abs=1e-12)
            for level, found in case["intervals"].items():
                assert half_width(noises, float(level)) == found["half_width"]
        if case["kind"] == "target":
            sigma = largest_sigma(case["within"], case["confidence"])
            assert sigma == pytest.approx(case["largest_sigma"], abs=1e-8)
    assert [round(largest_sigma(w, 0.95), 5) for w in (1, 5, 10)] == [0.81712, 2.82097, 5.36501]
    for sigma, widths in ((3.0, [6, 29, 76]), (10.0, [20, 96, 254])):
        assert [half_width([Gaussian(sigma)] * cells, 0.95) for cells in (1, 24, 168)] == widths


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize(
    "noises",
    [
        [Gaussian(0.6)] * 2,
        [Gaussian(0.7), Gaussian(1.3), Gaussian(4.0), Raw()],
        [Gaussian(0.3), Gaussian(0.2), Gaussian(2.0)],  # too little noise for the theta function
        [Tiered((("all", 0.5),))] * 5,
        [Tiered((("all", 2.0),)), Gaussian(3.0)],
    ],
)
def test_the_law_of_a_sum_is_that_of_the_convolution(noises: list[Mechanism], level: float) -> None:
    found, least = half_width(noises, level), least_width(noises, level)
    # At a sum of two small sigmas the charge for the theta function may cost one person more.
    assert least <= found <= least + (min(each.variance() for each in noises) < 1.0)


def test_the_ratio_to_one_discrete_gaussian_is_never_exceeded() -> None:
    for sigmas in ([0.5, 0.5], [0.6, 1.1, 0.9], [2.0, 0.7]):
        law = law_of_sum([Gaussian(sigma) for sigma in sigmas])
        values = np.arange(law.size) - law.size // 2
        one = np.exp(-(values**2) / (2.0 * sum(sigma**2 for sigma in sigmas)))
        near = np.abs(values) <= 6
        ratio = np.abs(np.log(law / (one / one.sum())))[near].max()
        assert 0.2 * log_ratio_of_sum(sigmas) < ratio <= log_ratio_of_sum(sigmas) + 1e-9


def test_intervals_hold_the_count_as_often_as_declared() -> None:
    """10^5 draws each of hours and days, by the samplers that publish."""
    draw = np.random.default_rng(44)
    for sigma, cells in ((3.0, 1), (0.8, 24), (10.0, 24)):
        law = Gaussian(sigma).noise_law()
        cumulative = np.cumsum(law.probabilities)
        total = np.zeros(100_000, dtype=np.int64)
        for _ in range(cells):
            total += law.first + np.searchsorted(cumulative, draw.random(total.size))
        for level in (0.8, 0.95):
            width = half_width([Gaussian(sigma)] * cells, level)
            held = np.abs(total) <= width
            spread = 4.0 * np.sqrt(level * (1.0 - level) / total.size)
            assert held.mean() >= level - spread
            narrower = (np.abs(total) <= width - 1).mean()
            assert narrower <= level + spread  # and one person less would not be enough


def test_steps_of_one_noise_design_are_summed_by_their_covariance() -> None:
    covariance = np.full((3, 3), 3.0) + np.eye(3)
    noise = CorrelatedNoise.of_covariance(covariance)
    steps = [Correlated.of(noise, step) for step in range(3)]
    width = half_width([], 0.95, [steps])
    assert width == int(np.ceil(1.959964 * np.sqrt(covariance.sum()) + 1.5))
    assert width > half_width([Gaussian(2.0)] * 3, 0.95) + 3  # as if they were independent
    both = half_width([Gaussian(2.0)], 0.95, [steps])
    assert sigma_of_sum([Raw()], [steps]) == pytest.approx(np.sqrt(30.0))
    assert half_width([], 0.95, [steps, steps]) == int(np.ceil(1.959964 * np.sqrt(60.0) + 3.0))
    assert width < both < 2 * width
    assert half_width(steps[:1], 0.95) == 4


def test_nothing_is_added_to_exact_counts_and_more_noise_never_narrows() -> None:
    assert half_width([Raw(), Raw()], 0.95) == half_width([], 0.95) == 0
    assert half_width([Gaussian(0.05)], 0.99) == 0
    widths = [half_width([Gaussian(sigma)], 0.9) for sigma in np.linspace(0.2, 20.0, 50)]
    assert widths == sorted(widths)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_the_largest_sigma_keeps_its_target_and_no_larger_one_does(level: float) -> None:
    for within in (0, 1, 3, 20, 400):
        sigma = largest_sigma(within, level)
        table = discrete_gaussian_table(sigma)
        law, middle = table.probabilities, table.last
        inside = law[max(0, middle - within) : middle + within + 1].sum()
        assert inside == pytest.approx(gaussian_coverage(sigma, within), abs=1e-9)
        assert gaussian_coverage(sigma, within) >= level > gaussian_coverage(sigma * 1.001, within)


@pytest.mark.parametrize(
    ("whole", "parts", "level"), [(1.0, [0.8, 1.1], 0.9), (2.5, [1.0] * 3, 0.95), (5.0, [3.0], 0.5)]
)
def test_the_interval_of_a_mean_holds_the_count_as_often_as_promised(
    whole: float, parts: list[float], level: float
) -> None:
    """All noise of a whole and of its parts' sum, by the exact laws; far from 0, where nothing is cut off."""
    noises: list[Mechanism] = [*map(Gaussian, parts), Gaussian(whole)]
    own, other = law_of_sum(noises[-1:]), law_of_sum(noises[:-1])
    own, other = (law[abs(np.arange(law.size) - law.size // 2) <= 45] for law in (own, other))
    held, widest = 0.0, 0
    for one, mass in enumerate(own):
        for two, rest in enumerate(other):
            if mass * rest < 1e-9:
                continue
            ends = interval_of_mean(1000 + one - own.size // 2, 1000 + two - other.size // 2, noises, level)
            assert ends is not None
            held += mass * rest * (ends[0] <= 1000 <= ends[1])
            widest = max(widest, ends[1] - ends[0])
    scale = (whole**-2 + 1.0 / sum(each**2 for each in parts)) ** -0.5
    assert level - 1e-5 <= held <= level + 0.2 / scale, "whole numbers: by half of one of them more"
    assert widest < 2 * half_width(noises[-1:], level) + 1
    assert interval_of_mean(0, 0, [Raw(), Gaussian(1.0)], level) is None
