"""Volunteers on days of 23 and 25 hours and on holidays: a guess is right as often as is said."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from accounting.audit.calibration import PanelCheck, RunningCheck
from accounting.settings import HorizonSettings
from tests.accounting.test_clock_changes import NIGHTS, Night, calendar_of, on_the_wall, random_prior
from tests.volume import randoms


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS)
def test_each_guess_is_predicted_exactly_through_the_night(
    night: Callable[[np.random.Generator], Night],
) -> None:
    """The mean of ``1 + stake (a - b)`` over all futures is 1, from habits and from a last place."""
    judged = 0
    for rng in randoms(60, 40):
        given = night(rng)
        people, steps = random_prior(rng, given.cycle), min(given.steps, 6)
        truth = on_the_wall(people, given.origin, given.first, steps, given.holidays)
        calendar, horizon = calendar_of(given.origin, given.holidays), steps // 2
        settings = HorizonSettings(
            horizon,
            int(rng.integers(horizon)),
            first_slot=calendar.first_slot,
            first_step=given.first,
            calendar=calendar,
        )
        mean = 0.0
        for places in product(range(2), repeat=2 * horizon):
            likely = truth.start[places[0]]
            for t in range(2 * horizon - 1):
                likely *= truth.moves[t][places[t], places[t + 1]]
            if likely > 0.0:
                check = PanelCheck(people, settings, RunningCheck(0.05))
                for t, place in enumerate(places):
                    check.record(0, given.first + t, place)
                assert check.guesses == 2
                mean += likely * np.exp(check.check.log_evidence)
                judged += check.check.log_evidence != 0.0
        assert mean == pytest.approx(1.0, abs=1e-9)
    assert judged
