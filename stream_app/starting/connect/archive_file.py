"""One file of an archive: only the columns that its mapping names are read, batch by batch, as codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stream_app.exceptions import InputError
from stream_app.setup.sections.connect_settings import FilesMap
from stream_app.starting.connect.personal_columns import refuse_personal_columns
from stream_app.starting.connect.wide_columns import WideColumn, wide_columns
from stream_app.starting.counts.tables import (
    UNREADABLE,
    column_in_words,
    named_columns,
    no_table,
    opened_table,
)

_BLOCK_BYTES = 4 << 20
_BATCH_ROWS = 1 << 18
Progress = Callable[[int], None]


class Coded(NamedTuple):
    """A column as its different cells (a table of one column) and which of them each row has; -1 is none."""

    values: pa.Table
    at: NDArray[np.int64]

    @property
    def texts(self) -> list[str]:
        """The different cells as trimmed text."""
        return [str(text).strip() for text in self.values.column(0).to_pylist()]


@dataclass(frozen=True)
class Chosen:
    """The columns of one file that count: ``sensor`` and ``count`` in a long one, ``wide`` in a wide one."""

    start: str
    end: str | None
    sensor: str | None
    channel: str | None
    count: str | None
    uptime: str | None
    wide: tuple[WideColumn, ...]

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        long = (self.start, self.end, self.sensor, self.channel, self.count, self.uptime)
        return list(dict.fromkeys([name for name in long if name] + [each.name for each in self.wide]))


def choose(path: Path, names: Sequence[str], mapping: FilesMap) -> Chosen:
    """The columns that a mapping means; :class:`InputError` for one that is missing, or must not enter."""
    refuse_personal_columns(str(path), names)
    table = pa.table({name: pa.array([], pa.string()) for name in names})
    one = _Columns(path, table)
    start = one.first("start", mapping.start)
    sensor = one.first("sensor", mapping.sensor) if mapping.sensor else None
    count = one.first("count", mapping.count) if mapping.count else None
    if (sensor is None) != (count is None):
        raise InputError(
            "a mapping must name both sensor and count (long files), or columns (wide files)",
            "sensor alone" if count is None else "count alone",
            "add the other one to [connect.files]",
        )
    end, channel, uptime = (
        None if name is None else one.first(key, (name,))
        for key, name in (("end", mapping.end), ("channel", mapping.channel), ("uptime", mapping.uptime))
    )
    wide = (
        ()
        if sensor
        else wide_columns(path, [name for name in names if name not in (start, end, uptime)], mapping)
    )
    return Chosen(start, end, sensor, channel, count, uptime, wide)


class _Columns:
    """Columns of a file by the keys of a mapping."""

    def __init__(self, path: Path, table: pa.Table) -> None:
        self._path, self._table = path, table

    def first(self, key: str, usual: Sequence[str]) -> str:
        """The first of the names that the file has."""
        if not usual:
            raise InputError(
                "a mapping must say where an interval starts",
                "no `start`",
                "choose a --preset, or set start, sensor and count in [connect.files]",
            )
        found = next((name for name in usual if name in self._table.column_names), None)
        if found is None:
            close = get_close_matches(usual[0], named_columns(self._table), n=1)
            named = ", ".join(named_columns(self._table)[:20])
            hint = f"did you mean {close[0]!r}?" if close else f"the file has {named or 'no header line'}"
            raise InputError(
                f"{self._path} must have the column of `{key}`", f"no {' or '.join(map(repr, usual))}", hint
            )
        return found


class ArchiveTable:
    """The chosen columns of a file, each coded: years of text take little memory, and are parsed once."""

    def __init__(self, path: Path, mapping: FilesMap, progress: Progress = lambda size: None) -> None:
        """``progress`` is given how many bytes of the file more were read."""
        self.path = path
        opened = opened_table(path)
        self.chosen = choose(path, opened.names, mapping)
        self._table = _read(path, opened.separator, self.chosen.names, progress)
        self.rows = self._table.num_rows

    def coded(self, name: str) -> Coded:
        """A column with each different cell once; blank ones are none."""
        column: Any = self._table[name]
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        whole: Any = column.unify_dictionaries().combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
        values, index = whole.dictionary, np.asarray(pc.fill_null(whole.indices, -1)).astype(np.int64)
        if pa.types.is_string(values.type) and len(values):
            trimmed: Any = pc.utf8_trim_whitespace(values)
            blank = np.asarray(pc.equal(trimmed, pa.scalar("")))
            index = np.where((index >= 0) & blank[index], -1, index)
        return Coded(pa.table({name: values}), index)

    def full(self, name: str, what: str) -> Coded:
        """A column that must have a cell in each row."""
        coded = self.coded(name)
        empty = np.flatnonzero(coded.at < 0)
        if empty.size:
            raise InputError(
                f"{column_in_words(self._table, name)} of {self.path} must have {what} in each row",
                f"an empty cell in row {int(empty[0]) + 1}",
                "fill or drop it",
            )
        return coded


def _read(path: Path, separator: str | None, names: list[str], progress: Progress) -> pa.Table:
    """The named columns: texts of a CSV as dictionaries, those of Parquet as they are."""
    batches = []
    with path.open("rb") as file:
        read_bytes = 0
        if separator is None:
            source = pq.ParquetFile(file)
            reader: Any = source.iter_batches(_BATCH_ROWS, columns=names)
        else:
            unpacked: Any = pa.CompressedInputStream(file, "gzip") if path.suffix.lower() == ".gz" else file
            reader = pa_csv.open_csv(
                unpacked,
                pa_csv.ReadOptions(block_size=_BLOCK_BYTES),
                pa_csv.ParseOptions(delimiter=separator),
                pa_csv.ConvertOptions(
                    include_columns=names,
                    column_types=dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string())),
                    strings_can_be_null=True,
                ),
            )
        try:
            for batch in reader:
                batches.append(batch)
                progress(file.tell() - read_bytes)
                read_bytes = file.tell()
        except UNREADABLE as error:
            raise no_table(path, error) from None
    if not batches:
        raise InputError(f"{path} must hold counts", "no row", "give a file with counts")
    return pa.Table.from_batches(batches).select(names)
