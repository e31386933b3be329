"""Attackers on counts do what their papers say, and none is above what a crowd certifies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.audit import seen_among
from accounting.bounds import Effort
from accounting.bounds.certified import certify_in_crowd
from accounting.exposure import baseline
from accounting.exposure.crowd import CrowdAdversary, revealed
from accounting.numerics import clopper_pearson
from experiments.crowd import ceilings, city_setting, successes
from experiments.crowd_attackers import (
    CROWD_ATTACKS,
    POOL,
    MembershipTest,
    Recovery,
    Scene,
    Watched,
    area_ceiling,
    area_under_curve,
    cheapest_flow,
    draw_traces,
    likeliest_path,
)
from models.mechanisms import Raw
from models.priors import MovementPrior, Population
from models.releases import Schedule
from tests.accounting.crowd.collective import collective_optimum, joint_law, others_law
from tests.accounting.crowd.instances import Instance, prior_of, random_chain
from tests.accounting.enumeration import all_paths
from tests.volume import some

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
ROUNDING = 1e-9
EFFORT = Effort(patterns=64, vectors=16)
NOBODY_KNOWN = CrowdAdversary()


def small_crowd(rng: np.random.Generator) -> Instance:
    """A target among up to a dozen others, all or some alike; two or three raw counts of single places."""
    places, cycle, steps = int(rng.integers(2, 4)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
    size = int(rng.integers(1, 13))
    pool = [random_chain(rng, places, cycle) for _ in range(int(rng.integers(1, 4)))]
    chains = [pool[k % len(pool)] for k in range(size + 1)]
    population = Population.pack(
        [prior_of(f"p{k}", chain, False) for k, chain in enumerate(chains)], [str(k) for k in range(places)]
    )
    habitual = [(population.chain(k).start[0].copy(), moves) for k, (_, moves) in enumerate(chains)]
    counted = [(t, place) for t in range(steps) for place in range(places)]
    chosen = sorted(rng.permutation(len(counted))[: 2 if size > 6 else 3].tolist())
    by_step = [[counted[k][1] for k in chosen if counted[k][0] == t] for t in range(steps)]
    return Instance(habitual[0], habitual[1:], Schedule.of(by_step, Raw()), population, False)


class Enumerated:
    """Everything that can happen in a small crowd."""

    def __init__(self, instance: Instance) -> None:
        self.instance, steps = instance, instance.steps
        law = others_law(instance.others, instance.counts(), steps)
        self.joint = joint_law(instance.target, instance.counts(), law, (0, steps - 1))
        shape = tuple(size + 1 for size in law.shape)
        self.counts = np.stack(np.unravel_index(np.arange(self.joint.law.shape[1]), shape), axis=1).astype(
            float
        )
        without = np.zeros(shape)
        without[tuple(slice(size) for size in law.shape)] = law
        self.without = without.ravel()
        places = instance.target[0].size
        watched = Watched.of(instance.schedule.steps, 0, places)
        self.scene = Scene(instance.population, watched, np.random.default_rng(0).random((places, 2)))

    def success(self, attack: str) -> float:
        """Exact, every step to be told right."""
        possible = np.flatnonzero(self.joint.law.any(axis=0))
        guesses = CROWD_ATTACKS[attack].guesses(self.scene, [0], self.counts[possible])[0]
        row = {tuple(path): k for k, path in enumerate(self.joint.traces.tolist())}
        return float(
            sum(self.joint.law[row[tuple(g)], c] for g, c in zip(guesses.tolist(), possible, strict=True))
        )

    def ceiling(self) -> float:
        exposure = self.instance.exposure()
        seen, without = self.instance.seen(NOBODY_KNOWN), baseline(exposure, 0).success
        return certify_in_crowd(exposure, seen, 0, EFFORT, without).value

    def areas(self) -> tuple[float, float, float]:
        """Of the membership test, of the best test there is, and what is certified."""
        chain, watched = self.scene.population.chain(0), self.scene.watched
        scores = MembershipTest(watched, chain, self.scene.others(0)).log_ratios(self.counts)
        with_target = self.joint.law.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.nan_to_num(with_target / self.without, nan=0.0, posinf=np.inf)
        seen = self.instance.seen(NOBODY_KNOWN)
        hidden = [revealed(each.variance(NOBODY_KNOWN), Raw()) for step in seen.crowds for each in step]
        ceiling = area_ceiling(watched.moments_of(chain).mean, np.array(hidden))
        return self._area(scores), self._area(best), ceiling

    def _area(self, scores: Floats) -> float:
        above = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
        return float(self.joint.law.sum(axis=0) @ above @ self.without)


def check_crowds(seeds: Iterable[int]) -> dict[str, int]:
    """How often each attack beats habits, in crowds in which none is above what there can be."""
    won = dict.fromkeys([*CROWD_ATTACKS, "area"], 0)
    for seed in seeds:
        instance = small_crowd(np.random.default_rng(seed))
        crowd = Enumerated(instance)
        best = collective_optimum(crowd.joint, 0)
        habits = all_paths(*instance.target, instance.steps).probability.max()
        assert best <= crowd.ceiling() + ROUNDING
        for name in CROWD_ATTACKS:
            success = crowd.success(name)
            assert success <= best + ROUNDING
            won[name] += success > habits + 1e-6
        area, best_area, ceiling = crowd.areas()
        assert area <= best_area + ROUNDING
        assert best_area <= ceiling + ROUNDING
        won["area"] += ceiling < 0.99 and area > 0.5 + 1e-6
    return won


@pytest.mark.slow
def test_no_attacker_is_above_the_optimum_nor_that_above_the_ceiling() -> None:
    """By enumeration of everybody's movements; each attack wins something somewhere."""
    assert min(check_crowds(range(40)).values()) > 3


