"""Running ceilings by own counts: the same after a restart, lower than by single steps, whole arrays only."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.exceptions import SnapshotError
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population
from models.releases import (
    CountingWindow,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
    in_single_steps,
)

PLACES = tuple("abcd")
SENSORS = (
    Sensor("sum", (0, 1), most_counts=4, window=CountingWindow(4)),
    Sensor("moves", (1, 2), most_counts=2, window=CountingWindow(2, ((1, 2, 1),))),
    Sensor("plain", (3,)),
)
NOISE: dict[str, Mechanism] = {"sum": Gaussian(1.0), "moves": Raw(), "plain": Raw()}
REGISTRY = SensorRegistry(PLACES, SENSORS).with_windows({name: NOISE[name] for name in ("sum", "moves")})
RULES = HorizonSettings(3, 1, sharpen_above=0.0)


def accounts() -> ContinuousAccountant:
    rng = np.random.default_rng(1)
    prior = MovementPrior.from_dense("ada", rng.dirichlet(np.ones(4), 4))
    return ContinuousAccountant(Population.pack([prior], PLACES), RULES)


def step(number: int) -> StepSchedule:
    """What the sensors publish in this step, as accounts take it."""
    ended = (each for each in SENSORS if each.window is None or each.window.ends_with(number))
    releases = tuple(SensorRelease(each, NOISE[each.name]) for each in ended)
    return in_single_steps(StepSchedule(number, releases), REGISTRY)


def test_ceilings_are_lower_than_by_single_steps_and_survive_a_restart() -> None:
    """The same bits with and without a restart in the middle of a window."""
    whole, by_steps = accounts(), accounts()
    for number in range(10):
        if number == 6:
            restarted = accounts()
            restarted.restore(whole.snapshot())
            whole = restarted
        whole.apply(step(number))
        by_steps.apply(replace(step(number), published=None))
    never = accounts()
    never.apply_all(map(step, range(10)))
    assert whole.snapshot() == never.snapshot()
    assert whole.decided_by(0) == "own_counts"
    assert whole.risk()[0] < by_steps.risk()[0] - 0.05


@pytest.mark.parametrize("name", ["window_row", "window_counted", "published_channel"])
def test_arrays_that_do_not_belong_together_are_refused(name: str) -> None:
    """They would be read beyond their ends."""
    found = accounts()
    found.apply_all(map(step, range(5)))
    arrays, packed = dict(np.load(BytesIO(found.snapshot()))), BytesIO()
    arrays[name] = arrays[name] + 1000
    np.savez(packed, **arrays)
    with pytest.raises(SnapshotError):
        accounts().restore(packed.getvalue())
