"""People of whom few data are known, in a crowd: each of several chains may be anybody's true one."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.continuous.crowd import CrowdAccount
from accounting.exposure.crowd import CrowdAdversary, Others
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.combinations.deployments import Shown, noise_of, optimum_of
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.random_runs import with_few_data
from tests.volume import randoms

DRAWS, RELEASED = 3, (Raw(), Gaussian(0.7))


def people_of(rng: np.random.Generator, count: int, places: int) -> Population:
    """Alike or not, with zeros, some of whom start themselves."""
    kinds = []
    for _ in range(2):
        matrix = rng.dirichlet(np.full(places, 1.5), size=places)
        matrix[rng.random(matrix.shape) < 0.1] = 0.0
        matrix += 0.05 * np.eye(places)
        kinds.append(matrix / matrix.sum(axis=1, keepdims=True))
    has_start = rng.random() < 0.4
    priors = [
        MovementPrior.from_dense(
            f"p{k}", kinds[k % 2], initial=rng.dirichlet(np.ones(places)) if has_start else None
        )
        for k in range(count)
    ]
    return with_few_data(Population.pack(priors, [str(place) for place in range(places)]), 4.0, DRAWS)


def steps_of(rng: np.random.Generator, places: int, count: int) -> list[StepSchedule]:
    return [
        StepSchedule(
            step,
            (
                SensorRelease(
                    Sensor("s", (int(rng.integers(places)),)), Raw() if rng.random() < 0.7 else Gaussian(0.7)
                ),
            )
            if rng.random() < 0.8
            else (),
        )
        for step in range(count)
    ]


def chain_of(population: Population, number: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Where an accounted chain starts, and how it moves."""
    assert population.drawn is not None
    chain, own = population.drawn.chain(number), population.drawn.initial(number)
    places = len(population.location_names)
    matrix = np.zeros((places, places))
    for y in range(chain.places.size):
        for j in range(chain.column_start[0, y], chain.column_start[0, y + 1]):
            matrix[chain.places[chain.row[j]], chain.places[y]] = chain.value[j]
    start = np.zeros(places)
    start[chain.places] = chain.start[0] if own is None else own
    return start, np.array([matrix + np.diag(1.0 - matrix.sum(axis=1) > 0.5).astype(float)])


def test_no_adversary_beats_the_mean_ceiling_in_the_crowd() -> None:
    """Who knows the target's chain, and that each other person has one of theirs with even chances."""
    compared = 0
    for rng in randoms(53, 24):
        places, count, length = 2, int(rng.integers(2, 4)), 3
        population, steps = people_of(rng, count, places), steps_of(rng, places, length)
        horizon = int(rng.integers(1, 3))
        mistakes = int(rng.integers(horizon))
        accounts = BothAccounts(
            population, CrowdAdversary(), HorizonSettings(horizon, mistakes, sharpen_above=0.0)
        )
        shown: list[Shown] = []
        for step in steps:
            accounts.apply(step)
            shown += [Shown(each.sensor, step.step, 1, noise_of(each.mechanism)) for each in step.releases]
            window = (step.step - horizon + 1, step.step)
            if not shown or window[0] < 0:
                continue
            best = [
                optimum_of_mixture(population, draw, count, shown, length, window, mistakes)
                for draw in range(DRAWS)
            ]
            assert np.mean(best) <= accounts.risk()[0] + 1e-9
            assert accounts.risk()[0] <= accounts.informed.risk()[0] + 1e-12
            compared += 1
    assert compared


def optimum_of_mixture(
    population: Population,
    draw: int,
    count: int,
    shown: list[Shown],
    length: int,
    window: tuple[int, int],
    mistakes: int,
) -> float:
    """Of person 0 with this chain, among others each of whom has one of theirs: the adversary is not told."""
    others = [[chain_of(population, other * DRAWS + k) for k in range(DRAWS)] for other in range(1, count)]
    found = optimum_of([chain_of(population, draw)], shown, length, window, mistakes, mixed=others)
    assert found is not None
    return found


def test_the_crowd_of_a_persons_chains_is_their_mean() -> None:
    """As if each chain were a part of a person; parts of the people, and a snapshot, have the same bits."""
    rng = np.random.default_rng(9)
    population, steps = people_of(rng, 12, 3), steps_of(rng, 3, 6)
    whole, halves = Others(population), [Others(each) for each in population.split(2)]
    drawn = population.drawn
    assert drawn is not None
    for step in steps:
        found = whole.apply(step)
        parts = [half.apply(step) for half in halves]
        assert found == tuple(sum(each[1:], start=each[0]) for each in zip(*parts, strict=True))
    assert max(each.units[0] for each in found or Others(population).apply(steps[0])) >= 0
    settings = HorizonSettings(3, 1, sharpen_above=0.0, operations=400_000)

    def account() -> CrowdAccount:
        informed = ContinuousAccountant(population, settings, apart=True)
        return CrowdAccount(informed)

    one, other = account(), account()
    for step in steps[:4]:
        one.informed.apply(step)
        one.apply(step)
    other.restore(one.snapshot())
    for step in steps[4:]:
        for each in (one, other):
            each.informed.apply(step)
            each.apply(step)
    assert one.snapshot() == other.snapshot()
    assert (one.risk() <= one.informed.risk() + 1e-12).all()
    some = one.of_people(np.array([3, 5]), one.informed.of_people(np.array([3, 5])))
    assert some.risk().tolist() == one.risk()[[3, 5]].tolist()


@pytest.mark.parametrize("count", [40])
def test_many_people_of_few_data_hide_each_other(count: int) -> None:
    rng = np.random.default_rng(3)
    population = people_of(rng, count, 2)
    accounts = BothAccounts(population, CrowdAdversary(), HorizonSettings(2, 0, sharpen_above=0.0))
    for step in range(3):
        accounts.apply(StepSchedule(step, (SensorRelease(Sensor("s", (0,)), Raw()),)))
    assert accounts.risk().mean() < accounts.informed.risk().mean() - 0.05


def test_people_who_join_nobody_are_revealed_and_leave_with_all_their_chains() -> None:
    """As in a partition, which begins with nobody, of whom no number of chains is known."""
    for rng in randoms(62, 20):
        people = people_of(rng, 6, 3)
        nobody, stay = people.subset([]), np.array([0, 2, 5])
        joined = [Others(people), Others(nobody).with_people(Others(people), people)]
        steps = [StepSchedule(t, (SensorRelease(Sensor("s", (t % 3,)), Raw()),)) for t in range(6)]
        for step in steps:
            if step.step == 2:
                for each in joined:
                    each.reveal_next(np.array([1, 3]))
            if step.step == 4:
                joined = [each.of_people(stay, people.subset(stay)) for each in joined]
            assert len({each.ask(step) for each in joined}) == 1
            for each in joined:
                each.apply(step)
