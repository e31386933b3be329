"""How the answer moves if habits are otherwise, a table to sign, or if nobody knows where the others are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from accounting.continuous import RiskSummary
from stream_app.analysis.alternatives import EXPLAINED, VariedRisks
from stream_app.analysis.crowd import PlannedCrowd
from stream_app.analysis.report.html import paragraph, table
from stream_app.watching.narrow_tables import headings
from stream_app.watching.wording import DOWN, ceiling_in_words, in_a_hundred, shortened

_DARKEST = 5.0  # sigma from which a cell is no darker


def if_habits_are_otherwise(found: Sequence[VariedRisks]) -> Iterable[str]:
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


def among_the_others(found: PlannedCrowd) -> Iterable[str]:
    """Both ceilings over the run, under which condition, and where raw counts hide people."""
    yield paragraph(
        "All other ceilings of this report hold against somebody who knows where everybody else is. In the "
        f"crowd: {found.condition}."
    )
    worst = max(range(len(found.steps)), key=lambda index: found.steps[index].mean_added)
    rows = [
        (name, in_a_hundred(own.mean_baseline), *map(ceiling_in_words, (own.mean_risk, other.mean_risk)))
        for name, own, other in (
            (f"after step {found.steps[worst].step}, where the most was added", *_both(found, worst)),
            (f"after step {found.steps[-1].step}, the last", *_both(found, -1)),
        )
    ]
    head = ("Mean over all people", "Guess", "Ceiling in the crowd", "Ceiling if others' places are known")
    yield table(head, rows)
    yield paragraph(
        "What the crowd hides of a raw count, by sensor and slot of the priors' cycle (hours of the day if "
        "it has 24): as if noised with so many people of Gaussian noise, at the worst step; 0: it hides "
        "nobody; empty: not counted then."
    )
    yield _heat_map(found)


def _both(found: PlannedCrowd, index: int) -> tuple[RiskSummary, RiskSummary]:
    return found.steps[index], found.informed[index]


def _heat_map(found: PlannedCrowd) -> str:
    slots = sorted({each.slot for each in found.hidden})
    sigma = {(each.sensor, each.slot): each.sigma for each in found.hidden}
    head = "".join(f'<th scope="col">{slot}</th>' for slot in slots)
    rows = "".join(
        f'<tr><th scope="row">{escape(sensor)}</th>'
        f"{''.join(_cell(sigma.get((sensor, slot))) for slot in slots)}</tr>"
        for sensor in dict.fromkeys(each.sensor for each in found.hidden)
    )
    return (
        '<div class="scroll" tabindex="0"><table class="dense"'
        f"{headings(('Sensor', *map(str, slots)))}"
        '><thead><tr><th scope="col">Sensor</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(sigma: float | None) -> str:
    if sigma is None:
        return "<td></td>"
    shade = min(1.0, sigma / _DARKEST) * 0.45
    return f'<td style="background: rgba(40, 120, 60, {shade:.2f})">{shortened(sigma, 1, DOWN)}</td>'
