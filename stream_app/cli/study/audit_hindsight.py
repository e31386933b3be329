"""Steps of a schedule in hindsight: what ``tallyguard audit --hindsight`` adds to its audits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from stream_app.cli.shared.output import progress, stdout
from stream_app.cli.study.audit_radius import heading, raised_in_words

if TYPE_CHECKING:
    from accounting.bounds import Effort
    from accounting.bounds.radius import Radius
    from accounting.exposure.crowd import CrowdAdversary
    from models.priors import Population
    from models.releases import Schedule
    from stream_app.watching.hindsight import Hindsight, PastHorizon


def past_horizon(text: str, planned: Schedule, mistakes: int) -> PastHorizon:
    """The steps that ``FIRST:LAST`` names, both included; a usage error where the schedule lacks them."""
    from stream_app.watching.hindsight import PastHorizon

    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)
    if found is None or not int(found[1]) <= int(found[2]) < len(planned.steps):
        last = len(planned.steps) - 1
        raise typer.BadParameter(f"--hindsight takes two steps of the schedule in order, within 0:{last}")
    first, last = int(found[1]), int(found[2])
    if mistakes > last - first:
        raise typer.BadParameter(
            f"--hindsight {text} has {last - first + 1} steps; lower --mistakes below that"
        )
    return PastHorizon(first, last, mistakes)


class InHindsight(NamedTuple):
    """One person's risk of past steps against the adversary asked for, and the informed one beside."""

    found: Hindsight
    informed: Hindsight | None = None

    def document(self) -> dict[str, Any]:
        """The field ``hindsight`` of an audit."""
        beside = self.informed
        if beside is None:
            return asdict(self.found)
        return {**asdict(self.found), "then_informed": beside.then, "now_informed": beside.now}


def people_in_hindsight(
    population: Population,
    planned: Schedule,
    past: PastHorizon,
    chosen: Sequence[int],
    effort: Effort,
    adversary: CrowdAdversary | None = None,
) -> list[InHindsight | None]:
    """Each chosen person's risk of these steps; None where it cannot be computed."""
    from accounting.audit import seen_among
    from stream_app.watching.hindsight import hindsight

    crowd = None if adversary is None else seen_among(population, planned, adversary)
    people: list[InHindsight | None] = []
    with progress() as bar:
        for person in bar.track(chosen, description="in hindsight"):
            log = population, person, planned.steps, planned.first_slot, past, effort
            informed = hindsight(*log)
            found = informed if crowd is None else hindsight(*log, crowd)
            if found is None:
                people.append(None)
            else:
                people.append(InHindsight(found, None if crowd is None else informed))
    return people


def print_hindsight(
    people: Sequence[str],
    found: Sequence[InHindsight | None],
    past: PastHorizon,
    radius: Radius | None,
) -> None:
    """A table for people, with the condition under which it holds."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from stream_app.watching.hindsight import SHARED_NOISE
    from stream_app.watching.wording import ceiling_in_words, confidence_in_words, in_a_hundred

    console = stdout()
    right = past.last - past.first + 1 - past.mistakes
    steps = past.last - past.first + 1
    console.print(
        f"Steps {past.first} to {past.last} in hindsight: chance of telling at least {right} of {steps}",
        soft_wrap=True,
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("Person", overflow="fold", min_width=len("Person"))
    is_in_crowd = any(each is not None and each.informed is not None for each in found)
    known = ("Then, if they are known", "Now, if they are known") if is_in_crowd else ()
    for name in ("Guess", "Ceiling then", "Ceiling now"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in known:
        table.add_column(name, justify="right", min_width=len("100 in 100"))
    if radius is not None:
        table.add_column(f"Now, {heading(radius).lower()}", justify="right")
    for person, each in zip(people, found, strict=True):
        if each is not None:
            risk, beside = each
            within = () if radius is None else (raised_in_words(radius, risk.now),)
            informed = () if beside is None else (beside.then, beside.now)
            ceilings = map(ceiling_in_words, (risk.then, risk.now, *informed))
            table.add_row(person, in_a_hundred(risk.baseline), *ceilings, *within)
    if table.row_count:
        console.print(table)
        confidence = min(each.found.confidence for each in found if each is not None)
        others = ", and in the crowd under its condition above" if is_in_crowd else ""
        drawn = (
            ""
            if confidence == 1.0
            else f" Ceilings from draws: with {confidence_in_words(confidence)} confidence each."
        )
        console.print(
            f"Ceiling then: given what was released up to step {past.last}; now: given the whole schedule. "
            f"Both hold if habits are as the prior says{others}.{drawn}",
            soft_wrap=True,
        )
    if None in found:
        console.print(f"In hindsight: {SHARED_NOISE}.", soft_wrap=True)
