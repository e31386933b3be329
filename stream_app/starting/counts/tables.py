"""Tables from files as cities have them: CSV with any usual separator, also packed, and Parquet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from stream_app.exceptions import InputError

_HEAD_BYTES = 65_536
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What reading a file that is no table raises."""
EMPTY_CELLS = ("", "NA", "NaN", "nan", "null")
"""How cells without a count are written."""
_DIGIT = re.compile(r"\d")


class OpenedTable(NamedTuple):
    """What a file shows before it is read: its columns, and what separates cells; None in Parquet."""

    names: list[str]
    separator: str | None


def opened_table(path: Path) -> OpenedTable:
    """The columns of a file; :class:`InputError` where it is no table."""
    if not path.is_file():
        raise InputError(f"file {path} must exist", "nothing", "check the path")
    try:
        if path.suffix.lower() == ".parquet":
            with pq.ParquetFile(path) as file:
                opened = OpenedTable(list(file.schema_arrow.names), None)
        else:
            with pa.input_stream(str(path), compression="detect") as content:
                head = content.read(_HEAD_BYTES).decode("utf-8-sig", errors="replace").split("\n")[0]
            separator = max(",;\t", key=head.count)
            with pa_csv.open_csv(path, parse_options=pa_csv.ParseOptions(delimiter=separator)) as reader:
                opened = OpenedTable(list(reader.schema.names), separator)
    except UNREADABLE as error:
        raise no_table(path, error) from None
    _require_names(path, opened.names)
    return opened


def read_table(path: Path) -> pa.Table:
    """A table; the cells of a CSV as text. :class:`InputError` names file and remedy, and quotes no cell."""
    opened = opened_table(path)
    try:
        if opened.separator is None:
            with pq.ParquetFile(path) as file:
                return file.read()
        kinds = dict.fromkeys(opened.names, pa.string())
        return pa_csv.read_csv(
            path,
            parse_options=pa_csv.ParseOptions(delimiter=opened.separator),
            convert_options=pa_csv.ConvertOptions(column_types=kinds, strings_can_be_null=True),
        )
    except UNREADABLE as error:
        raise no_table(path, error) from None


def no_table(path: Path, error: Exception) -> InputError:
    """What to say of a file that cannot be read as a table."""
    return InputError(
        f"{path} must be a table: CSV in UTF-8 with a header line, or Parquet",
        type(error).__name__,
        "save it so, the same number of cells in each line",
    )


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
