"""Tables that fit a phone: where a screen is too narrow each cell stands on a line beside its heading.

The headings are variables of the table's style, so that a cell is nothing but its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_MOST_COLUMNS = 40


def headings(head: Sequence[str], texts: Sequence[bool] = ()) -> str:
    """The style attribute of a table with this heading; columns of ``texts`` stand left and break words."""
    parts = [f"--h{number}:{_css_text(text)}" for number, text in enumerate(head, 1)]
    parts += [f"--a{number}:left;--w{number}:anywhere" for number, is_text in enumerate(texts, 1) if is_text]
    return f' style="{escape(";".join(parts))}"'


def narrow_style(line: str) -> str:
    """The rules for a style sheet; ``line`` is the colour between rows."""
    columns = range(1, _MOST_COLUMNS + 1)
    rules = [f"tr > :nth-child({k}) {{ text-align: var(--a{k}, right); }}" for k in columns[1:]]
    rules += [f"td:nth-child({k}) {{ overflow-wrap: var(--w{k}, normal); }}" for k in columns]
    named = [f"td:nth-child({k})::before {{ content: var(--h{k}); }}" for k in columns]
    rules += [
        "@media screen and (max-width: 44rem) { thead { display: none; }",
        "table, tbody, tr, td, .facts th { display: block; text-align: left; overflow-wrap: anywhere; }",
        f"tr {{ border-bottom: 1px solid {line}; padding: .3rem 0; }}",
        "th, td { border: 0; padding: .1rem 0; }",
        "table:not(.facts) td { display: flex; justify-content: space-between; gap: 1rem; }",
        "table:not(.facts) td { text-align: right; overflow-wrap: anywhere; }",
        *named,
        "table:not(.facts) td::before { opacity: .75; text-align: left; flex: none; max-width: 60%; }",
        "table:not(.facts) td::before { overflow-wrap: normal; } }",
    ]
    return "\n".join([*rules, ""])


def _css_text(text: str) -> str:
    """Text as a style sheet quotes it."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{quoted}"'
