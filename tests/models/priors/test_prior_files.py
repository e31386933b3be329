"""Priors files: what is written comes back bit for bit, and every error names the place."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import prior_files
from models.exceptions import PriorError, PriorFileError, TallyguardError
from models.prior_files import elements_of, load_population, read_record, read_records, save_population
from models.priors import NOT_SAID, FittedWindows, MovementPrior, Population, PopulationBuilder
from tests.models.chains import equal, populations

MATRIX = [[0.5, 0.5], [1, 0]]
HALVES = {"row": [3, 3, 7], "col": [3, 7, 3], "probability": [0.5, 0.5, 1]}


def written(folder, document) -> Population:
    path = folder / "priors.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return load_population(path)


def one(folder, **members) -> Population:
    return written(folder, {"people": [{"person": "ann", **members}]})


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_a_wrong_number_of_a_location_does_not_fill_the_memory(tmp_path, format_):
    """A thousand million locations without names would be as many words."""
    path = tmp_path / f"priors.{format_}"
    if format_ == "json":
        lone = {"person": "ann", "places": [10**9], "transition": [[1.0]]}
        path.write_text(json.dumps({"people": [lone]}))
    else:
        save_population(Population.pack([MovementPrior.from_dense("ann", [[1.0]], [8])]), path)
        table = pq.read_table(path).replace_schema_metadata({})
        places = pa.array([[10**9]], pa.list_(pa.int32()))
        pq.write_table(table.set_column(table.schema.get_field_index("places"), "places", places), path)
    with pytest.raises(
        TallyguardError, match="must have names, or numbers below 1,000,000, got location 1,0"
    ):
        load_population(path)


@pytest.mark.slow
@pytest.mark.indices
@pytest.mark.parametrize("format_", ["json", "parquet"])
@settings(max_examples=25)
@given(population=populations())
def test_a_population_comes_back_bit_for_bit(tmp_path_factory, format_, population):
    path = tmp_path_factory.mktemp("priors") / f"priors.{format_}"
    save_population(population, path)
    assert equal(population, load_population(path))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_how_many_people_a_persona_stands_for_comes_back_bit_for_bit(tmp_path, format_):
    """Weights go through files, subsets and joins, and make another fingerprint."""
    path = tmp_path / f"priors.{format_}"
    people = Population.pack([MovementPrior.from_dense(name, MATRIX) for name in ("a", "b", "c")])
    personas = replace(people, weights=np.array([0.1, 1e5 / 3, 7.0]))
    save_population(personas, path)
    found = load_population(path)
    assert found.weights.tolist() == personas.weights.tolist()
    assert found.fingerprint == personas.fingerprint != people.fingerprint
    assert personas.subset([2, 0]).weights.tolist() == [7.0, 0.1]
    joined = Population.concatenate([personas.subset([0]), people.subset([1])])
    assert joined.weights.tolist() == [0.1, 1.0]
    save_population(people, path)
    assert load_population(path).weights is None


@pytest.mark.parametrize("weight", [0, -1.0, True, "many", 1e300])
def test_a_weight_that_is_no_number_of_people_is_refused(tmp_path, weight):
    with pytest.raises(PriorFileError, match=r"'weight' of .* must be a positive number of people"):
        one(tmp_path, weight=weight, transition=MATRIX)


def test_weights_of_parquet_are_checked(tmp_path):
    path = tmp_path / "priors.parquet"
    people = Population.pack([MovementPrior.from_dense("ann", MATRIX)])
    save_population(replace(people, weights=np.array([2.0])), path)
    table = pq.read_table(path)
    wrong = table.set_column(table.schema.get_field_index("weight"), "weight", pa.array([-2.0]))
    pq.write_table(wrong, path)
    with pytest.raises(PriorFileError, match=r"weights must be one positive number .* got -2\.0 for 'ann'"):
        load_population(path)


def test_several_batches_of_people_are_one_population(tmp_path, monkeypatch):
    monkeypatch.setattr("models.prior_files._PEOPLE_A_BATCH", 3)
    people = [MovementPrior.from_dense(f"p{i}", [[1.0]], [i]) for i in range(8)]
    population = Population.pack(people, [f"L{i}" for i in range(9)])
    save_population(population, tmp_path / "priors.parquet")
    assert pq.ParquetFile(tmp_path / "priors.parquet").num_row_groups == 3
    assert equal(population, load_population(tmp_path / "priors.parquet"))


def test_long_values_are_read_across_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("models.text._CHUNK", 7)
    population = written(
        tmp_path,
        {
            "locations": ["long name", "x"],
            "people": [{"person": "ann", "transition": [[0.25, 0.75], [1, 0]]}],
        },
    )
    assert population.chain(0).value.tolist() == [0.25, 1.0, 0.75]


def test_places_may_be_names_in_any_order_even_before_the_locations(tmp_path):
    person = {
        "person": "ann",
        "places": ["roof", "gate"],
        "initial": [0.9, 0.1],
        "transition": [[0.5, 0.5], [1, 0]],
    }
    for order in (("locations", "people"), ("people", "locations")):
        members = {"locations": ["gate", "hall", "roof"], "people": [person]}
        population = written(tmp_path, {key: members[key] for key in order})
        prior = population.prior(0)
        assert prior.places.tolist() == [0, 2]
        assert prior.transitions[0].toarray().tolist() == [[0, 1], [0.5, 0.5]]
        assert prior.initial.tolist() == [0.1, 0.9]


def test_triplets_without_places_speak_of_locations(tmp_path):
    population = one(tmp_path, transition=HALVES)
    assert population.chain(0).places.tolist() == [3, 7]
    assert population.location_names == tuple("01234567")
    started = one(tmp_path, transition=HALVES, initial=[0, 0, 0, 0.25, 0, 0, 0, 0.75])
    assert started.initial(0).tolist() == [0.25, 0.75]
    with pytest.raises(PriorFileError, match="must cover the locations of the matrix and no others"):
        one(tmp_path, transition=HALVES, initial=[0.5, 0, 0, 0.25, 0, 0, 0, 0.25])


def test_a_cycle_may_mix_dense_and_sparse_matrices(tmp_path):
    local = {"row": [0, 1], "col": [1, 0], "probability": [1, 1]}
    population = one(tmp_path, places=[2, 5], transitions=[local, [[0.5, 0.5], [0, 1]]])
    assert population.arrays.slots.tolist() == [2]
    assert population.prior(0).transitions[1].toarray().tolist() == [[0.5, 0.5], [0, 1]]


def test_a_person_record_is_a_prior_and_back():
    prior = MovementPrior.from_dense("ann", np.eye(5)[[1, 2, 3, 4, 0]], [1, 3, 4, 6, 9])
    (record,) = elements_of(Population.pack([prior]), ["ann"])
    assert record["transition"]["row"]  # less than half full: triplets
    again = prior_from_record(json.loads(json.dumps(record)))
    assert (again.transitions[0] != prior.transitions[0]).nnz == 0
    assert again.places.tolist() == [1, 3, 4, 6, 9]
    with pytest.raises(PriorFileError, match=r"message 7 \(person 'ann'\)"):
        prior_from_record({"person": "ann"}, source="message 7")
    with pytest.raises(PriorError, match="below 2"):
        prior_from_record(record, ["a", "b"])


def prior_from_record(record, locations=None, source="person record"):
    """One prior from an element of ``people``, e.g. a message; ``source`` is named in errors."""
    index = {name: position for position, name in enumerate(locations or ())}
    return PopulationBuilder([read_record(source, record, index.get)]).build(locations).prior(0)


BAD_PEOPLE = {
    "no matrix": ({}, "must have 'transition' or 'transitions', got neither"),
    "two matrices": ({"transition": MATRIX, "transitions": [MATRIX]}, "got both"),
    "a misspelt member": ({"transitoin": MATRIX}, "got 'transitoin'; did you mean 'transition'?"),
    "a row too short": ({"transition": [[1], [0.5, 0.5]]}, "must be numbers in rows of equal length"),
    "words": ({"transition": [["half"]]}, "must be numbers"),
    "not square": ({"transition": [[0.5, 0.5]]}, "must be a square list of rows"),
    "no slots": ({"transitions": []}, "must be a list of matrices, one a slot, got []"),
    "a bad slot": ({"transitions": [MATRIX, [[1]], 3]}, "'transitions[2]' of people[0]"),
    "places of another number": ({"places": [1], "transition": MATRIX}, "one row a place (1), got 2 rows"),
    "a place that is no index": ({"places": [0.5, 1], "transition": MATRIX}, "'places' of people[0]"),
    "an unknown place": (
        {"places": ["x", "y"], "transition": MATRIX},
        "the file's 'locations', got 'x'",
    ),
    "an index too large": ({"places": [0, 2**40], "transition": MATRIX}, "whole numbers below 2^31"),
    "triplets of unequal length": (
        {"transition": {"row": [0], "col": [0, 1], "probability": [1]}},
        "must be equally long, got 1, 2 and 1",
    ),
    "triplets without col": ({"transition": {"row": [0], "probability": [1]}}, "must have 'col', got none"),
    "triplets with more": ({"transition": {**HALVES, "value": []}}, "got 'value'"),
    "a move twice": (
        {"transition": {"row": [0, 0], "col": [0, 0], "probability": [0.5, 0.5]}},
        "must be given once",
    ),
    "a move outside the places": (
        {"places": [4], "transition": {"row": [0, 1], "col": [0, 0], "probability": [1, 1]}},
        "got row 1, column 0, slot 0",
    ),
    "a row that misses one": (
        {"places": [4, 6], "transition": [[0.5, 0.4], [1, 0]]},
        "transition row 0 (location '4') of person 'ann' must sum to 1, got 0.9",
    ),
    "an empty start": ({"transition": MATRIX, "initial": []}, "a list of probabilities or null"),
    "a start of words": ({"transition": MATRIX, "initial": ["x"]}, "'initial' of people[0]"),
    "a start too long": ({"transition": MATRIX, "initial": [0.5, 0.25, 0.25]}, "must be 2 probabilities"),
}


@pytest.mark.parametrize("case", BAD_PEOPLE)
def test_a_bad_person_is_refused_with_file_person_and_place(tmp_path, case):
    members, words = BAD_PEOPLE[case]
    with pytest.raises(PriorFileError) as caught:
        one(tmp_path, **members)
    message = str(caught.value)
    assert words in message
    assert "priors.json" in message
    assert "'ann'" in message


_PLACES = st.lists(st.integers(0, 30), min_size=1, max_size=4, unique=True)
_NO_NUMBER = (None, True, "x", "0.5", 0.5, -1, 2**31, 2**70, float("nan"), [], [0], [[1.0]], {}, {"row": [0]})


@st.composite
def elements(draw) -> dict:
    """An element of ``people``, dense or sparse, with all that it may have."""
    places = draw(st.one_of(_PLACES, st.permutations([2, 0, 1]), st.just([5, 5, 7])))
    size = len(places)
    has_places = draw(st.booleans())

    def matrix():
        rows = draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=size))
        if draw(st.booleans()):
            return [[float(column == to) for column in range(size)] for to in rows]
        index = list(range(size)) if has_places else places
        return {"row": index, "col": [index[to] for to in rows], "probability": [1, *[1.0] * (size - 1)]}

    record = {"person": draw(st.sampled_from(["ann", "bob", ""])), "initial": None}
    if has_places:
        record["places"] = draw(st.sampled_from([places, tuple(places), [f"p{place}" for place in places]]))
    if draw(st.booleans()):
        record["initial"] = draw(st.permutations([1.0, *[0.0] * (size - 1)]))
    if draw(st.booleans()):
        record["transition"] = matrix()
    else:
        record["transitions"] = [matrix() for _ in range(draw(st.integers(1, 3)))]
    for name, values in (("weight", (2, 0.5)), ("effective_from", (0, 7))):
        if draw(st.booleans()):
            record[name] = draw(st.sampled_from(values))
    return record


@st.composite
def wrong_elements(draw) -> object:
    """The same with one thing put in the place of another, left out or added, at any depth."""
    record = draw(elements())
    at = record
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw(st.sampled_from([*keys, "more"] if isinstance(at, dict) else keys))
        inner = at.get(key) if isinstance(at, dict) else at[key]
        if not (isinstance(inner, dict | list) and inner) or draw(st.booleans()):
            break
        at = inner
    if isinstance(at, tuple):
        return draw(st.sampled_from(_NO_NUMBER))
    if isinstance(at, dict) and draw(st.booleans()):
        at.pop(key, None)
    else:
        at[key] = draw(st.sampled_from(_NO_NUMBER))
    return record


def _told(find) -> object:
    """What is found, array by array with its type; or the error in words."""
    try:
        found = find()
    except (PriorError, PriorFileError) as error:
        found = error
    if isinstance(found, Exception):
        return type(found), str(found)
    arrays = found.places, *found.moves, found.initial
    numbers = found.person, found.slots, found.weight, found.effective_from
    return numbers, [(array.dtype, array.tobytes()) for array in arrays]


@settings(max_examples=300, deadline=None)
@given(records=st.lists(st.one_of(elements(), elements(), wrong_elements()), max_size=6))
def test_elements_read_together_are_those_read_one_by_one(records):
    """Good or wrong, whatever stands beside them: the same numbers bit for bit, or the same words."""
    find = {f"p{place}": place for place in range(10)}.get
    listed = [(f"people[{number}]", record) for number, record in enumerate(records)]
    singly = [_told(lambda each=each: read_record(*each, find)) for each in listed]
    assert [_told(lambda each=each: each) for each in read_records(listed, find)] == singly


@given(people=populations())
def test_what_is_written_here_is_read_together(people):
    """Dense or sparse, with starts or without: no element is read alone, which takes twelve times as long."""
    written = elements_of(people, people.people)
    listed = [("somebody", json.loads(json.dumps(record))) for record in written]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prior_files, "read_record", lambda *_: pytest.fail("read alone"))
        found = read_records(listed, {}.get)
    again = PopulationBuilder(found).build(people.location_names)
    assert equal(again, people)


@pytest.mark.parametrize("count", [1, 499, 500, 501, 1001])
def test_all_elements_of_a_file_are_read_in_their_order(tmp_path, count):
    people = [{"person": f"p{number}", "transition": [[1]]} for number in range(count)]
    assert written(tmp_path, {"people": people}).people == tuple(each["person"] for each in people)


BAD_DOCUMENTS = {
    '{"people": [{"person": 5}, {"person": 6}]}': "'person' of people[0]",
    '{"people": [{"person": "a", "transition": [[1]]}, {"person": 5}, {"person" x': "'person' of people[1]",
    '{"people": [{"person": "a", "transition": [[1]]}, {"person" x': "line 1: Expecting ':' delimiter",
    "": "line 1: '{' was expected",
    "[]": "line 1: '{' was expected",
    '{"people": {}}': "'people' in",
    '{"people": [],\n "poeple": []}': "did you mean 'people'?",
    '{"people": [\n{"person": "a"\n"transition": [[1]]}]}': "line 3: Expecting ',' delimiter",
    '{"people": [\n{"person": "a", "transition": [[1]]}': "line 2: ',' was expected",
    '{"people": []} x': "the end of the document was expected",
    "{people: []}": "a name in double quotes was expected",
    '{"people": [3]}': "people[0] in",
    '{"people": [{"transition": [[1]]}]}': "'person' of people[0]",
    '{"people": [{"person": 5, "transition": [[1]]}]}': "must be a text, got 5",
    '{"locations": [1], "people": []}': "must be a list of names",
    '{"locations": ["a", "b", "a"], "people": []}': "must be unique, got 'a' twice",
}


FITTED = FittedWindows(3600, "epoch", "last", "location", "elsewhere", 7200)
BY_THE_CLOCK = replace(FITTED, timezone="Europe/Vienna", holidays=("2026-05-01",))


@pytest.mark.parametrize("fitted", [FITTED, BY_THE_CLOCK])
@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_the_windows_of_a_fit_come_back_and_stay_with_parts(tmp_path, format_, fitted):
    """Parts of a population were fitted to the same windows; joined with others nothing is known of them."""
    path = tmp_path / f"priors.{format_}"
    priors = [MovementPrior.from_dense(name, MATRIX) for name in ("ann", "bob")]
    save_population(replace(Population.pack(priors), fitted=fitted), path)
    found = load_population(path)
    assert found.fitted == fitted
    parts = found.split(2)
    assert Population.concatenate(parts).fitted == fitted
    assert Population.concatenate([parts[0], replace(parts[1], fitted=None)]).fitted is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"until_seconds": "never"}, "member 'until_seconds' of 'fitted' in"),
        ({"until_seconds": 10**12}, "must be a whole number of seconds, got 1000000000000"),
        ({"window_seconds": True}, "must be a whole number of seconds, got True"),
        ({"origin": None}, "must be whole seconds or a word, got NoneType"),
        ({"window_place": 3}, "must be a text, got 3"),
        ({"colour": "red"}, "'fitted' in"),
        ({"timezone": "Europe/Wien"}, "timezone must be a name of the IANA database, got 'Europe/Wien'"),
        ({"timezone": 1}, "timezone must be a text"),
        ({"timezone": "UTC", "holidays": "2026-05-01"}, "holidays must be a list of dates, got str"),
        ({"timezone": "UTC", "holidays": ["May"]}, "a holiday must be a date, got 'May'"),
    ],
)
def test_a_fit_that_is_not_described_as_one_is_refused(tmp_path, changed, words):
    document = {"fitted": {**FITTED.as_json(), **changed}, "people": [{"person": "ann", "transition": [[1]]}]}
    with pytest.raises(PriorFileError) as caught:
        written(tmp_path, document)
    assert words in str(caught.value)
    assert "priors.json" in str(caught.value)


@pytest.mark.parametrize("text", BAD_DOCUMENTS)
def test_a_bad_document_is_refused_with_its_place(tmp_path, text):
    with pytest.raises(PriorFileError) as caught:
        written(tmp_path, text)
    assert BAD_DOCUMENTS[text] in str(caught.value)
    assert "priors.json" in str(caught.value)


def test_one_person_twice_is_refused(tmp_path):
    person = {"person": "ann", "transition": [[1]]}
    with pytest.raises(PriorFileError, match=r"in .*priors.json, each person must have one prior"):
        written(tmp_path, {"people": [person, person]})


def parquet(folder, **changes) -> Population:
    columns = {
        "person": pa.array(["ann", "bob"]),
        "places": pa.array([[1, 4], [2]]),
        "row": pa.array([[0, 1], [0]]),
        "col": pa.array([[1, 0], [0]]),
        "probability": pa.array([[1.0, 1.0], [1.0]]),
        **changes,
    }
    path = folder / "priors.parquet"
    pq.write_table(pa.table({name: values for name, values in columns.items() if values is not None}), path)
    return load_population(path)


def test_optional_parquet_columns_may_be_missing(tmp_path):
    population = parquet(tmp_path)
    assert population.location_names == ("0", "1", "2", "3", "4")
    assert population.arrays.slots.tolist() == [1, 1]
    assert population.chain(0).start.tolist() == [[0.5, 0.5]]


def test_a_parquet_file_whose_only_location_is_the_first_is_read(tmp_path):
    population = parquet(
        tmp_path,
        places=pa.array([[0], [0]]),
        row=pa.array([[0], [0]]),
        col=pa.array([[0], [0]]),
        probability=pa.array([[1.0], [1.0]]),
    )
    assert population.location_names == ("0",)


BAD_COLUMNS = {
    "missing": ({"col": None}, "missing ['col']"),
    "unknown": ({"weights": pa.array([1, 2])}, "unknown ['weights']"),
    "null": ({"row": pa.array([[0, 1], None])}, "column 'row' of"),
    "null inside": ({"row": pa.array([[0, None], [0]])}, "must have the documented types"),
    "words": ({"row": pa.array([["x", "y"], ["z"]])}, "must have the documented types"),
    "places of fractions": (
        {"places": pa.array([[1.5, 4.0], [2.0]])},
        "must be lists of numbers of locations",
    ),
    "places of words": ({"places": pa.array([["x", "y"], ["z"]])}, "must be lists of numbers of locations"),
    "places of moments": (
        {"places": pa.array([[1, 4], [2]]).cast(pa.list_(pa.timestamp("us")))},
        "must be lists of numbers of locations",
    ),
    "moments": (
        {"row": pa.array([[0, 1], [0]]).cast(pa.list_(pa.timestamp("us")))},
        "must have the documented types",
    ),
    "unequal": ({"col": pa.array([[1], [0]])}, "of person 'ann' in"),
    "slot too short": (
        {"slots": pa.array([1, 2], pa.int32()), "slot": pa.array([None, [0, 1]])},
        "of person 'bob' in",
    ),
    "slots without moves": ({"slots": pa.array([1, 2**31 - 1], pa.int32())}, "person 'bob' in"),
    "row sum": (
        {"probability": pa.array([[1.0, 1.0], [0.5]])},
        "row 0 (location '2') of person 'bob'",
    ),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_a_bad_parquet_file_is_refused_with_column_and_person(tmp_path, case):
    changes, words = BAD_COLUMNS[case]
    with pytest.raises(PriorFileError) as caught:
        parquet(tmp_path, **changes)
    assert words in str(caught.value)
    assert "priors.parquet" in str(caught.value)


@pytest.mark.slow
@pytest.mark.indices
def test_files_that_are_no_priors_are_refused(tmp_path):
    with pytest.raises(PriorFileError, match="must exist"):
        load_population(tmp_path / "none.json")
    other = tmp_path / "priors.txt"
    other.write_text("{}")
    with pytest.raises(PriorFileError, match=r"must end in \.json or \.parquet"):
        load_population(other)
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(b"PAR1 and no more")
    with pytest.raises(PriorFileError, match="must be a Parquet file"):
        load_population(torn)
    rotten = tmp_path / "rotten.parquet"
    save_population(Population.pack([MovementPrior.from_dense("ann", [[1.0]])]), rotten)
    content = bytearray(rotten.read_bytes())
    for at in range(4, len(content), 7):
        content[at] ^= 0x40
        rotten.write_bytes(bytes(content))
        with suppress(PriorFileError):  # some bytes nobody reads
            load_population(rotten)
        content[at] ^= 0x40
    latin = tmp_path / "latin.json"
    latin.write_bytes('{"people": [{"person": "Zoë"}]}'.encode("latin-1"))
    with pytest.raises(PriorFileError, match="must be UTF-8"):
        load_population(latin)


def test_a_column_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "priors.parquet"
    save_population(Population.pack([MovementPrior.from_dense("ann", [[1.0]])]), path)
    table = pq.read_table(path)
    pq.write_table(table.append_column("row", table.column("row")), path)
    with pytest.raises(PriorFileError, match=r"repeated \['row'\]"):
        load_population(path)


@pytest.mark.parametrize("names", [b"{", b"", b"[" * 3000, b"[" + b"1" * 400 + b"]", b'{"A": 1}'])
def test_names_of_locations_that_are_no_list_are_refused(tmp_path, names):
    path = tmp_path / "priors.parquet"
    save_population(Population.pack([MovementPrior.from_dense("ann", [[1.0]])]), path)
    pq.write_table(pq.read_table(path).replace_schema_metadata({b"tallyguard.locations": names}), path)
    with pytest.raises(PriorFileError, match=r"metadata 'tallyguard.locations' of .* must be a JSON list"):
        load_population(path)


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "priors.json"
    population = Population.pack([MovementPrior.from_dense("ann", [[1.0]])])
    save_population(population, path)
    before = path.read_bytes()

    def torn(*_):
        raise OSError("disk full")

    monkeypatch.setattr("models.prior_files.elements_of", torn)
    with pytest.raises(OSError, match="disk full"):
        save_population(population, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["priors.json"]


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_the_step_from_which_people_were_there_is_read_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    """For whom it is known; the priors themselves have the same digest either way."""
    priors = [MovementPrior.from_dense(name, [[0.5, 0.5], [0.1, 0.9]]) for name in ("ann", "bob", "eve")]
    plain = Population.pack(priors, ["a", "b"])
    people = replace(plain, effective_from=np.array([NOT_SAID, 0, 8760]))
    save_population(people, tmp_path / f"priors{suffix}")
    again = load_population(tmp_path / f"priors{suffix}")
    assert again.effective_from is not None
    assert again.effective_from.tolist() == [NOT_SAID, 0, 8760]
    assert again.fingerprint == plain.fingerprint


@pytest.mark.parametrize("step", [-1, 1.5, True, "12"])
def test_a_first_step_is_the_number_of_a_step(tmp_path: Path, step: object) -> None:
    path = tmp_path / "priors.json"
    entry = {"person": "ann", "effective_from": step, "transition": [[1.0]]}
    path.write_text(json.dumps({"people": [entry]}))
    with pytest.raises(PriorFileError, match="'effective_from' of"):
        load_population(path)
