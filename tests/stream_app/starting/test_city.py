"""The simulated city: the same seed the same city, and a city that behaves like one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from stream_app.city import HABITS, City, CityOptions, build_city
from stream_app.wire.messages import Activation, Reading
from tests.volume import PARTS


@pytest.fixture(scope="module")
def city() -> City:
    """A small city."""
    return build_city(CityOptions(people=400, sensors=24, active=3, seed=11))


def test_the_same_seed_gives_the_same_city_and_the_same_day(city: City) -> None:
    """Priors, sensors and every message repeat; another seed gives other ones."""
    again = build_city(city.options)
    assert again.population.people == city.population.people
    for ours, theirs in zip(city.population.arrays, again.population.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert list(again.messages(30)) == list(city.messages(30)) == list(city.messages(30))
    other = build_city(CityOptions(people=400, sensors=24, active=3, seed=12))
    assert list(other.messages(5)) != list(city.messages(5))


def test_people_only_make_moves_their_prior_allows(city: City) -> None:
    """Every hour of every true trace has positive probability under the person's own matrix."""
    steps = list(city.steps(50))
    moves = city.population.moves()
    for person in range(0, 400, 7):
        entries = slice(moves.start[person], moves.start[person + 1])
        allowed = set(
            zip(
                moves.slot[entries].tolist(),
                moves.row[entries].tolist(),
                moves.column[entries].tolist(),
                strict=True,
            )
        )
        own = np.searchsorted(
            city.population.chain(person).places, [step.locations[person] for step in steps]
        )
        for step, (before, after) in enumerate(pairwise(own)):
            assert (step % 24, before, after) in allowed


def test_sensors_count_exactly_the_people_at_their_location(city: City) -> None:
    """A reading is the number of true positions at the sensor, announced before it is sent."""
    for step in city.steps(24):
        messages = list(step.messages())
        assert isinstance(messages[0], Activation)
        assert messages[0].sensors == tuple(sensor.name for sensor in step.active)
        for sensor, message in zip(step.active, messages[1:], strict=True):
            assert isinstance(message, Reading)
            assert message.count == int(np.isin(step.locations, sensor.locations).sum())


@pytest.mark.slow
def test_at_night_people_are_at_home_and_at_noon_they_are_not() -> None:
    """Five of six sleep at home at four; at noon most commuters are at work or lunch."""
    city = build_city(CityOptions(people=3000, seed=3))
    kinds = np.array(city.places.kinds)
    by_hour = [kinds[step.locations] for step in city.steps(24)]
    at_home = [float(np.char.startswith(kind.astype(str), "homes").mean()) for kind in by_hour]
    assert at_home[4] > 0.8
    commuters = city.habits == [habit.name for habit in HABITS].index("commuter")
    assert np.isin(by_hour[12][commuters], ["offices", "restaurants"]).mean() > 0.6


def test_some_people_stay_put_and_some_roam() -> None:
    """Roamers see several times as many places in a day as those who stay put."""
    city = build_city(CityOptions(people=1500, seed=5))
    traces = np.array([step.locations for step in city.steps(24)])
    places_seen = np.array([np.unique(trace).size for trace in traces.T])
    mean = {habit.name: places_seen[city.habits == index].mean() for index, habit in enumerate(HABITS)}
    assert mean["stays put"] < 3.0
    assert mean["roams"] > 2.0 * mean["stays put"]


def test_without_a_cycle_the_same_people_need_a_twentieth_of_the_memory() -> None:
    """One slot is the average hour: same places, one matrix."""
    day, average = (build_city(CityOptions(people=300, slots=slots, seed=9)) for slots in (24, 1))
    np.testing.assert_array_equal(day.population.arrays.places, average.population.arrays.places)
    assert average.population.bytes_per_person < day.population.bytes_per_person / 8
    assert average.population.bytes_per_person <= 1500


def test_sensors_cover_every_kind_of_place_within_the_number_asked_for(city: City) -> None:
    """Homes, work and leisure all have sensors; groups are the kinds."""
    assert len(city.registry.sensors) == 24
    assert {sensor.group.split()[0] for sensor in city.registry.sensors} >= {"homes", "offices", "park"}


@pytest.mark.parametrize("wrong", [{"people": 0}, {"active": 40}, {"slots": 7}])
def test_a_city_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    """The options are checked before anything is built."""
    with pytest.raises(ValueError, match="a city needs"):
        CityOptions(**wrong)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_large_city_is_built_in_seconds() -> None:
    """12,500 people with a daily cycle, and 10^5 with ``make thorough``, fit in memory and walk on."""
    people = 100_000 // PARTS
    city = build_city(CityOptions(people=people))
    assert len(city.population) == people
    assert sum(next(iter(city.steps(1))).counts) > 0
