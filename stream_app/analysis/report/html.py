"""Pieces of a report in HTML; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

Rows = Iterable[Sequence[str]]


def section(title: str, *content: str) -> str:
    """A heading and what belongs to it."""
    return f"<section><h2>{escape(title)}</h2>{''.join(content)}</section>"


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{escape(text)}</p>"


def table(head: Sequence[str], rows: Rows) -> str:
    """A table that scrolls where it is too wide; without heading text its first column is the heading."""
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    start = f"<thead><tr>{cells}</tr></thead>" if any(head) else ""
    kind = "" if start else ' class="facts"'
    body = "".join(_row(row, not start) for row in rows)
    return f'<div class="scroll" tabindex="0"><table{kind}>{start}<tbody>{body}</tbody></table></div>'


def _row(row: Sequence[str], is_named: bool) -> str:
    first = escape(row[0])
    name = f'<th scope="row">{first}</th>' if is_named else f"<td>{first}</td>"
    return f"<tr>{name}{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
