"""Volunteers followed step by step: right priors are seldom accused, sharpened ones are found."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from accounting.audit.calibration import PanelCheck, RunningCheck
from accounting.settings import HorizonSettings
from models.priors import MovementPrior, Population
from tests.accounting.calibration.walkers import Floats, population, random_people, sharpened, walked

LEVEL, HORIZON = 0.05, HorizonSettings(3, 1)


def followed(
    random: np.random.Generator, people: list[Floats], true: list[Floats], steps: int, missing: float = 0.0
) -> PanelCheck:
    """A panel that walks by ``true`` chains, checked against those of ``people``."""
    check = PanelCheck(population(people), HORIZON, RunningCheck(LEVEL))
    places = walked(random, true, steps).places
    for step in range(steps):
        for person in range(len(people)):
            if random.random() >= missing:
                assert check.record(person, step, int(places[person, step]))
    return check


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_right_priors_are_refuted_at_most_at_the_level(missing: float) -> None:
    """However many horizons one person gives, with steps left out or not; and it can alarm."""
    random = np.random.default_rng(41)
    people = random_people(random, 4, slots=2)
    runs = 150
    checks = [followed(random, people, people, 45, missing) for _ in range(runs)]
    alarms = sum(each.check.is_refuted for each in checks)
    assert binom.sf(alarms - 1, runs, LEVEL) > 1e-3
    assert min(each.guesses for each in checks) > (50 if missing == 0.0 else 10)
    growth = [np.exp(each.check.log_evidence) for each in checks]
    assert max(growth) > 1.5


@pytest.mark.slow
@pytest.mark.indices
def test_people_with_sharper_rows_than_their_priors_are_found() -> None:
    """Rows to the power 3: nearly every panel of a dozen is, within twenty horizons each."""
    random = np.random.default_rng(43)
    people = random_people(random, 12)
    checks = [followed(random, people, sharpened(people, 3.0), 60) for _ in range(12)]
    assert sum(each.check.is_refuted for each in checks) >= 11
    assert {each.people for each in checks} == {12}
    assert {each.guesses for each in checks} == {12 * 20}


def test_each_guess_is_predicted_exactly_given_the_last_place() -> None:
    """The mean of ``1 + stake (a - b)`` over all futures is 1, from every last place, after a gap, too."""
    random = np.random.default_rng(7)
    matrices = random.dirichlet(np.ones(3), size=(2, 3))
    prior = MovementPrior.from_dense("p", matrices)
    folk = Population.pack([prior], ["a", "b", "c"])
    settings = HorizonSettings(2, 0, first_slot=1)

    def law(start: int, moves: int, first: int) -> np.ndarray:
        found = np.eye(3)[start]
        for step in range(first, first + moves):
            found = found @ matrices[(1 + step) % 2]
        return found

    for last, gap in product(range(3), (1, 2)):
        mean = 0.0
        for x, y in product(range(3), range(3)):
            check = PanelCheck(folk, settings, RunningCheck(LEVEL))
            for step, place in enumerate((0, last)):
                check.record(0, step, place)
            before = check.check.log_evidence
            check.record(0, 1 + gap, x)
            check.record(0, 2 + gap, y)
            assert check.guesses == 2
            weight = law(last, gap, 1)[x] * matrices[(1 + 1 + gap) % 2][x, y]
            mean += weight * np.exp(check.check.log_evidence - before)
        assert mean == pytest.approx(1.0, abs=1e-12)


def test_a_start_of_ones_own_is_followed() -> None:
    """The first guess of somebody whose prior says where they start."""
    prior = MovementPrior.from_dense("p", [[0.5, 0.5], [0.5, 0.5]], initial=[1.0, 0.0])
    folk = Population.pack([prior], ["a", "b"])
    check = PanelCheck(folk, HorizonSettings(1, 0), RunningCheck(LEVEL))
    check.record(0, 0, 0)
    assert check.check.log_evidence == 0.0  # certain, and so it was
    check.record(0, 1, 0)
    assert check.check.log_evidence == pytest.approx(np.log(1.25))


def test_steps_come_in_order_and_gaps_end_a_horizon() -> None:
    """What is known already is told so; an impossible place is a miss, and the next start is the usual."""
    people = [np.array([[[0.9, 0.1], [0.2, 0.8]]])]
    check = PanelCheck(population(people), HORIZON, RunningCheck(LEVEL))
    assert check.record(0, 4, 0)
    assert not check.record(0, 4, 1)
    assert not check.record(0, 3, 1)
    assert check.record(0, 6, 0)
    assert check.record(0, 7, 0)
    assert check.guesses == 0
    assert check.record(0, 8, 3)
    assert check.guesses == 1
    for step in (9, 10, 11):
        assert check.record(0, step, 0)
    assert check.guesses == 2
