"""A door for priors whose file is sound Parquet: other columns, kinds and values, not other bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from models.prior_files import load_population, save_population
from tests.fuzzing.check import Target
from tests.stream_app.engine_support import population

_VALUES: tuple[Any, ...] = (
    *(None, 0, 1, -1, 3, 2**31 - 1, -(2**31), 2**40, 0.5, -0.0, 1.5, float("nan"), float("inf"), 1e-320),
    *("", "A", "x" * 3000, "\x00", b"\xff", True, [], [0], [1.0], [None], [[0]], [2**31], ["A"]),
)
_KINDS = (
    *(pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.bool_()),
    *(pa.large_string(), pa.binary(), pa.null(), pa.list_(pa.int64()), pa.list_(pa.float64())),
    *(pa.large_list(pa.int32()), pa.list_(pa.string()), pa.list_(pa.list_(pa.int32()))),
    *(pa.dictionary(pa.int32(), pa.string()), pa.timestamp("us"), pa.decimal128(10, 2)),
)
_LOCATIONS = (b"{}", b"[1]", b"[", b"", b"\xff", b'["A"]', b'["A","A","B","C"]', b"[" * 3000)


@cache
def _table() -> pa.Table:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "seed.parquet"
        save_population(population(3), path)
        return pq.read_table(path)


def _changed(table: pa.Table, random: Random) -> pa.Table:
    """A table after one change; the same where the change cannot be made."""
    try:
        return random.choice((_other_value, _other_value, _other_value, _other_kind, _other_columns))(
            table, random
        )
    except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError):  # of what makes tables
        return table


def _other_value(table: pa.Table, random: Random) -> pa.Table:
    """One cell, or one element of a cell's list."""
    at = random.randrange(table.num_columns)
    cells = table.column(at).to_pylist()
    row = random.randrange(len(cells))
    if isinstance(cells[row], list) and cells[row] and random.random() < 0.7:
        _change_list(cells[row], random)
    else:
        cells[row] = random.choice(_VALUES)
    return table.set_column(at, table.field(at), pa.array(cells, table.field(at).type))


def _change_list(cell: list[Any], random: Random) -> None:
    where = random.randrange(len(cell))
    kind = random.randrange(4)
    if kind == 0:
        del cell[where:]
    elif kind == 1:
        cell.insert(where, cell[where])
    else:
        cell[where] = random.choice(_VALUES)


def _other_kind(table: pa.Table, random: Random) -> pa.Table:
    """A column of another kind, cast where that is possible, of nothing else."""
    at, kind = random.randrange(table.num_columns), random.choice(_KINDS)
    try:
        column = table.column(at).cast(kind)
    except pa.ArrowException:
        column = pa.nulls(table.num_rows, kind)
    return table.set_column(at, pa.field(table.field(at).name, kind), column)


def _other_columns(table: pa.Table, random: Random) -> pa.Table:
    """A column gone, twice or by another name, rows gone or twice, other metadata."""
    at, name = random.randrange(table.num_columns), random.choice(table.column_names)
    kind = random.randrange(6)
    if kind == 0:
        return table.drop_columns([name])
    if kind == 1:
        return table.append_column(random.choice((name, "stranger")), table.column(at))
    if kind == 2:
        names = [*table.column_names]
        names[at] = random.choice((name, "", "stranger"))
        return table.rename_columns(names)
    if kind == 3:
        return table.slice(random.randrange(4), random.randrange(4))
    if kind == 4:
        return pa.concat_tables([table, table])
    return table.replace_schema_metadata({b"tallyguard.locations": random.choice(_LOCATIONS)})


def _priors(data: bytes) -> None:
    """Bytes choose one to four changes of a sound table, which is then read as a file."""
    random = Random(data)
    table = _table()
    for _ in range(random.randint(1, 4)):
        table = _changed(table, random) if table.num_columns and table.num_rows else table
    path = _folder() / "priors.parquet"
    pq.write_table(table, path, compression=None, write_statistics=False)
    load_population(path)


@cache
def _kept() -> TemporaryDirectory[str]:
    memory = Path("/dev/shm")
    return TemporaryDirectory(prefix="fuzzing-", dir=memory if memory.is_dir() else None)


def _folder() -> Path:
    return Path(_kept().name)


COLUMNS: dict[str, Callable[[str], Target]] = {
    "priors, columns": lambda name: Target(name, (b"0123456789",), _priors, secrets=(), quick_inputs=300),
}
