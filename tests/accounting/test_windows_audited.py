"""Audits of schedules with counts over windows and of moves, against the best adversary by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallyguard as tg
from accounting.attacks import attack_person, attack_recorded
from accounting.audit import AttackSettings, audit_exposure, audit_population, explain
from accounting.continuous import ContinuousAccountant
from accounting.exceptions import HorizonError
from accounting.exposure import Exposure
from accounting.settings import HorizonSettings
from models.exceptions import ScheduleError
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population
from models.releases import (
    CountingWindow,
    Schedule,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
    counts_in,
    in_single_steps,
    schedule_in_single_steps,
)
from stream_app.watching.hindsight import PastHorizon, hindsight
from tests.accounting.own_counts_enumerated import Counted, Log, with_mechanism

MOST_CELLS = 3e6


@dataclass(frozen=True)
class Case:
    """A schedule of counters as cities have them, and the same releases for enumeration."""

    log: Log
    schedule: Schedule
    counted: list[Counted]

    @property
    def population(self) -> Population:
        places = [str(place) for place in range(self.log.start.size)]
        return Population.pack(
            [MovementPrior.from_dense("ada", self.log.cycle, initial=self.log.start)], places
        )

    @property
    def exposure(self) -> Exposure:
        chain = self.population.chain(0)
        return Exposure.of(chain, self.schedule, self.log.start.size, self.log.start)

    def optimum(self) -> float:
        return self.log.optimum(self.log.noised(self.counted))


@st.composite
def schedules(draw: st.DrawFn, mistakes: int | None = None) -> Case:
    return random_schedule(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), mistakes)


def random_schedule(rng: np.random.Generator, mistakes: int | None = None) -> Case:
    """2-3 places, 3-5 steps, up to three counters with windows of 1-3 steps, of places or moves."""
    places, steps = int(rng.integers(2, 4)), int(rng.integers(3, 6))
    weights = rng.gamma(0.5, size=(steps, places, places)) + 1e-3
    weights[rng.random(weights.shape) < 0.2] = 0.0
    weights += 1e-3 * np.eye(places)
    start = rng.dirichlet(np.ones(places))
    allowed = int(rng.integers(0, min(3, steps))) if mistakes is None else mistakes
    log = Log(start, (weights / weights.sum(axis=2, keepdims=True))[: steps - 1], (0, steps - 1), allowed)
    cells = places**steps  # of the enumeration: as many counts as it can take
    released: list[list[SensorRelease]] = [[] for _ in range(steps)]
    counted: list[Counted] = []
    for number in range(int(rng.integers(1, 4))):
        length = int(rng.integers(1, 4))
        mechanism: Mechanism = Raw() if rng.random() < 0.25 else Gaussian(float(rng.choice([0.4, 1.0, 2.0])))
        of_moves = rng.random() < 0.6
        times = rng.integers(0, 3, size=(places, places)) * (rng.random((places, places)) < 0.4)
        if not of_moves or not times.any():
            here = rng.random(places) < 0.5
            here[rng.integers(places)] = True
            times = np.tile(here.astype(np.int64), (places, 1))
        moves = tuple((int(x), int(y), int(times[x, y])) for x, y in np.argwhere(times)) if of_moves else ()
        window = CountingWindow(length, moves)
        most = length * int(times.max()) if rng.random() < 0.7 else 1
        located = tuple(sorted({place for move in moves for place in move[:2]})) or tuple(
            np.flatnonzero(times[0]).tolist()
        )
        sensor = Sensor(f"c{number}", located, most_counts=most, window=window)
        for last in range(steps):
            if window.ends_with(last) and rng.random() < 0.8:
                own = Counted(window.first_of(last), last, times.astype(np.int64), np.ones(1))
                shown = Limited.of(with_mechanism(own, mechanism), most)
                cells *= shown.noise.size + most
                if cells > MOST_CELLS:
                    continue
                released[last].append(SensorRelease(sensor, mechanism))
                counted.append(shown)
    schedule = Schedule(tuple(StepSchedule(step, tuple(each)) for step, each in enumerate(released)))
    return Case(log, schedule, counted)


@dataclass(frozen=True)
class Limited(Counted):
    """A device that counts one person at most so often in a window."""

    most: int = 1

    @classmethod
    def of(cls, counted: Counted, most: int) -> Limited:
        return cls(counted.first, counted.last, counted.times, counted.noise, most)

    def fine(
        self, paths: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        steps = range(self.first, self.last + 1)
        return np.stack([self.times[paths[:, max(t - 1, 0)], paths[:, t]] for t in steps], axis=1)

    def own(
        self, paths: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.minimum(super().own(paths), self.most)


@given(schedules())
@settings(max_examples=40, deadline=None)
def test_every_figure_of_an_audit_is_on_its_side_of_the_enumerated_optimum(case: Case) -> None:
    """Ceiling and ceiling in hindsight above it; no attack proves more than it."""
    best = case.optimum()
    attacks = AttackSettings(draws=400)
    (found,) = audit_population(case.population, case.schedule, case.log.mistakes, attacks=attacks)
    assert found.certified >= best - 1e-12
    results = attack_person(case.exposure, case.log.mistakes, draws=400)
    assert all(each.proved <= best + 1e-9 for each in results.values())
    if case.exposure.windows is not None:
        assert {"map", "marginal", "prior", "constant"} <= results.keys()
    steps = schedule_in_single_steps(case.schedule.steps)
    past = PastHorizon(0, len(steps) - 1, case.log.mistakes)
    later = hindsight(case.population, 0, steps, 0, past)
    assert later is not None and later.now >= best - 1e-12


@pytest.mark.slow
def test_windows_and_moves_add_hardly_more_to_a_ceiling_than_to_the_best_adversary() -> None:
    """Over the guess, all schedules together; shown in single steps they add half as much again."""
    added, won, by_steps = 0.0, 0.0, 0.0
    for seed in range(25):
        case = random_schedule(np.random.default_rng(seed))
        (audit,) = audit_population(case.population, case.schedule, case.log.mistakes)
        steps = Schedule(schedule_in_single_steps(case.schedule.steps))
        (apart,) = audit_population(case.population, steps, case.log.mistakes)
        added += audit.certified - audit.baseline
        by_steps += apart.certified - audit.baseline
        won += case.optimum() - audit.baseline
    assert added <= 1.03 * won < 1.3 * won <= by_steps


def open_in(case: Case, step: int) -> dict[str, SensorRelease]:
    """By sensor, the counts whose windows a step is in: one of moves begins with the step before them."""
    found = {}
    for published in case.schedule.steps:
        for release in published.releases:
            window = release.sensor.window
            assert window is not None
            if window.first_of(published.step) - bool(window.moves) <= step <= published.step:
                found[release.sensor.name] = release
    return found


def running(case: Case, horizon: int, mistakes: int) -> Iterator[tuple[float, float, float]]:
    """Of each horizon of which something was published the ceiling, the guess, and the best adversary."""
    accountant = ContinuousAccountant(case.population, HorizonSettings(horizon, mistakes, sharpen_above=0.0))
    for step in case.schedule.steps:
        there = open_in(case, step.step)
        registry = SensorRegistry(
            case.population.location_names, tuple(each.sensor for each in there.values())
        )
        registry = registry.with_windows({name: each.mechanism for name, each in there.items()})
        accountant.apply(in_single_steps(step, registry))
        seen = [each for each in case.counted if each.last <= step.step]
        if step.step >= horizon - 1 and seen:
            log = Log(case.log.start, case.log.matrices, (step.step - horizon + 1, step.step), mistakes)
            best = log.optimum(log.noised(seen))
            yield float(accountant.risk()[0]), float(accountant.baseline()[0]), best


@pytest.mark.slow
@pytest.mark.parametrize("mistakes", [0, 1])
def test_windows_and_moves_add_hardly_more_to_running_ceilings(mistakes: int) -> None:
    """Over the guess, all horizons of all schedules together, with what was published before them."""
    added, won, compared = 0.0, 0.0, 0
    for seed in range(25):
        for ceiling, guess, best in running(random_schedule(np.random.default_rng(seed)), 3, mistakes):
            assert ceiling >= best - 1e-9
            added, won, compared = added + ceiling - guess, won + best - guess, compared + 1
    assert compared > 40
    assert added <= 1.05 * won


def test_places_that_nobody_comes_to_are_no_states_and_change_nothing() -> None:
    """The last of four places and the one before have the only states, fewer than there are places."""
    moves = np.eye(4) * [1.0, 1.0, 0.0, 0.0] + np.pad([[0.7, 0.3], [0.4, 0.6]], ((2, 0), (2, 0)))
    log = Log(np.array([0.0, 0.0, 0.5, 0.5]), np.tile(moves, (3, 1, 1)), (0, 3), 0)
    times = np.tile(np.array([0, 0, 1, 0]), (4, 1))
    shown = with_mechanism(Counted(2, 3, times, np.ones(1)), Gaussian(0.4))
    sensor = Sensor("c", (2,), most_counts=2, window=CountingWindow(2))
    last = StepSchedule(3, (SensorRelease(sensor, Gaussian(0.4)),))
    case = Case(log, Schedule((*(StepSchedule(step) for step in range(3)), last)), [shown])
    (audit,) = audit_population(case.population, case.schedule, 0)
    assert case.optimum() - 1e-12 <= audit.certified <= case.optimum() + 0.01


@given(schedules(mistakes=0))
@settings(max_examples=40, deadline=None)
def test_without_mistakes_the_likeliest_path_is_the_best_attack_there_is(case: Case) -> None:
    """So its share of draws must be the enumerated optimum, but for the luck of the draws."""
    found = attack_person(case.exposure, 0, draws=3_000, confidence=1.0 - 1e-6)["map"]
    assert found.low - 1e-9 <= case.optimum() <= found.high + 1e-9


@pytest.mark.slow
@given(schedules())
@settings(max_examples=20, deadline=None)
def test_what_each_window_revealed_adds_up_and_without_it_the_ceiling_is_that_of_the_rest(case: Case) -> None:
    """One share a published window, by its sensor and step; the ceiling without it is a new audit's."""
    found = explain(case.exposure, case.schedule.steps, case.log.mistakes)
    assert sum(share.information_nats for share in found.shares) == pytest.approx(found.information_nats)
    named = {(share.step, share.sensor) for share in found.shares}
    published = {(s.step, r.sensor.name) for s in case.schedule.steps for r in s.releases}
    assert len(named) == len(found.shares) and named <= published
    for share in found.shares[:1]:
        steps = tuple(
            StepSchedule(
                step.step,
                tuple(r for r in step.releases if (step.step, r.sensor.name) != (share.step, share.sensor)),
            )
            for step in case.schedule.steps
        )
        (rest,) = audit_population(case.population, Schedule(steps), case.log.mistakes)
        assert found.without(share) == pytest.approx(rest.certified, abs=1e-12)


