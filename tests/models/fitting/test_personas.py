"""Personas from classes: places by gravity, days by activities, one state a place with the same flows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.exceptions import PersonaError
from models.fitting.calibration import expected_flows
from models.fitting.personas import (
    HOME,
    NO_WORK,
    WORK,
    Activity,
    Classes,
    DayType,
    HomeWork,
    Surroundings,
    Zones,
    classes_of,
    gravity_places,
    personas,
    plane_km,
)

SLOTS = 4
ACTIVITIES = (HOME, WORK, "shop", "meal")


def sequences(seed: int, people: int = 40, activities: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, activities, size=(people, SLOTS))


def around(zones: int = 6, *, location: list[int] | None = None, seed: int = 0) -> Surroundings:
    random = np.random.default_rng(seed)
    at = random.uniform(0.0, 4.0, size=(zones, 2))
    where = np.arange(zones) if location is None else np.array(location)
    return Surroundings(
        Zones.on_plane([f"z{i}" for i in range(zones)], at[:, 0].tolist(), at[:, 1].tolist()),
        {"shop": Activity("shop"), "meal": Activity("meal", WORK, 0.5)},
        {name: random.uniform(0.0, 5.0, zones) for name in ("shop", "meal")},
        where,
        tuple(f"place {i}" for i in range(where.max() + 1)),
    )


def by_enumeration(classes: Classes, day: DayType, town: Surroundings, most: int) -> np.ndarray:
    """Flows (C, M, M) of the chain over states (activity, zone), every pair of states one after the other."""
    count = len(town.location_names)
    flows = np.zeros((day.slots, count, count))
    for home, work, people in zip(classes.home, classes.work, classes.people, strict=True):
        zones = {HOME: {home: 1.0}, WORK: {work: 1.0}}
        for name, activity in town.activities.items():
            anchor = np.array([work if activity.anchor == WORK and work >= 0 else home])
            found = gravity_places(town.zones, activity, town.attraction[name], anchor, most)
            zones[name] = dict(zip(found.zone[anchor[0]], found.share[anchor[0]], strict=True))
        for slot in range(day.slots):
            for a, first in enumerate(day.activities):
                for z, p in zones[first].items():
                    for b, second in enumerate(day.activities):
                        for y, q in zones[second].items():
                            goes = float(y == z) if a == b else q
                            mass = people * day.law[slot, a] * p * day.moves[slot, a, b] * goes
                            flows[slot, town.location[z], town.location[y]] += mass
    return flows


@pytest.mark.parametrize("location", [None, [0, 1, 1, 2, 2, 2], [0, 0, 0, 0, 0, 1]])
@pytest.mark.parametrize("seed", range(3))
def test_merged_personas_make_the_flows_of_activity_chains(seed: int, location: list[int] | None) -> None:
    """One state a place keeps flows and presence, also where zones share a location."""
    town = around(location=location, seed=seed)
    day = DayType.of_sequences("day", ACTIVITIES, sequences(seed))
    home, work, people = np.array([0, 0, 3]), np.array([1, 0, 5]), np.array([3.0, 5.0, 2.0])
    classes = Classes(home, work, np.zeros(3, dtype=np.int64), people)
    made = personas(classes, [day], town, 2)
    expected = by_enumeration(classes, day, town, 2)
    np.testing.assert_allclose(expected_flows(made, SLOTS), expected, rtol=1e-9, atol=1e-12)
    assert made.weights.tolist() == [3.0, 5.0, 2.0]
    assert made.people == ("z0 to z1, day", "z0 to z0, day", "z3 to z5, day")


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_every_persona_is_a_chain_that_closes(seed: int, most: int) -> None:
    """Rows sum to one, everybody has at most home, work and so many places an activity, and days close."""
    town, random = around(seed=seed), np.random.default_rng(seed)
    days = [
        DayType.of_sequences("works", ACTIVITIES, np.vstack([sequences(seed), [[0, 1, 1, 0]]]), share=2.0),
        DayType.of_sequences("at home", (HOME, "shop"), sequences(seed, activities=2)),
    ]
    table = HomeWork(random.integers(0, 6, 20), random.integers(-1, 6, 20), random.uniform(0.0, 9.0, 20))
    classes = classes_of(table, days)
    made = personas(classes, days, town, most)
    assert made.weights.sum() == pytest.approx(table.people.sum())
    for prior in made.priors():
        assert prior.size <= 2 + 2 * most
        for matrix in prior.transitions:
            np.testing.assert_allclose(matrix.toarray().sum(axis=1), 1.0, rtol=0, atol=1e-12)
    flows = expected_flows(made, SLOTS)
    np.testing.assert_allclose(flows.sum(axis=1), np.roll(flows.sum(axis=2), -1, axis=0), atol=1e-9)


def test_small_classes_are_added_to_another_of_their_home_and_day() -> None:
    """Nobody is lost, other homes are not touched, and a home of small classes keeps its largest."""
    table = HomeWork(
        np.array([0, 0, 0, 1, 1]), np.array([1, 2, 3, 0, 2]), np.array([50.0, 4.0, 3.0, 2.0, 1.0])
    )
    day = DayType.of_sequences("day", (HOME, WORK), np.array([[0, 1, 1, 0]]))
    found = classes_of(table, [day], least_people=5.0)
    assert (found.home.tolist(), found.work.tolist()) == ([0, 1], [1, 0])
    assert found.people.tolist() == [57.0, 3.0]
    assert found.moved == 8.0
    assert classes_of(table, [day]).people.tolist() == table.people.tolist()


def test_people_without_a_place_of_work_need_a_day_of_their_own() -> None:
    day = DayType.of_sequences("day", (HOME, WORK), np.array([[0, 1, 1, 0]]))
    table = HomeWork(np.array([0]), np.array([NO_WORK]), np.array([3.0]))
    with pytest.raises(PersonaError, match="without a place of work must have a type of day, got none"):
        classes_of(table, [day])
    with pytest.raises(PersonaError, match="somebody in all, got nobody"):
        classes_of(HomeWork(np.array([0]), np.array([0]), np.array([0.0])), [day])


def test_own_places_follow_gravity() -> None:
    """p(z) ~ attraction exp(-distance / reach), renormalised over the likeliest; unplaced zones stay put."""
    zones = Zones.on_plane(["a", "b", "c", "out"], [0.0, 1.0, 3.0, None], [0.0, 0.0, 0.0, None])
    pull = np.array([1.0, 2.0, 4.0, 9.0])
    found = gravity_places(zones, Activity("shop", reach_km=2.0), pull, np.array([0, 3]), 2)
    expected = np.array([2.0 * np.exp(-0.5), 1.0])
    assert found.zone[0].tolist() == [1, 0]
    np.testing.assert_allclose(found.share[0], expected / expected.sum())
    assert found.zone[3].tolist() == [3, 3]
    assert found.share[3].tolist() == [1.0, 0.0]
    nowhere = gravity_places(zones, Activity("shop"), np.zeros(4), np.array([0]), 2)
    assert (nowhere.zone[0, 0], nowhere.share[0, 0]) == (0, 1.0)


def test_degrees_become_kilometres() -> None:
    """A degree of latitude is 111 km; of longitude half of it at 60 degrees."""
    east, north = plane_km([60.0, None], [10.0, None], 60.0)
    assert north[0] == pytest.approx(60.0 * 111.195, rel=1e-4)
    assert east[0] == pytest.approx(10.0 * 111.195 / 2, rel=1e-4)
    assert (east[1], north[1]) == (None, None)


def test_a_day_from_sequences_does_in_each_slot_what_they_do() -> None:
    """The law is the share of sequences, also where nothing leads from one kind of day to another."""
    day = DayType.of_sequences("day", ACTIVITIES, np.array([[0, 1, 1, 0]] * 3 + [[1, 1, 1, 1]]))
    assert day.activities == (HOME, WORK)
    np.testing.assert_allclose(day.law, [[0.75, 0.25], [0.0, 1.0], [0.0, 1.0], [0.75, 0.25]])


def test_a_week_is_days_one_after_the_other() -> None:
    """Five days of work and two without: seven days of slots, and nobody works at the weekend."""
    work = DayType.of_weights("works", (HOME, WORK), np.array([[1.0, 0.0], [0.2, 0.8]]), 0.2)
    free = DayType.of_weights("free", (HOME, "shop"), np.array([[1.0, 0.0], [0.6, 0.4]]), 0.2)
    week = work.then(free, (5, 2))
    assert week.slots == 14
    assert week.activities == (HOME, WORK, "shop")
    assert week.law[10:, 1].max() == pytest.approx(0.0, abs=1e-12)
    assert week.law[:10, 2].max() < 0.2
    np.testing.assert_allclose(week.law.sum(axis=1), 1.0)


def test_what_is_no_day_or_activity_is_refused() -> None:
    with pytest.raises(PersonaError, match="must be a chain whose law goes on"):
        DayType("day", (HOME,), np.full((2, 1, 1), 0.5), np.ones((2, 1)))
    with pytest.raises(PersonaError, match="must have a home"):
        DayType("day", (WORK,), np.ones((2, 1, 1)), np.ones((2, 1)))
    with pytest.raises(PersonaError, match="an activity must be other than home and work"):
        Activity(HOME)
    day = DayType.of_sequences("day", (HOME, "swim"), np.array([[0, 1]]))
    classes = Classes(np.array([0]), np.array([NO_WORK]), np.array([0]), np.array([1.0]))
    with pytest.raises(PersonaError, match="each activity of a day must have an anchor"):
        personas(classes, [day], around())


def test_nothing_is_nearest_to_what_is_endlessly_far() -> None:
    """Coordinates whose distance is no number."""
    zones = Zones.on_plane(["a", "b"], [1e300, 1.0], [-1e300, 1.0])
    places = Zones.on_plane(["p"], [0.0], [0.0])
    assert zones.nearest(places, np.inf).tolist() == [1, 0]


@pytest.mark.parametrize("seed", range(20))
def test_a_point_lies_between_the_places_whose_cells_meet_nearest(seed: int) -> None:
    """Found again by going from the point in 3,600 directions until another place is the nearest."""
    random = np.random.default_rng(seed)
    at, point = random.uniform(0.0, 4.0, size=(7, 2)), random.uniform(1.0, 3.0, size=2)
    places = Zones.on_plane([f"z{i}" for i in range(7)], at[:, 0].tolist(), at[:, 1].tolist())
    found = Zones.on_plane(["counter"], [point[0]], [point[1]]).between(places)
    angle = np.linspace(0.0, 2.0 * np.pi, 3600, endpoint=False)
    way = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    nearest = int(((at - point) ** 2).sum(axis=1).argmin())
    for away in np.arange(1, 4000) / 1000.0:
        others = ((point + away * way)[:, None, :] - at) ** 2
        (crossed,) = np.nonzero((there := others.sum(axis=2).argmin(axis=1)) != nearest)
        if crossed.size:
            break
    other = int(there[crossed[0]])
    assert found.off_km[0] == pytest.approx(away, abs=2e-3)
    assert found.pair[0, 0] == nearest and found.pair[0, 1] == other
    ahead = (point - at[nearest]) @ (at[other] - at[nearest])
    assert bool(found.is_between[0]) == (ahead >= 0.0)
    gap = (apart_now := ((at - point) ** 2).sum(axis=1)) - apart_now[nearest]
    to_lines = [
        gap[b] / 2.0 / np.linalg.norm(at[b] - at[nearest]) for b in range(7) if b not in (nearest, other)
    ]
    assert found.other_off_km[0] == pytest.approx(min(to_lines))


def test_two_places_have_one_line_between_them() -> None:
    places = Zones.on_plane(["a", "b", "b too"], [0.0, 2.0, 2.0], [0.0, 0.0, 0.0])
    point = Zones.on_plane(["counter"], [0.5], [1.0])
    found = point.between(Zones.on_plane(["a", "b"], [0.0, 2.0], [0.0, 0.0]))
    assert (found.pair[0].tolist(), found.off_km[0], found.other[0]) == ([0, 1], 0.5, -1)
    assert point.between(places).other[0] == 2
