"""Cells as whole counts: an empty one is "not counted" and never 0, decimals are as declared."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_app.exceptions import InputError
from stream_app.starting.connect.archive_file import ArchiveTable
from stream_app.starting.counts.step_counts import NOT_COUNTED
from stream_app.starting.counts.tables import EMPTY_CELLS, text_column
from stream_app.wire import MAX_COUNT


def whole_counts(
    table: ArchiveTable, name: str, decimals: Literal["refuse", "round"]
) -> tuple[NDArray[np.int64], int]:
    """The count of each row, :data:`NOT_COUNTED` where a cell is empty, and how many were rounded."""
    coded = table.coded(name)
    text: Any = pc.utf8_trim_whitespace(text_column(coded.values, name))
    text = pc.if_else(pc.is_in(text, value_set=pa.array(EMPTY_CELLS)), None, text)
    form = r"^[0-9]{1,13}(\.0+)?$" if decimals == "refuse" else r"^[0-9]{1,13}(\.[0-9]{1,20})?$"
    good = np.asarray(pc.fill_null(pc.match_substring_regex(text, form), True), dtype=bool)
    if not good.all():
        row = np.flatnonzero((coded.at >= 0) & ~good[coded.at])
        has_decimals = bool(pc.any(pc.match_substring_regex(text, r"^[0-9]+\.[0-9]+$")).as_py())
        raise InputError(
            f"column {name!r} of {table.path} must hold whole counts of 0 or more, or nothing where nobody "
            "counted",
            f"something else in {row.size:,} rows, the first is row {int(row[0]) + 1}",
            'set decimals = "round" and largest_factor in [connect.files] if they were scaled'
            if has_decimals and decimals == "refuse"
            else "correct the file or the mapping",
        )
    exact = np.asarray(pc.fill_null(pc.cast(text, pa.float64()), NOT_COUNTED), dtype=np.float64)
    values = np.floor(exact + 0.5).astype(np.int64)
    if values.size and values.max() > MAX_COUNT:
        raise InputError(f"column {name!r} must hold counts up to {MAX_COUNT}", "a larger one", "correct it")
    none = coded.at < 0
    values, rounded = np.append(values, NOT_COUNTED), np.append(values != exact, False)
    at = np.where(none, values.size - 1, coded.at)
    return values[at], int(rounded[at].sum())


def least_share(table: ArchiveTable, name: str, least: float) -> NDArray[np.bool_]:
    """Where a counter worked for at least this share of the interval; an empty cell is none."""
    coded = table.coded(name)
    try:
        cells: Any = pc.cast(coded.values.column(0), pa.float64())
        share = np.asarray(pc.fill_null(cells, 0.0), dtype=np.float64)
    except pa.ArrowException:
        share = np.array([np.nan])
    if not ((share >= 0) & (share <= 1)).all():
        raise InputError(
            f"column {name!r} of {table.path} must hold shares from 0 to 1",
            "something else",
            "correct it",
        )
    return np.append(share >= least, False)[np.where(coded.at < 0, share.size, coded.at)]
