"""No record of any topic ends a worker: what it cannot be read as is refused, quickly and in few words."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.kafka.deployment import records
from stream_app.kafka.deployment.records import (
    ACTIVATION,
    ANSWER,
    DEAD_LETTER,
    DECISION,
    PROPOSAL,
    READING,
    PersonEntry,
    RecordKind,
    RefusedRecord,
    people_of,
    person_kind,
)
from stream_app.wire.messages import Reason
from tests.stream_app.kafka.deployments import parse_person

PERSON = person_kind("d")
NAME = "0123456789abcdef" * 2
KINDS: dict[str, RecordKind[Any]] = {
    "activations": ACTIVATION,
    "readings": READING,
    "decisions": DECISION,
    "persons": PERSON,
    "proposals": PROPOSAL,
    "answers": ANSWER,
    "rejected": DEAD_LETTER,
}
GOOD: dict[str, dict[str, Any]] = {
    "activations": {"v": 1, "type": "activation", "step": 1, "sensors": ["a"]},
    "readings": {"v": 1, "type": "reading", "step": 1, "sensor": "a", "count": 2},
    "decisions": {
        "v": 1,
        "type": "decision",
        "step": 1,
        "decisions": [{"sensor": "a", "mechanism": "gaussian", "parameters": {"sigma": 1.0}}],
    },
    "persons": {"v": 1, "type": "person", "person": NAME, "places": [0], "transition": [[1.0]]},
    "proposals": {
        **{
            "v": 1,
            "type": "proposal",
            "source": {"deployment": "d", "session": "x"},
            "step": 1,
            "round": 0,
            "limit": {"share": 0.1, "reserve": 0.1},
        },
        **{"options": [], "sensors": [], "candidates": [[]], "coming": [["a"]]},
    },
    "rejected": {
        **{"v": 1, "type": "rejected", "source": "readings:1", "payload": "", "reason": "not_json"},
        "hint": "",
    },
}
DEEP = b"[" * 50_000 + b"]" * 50_000
LONG = b"9" * 400


def record(value: bytes, key: bytes = NAME.encode()) -> Any:
    return _Record("t", 0, 7, key, value)


class _Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes


def poisoned(good: dict[str, Any]) -> Iterator[bytes]:
    """Each field of a record made deep, huge, not a number, left out; a stranger added."""
    whole = json.dumps(good)
    yield from (DEEP, LONG, b"", b"\xff\xfe", b"null", b"{" * 5_000, whole[:-1].encode())
    yield whole[:-1].encode() + b', "stranger": ' + DEEP + b"}"
    for name in good:
        for bad in (
            DEEP,
            LONG,
            b"-" + LONG,
            b"NaN",
            b"1e999",
            b"[[" + LONG + b"]]",
            b'{"row":[' + LONG + b"]}",
        ):
            marked = json.dumps({**good, name: "MARK"}).encode()
            yield marked.replace(b'"MARK"', bad)
        yield json.dumps({key: value for key, value in good.items() if key != name}).encode()


@pytest.mark.parametrize("topic", GOOD)
def test_the_kind_of_a_topic_reads_what_belongs_there(topic: str) -> None:
    assert not isinstance(KINDS[topic].read(record(json.dumps(GOOD[topic]).encode())), RefusedRecord)


@pytest.mark.parametrize("topic", GOOD)
def test_no_poison_raises_and_what_is_said_of_it_is_short(topic: str) -> None:
    for value in poisoned(GOOD[topic]):
        found = KINDS[topic].read(record(value))
        if isinstance(found, RefusedRecord):
            letter = found.letter()
            assert len(letter.hint) < 1_000
            assert letter.source == "t/0:7"
            assert len(letter.line()) < 40_000
        elif isinstance(found, PersonEntry):
            people_of([found], ("A",))  # refuses, or takes what is a prior


def _told(found: Any) -> Any:
    """What was read, to compare: a refusal as it is, numbers bit by bit."""
    if not isinstance(found, PersonEntry):
        return found
    arrays = [*found.unchecked.moves, found.unchecked.places, found.unchecked.initial, found.draws]
    return found._replace(unchecked=None, draws=None), [
        each if each is None else each.tobytes() for each in arrays
    ]


@pytest.mark.parametrize("topic", GOOD)
def test_records_read_together_are_those_read_one_by_one(topic: str) -> None:
    """Good ones among poison: what is said of one depends on no other."""
    good, kind = json.dumps(GOOD[topic]).encode(), KINDS[topic]
    values = [each for bad in poisoned(GOOD[topic]) for each in (good, bad)]
    values.append(b"[" * (kind.most_bytes + 1))
    listed = [record(value)._replace(offset=number) for number, value in enumerate(values)]
    found = kind.read_all(listed)
    assert [_told(each) for each in found] == [_told(kind.read(each)) for each in listed]
    assert not any(isinstance(each, RefusedRecord) for each in found[:-1:2])


def test_who_makes_all_stumble_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a record does to those that are read with it."""
    names = [f"{number:032x}" for number in range(5)]
    sound = records.read_records

    def stumble(listed: list[tuple[str, Any]], *given: Any) -> Any:
        if any(names[3] in where for where, _ in listed):
            raise ZeroDivisionError
        return sound(listed, *given)

    monkeypatch.setattr(records, "read_records", stumble)
    values = [json.dumps({**GOOD["persons"], "person": name}).encode() for name in names]
    found = PERSON.read_all([record(value, name.encode()) for value, name in zip(values, names, strict=True)])
    assert [isinstance(each, RefusedRecord) for each in found] == [name == names[3] for name in names]
    assert found[3].hint == "it cannot be read as a person: ZeroDivisionError"


