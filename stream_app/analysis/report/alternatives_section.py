"""How the answer moves under named alternatives of the habits: a table to sign."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_app.analysis.alternatives import EXPLAINED, Answer
from stream_app.analysis.report.html import paragraph, table
from stream_app.watching.wording import in_a_hundred


def if_habits_are_otherwise(found: Sequence[Answer]) -> Iterable[str]:
    """The priors at hand and each alternative, a row each; then who has taken note of it."""
    yield paragraph(EXPLAINED)
    head = (
        *("Habits", "Guess", "Ceiling", "Highest ceiling", "Most added", "People over the limit"),
        "Rule kept",
    )
    yield table(head, map(alternative_row, found))
    for each in found:
        yield paragraph(f"{each.name}: ceilings hold {each.rests_on}.")
    yield table(("", ""), [("Taken note of by", ""), ("Date", ""), ("Signature", "")])


def alternative_row(answer: Answer) -> tuple[str, ...]:
    """One alternative in words, as terminal and report show it."""
    chances = (answer.mean_guess, answer.mean_ceiling, answer.highest_ceiling)
    over = "–" if answer.over is None else f"{answer.over:,.0f} of {answer.people:,.0f}"
    kept = {True: "yes", False: "no", None: "not shown"}[answer.keeps_rule]
    added = "not known" if answer.most_added is None else in_a_hundred(answer.most_added)
    return answer.name, *map(in_a_hundred, chances), added, over, kept
