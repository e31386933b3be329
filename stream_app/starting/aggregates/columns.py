"""Columns of tables that people bring along: found by their usual names, read as text or numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_app.exceptions import InputError
from stream_app.starting.counts.tables import columns_in_words, text_column


def usual(table: pa.Table, names: tuple[str, ...]) -> str | None:
    """The column of one of these names, None where there is none; capitals do not matter."""
    found = {name.strip().lower(): name for name in table.column_names}
    return next((found[name] for name in names if name in found), None)


def needed(path: Path, table: pa.Table, names: tuple[str, ...], what: str) -> str:
    """The same; :class:`InputError` where there is none."""
    found = usual(table, names)
    if found is None:
        raise InputError(
            f"{path} must have a column {what}: {', '.join(names)}",
            columns_in_words(table),
            "rename the column, or give the file it is in",
        )
    return found


def texts(path: Path, table: pa.Table, name: str) -> list[str]:
    """Every cell as text, empty where there is none."""
    try:
        return ["" if cell is None else str(cell).strip() for cell in text_column(table, name).to_pylist()]
    except UnicodeDecodeError:
        raise InputError(
            f"column {name!r} of {path} must be text", "other bytes", "save it as UTF-8"
        ) from None


def numbers(path: Path, table: pa.Table, name: str, otherwise: float | None = None) -> NDArray[np.float64]:
    """Every cell as a number, ``otherwise`` where it is empty; :class:`InputError` names the row."""
    found = np.empty(len(table))
    for row, cell in enumerate(texts(path, table, name)):
        try:
            is_empty = otherwise is not None and cell.lower() in ("", "nan", "na", "null")
            value = otherwise if is_empty else float(cell)
        except ValueError:
            value = None
        if value is None or not np.isfinite(value):
            raise InputError(
                f"column {name!r} of {path} must hold numbers",
                f"something else in row {row + 1}",
                "correct it",
            )
        found[row] = value
    return found
