"""People who come and priors that change while a log goes on: ceilings against enumeration, and the traps.

The process is written down: a person moves by one matrix up to step ``n`` and by another from then on, or by
one of them throughout, or comes at step ``n``. What an operator says about a change is one of these.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.exceptions import SnapshotError
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.setup.run_folder.people_record import first_step
from tests.accounting.chains import KIND_SHARES, KINDS, random_matrix
from tests.accounting.enumeration import Floats, Paths, all_paths, window_optimum
from tests.accounting.random_runs import channel, random_step
from tests.shared_files import shared
from tests.volume import some

STEPS, CHANGE = 6, 3
MECHANISMS = (Raw(), Raw(), Gaussian(0.6))


def prior_of(matrix: Floats, start: Floats | None = None) -> Population:
    prior = MovementPrior.from_dense("ada", matrix, initial=start)
    return Population.pack([prior], [str(place) for place in range(len(matrix))])


def settled(matrix: Floats) -> Floats:
    """The law that the person has throughout, as the accountant takes it."""
    return prior_of(matrix).chain(0).start[0]


def ceiling(
    people: Population, steps: list[StepSchedule], window: tuple[int, int], mistakes: int, since: int = 0
) -> float:
    """The accountant's after the last step of the window."""
    settings = HorizonSettings(window[1] - window[0] + 1, mistakes, sharpen_above=0.0)
    accountant = ContinuousAccountant(people, settings, np.array([since]))
    accountant.apply_all(steps[: window[1] + 1])
    return float(accountant.risk()[0])


def two_matrices(rng: np.random.Generator, places: int) -> tuple[Floats, Floats]:
    before, after = (random_matrix(rng, places, kind) for kind in rng.choice(KINDS, 2, p=KIND_SHARES))
    return before, after


def moved_by(start: Floats, before: Floats, after: Floats, change: int, steps: int) -> Paths:
    """Everybody's trace under the one matrix until step ``change`` and under the other from then on."""
    matrices = np.array([before if step < change else after for step in range(max(steps - 1, 1))])
    return all_paths(start, matrices, steps)


class Log:
    """A few steps of a small city, and windows of it that end after the change."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.places = int(self.rng.integers(2, 4))
        self.before, self.after = two_matrices(self.rng, self.places)
        mechanisms = MECHANISMS if self.rng.random() < 0.3 else (Raw(),)
        self.steps = [random_step(self.rng, step, self.places, mechanisms) for step in range(STEPS)]
        last = int(self.rng.integers(CHANGE, STEPS))
        self.window = (int(self.rng.integers(max(0, last - 2), last + 1)), last)
        self.mistakes = int(self.rng.integers(0, self.window[1] - self.window[0] + 1))

    def optimum(self, paths: Paths, nothing_before: int = 0) -> float:
        """Of whoever sees all steps up to the window's end; about the person only from ``nothing_before``."""
        unseen = np.ones((self.places, 1))
        channels = [
            channel(self.places, step) if step.step >= nothing_before else unseen
            for step in self.steps[: self.window[1] + 1]
        ]
        return window_optimum(paths, channels, self.window, self.mistakes)

    @property
    def length(self) -> int:
        return self.window[1] + 1


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_redone_holds_if_the_new_prior_was_always_true(block: int) -> None:
    """Whatever was accounted before: the whole log counts under the new prior."""
    for seed in (block * 100 + each for each in some(100)):
        log = Log(seed)
        law = settled(log.after)
        truth = log.optimum(moved_by(law, log.after, log.after, 0, log.length))
        assert ceiling(prior_of(log.after), log.steps, log.window, log.mistakes) >= truth - 1e-9


@pytest.mark.slow
def test_who_was_here_before_is_accounted_from_the_logs_start() -> None:
    """The trap: accounted from the change on, the ceiling of some is below the optimum."""
    known, too_low = {"ada": 0}, 0
    right = first_step(known, "ada", CHANGE)
    for seed in some(200):
        log = Log(seed)
        truth = log.optimum(moved_by(settled(log.after), log.after, log.after, 0, log.length))
        people = prior_of(log.after)
        assert ceiling(people, log.steps, log.window, log.mistakes, right) >= truth - 1e-9
        too_low += ceiling(people, log.steps, log.window, log.mistakes, CHANGE) < truth - 1e-6
    assert too_low > len(some(200)) / 20


def test_who_came_later_is_accounted_from_the_step_that_is_said() -> None:
    """What was released before says nothing about them; accounted over the whole log they are safe, too."""
    for seed in some(200):
        log = Log(seed)
        if log.window[0] < CHANGE:
            continue  # they were not there yet
        people = prior_of(log.after)
        truth = log.optimum(moved_by(settled(log.after), log.after, log.after, 0, log.length), CHANGE)
        for since in (first_step({}, "ada", CHANGE), CHANGE):
            assert ceiling(people, log.steps, log.window, log.mistakes, since) >= truth - 1e-9
        assert (
            ceiling(people, log.steps, log.window, log.mistakes, first_step({}, "ada", None)) >= truth - 1e-9
        )


@pytest.mark.slow
def test_where_habits_changed_redone_may_be_too_low_so_it_is_never_the_default() -> None:
    """Neither prior throughout bounds a person who lived by the old one and then by the new one."""
    new, old = 0, 0
    for seed in some(200):
        log = Log(seed)
        truth = log.optimum(moved_by(settled(log.before), log.before, log.after, CHANGE, log.length))
        new += ceiling(prior_of(log.after), log.steps, log.window, log.mistakes) < truth - 1e-6
        old += ceiling(prior_of(log.before), log.steps, log.window, log.mistakes) < truth - 1e-6
    assert new > len(some(200)) / 40 and old > len(some(200)) / 40


