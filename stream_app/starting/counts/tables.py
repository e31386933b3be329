"""Tables from files as cities have them: CSV with any usual separator, also packed, and Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from stream_app.exceptions import InputError

_HEAD_BYTES = 65_536


def read_table(path: Path) -> pa.Table:
    """A table; the cells of a CSV as text. :class:`InputError` names file and remedy, and quotes no cell."""
    if not path.is_file():
        raise InputError(f"file {path} must exist", "nothing", "check the path")
    try:
        if path.suffix.lower() == ".parquet":
            return pq.read_table(path)
        with pa.input_stream(str(path), compression="detect") as content:
            head = content.read(_HEAD_BYTES).decode("utf-8-sig", errors="replace").split("\n")[0]
        separator = max(",;\t", key=head.count)
        options = pa_csv.ParseOptions(delimiter=separator)
        with pa_csv.open_csv(path, parse_options=options) as reader:
            names = reader.schema.names
        if len(set(names)) < len(names):
            raise InputError(f"columns of {path} must have different names", "a name twice", "rename one")
        text = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True)
        return pa_csv.read_csv(path, parse_options=options, convert_options=text)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} must be a table: CSV in UTF-8 with a header line, or Parquet",
            type(error).__name__,
            "save it so, the same number of cells in each line",
        ) from None