@pytest.mark.slow
@settings(max_examples=300)
@given(
    topic=st.sampled_from(sorted(KINDS)),
    value=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
            ),
        ).map(lambda each: json.dumps(each).encode()),
    ),
)
def test_bytes_of_any_kind_are_read_or_refused(topic: str, value: bytes) -> None:
    KINDS[topic].read(record(value))


@pytest.mark.parametrize("topic", KINDS)
def test_the_size_is_looked_at_before_the_contents(topic: str) -> None:
    kind = KINDS[topic]
    found = kind.read(record(b"[" * (kind.most_bytes + 1)))
    assert isinstance(found, RefusedRecord)
    assert found.reason is Reason.TOO_LONG


@pytest.mark.slow
def test_a_million_wrong_numbers_cost_one_fault() -> None:
    for kind, value in (
        (PERSON, b'{"v":1,"type":"person","person":"a","initial":['),
        (ACTIVATION, b'{"sensors":['),
    ):
        found = kind.read(record(value + b"{}," * 1_000_000 + b"{}]}"))
        assert isinstance(found, RefusedRecord)
        assert len(found.hint) < 1_000


def test_what_is_said_of_a_refused_person_quotes_nothing_of_the_habits() -> None:
    secret = {**GOOD["persons"], "visits the clinic": 0.123456}
    found = PERSON.read(record(json.dumps(secret).encode()))
    assert isinstance(found, RefusedRecord)
    assert "clinic" not in found.letter().model_dump_json()
    assert "0.123456" not in found.letter().model_dump_json()
    assert found.letter().payload == NAME


def test_one_wrong_person_among_many_is_found_whatever_its_fault() -> None:
    """A fault that nobody has thought of is refused like the others."""
    faults: dict[int, dict[str, Any]] = {17: {"transition": [[0.5]]}, 33: {"places": [7]}}
    entries = []
    for number in range(50):
        name = f"{number:032x}"
        value = {**GOOD["persons"], "person": name, **faults.get(number, {})}
        entries.append(parse_person(name.encode(), json.dumps(value).encode(), "d"))
    entries[34] = entries[34]._replace(unchecked=None)
    found = people_of(entries, ("A",))
    assert [each.pseudonym for each in found.refused] == [entries[k].pseudonym for k in (17, 33, 34)]
    assert len(found.population) == 47


@pytest.mark.parametrize("fault", [{"transition": [[0.5, 0.5]]}, {"places": [0, 1]}, {"places": [0.0]}])
def test_a_person_whose_lists_do_not_fit_is_refused_when_it_is_read(fault: dict[str, Any]) -> None:
    """Then whoever was known stays, also in a worker that reads both records one after the other."""
    found = PERSON.read(record(json.dumps({**GOOD["persons"], **fault}).encode()))
    assert isinstance(found, RefusedRecord)
    assert len(found.letter().hint) < 1_000


@pytest.mark.slow
def test_a_person_read_from_a_record_takes_little_more_than_its_numbers() -> None:
    matrix = {"row": list(range(10)) * 3, "col": list(range(30)), "probability": [1 / 3] * 30}
    value = {**GOOD["persons"], "places": list(range(30)), "transitions": [matrix] * 24}
    del value["transition"]
    read = record(json.dumps(value).encode())
    assert isinstance(PERSON.read(read), PersonEntry)  # what the first one loads stays
    gc.collect()
    tracemalloc.start()
    entry = PERSON.read(read)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(entry, PersonEntry)
    assert held < 21 * 24 * 30 + 4_000