def growth_cases() -> list[dict[str, Any]]:
    document = json.loads(shared("reference/living.json").read_text())
    return [case for case in document["cases"] if case["kind"] == "growth"]


def steps_of(case: dict[str, Any]) -> list[StepSchedule]:
    """The schedule of a reference case up to its last release or the end of its horizon."""
    released = {one["step"]: one for one in case["releases"]}
    last = max([case["horizon"][1], *released])
    steps = []
    for number in range(last + 1):
        one = released.get(number)
        releases: tuple[SensorRelease, ...] = ()
        if one is not None:
            mechanism = Raw() if one["sigma"] is None else Gaussian(one["sigma"])
            releases = (SensorRelease(Sensor("s", tuple(one["places"])), mechanism),)
        steps.append(StepSchedule(number, releases))
    return steps


def test_redone_is_never_below_the_reference_optima() -> None:
    """Enumerated elsewhere: the best adversary of somebody who had the last prior from the first step on."""
    for case in growth_cases():
        first, last = case["horizon"]
        people = prior_of(np.array(case["versions"][-1]["transition"]))
        found = ceiling(people, steps_of(case), (first, last), case["mistakes"])
        assert found >= case["new_prior_throughout"] - 1e-8


def test_the_reference_shows_that_neither_truth_bounds_the_other() -> None:
    """So what new priors mean is said by the operator, and no default is taken."""
    differences = [case["new_prior_throughout"] - case["optimum"] for case in growth_cases()]
    assert min(differences) < -1e-3 and max(differences) > 1e-3


def told(
    law: Floats, matrix: Floats, steps: list[StepSchedule], window: tuple[int, int], mistakes: int, since: int
) -> float:
    """The ceiling if the adversary is told the place at step ``since``, from which ``matrix`` moves."""
    settings = HorizonSettings(window[1] - window[0] + 1, mistakes, sharpen_above=0.0)
    accountant = ContinuousAccountant(
        prior_of(matrix, law), settings, np.array([since]), told=np.array([True])
    )
    accountant.apply_all(steps[: window[1] + 1])
    return float(accountant.risk()[0])


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_told_holds_where_habits_changed_whatever_was_released_before(block: int) -> None:
    """Also for horizons that begin before the change."""
    for seed in (block * 100 + each for each in some(100)):
        log = Log(seed)
        paths = moved_by(settled(log.before), log.before, log.after, CHANGE, log.length)
        law = np.array([paths.probability[paths.paths[:, CHANGE] == x].sum() for x in range(log.places)])
        found = told(law / law.sum(), log.after, log.steps, log.window, log.mistakes, CHANGE)
        assert found >= log.optimum(paths) - 1e-9


@pytest.mark.slow
def test_a_new_start_from_the_new_settled_law_is_a_trap() -> None:
    """Started anew at the change, from where the new moves settle, the ceiling of some is too low."""
    anew = 0
    for seed in some(400):
        log = Log(seed)
        paths = moved_by(settled(log.before), log.before, log.after, CHANGE, log.length)
        truth = log.optimum(paths)
        anew += ceiling(prior_of(log.after), log.steps, log.window, log.mistakes, CHANGE) < truth - 1e-6
    assert anew > len(some(400)) / 40


def test_told_is_never_below_the_reference_optima() -> None:
    """Enumerated elsewhere, where the horizon begins at the change or later; and never below the real one."""
    compared = 0
    for case in growth_cases():
        (first, last), version = case["horizon"], case["versions"][-1]
        if first < version["from"]:
            continue
        law = np.array(case["initial"])
        for _ in range(version["from"]):
            law = law @ np.array(case["versions"][0]["transition"])
        matrix = np.array(version["transition"])
        found = told(
            law / law.sum(), matrix, steps_of(case), (first, last), case["mistakes"], version["from"]
        )
        assert found >= max(case["told_optimum"], case["optimum"]) - 1e-8
        compared += 1
    assert compared


def test_what_was_told_is_forgotten_as_the_person_moves() -> None:
    """The ceiling is 1 while the horizon begins before the change, and falls to that of other people."""
    rng = np.random.default_rng(3)
    matrix = 0.5 * random_matrix(rng, 3, "full") + 0.5 / 3
    steps = [StepSchedule(step, ()) for step in range(80)]
    settings = HorizonSettings(4, 1, sharpen_above=0.0)
    accountant = ContinuousAccountant(
        prior_of(matrix, np.full(3, 1 / 3)), settings, np.array([5]), told=np.array([True])
    )
    risks = []
    for step in steps:
        accountant.apply(step)
        risks.append((float(accountant.risk()[0]), float(accountant.baseline()[0])))
    assert [risk for risk, _ in risks[5:8]] == [1.0, 1.0, 1.0]
    assert risks[8][0] < 1.0
    assert risks[-1][0] == pytest.approx(risks[-1][1], abs=1e-6)


def test_a_snapshot_of_told_people_is_not_that_of_others() -> None:
    rng = np.random.default_rng(4)
    matrix = random_matrix(rng, 3, "full")
    people, settings = prior_of(matrix, np.full(3, 1 / 3)), HorizonSettings(4, 1)
    is_told, other = (
        ContinuousAccountant(people, settings, np.array([2]), told=np.array([each])) for each in (True, False)
    )
    for accountant in (is_told, other):
        accountant.apply_all([StepSchedule(step, ()) for step in range(9)])
    again = ContinuousAccountant(people, settings, np.array([2]), told=np.array([True]))
    again.restore(is_told.snapshot())
    assert again.risk() == is_told.risk() and again.snapshot() == is_told.snapshot()
    with pytest.raises(SnapshotError):
        again.restore(other.snapshot())
