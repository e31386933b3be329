"""Tables from files as cities have them: CSV with any usual separator, also packed, and Parquet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from stream_app.exceptions import InputError

_HEAD_BYTES = 65_536
_DIGIT = re.compile(r"\d")


def read_table(path: Path) -> pa.Table:
    """A table; the cells of a CSV as text. :class:`InputError` names file and remedy, and quotes no cell."""
    if not path.is_file():
        raise InputError(f"file {path} must exist", "nothing", "check the path")
    try:
        if path.suffix.lower() == ".parquet":
            with pq.ParquetFile(path) as file:
                _require_names(path, file.schema_arrow.names)
                return file.read()
        with pa.input_stream(str(path), compression="detect") as content:
            head = content.read(_HEAD_BYTES).decode("utf-8-sig", errors="replace").split("\n")[0]
        separator = max(",;\t", key=head.count)
        options = pa_csv.ParseOptions(delimiter=separator)
        with pa_csv.open_csv(path, parse_options=options) as reader:
            names = reader.schema.names
        _require_names(path, names)
        text = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True)
        return pa_csv.read_csv(path, parse_options=options, convert_options=text)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} must be a table: CSV in UTF-8 with a header line, or Parquet",
            type(error).__name__,
            "save it so, the same number of cells in each line",
        ) from None


def _require_names(path: Path, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise InputError(f"columns of {path} must have different names", "a name twice", "rename one")


def text_column(table: pa.Table, name: str) -> pa.ChunkedArray[Any]:
    """A column as text; :class:`InputError` where its cells are none, such as lists."""
    try:
        return pc.cast(table[name], pa.string())
    except (pa.ArrowException, KeyError, UnicodeDecodeError) as error:
        raise InputError(
            f"{column_in_words(table, name)} must hold texts or numbers", type(error).__name__, "correct it"
        ) from None


def column_in_words(table: pa.Table, name: str) -> str:
    """A column by its name; by its place where digits stand in it: without a header they may be a count."""
    if _DIGIT.search(name):
        return f"column {table.column_names.index(name) + 1}"
    return f"column {name!r}"


def named_columns(table: pa.Table) -> list[str]:
    """The names without a digit."""
    return [name for name in table.column_names if not _DIGIT.search(name)]


def columns_in_words(table: pa.Table) -> str:
    """What columns there are, for people: the first that are named by words."""
    named = named_columns(table)
    found = ", ".join(named[:20])
    return f"{len(table.column_names)} columns: {found}" if named else f"{len(table.column_names)} columns"
