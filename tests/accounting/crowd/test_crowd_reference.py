"""The crowd's sums against exact numbers by another program; ``about`` in the file says what each is."""

from __future__ import annotations

import json
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.exposure.crowd.others import left_of_entropy
from accounting.exposure.crowd.variance_kernel import COINS, RATES, TRANSFORMS, VARIANCE, difference_masses
from tests.accounting.crowd.side_information import free_bits, neighbours

CASES = json.loads((Path(__file__).parent / "crowd.json").read_text())["cases"]


def own_sensors(case: dict[str, Any], step: int, places: int) -> tuple[list[int], NDArray[np.int64]]:
    """The sensors of a step, and which of them, from 1, counts alone at each place; 0 for none, -2."""
    here = [j for j, sensor in enumerate(case["sensors"]) if sensor["step"] == step]
    own = np.zeros(places, np.int64)
    for number, j in enumerate(here, start=1):
        for place in case["sensors"][j]["places"]:
            own[place] = number if own[place] == 0 else -2
    return here, own


def crowd_of(case: dict[str, Any]) -> NDArray[np.float64]:
    """Sums of each other person (rows) at each sensor."""
    found = np.zeros((len(case["others"]), len(case["sensors"]), TRANSFORMS + len(RATES)))
    for i, (other, side_information) in enumerate(zip(case["others"], case["tell"], strict=True)):
        initial, moves = np.array(other["initial"]), [np.array(each) for each in other["transitions"]]
        for free in side_information["free"]:
            here, own = own_sensors(case, free["step"], initial.size)
            side = neighbours(initial, moves, side_information["told"], free["step"])
            number = here.index(free["sensor"]) + 1
            found[i, free["sensor"]] += free_bits(*side, own, number)[number - 1]
    return found


def noise_of(sensor: dict[str, Any]) -> NDArray[np.float64]:
    """Masses at 0..3 of the reference's noise."""
    if sensor["sigma"] is None:
        return np.ones(1)
    law = np.exp(-(np.arange(-3, 4) ** 2) / (2 * sensor["sigma"] ** 2))
    return np.asarray((law / law.sum())[3:])


def mode(variance: float, noise: NDArray[np.float64]) -> float:
    masses = difference_masses(variance, noise.size - 1)
    return float(noise[0] * masses[0] + 2 * (noise[1:] * masses[1:]).sum())


@pytest.mark.parametrize("case", CASES)
def test_sums_of_the_crowd_are_those_of_the_reference(case: dict[str, Any]) -> None:
    """Variance of each person at each sensor, and all people's coins."""
    sums = crowd_of(case)
    assert np.abs(sums[:, :, VARIANCE] - np.array(case["variance_by_person"])).max() < 1e-9
    assert np.abs(sums[:, :, COINS].sum(0) - np.array(case["coins"])).max() < 1e-9


@pytest.mark.parametrize("case", CASES)
def test_what_is_left_of_a_bit_is_that_of_the_reference(case: dict[str, Any]) -> None:
    """``sum_k f(k) e^-V I_k(V)``, never below the exact mean mode, and the share ``(1 - e^-mu) / mu``."""
    for j, sensor in enumerate(case["sensors"]):
        found = mode(case["variance"][j], noise_of(sensor))
        assert abs(found - case["delta_from_variance"][j]) < 1e-8
        assert found >= case["mean_delta"][j] - 1e-12
        assert abs(left_of_entropy(case["coins"][j]) - case["share_closed"][j]) < 1e-8
        assert left_of_entropy(case["coins"][j]) >= case["share"][j] - 1e-12


@pytest.mark.parametrize("case", CASES)
def test_variances_at_levels_are_those_of_the_reference(case: dict[str, Any]) -> None:
    """Chernoff's bound at the reference's eight rates, which are among ours."""
    sums = crowd_of(case)
    transforms = np.log(1.0 - sums[:, :, TRANSFORMS:]).sum(0)
    theirs = [RATES.index(rate) for rate in (0.5, 1, 2, 4, 8, 16, 32, 64)]
    for each in case["levels"]:
        for j, wanted in enumerate(each["variance"]):
            likely = log(each["level"] / len(case["sensors"]))
            rates = [(likely - transforms[j, k]) / RATES[k] for k in theirs]
            assert abs(max(0.0, *rates) - wanted) < 1e-8
            assert abs(mode(wanted, noise_of(case["sensors"][j])) - each["delta"][j]) < 1e-8