@pytest.mark.slow
@given(schedules())
@settings(max_examples=20, deadline=None)
def test_single_steps_are_taken_apart_by_the_counts_that_are_published(case: Case) -> None:
    """As pages have a run's steps: shares are named as in an audit of what is published, and as large."""
    steps, mistakes = case.schedule.steps, case.log.mistakes
    single, whole = schedule_in_single_steps(steps), explain(case.exposure, steps, mistakes)
    found = explain(replace(case.exposure, windows=None), single, mistakes)
    assert {(each.step, each.sensor, each.mechanism): each.information_nats for each in found.shares} == {
        (each.step, each.sensor, each.mechanism): each.information_nats for each in whole.shares
    }
    for share in found.shares[:1]:
        kept = [
            StepSchedule(
                step.step,
                tuple(r for r in step.releases if (step.step, r.sensor.name) != (share.step, share.sensor)),
            )
            for step in steps
        ]
        rest = replace(case, schedule=Schedule(tuple(kept))).exposure
        without = audit_exposure(replace(rest, windows=None), mistakes).certified
        assert found.without(share) == pytest.approx(without, abs=1e-12)


def test_windows_of_a_run_that_begin_before_its_last_steps_or_are_open_have_the_names_of_their_sensors() -> (
    None
):
    """Not of the places that they show: whoever asks why must learn which sensor it was, and which count."""
    week = Sensor("week", (0,), window=CountingWindow(4))
    line = Sensor("line", (0, 1), window=CountingWindow(2, ((0, 1, 1),)))
    hour = Sensor("hour", (2,))
    registry = SensorRegistry(("0", "1", "2"), (week, line, hour))
    registry = registry.with_windows({"week": Gaussian(1.0), "line": Raw()})
    prior = MovementPrior.from_dense("a", np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.3, 0.3, 0.4]]))
    population = Population.pack([prior])
    decided = [StepSchedule(step, (SensorRelease(hour, Gaussian(2.0)),)) for step in range(3, 8)]
    steps = tuple(in_single_steps(step, registry) for step in decided)
    found = explain(Exposure.of(population.chain(0), Schedule(steps, 3), 3), steps, 1)
    assert {(each.step, each.sensor, each.mechanism) for each in found.shares} == {
        *((step, "hour", "gaussian") for step in range(3, 8)),
        *((step, "line", "raw") for step in (3, 5, 7, 9)),
        *((step, "week", "gaussian") for step in (3, 7)),
    }
    assert sum(each.information_nats for each in found.shares) == pytest.approx(found.information_nats)
    assert max(each.certified_drop for each in found.shares) > 0.01


