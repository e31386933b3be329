"""How the answer moves under named alternatives of the habits: a table to sign."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_app.analysis.alternatives import EXPLAINED, Answer
from stream_app.analysis.report.html import paragraph, table


def if_habits_are_otherwise(found: Sequence[Answer]) -> Iterable[str]:
    """The priors at hand and each alternative, a row each; then who has taken note of it."""
    yield paragraph(EXPLAINED)
    head = (
        *("Habits", "Guess", "Ceiling", "Highest ceiling", "Most added", "People over the limit"),
        "Rule kept",
    )
    yield table(head, (each.in_words() for each in found))
    for each in found:
        yield paragraph(f"{each.name}: ceilings hold {each.rests_on}.")
    yield table(("", ""), [("Taken note of by", ""), ("Date", ""), ("Signature", "")])
