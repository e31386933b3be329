"""A day of releases as CSV or Parquet: the same columns, an empty cell where nothing was published."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from models.text import safe_cell
from stream_app.analysis.released_rows import ReleasedRow

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_TYPES = {
    "step": pa.int64(),
    "start": pa.timestamp("s", "UTC"),
    "end": pa.timestamp("s", "UTC"),
    "sensor": pa.string(),
    "mechanism": pa.string(),
    "sigma": pa.float64(),
    "epsilon": pa.float64(),
    "value": pa.int64(),
    "version": pa.int64(),
}


def csv_bytes(rows: Sequence[ReleasedRow]) -> bytes:
    """A header line and a line for each row; times in UTC."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(ReleasedRow._fields)
    for row in rows:
        shown = row._replace(sensor=safe_cell(row.sensor), mechanism=safe_cell(row.mechanism))
        writer.writerow(shown._replace(start=f"{row.start:{_TIME}}", end=f"{row.end:{_TIME}}"))  # type: ignore[arg-type]
    return text.getvalue().encode()


def parquet_bytes(rows: Sequence[ReleasedRow]) -> bytes:
    """The same table; what is empty there is null here."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _TYPES.values(), strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(zip(_TYPES, arrays, strict=True))), sink)
    return bytes(sink.getvalue().to_pybytes())
