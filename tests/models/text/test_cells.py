"""A name in a CSV file stays a name when somebody opens it in a spreadsheet."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.text import cell_text, safe_cell

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
