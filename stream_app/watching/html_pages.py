"""HTML of Jinja2 templates, for the report and the plain page: every text is escaped.

Templates are package data beside the code that fills them; macros and rules that both pages use are in
``stream_app/watching/templates``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from models.text import number_of
from stream_app.watching.view import QUESTION_COLUMNS, SEVERAL_QUESTIONS
from stream_app.watching.wording import (
    ATTACK,
    DISTANCE,
    LEVELS,
    ceiling_in_words,
    in_a_hundred,
    level_rows,
    not_reached_in_words,
    sentence_case,
)


class Part(NamedTuple):
    """A section of a page: paragraphs, then facts, a table by its headings and rows, and notes below it."""

    heading: str
    paragraphs: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()


_LONGEST_FIGURE = 28  # characters; a column with more holds sentences


def templates_of(package: str) -> Environment:
    """The templates in a package's folder ``templates``; a name that is not there is an error.

    Numbers are said by the filters: ``ceiling`` rounds up, ``chance`` to the nearest.
    """
    loader = ChoiceLoader([PackageLoader(package), PackageLoader("stream_app.watching")])
    found = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= {
        "ceiling": ceiling_in_words,
        "chance": in_a_hundred,
        "count": lambda number: f"{number:,}",
        "number_of": number_of,
        "not_reached": not_reached_in_words,
        "sentence_case": sentence_case,
    }
    found.globals |= {
        "ATTACK": ATTACK,
        "DISTANCE": DISTANCE,
        "LEVELS": LEVELS,
        "QUESTION_COLUMNS": QUESTION_COLUMNS,
        "SEVERAL_QUESTIONS": SEVERAL_QUESTIONS,
        "holds_sentences": _holds_sentences,
        "level_rows": level_rows,
    }
    return found


def rendered(templates: Environment, name: str, **given: Any) -> str:
    """A page. A sentence that is broken in its template stands on one line, so that one can search for it."""
    page = templates.get_template(name).render(**given)
    return re.sub(r"(?<![>\n])\n(?![<\n])", " ", page)


def _holds_sentences(rows: Sequence[Sequence[str]], columns: int) -> list[bool]:
    """Which columns of a table stand left and may break words; figures stand right."""
    return [any(len(row[k]) > _LONGEST_FIGURE for row in rows) for k in range(columns)]
