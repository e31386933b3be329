"""Running ceilings by own counts: the same after a restart, lower than by single steps, whole arrays only."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.continuous.published import ceiling_by_own_counts
from accounting.exceptions import SnapshotError
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population, Question
from models.releases import (
    CountingWindow,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
    in_single_steps,
)
from tests.accounting.enumeration import all_paths

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


@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("counted", [0, 1, 2])
def test_how_often_a_window_has_counted_before_what_is_followed_may_be_known(
    sigma: float, counted: int
) -> None:
    """A device counts each person twice at most, in four steps, of which the last two are followed.

    Whoever was counted once before is counted once more or not: noise hides less which of both than
    whether the count was in the middle of three.
    """
    moves, law = (
        np.array([[1 / 3, 0.0, 2 / 3], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]),
        np.array([0.75, 0.0, 0.25]),
    )
    sensor = Sensor("s", (0,), most_counts=2, window=CountingWindow(4))
    registry = SensorRegistry(("a", "b", "c"), (sensor,)).with_windows({"s": Gaussian(sigma)})
    people = Population.pack([MovementPrior.from_dense("ada", moves, initial=law)], registry.location_names)
    settings = HorizonSettings(1, 0, sharpen_above=0.0, question=Question("at c", {"there": ["c"]}))
    found = ContinuousAccountant(people, settings, np.array([2]))
    for number in range(4):
        released = (SensorRelease(sensor, Gaussian(sigma)),) if number == 3 else ()
        found.apply(in_single_steps(StepSchedule(number, released), registry))
    noise = Gaussian(sigma).noise_law().probabilities
    seen = np.zeros((2, noise.size + 2))
    paths = all_paths(law, moves[np.newaxis], 2)
    for path, probability in zip(paths.paths, paths.probability, strict=True):
        own = min(counted + int((path == 0).sum()), 2)
        seen[int(path[1] == 2), own : own + noise.size] += probability * noise
    ceiling = ceiling_by_own_counts(found.refining, 0, 3, found._running.published)
    assert ceiling is not None and ceiling >= seen.max(axis=0).sum() - 1e-12


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
