"""Pieces of a report in HTML; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from stream_app.watching.narrow_tables import headings

_FIGURE = 28  # characters of a figure, or a moment, at most
Rows = Iterable[Sequence[str]]


def section(title: str, *content: str) -> str:
    """A heading and what belongs to it."""
    return f"<section><h2>{escape(title)}</h2>{''.join(content)}</section>"


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{escape(text)}</p>"


def table(head: Sequence[str], rows: Rows) -> str:
    """A table of which no column is cut off; without heading text its first column is the heading.

    A column with sentences stands left, one of figures right.
    """
    lines = [tuple(row) for row in rows]
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    start = f"<thead><tr>{cells}</tr></thead>" if any(head) else ""
    texts = [any(len(line[k]) > _FIGURE for line in lines) for k in range(len(head))]
    kind = headings(head, texts) if start else ' class="facts"'
    body = "".join(_row(line, not start) for line in lines)
    return f'<div class="scroll" tabindex="0"><table{kind}>{start}<tbody>{body}</tbody></table></div>'


def _row(row: Sequence[str], is_named: bool) -> str:
    first = escape(row[0])
    name = f'<th scope="row">{first}</th>' if is_named else f"<td>{first}</td>"
    return f"<tr>{name}{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
