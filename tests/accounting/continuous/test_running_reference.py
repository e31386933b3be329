"""The running ceiling after every step of a log against optima that were enumerated elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.shared_files import shared


def steps_of(case: dict) -> list[StepSchedule]:
    """The schedule; sigma 0 is a raw release."""
    return [
        StepSchedule(
            number,
            tuple(
                SensorRelease(
                    Sensor(f"s{one['sensor']}", (one["sensor"],)),
                    Gaussian(one["sigma"]) if one["sigma"] else Raw(),
                )
                for one in step
            ),
        )
        for number, step in enumerate(case["schedule"])
    ]


@pytest.mark.parametrize(("kind", "close"), [("raw", 1.02), ("noised", 1.5)])
def test_the_ceiling_is_never_below_the_optimum_and_close_to_it(kind: str, close: float) -> None:
    """After every step; the guess is the optimum without any release, exactly."""
    ratios = []
    for case in json.loads(shared("reference/running.json").read_text())[kind]:
        prior = MovementPrior.from_dense("p", np.array(case["transition"])[np.newaxis])
        population = Population.pack([prior], [str(x) for x in range(len(case["transition"]))])
        settings = HorizonSettings(case["horizon"], case["mistakes"], sharpen_above=0.0)
        accountant = ContinuousAccountant(population, settings)
        for step, optimum, guess in zip(steps_of(case), case["optimum"], case["guess"], strict=True):
            accountant.apply(step)
            assert accountant.risk()[0] >= optimum - 1e-12
            assert accountant.baseline()[0] == pytest.approx(guess, rel=1e-12)
            ratios.append(accountant.risk()[0] / optimum)
    assert np.mean(ratios) < close
