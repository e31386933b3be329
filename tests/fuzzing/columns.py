"""Doors for files that are sound Parquet: other columns, kinds and values, not other bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models.fitting import FitOptions, fit_priors, read_checkins
from models.prior_files import load_evidence, load_population, save_evidence, save_population
from models.priors import Evidence, FittedWindows, Lists, posterior_draws
from stream_app.starting.connect.guess import read_counts
from tests.fuzzing.check import COUNT, PERSON, Target
from tests.fuzzing.files import memory_folder
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
_TEXTS = (
    *(b"{}", b"[1]", b"[", b"", b"\xff", b'["A"]', b'["A","A","B","C"]', b"[" * 3000, b'""', b'"counts"'),
    b'{"window_seconds":60,"origin":"epoch","window_place":"last","elsewhere":"skip","elsewhere_name":"x",'
    b'"until_seconds":7}',
)


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
    kept = {**(table.schema.metadata or {})}
    kept[random.choice((*kept, b"tallyguard.assumed"))] = random.choice(_TEXTS)
    return table.replace_schema_metadata(kept)


def _read_by(make: Callable[[], pa.Table], read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """Bytes choose one to four changes of a sound table, which is then read as a file."""

    def call(data: bytes) -> None:
        random = Random(data)
        table = make()
        for _ in range(random.randint(1, 4)):
            table = _changed(table, random) if table.num_columns and table.num_rows else table
        path = memory_folder() / "columns.parquet"
        pq.write_table(table, path, compression=None, write_statistics=False)
        read(path)

    return call


def _door(
    make: Callable[[], pa.Table], read: Callable[[Path], object], secrets: tuple[str, ...] = ()
) -> Callable[[str], Target]:
    return lambda name: Target(
        name, (b"0123456789",), _read_by(make, read), secrets=secrets, quick_inputs=300
    )


@cache
def _priors() -> pa.Table:
    path = memory_folder() / "seed.parquet"
    fitted = FittedWindows(60, "earliest", "most_frequent", "location", "A", 1_000_000)
    save_population(replace(population(3), fitted=fitted), path)
    return pq.read_table(path)


def evidence() -> Evidence:
    """That of a few people, two of whose rows are taken as they are."""
    people = population(3).people
    values = np.linspace(0.5, 6.0, 4 * len(people))
    values[3:5] = np.inf
    return Evidence(people, Lists(4 * np.arange(len(people) + 1), values))


@cache
def _evidence() -> pa.Table:
    path = memory_folder() / "seed.parquet"
    save_evidence(evidence(), path)
    return pq.read_table(path)


def use_evidence(path: Path) -> None:
    """Evidence as an audit draws from it; its errors name nobody."""
    found = load_evidence(path)
    for person in range(3):
        posterior_draws(population(3), person, found, 1)


@cache
def checkins() -> pa.Table:
    """Three people at a few places."""
    users, times = [PERSON, "b", "9"] * 4, [1_000_000 + 40 * number for number in range(12)]
    return pa.table({"user": users, "time": times, "loc": ["A", "B", "A", "7"] * 3})


def use_checkins(path: Path) -> None:
    """Check-ins as priors are fitted to them."""
    checkins = read_checkins(path, "reject")
    fit_priors(checkins, FitOptions(window_seconds=60, min_windows=1, held_out_windows=1))


@cache
def counts() -> pa.Table:
    """Two sensors, hour by hour."""
    times = [f"2026-01-01 {hour:02}:00" for hour in range(6)]
    return pa.table({"time": times, "A": [int(COUNT), 3, 0, None, 5, 6], "B": [1, 2, 3, 4, 5, 6]})


def use_counts(path: Path) -> None:
    """Counts as a deployment is made from them, by columns and by rows."""
    counts = read_counts(path, timezone="Europe/Vienna", repeated="drop")
    assert counts.slots >= 1
    assert counts.first_slot >= 0
    counts.last_days(1)


COLUMNS: dict[str, Callable[[str], Target]] = {
    "priors, columns": _door(_priors, load_population),
    "evidence, columns": _door(_evidence, use_evidence),
    "check-ins, columns": _door(checkins, use_checkins, (PERSON,)),
    "counts, columns": _door(counts, use_counts, (COUNT,)),
}
