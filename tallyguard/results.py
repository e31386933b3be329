"""Results as people read them: a table in the terminal and in a notebook, columns for data frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from stream_app.watching.wording import NEAREST, UP, shortened, significant

_NOTHING = 1e-8

MOST_ROWS = 20
"""Rows shown before the rest is counted."""


class Table(ABC):
    """What a result shows of itself: a caption, columns of text, and all its numbers by name.

    Data frames take it as it is (``polars.DataFrame(result)``), or by ``result.table()``, a
    :class:`pyarrow.Table` (``result.table().to_pandas()``).
    """

    @abstractmethod
    def caption(self) -> str:
        """What the table says, with its condition."""

    @abstractmethod
    def shown(self) -> Mapping[str, Sequence[str]]:
        """The columns people look at, as text."""

    @abstractmethod
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """All columns, as numbers and names."""

    def table(self) -> pa.Table:
        """All columns as an Arrow table."""
        return pa.table(dict(self.columns()))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow table, for libraries that ask by Arrow's own protocol."""
        return self.table().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        """The caption and a table for the terminal."""
        rows, left = self._rows()
        header = list(self.shown())
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) if index == 0 else text.rjust(width)
                for index, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in [header, *rows]
        ]
        return "\n".join([self.caption(), "", *lines, *([left] if left else [])])

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        rows, left = self._rows()
        head = "".join(f"<th>{escape(name)}</th>" for name in self.shown())
        body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
        more = f"<p>{escape(left)}</p>" if left else ""
        return (
            f"<p>{escape(self.caption())}</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{more}"
        )

    def _rows(self) -> tuple[list[tuple[str, ...]], str]:
        """The rows that are shown, and a line about those that are not."""
        rows = list(zip(*self.shown().values(), strict=True))
        left = len(rows) - MOST_ROWS
        return rows[:MOST_ROWS], f"... and {left:,} more" if left > 0 else ""


def in_100(chance: float, to: str = NEAREST) -> str:
    """A chance, or a change of one, as people read it: one decimal, or two digits of what is smaller.

    What is nothing up to rounding (1e-8) has no sign. A ceiling is said by :func:`ceiling_in_100`.
    """
    part = 100.0 * chance
    if abs(part) >= 0.1 or (abs(chance) <= _NOTHING and to == NEAREST) or part == 0.0:
        return shortened(chance, 1, to, shift=2)
    return significant(chance, 2, to, shift=2)


def ceiling_in_100(chance: float) -> str:
    """What no method exceeds: rounded up."""
    return in_100(chance, UP)


def nats(amount: float) -> str:
    """A bound on information, in nats: three decimals, or two digits of what is smaller, rounded up."""
    return significant(amount, 2, UP) if 0.0 < amount < 0.001 else shortened(amount, 3, UP)


def said(note: str | None) -> str:
    """A note at the end of a caption; nothing where there is none."""
    return "" if note is None else f"; {note}"