def test_single_steps_are_audited_as_before_bit_for_bit() -> None:
    """Nothing is converted where nothing has a window."""
    steps = Schedule.gaussian([[0], [1], []], 1.0).steps
    assert schedule_in_single_steps(steps) == steps
    assert [[part.shown for part in counts_in(step)] for step in steps] == [
        list(step.releases) for step in steps
    ]


DOOR = Sensor("door", (0, 1), most_counts=2, window=CountingWindow(2, ((0, 1, 1),)))
ADA = tg.Prior.from_dense("ada", [[0.8, 0.2], [0.3, 0.7]])


def test_a_window_must_lie_in_the_schedule() -> None:
    """What began before it says something of steps that nothing is known of."""
    late = Schedule((StepSchedule(3, (SensorRelease(DOOR, Raw()),)),))
    with pytest.raises(ScheduleError, match="must lie in the schedule"):
        schedule_in_single_steps(late.steps)
    inside = Schedule((*(StepSchedule(step) for step in range(1, 3)), *late.steps))
    assert [len(step.releases) for step in schedule_in_single_steps(inside.steps)] == [1, 2, 1]


def test_a_notebook_audits_and_attacks_a_passage_counter() -> None:
    """`tg.audit` takes a sensor on moves; a recorded trace is refused, for no attack replays windows."""
    steps = [StepSchedule(t, (SensorRelease(DOOR, Raw()),) if t in (3, 5) else ()) for t in range(6)]
    schedule = Schedule(tuple(steps))
    audit = tg.audit(ADA, schedule, mistakes=1)[0]
    assert audit.attacks is not None and audit.attacks["map"] is not None
    assert audit.baseline < audit.attacks["marginal"].success <= audit.certified  # type: ignore[union-attr]
    exposure = Exposure.of(Population.pack([ADA], ["a", "b"]).chain(0), schedule, 2)
    with pytest.raises(HorizonError, match="single steps"):
        attack_recorded(exposure, np.zeros(6, np.int64), 1)