@pytest.mark.thorough
@pytest.mark.slow
def test_no_attacker_is_above_the_ceiling_in_many_more_crowds() -> None:
    """The same, longer."""
    crowds = some(120)
    assert min(check_crowds(1_000 + crowd for crowd in crowds).values()) > len(crowds) / 12


@pytest.mark.slow
def test_no_attacker_is_above_anybodys_ceiling_in_the_city() -> None:
    """Person by person on many days, with exact intervals that all hold with a probability of 0.999."""
    setting, targets = city_setting(150, 16, days=60, steps=5), list(range(15))
    seen = seen_among(setting.scene.population, setting.schedule, NOBODY_KNOWN)
    certified = ceilings(setting, seen, targets)[:, 1]
    right = successes(setting, targets)
    confidence = 1.0 - 2e-3 / (len(right) * len(targets))
    for name, hits in right.items():
        assert hits.any(), name
        for person, ceiling in zip(hits, certified, strict=True):
            assert clopper_pearson(int(person.sum()), person.size, confidence).low <= ceiling, name


def line_of(places: Sequence[Sequence[float]], steps: int, people: int, first_slot: int, day: int) -> Scene:
    """Every place counted in every step; nobody's habits matter."""
    count = len(places)
    anybody = MovementPrior.from_dense("p", np.full((count, count), 1.0 / count))
    population = Population.pack([anybody] * 1).subset([0] * people)
    watched = Watched.of(Schedule.of([list(range(count))] * steps, Raw()).steps, first_slot, count)
    return Scene(population, watched, np.array(places, float), day)


def recovered(scene: Scene, walked: Sequence[Sequence[int]]) -> list[list[int]]:
    """From the counts of people who walked so."""
    counts = scene.watched.counts_of(np.array(walked, np.int32).T[None])[0]
    return sorted(Recovery(scene).recover(counts).tolist())


def test_by_day_people_go_on_as_they_went_and_by_night_they_stay() -> None:
    """Two who pass each other: by day they are told apart, by night they seem to turn round."""
    street = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]
    passing = [[0, 1, 2, 3], [3, 2, 1, 0]]
    assert recovered(line_of(street, 4, 2, 8, 24), passing) == passing
    assert recovered(line_of(street, 4, 2, 0, 24), passing) == [[0, 1, 1, 0], [3, 2, 2, 3]]


def test_days_are_joined_by_the_places_they_share() -> None:
    """Who wakes up elsewhere is known by where they spend the day."""
    places = [[0, 0], [10, 0], [0, 2], [0, 1], [10, 1]]
    walked = [[0, 3, 3, 2, 3, 3], [1, 4, 4, 1, 4, 4]]
    assert recovered(line_of(places, 6, 2, 0, 3), walked) == walked


