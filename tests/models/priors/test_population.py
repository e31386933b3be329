"""Packing people: nothing is lost, nothing is wasted, and what is wrong is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.exceptions import PositionError, PriorError
from models.priors import Lists, MovementPrior, Moves, Population, PopulationBuilder, Triplets, Unchecked
from tests.models.chains import equal, populations, priors


def ring(people: int, size: int, entries: int) -> dict[str, Any]:
    """People who go round a ring, with further moves up to a number of entries."""
    inner = np.arange(entries)
    row, step = inner % size, 1 + inner // size
    probability = 1 / np.bincount(row)[row]
    return {
        "places": Lists(np.arange(people + 1) * size, np.tile(np.arange(size, dtype=np.int32), people)),
        "moves": Moves(
            np.arange(people + 1) * entries,
            np.zeros(people * entries, dtype=np.int32),
            np.tile(row, people).astype(np.int32),
            np.tile((row + step) % size, people).astype(np.int32),
            np.tile(probability, people),
        ),
        "slots": np.ones(people, dtype=np.int32),
        "initial": Lists(np.zeros(people + 1, dtype=np.int64), np.empty(0)),
    }


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=60)
@given(st.tuples(priors("a"), priors("b")))
def test_a_packed_person_is_the_prior_it_came_from(pair):
    population = Population.pack(pair)
    for position, prior in enumerate(pair):
        packed, own = population.chain(position), prior.chain()
        for one, other in zip(packed, own, strict=True):
            np.testing.assert_array_equal(one, other)
        back = population.prior(position)
        assert back.person == prior.person
        np.testing.assert_array_equal(back.places, prior.places)
        for one, other in zip(back.transitions, prior.transitions, strict=True):
            np.testing.assert_array_equal(one.toarray(), other.toarray())
        assert (back.initial is None) == (prior.initial is None)
        if prior.initial is not None:
            np.testing.assert_array_equal(back.initial, prior.initial)


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=60)
@given(populations())
def test_moves_and_partitions_give_the_same_population_back(population):
    arrays = population.arrays
    again = Population.from_moves(
        population.people,
        Lists(arrays.places_start, arrays.places),
        population.moves(),
        slots=arrays.slots,
        initial=Lists(arrays.initial_start, arrays.initial),
        location_names=population.location_names,
    )
    assert equal(population, again)
    assert equal(population, Population.concatenate(population.split(3)))
    assert equal(population, population.subset(range(len(population))))


def test_a_subset_keeps_the_order_asked_for():
    people = Population.pack(
        [MovementPrior.from_dense(name, [[1.0]], [place]) for name, place in (("a", 5), ("b", 2))]
    )
    turned = people.subset([1, 0])
    assert turned.people == ("b", "a")
    assert [int(turned.chain(i).places[0]) for i in range(2)] == [2, 5]
    assert turned.location_names == tuple("012345")


@pytest.mark.parametrize(("size", "entries", "limit"), [(10, 31, 700), (40, 113, 2300)])
def test_a_person_without_a_cycle_stays_small(size, entries, limit):
    population = Population.from_moves([str(i) for i in range(200)], **ring(200, size, entries))
    assert population.bytes_per_person <= limit


def test_a_wrong_person_among_many_is_named_with_the_location():
    given = ring(50, 4, 8)
    given["moves"].probability[8 * 17 + 2] = 0.25
    names = ["gate", "hall", "roof", "yard"]
    with pytest.raises(PriorError) as caught:
        Population.from_moves([f"p{i}" for i in range(50)], **given, location_names=names)
    assert str(caught.value) == (
        "transition row 2 (location 'roof') of person 'p17' must sum to 1, got 0.75; "
        "renormalise it, or drop the place"
    )


def test_places_must_be_among_the_locations():
    prior = MovementPrior.from_dense("ann", [[1.0]], [7])
    with pytest.raises(
        PriorError, match="places of person 'ann' must be increasing location indices below 3"
    ):
        Population.pack([prior], ["a", "b", "c"])


def test_a_person_has_one_prior():
    prior = MovementPrior.from_dense("ann", [[1.0]])
    with pytest.raises(PriorError, match="each person must have one prior, got 'ann' twice"):
        Population.pack([prior, prior])
    with pytest.raises(PriorError, match="each person must have one prior"):
        Population.concatenate([Population.pack([prior]), Population.pack([prior])])


def test_people_and_chains_must_be_as_many():
    with pytest.raises(PriorError, match="as many people as chains, got 2 and 3"):
        Population.from_moves(["a", "b"], **ring(3, 2, 2))


NEXT = {"places": [0, 1], "row": [0, 0, 1, 1], "column": [0, 1, 0, 1], "probability": [0.9, 0.1, 0.2, 0.8]}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"row": [0, 1], "column": [1, 0, 0], "probability": [1, 1]},
            "equally long, got 2 of slot, 2 of row, 3",
        ),
        ({"row": [0, 1], "column": [1], "probability": [1, 1]}, "equally long"),
        ({"row": [0, 1], "column": [1, 0], "probability": [1.0]}, "equally long"),
        ({"row": [0, 1], "column": [1, 0], "probability": [1, 1], "slot": [0]}, "equally long"),
        ({"row": [0.4, 1.0], "column": [1, 0], "probability": [1, 1]}, "rows of person 'ann' must be whole"),
        (
            {"row": [0, 2**32 + 1], "column": [1, 0], "probability": [1, 1]},
            "rows of person 'ann' must lie in",
        ),
        (
            {"row": [[0, 1]], "column": [[1, 0]], "probability": [[1, 1]]},
            "rows of person 'ann' must be a list",
        ),
        (
            {"row": [0, 1], "column": [1, 0], "probability": ["1", "1"]},
            "probabilities of person 'ann' must be n",
        ),
        (
            {"row": [0, 1], "column": [1, 0], "probability": [1, 1], "slots": 1.5},
            "slots of person 'ann' must be w",
        ),
    ],
)
def test_lists_that_do_not_fit_are_refused_before_they_reach_the_next_person(wrong, words):
    builder = PopulationBuilder()
    with pytest.raises(PriorError, match=words):
        _add(builder, "ann", {"places": [0, 1]} | wrong)
    _add(builder, "bob", NEXT)
    population = builder.build()
    assert population.people == ("bob",)
    assert population.prior(0).transitions[0].toarray().tolist() == [[0.9, 0.1], [0.2, 0.8]]


@pytest.mark.parametrize(
    ("part", "wrong", "words"),
    [
        (
            "moves",
            {"column": np.zeros(5, np.int32)},
            "each person's 'column' must rise from 0 to 5 in 3 numbers",
        ),
        ("moves", {"probability": np.ones(3)}, "each person's 'probability' must rise from 0 to 3"),
        ("moves", {"start": np.array([0, 5, 4])}, "each person's 'slot' must rise from 0 to 4"),
        ("moves", {"start": np.array([0, 4])}, "'slot' .* got 2 numbers from 0 to 4"),
        ("moves", {"start": np.array([0.0, 2.0, 4.0])}, "'slot' must rise"),
        ("places", {"start": np.array([-2, 2, 4])}, "each person's 'places' must rise from 0"),
        ("initial", {"start": np.array([0, 0, 9])}, "each person's 'initial' must rise from 0 to 0"),
        ("moves", {"row": np.zeros(4)}, "'row' of many people must be a list of whole numbers, got 1 dim"),
        ("moves", {"row": np.array([0, 1, 2**32, 1])}, "'row' of many people must lie in 0..2147483647"),
        ("places", {"values": np.array([0, 1, 0, 2**40])}, "'places' of many people must lie in"),
    ],
)
def test_lists_that_would_be_read_past_their_end_are_refused(part, wrong, words):
    given = ring(2, 2, 2)
    given[part] = given[part]._replace(**wrong)
    with pytest.raises(PriorError, match=words):
        Population.from_moves(["a", "b"], **given)


def test_everybody_has_a_slot():
    given = ring(2, 2, 2) | {"slots": np.array([1, -3])}
    with pytest.raises(PriorError, match="person 'b' must have at least one slot, got -3"):
        Population.from_moves(["a", "b"], **given)


def test_people_who_are_given_at_once_are_built_as_if_they_had_been_added():
    given = [
        Unchecked.of(person, [0, 1], Triplets(NEXT["row"], NEXT["column"], NEXT["probability"]))
        for person in ("ann", "bob")
    ]
    builder = PopulationBuilder()
    for person in ("ann", "bob"):
        _add(builder, person, NEXT)
    assert equal(builder.build(), PopulationBuilder(given).build())


def test_populations_of_different_locations_are_not_joined():
    one = Population.pack([MovementPrior.from_dense("a", [[1.0]])], ["x"])
    other = Population.pack([MovementPrior.from_dense("b", [[1.0]])], ["y"])
    with pytest.raises(PriorError, match="must have the same locations"):
        Population.concatenate([one, other])


def test_a_position_outside_is_an_index_error():
    people = Population.pack([MovementPrior.from_dense("a", [[1.0]])])
    with pytest.raises(IndexError, match=r"0\.\.0"):
        people.chain(1)


def test_nobody_is_a_population_too():
    nobody = PopulationBuilder().build(["x"])
    assert len(nobody) == 0
    assert nobody.location_count == 1
    assert nobody.bytes_per_person > 0
    assert len(nobody.subset([])) == 0


def _add(builder, person, members):
    triplets = Triplets(**{name: members[name] for name in Triplets._fields if name in members})
    others = {name: value for name, value in members.items() if name not in Triplets._fields}
    builder.add(person, triplets=triplets, **others)


def test_people_with_equal_priors_and_starts_are_known_as_alike(monkeypatch):
    """Whatever differs, a place, a number, the cycle or the start, and whatever the digests say."""
    stay, move = np.eye(2), np.full((2, 2), 0.5)
    nearly = np.array([[0.5, 0.5], [0.5 + 2**-50, 0.5 - 2**-50]])
    kinds = [
        ("one", move, [0, 1], None),
        ("other place", move, [0, 2], None),
        ("own start", move, [0, 1], [0.5, 0.5]),
        ("cycle", np.stack([move, move]), [0, 1], None),
        ("other cycle", np.stack([move, stay]), [0, 1], None),
        ("nearly", nearly, [0, 1], None),
    ]
    priors = [
        MovementPrior.from_dense(f"{name} {k}", matrix, places=places, initial=start)
        for k in range(3)
        for name, matrix, places, start in kinds
    ]
    expected = list(range(len(kinds))) * 3
    assert Population.pack(priors).alike.tolist() == expected
    monkeypatch.setattr("models.priors.population.mix_in", lambda *arguments: None)
    unsure = Population.pack(priors).alike
    assert set(unsure.tolist()) >= set(expected)
    for person, first in enumerate(unsure.tolist()):
        assert expected[person] == expected[first]


def test_a_population_of_nobody_says_so() -> None:
    """Not that positions go from 0 to -1."""
    nobody = Population.from_moves([f"p{i}" for i in range(2)], **ring(2, 2, 2)).subset([])
    with pytest.raises(PositionError, match="must be of a population with people in it, got 0"):
        nobody.prior(0)
