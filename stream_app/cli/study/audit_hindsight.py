"""Steps of a schedule in hindsight: what ``tallyguard audit --hindsight`` adds to its audits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from stream_app.cli.shared.output import progress, stdout
from stream_app.cli.study.audit_radius import heading, raised_in_words

if TYPE_CHECKING:
    from accounting.bounds import Effort
    from accounting.bounds.radius import Radius
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


def people_in_hindsight(
    population: Population, planned: Schedule, past: PastHorizon, chosen: Sequence[int], effort: Effort
) -> list[Hindsight | None]:
    """Each chosen person's risk of these steps; None where it cannot be computed."""
    from stream_app.watching.hindsight import hindsight

    with progress() as bar:
        return [
            hindsight(population, person, planned.steps, planned.first_slot, past, effort)
            for person in bar.track(chosen, description="in hindsight")
        ]


def print_hindsight(
    people: Sequence[str],
    found: Sequence[Hindsight | None],
    past: PastHorizon,
    radius: Radius | None,
) -> None:
    """A table for people, with the condition under which it holds."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from stream_app.watching.hindsight import SHARED_NOISE
    from stream_app.watching.wording import in_a_hundred

    console = stdout()
    right = past.last - past.first + 1 - past.mistakes
    steps = past.last - past.first + 1
    console.print(
        f"Steps {past.first} to {past.last} in hindsight: chance of telling at least {right} of {steps}",
        soft_wrap=True,
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("Person", overflow="fold", min_width=len("Person"))
    for name in ("Guess", "Ceiling then", "Ceiling now"):
        table.add_column(name, justify="right", no_wrap=True)
    if radius is not None:
        table.add_column(f"Now, {heading(radius).lower()}", justify="right")
    for person, each in zip(people, found, strict=True):
        if each is not None:
            within = () if radius is None else (raised_in_words(radius, each.now),)
            table.add_row(person, *map(in_a_hundred, (each.baseline, each.then, each.now)), *within)
    if table.row_count:
        console.print(table)
        confidence = min(each.confidence for each in found if each is not None)
        drawn = "" if confidence == 1.0 else f" Ceilings from draws: with {confidence:.0%} confidence each."
        console.print(
            f"Ceiling then: given what was released up to step {past.last}; now: given the whole schedule. "
            f"Both hold if habits are as the prior says.{drawn}",
            soft_wrap=True,
        )
    if None in found:
        console.print(f"In hindsight: {SHARED_NOISE}.", soft_wrap=True)
