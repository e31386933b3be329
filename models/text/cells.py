"""Texts in cells of CSV files, which people open in spreadsheets: a name must not become a formula.

A spreadsheet works out a cell that begins with ``=``, ``+``, ``-`` or ``@`` (or a tab, or a carriage return
before one): ``=HYPERLINK(...)`` as a sensor's name would send what the sheet holds to whoever named it. An
apostrophe before it makes it a text.
"""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def safe_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula; unchanged where it would not."""
    return f"'{text}" if _FORMULA.match(text) else text


def cell_text(cell: str) -> str:
    """The text that :func:`safe_cell` made a cell of."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
