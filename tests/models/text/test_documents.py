"""JSON and TOML from outside: a value, or a few words about what is wrong."""

from __future__ import annotations

import pytest

from models.text import DocumentError, parse_json, parse_toml

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
