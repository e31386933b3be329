"""Text from outside: cells of spreadsheets, close names, and JSON and TOML documents."""

from __future__ import annotations

import csv
import io
import time

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.exceptions import SensorError
from models.releases import SensorRegistry
from models.text import CloseNames, DocumentError, cell_text, number_of, parse_json, parse_toml, safe_cell

# A name in a CSV file stays a name when somebody opens it in a spreadsheet.

FORMULAS = ("=1+1", '=HYPERLINK("http://x/"&B2)', "+41 bridge", "-2 floor", "@sum", "\t=1", "\r=1", "'=1")


@pytest.mark.parametrize("name", FORMULAS)
def test_what_a_spreadsheet_would_work_out_becomes_a_text(name: str) -> None:
    assert safe_cell(name) == f"'{name}"


@pytest.mark.parametrize("name", ["mill street", "'s-Hertogenbosch", "a=b", "", "3", "Zürich (+2)"])
def test_other_names_stay_as_they_are(name: str) -> None:
    assert safe_cell(name) == cell_text(name) == name


@given(st.one_of(st.text(), st.sampled_from(FORMULAS), st.from_regex(r"'*[=+@-].*")))
def test_every_name_comes_back_and_none_begins_a_formula(name: str) -> None:
    assert cell_text(safe_cell(name)) == name
    assert not safe_cell(name).startswith(("=", "+", "-", "@", "\t", "\r"))
    text = io.StringIO()
    csv.writer(text).writerow([safe_cell(name)])
    if "\r" not in name and "\n" not in name:
        assert next(csv.reader(io.StringIO(text.getvalue())), [""])[0] == safe_cell(name)
    pa_csv.write_csv(pa.table({"sensor": [safe_cell(name)]}), io.BytesIO())


# Suggestions for names that do not exist: right for a slip, and cheap whatever is asked.

NAMES = ("station", "mill street", "harbour", "s1", "s10", "s17")


@pytest.mark.parametrize(
    ("wrong", "close"),
    [
        ("statoin", ("station",)),
        ("Station", ("station",)),
        ("staton", ("station",)),
        ("stattion", ("station",)),
        ("mill-street", ("mill street",)),
        ("harbor", ("harbour",)),
        ("s7", ("s17", "s1")),
        ("airport", ()),
        ("", ()),
    ],
)
def test_a_name_with_one_slip_finds_those_it_may_mean(wrong: str, close: tuple[str, ...]) -> None:
    assert CloseNames(NAMES).like(wrong) == close


def test_there_are_never_more_suggestions_than_a_sentence_holds() -> None:
    assert len(CloseNames(f"sensor-{number}" for number in range(10_000)).like("sensor-12")) == 3


@pytest.mark.slow
def test_ten_thousand_unknown_sensors_cost_less_than_one_step() -> None:
    """However many sensors there are and whatever the names look like: a batch must not stop a worker."""
    registry = SensorRegistry.one_per_location([f"sensor-{number:06d}" for number in range(10_000)])
    wrong = [f"sensor-{number:06d}" for number in range(20_000, 29_998)]
    wrong += ["x" * 256, "s" * 1_000_000]
    began = time.process_time()
    for name in wrong:
        with pytest.raises(SensorError):
            registry.get(name)
    assert time.process_time() - began < 10.0


BAD_JSON = {
    "deep": ("[" * 100_000, "nested too deeply"),
    "deep objects": ('{"a":' * 100_000, "nested too deeply"),
    "400 digits": ("1" * 400, "400 digits"),
    "5000 digits": ("-" + "1" * 5000, "5001 digits"),
    "not UTF-8": (b"\xff\xfe\xfa", "decode"),
    "nothing": ("", "Expecting value"),
    "a member twice": ('{"count": 5, "count": 500}', "named twice"),
    "a member twice below": ('[{"a": {"b": 1, "c": 2, "b": 1}}]', "named twice"),
    "a member twice, escaped": ('{"count": 5, "\\u0063ount": 5}', "named twice"),
}
BAD_TOML = {
    "deep": ("a = " + "[" * 100_000, "nested too deeply"),
    "400 digits": ("[t]\na = [1, " + "1" * 400 + "]", "64 bits"),
    "5000 digits": ("a = " + "1" * 5000, "limit"),
    "no value": ("a =", "Invalid value"),
}


@pytest.mark.parametrize("case", BAD_JSON)
def test_what_is_not_json_is_said_in_a_few_words(case: str) -> None:
    """Neither the interpreter's stack nor its arithmetic is the limit."""
    text, words = BAD_JSON[case]
    with pytest.raises(DocumentError, match=words) as error:
        parse_json(text)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("case", BAD_TOML)
def test_what_is_not_toml_is_said_in_a_few_words(case: str) -> None:
    text, words = BAD_TOML[case]
    with pytest.raises(DocumentError, match=words) as error:
        parse_toml(text)
    assert len(str(error.value)) < 200


def test_documents_are_read_as_they_are() -> None:
    assert parse_json('{"a": [1, -2.5, true, null, 18446744073709551615]}') == {
        "a": [1, -2.5, True, None, 2**64 - 1]
    }
    assert parse_toml("a = true\n[b]\nc = [-9223372036854775808, 1.5]") == {
        "a": True,
        "b": {"c": [-(2**63), 1.5]},
    }


def test_one_thing_is_told_as_one() -> None:
    assert [number_of(each, "step") for each in (0, 1, 2000)] == ["0 steps", "1 step", "2,000 steps"]
    assert number_of(1, "person", "people") == "1 person"
    assert number_of(2, "person", "people") == "2 people"