def test_people_in_no_count_are_in_one_pool() -> None:
    """They come from it and go to it, and all are accounted for."""
    places = [[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]]
    scene = line_of(places, 3, 3, 8, 24)
    watched = Watched.of(Schedule.of([[0], [0, 1], [1]], Raw()).steps, 8, 3)
    scene = Scene(scene.population, watched, scene.position_km, 24)
    paths = Recovery(scene).recover(np.array([2.0, 1.0, 1.0, 2.0]))
    assert sorted(paths.tolist()) == [[POOL, POOL, POOL], [0, 0, 1], [0, 1, 1]]
    assert likeliest_path(scene, 0, np.array([[0, 1, 1]])).tolist() == [0, 1, 1]


def test_who_cannot_be_any_recovered_person_is_guessed_by_habits() -> None:
    """A recovered path over a place of others is not the target's."""
    stays = MovementPrior.from_dense("stays", np.eye(1), places=[2])
    goes = MovementPrior.from_dense("goes", np.full((2, 2), 0.5), places=[0, 1])
    population = Population.pack([stays, goes], ["0", "1", "2"])
    watched = Watched.of(Schedule.of([[0, 1, 2]] * 2, Raw()).steps, 0, 3)
    scene = Scene(population, watched, np.zeros((3, 2)))
    assert likeliest_path(scene, 0, np.array([[0, 1], [1, 2]])).tolist() == [2, 2]


def test_the_flow_of_a_large_crowd_costs_what_the_assignment_of_a_small_one_does() -> None:
    """A hundred times the people, a hundred times the cost; sums are those asked for."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        cost = rng.random((7, 6))
        supply = rng.integers(0, 8, size=7) + (np.arange(7) == 0) * 10
        demand = rng.multinomial(supply.sum(), np.full(6, 1 / 6)).astype(np.int64)
        small, large = (cheapest_flow(cost, times * supply, times * demand) for times in (1, 100))
        assert (large.sum(axis=1) == 100 * supply).all()
        assert (small.sum(axis=0) == demand).all()
        assert (cost * large).sum() == pytest.approx(100 * (cost * small).sum(), rel=1e-9)


def test_areas_are_shares_of_pairs() -> None:
    """Ties count half; nothing revealed is a coin's area, everything is 1."""
    assert area_under_curve(np.array([1.0, 2.0]), np.array([0.0, 1.0])) == pytest.approx(3.5 / 4)
    assert area_ceiling(np.array([0.3, 1.0]), np.zeros(2)) == 0.5
    assert area_ceiling(np.array([0.3, 1.0]), np.ones(2)) == 1.0


def test_without_others_membership_is_plain() -> None:
    """Somebody who is always counted, and nobody else."""
    chain = Population.pack([MovementPrior.from_dense("p", np.full((2, 2), 0.5))])
    watched = Watched.of(Schedule.of([[0, 1]] * 3, Raw()).steps, 0, 2)
    scene = Scene(chain, watched, np.zeros((2, 2)))
    test = MembershipTest(watched, chain.chain(0), scene.others(0))
    counts = watched.counts_of(np.array([[[0], [1], [1]], [[1], [0], [1]]], np.int32))
    assert area_under_curve(test.log_ratios(counts), test.log_ratios(np.zeros((2, 6)))) == 1.0


def test_traces_are_drawn_from_the_habits() -> None:
    """Trajectories as often as enumeration says, from the slot that is asked for."""
    moves = np.random.default_rng(4).dirichlet(np.ones(3), size=(2, 3))
    chain = Population.pack([MovementPrior.from_dense("p", moves)]).chain(0)
    drawn = draw_traces(chain, 1, 3, 4_000, seed=0)
    exact = all_paths(chain.start[1], moves, 3, 1)
    for path, probability in zip(exact.paths, exact.probability, strict=True):
        found = clopper_pearson(int((drawn == path).all(axis=1).sum()), 4_000, 1 - 1e-5)
        assert found.low <= probability <= found.high
