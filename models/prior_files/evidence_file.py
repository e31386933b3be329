"""How many moves each row of fitted priors rests on, as Parquet: a file beside the priors.

Columns: ``person`` (text) and ``evidence`` (double list), a number for each slot and place, slot by slot,
places increasing; infinite for a row that is taken as it is.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from models.arguments import checked
from models.exceptions import PriorFileError
from models.priors import Evidence, Lists
from models.private_files import private_file

_SCHEMA = pa.schema([("person", pa.string()), ("evidence", pa.list_(pa.float64()))])


def save_evidence(evidence: Evidence, path: str | Path) -> None:
    """Write it, for its owner only; the file appears whole or not at all."""
    path = Path(path)
    start, values = evidence.rows
    lists = pa.ListArray.from_arrays(pa.array(start, pa.int32()), pa.array(values, pa.float64()))
    table = pa.Table.from_arrays([pa.array(evidence.people, pa.string()), lists], schema=_SCHEMA)
    with private_file(path) as file:
        pq.write_table(table, file, compression="zstd")


@checked(PriorFileError)
def load_evidence(path: str | Path) -> Evidence:
    """Read it; :class:`~models.exceptions.PriorFileError` where it is no such file."""
    path = Path(path)
    if not path.is_file():
        raise PriorFileError(
            "the file of evidence must exist", str(path), "write it with priors fit --evidence"
        )
    try:
        with pq.ParquetFile(path) as file:
            table = file.read().combine_chunks()
        if table.column_names != _SCHEMA.names:
            raise pa.ArrowInvalid(f"columns {', '.join(table.column_names)}")
        table = table.cast(_SCHEMA)
        people, lists = table.column("person"), table.column("evidence")
        values = pc.list_flatten(lists)
        if values.null_count or lists.null_count or people.null_count:
            raise pa.ArrowInvalid("a column with nulls")
        lengths = pc.list_value_length(lists).to_numpy()
        names = tuple(map(str, people.to_pylist()))
    except (pa.ArrowException, OSError, TypeError, UnicodeDecodeError) as error:  # of what it cannot decode
        raise PriorFileError(
            f"{path} must be evidence of priors: Parquet with columns person and evidence",
            error,
            "write it with priors fit --evidence",
        ) from None
    if len(set(names)) < len(names):
        raise PriorFileError(
            f"{path} must name each person once",
            "a person twice",
            "write it again with priors fit --evidence",
        )
    start = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return Evidence(names, Lists(start, values.to_numpy()))
