"""Which release did it: the explanations that ``tallyguard audit --why`` adds to its audits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from stream_app.cli.shared.output import progress, stdout
from stream_app.cli.study.audit_radius import add_to_why, heading, raised_in_words

if TYPE_CHECKING:
    from accounting.audit import Explanation, ReleaseShare
    from accounting.bounds import Effort
    from accounting.bounds.radius import Radius
    from models.priors import Population
    from models.releases import Schedule


def explain_people(
    population: Population, planned: Schedule, mistakes: int, chosen: Sequence[int], effort: Effort
) -> list[Explanation]:
    """Each chosen person's audit taken apart, with the seeds the audits themselves had."""
    from accounting.audit import explain
    from accounting.exposure import Exposure

    explanations = []
    with progress() as bar:
        for person in bar.track(chosen, description="explaining"):
            exposure = Exposure.of(
                population.chain(person), planned, population.location_count, population.initial(person)
            )
            own = replace(effort, seed=effort.seed + person)
            explanations.append(explain(exposure, planned.steps, mistakes, effort=own))
    return explanations


def as_document(explanation: Explanation, radius: Radius | None) -> dict[str, Any]:
    """The field ``why`` of an audit: the total and every release that concerns the person."""
    document = {
        "information_nats": explanation.information_nats,
        "releases": [asdict(share) for share in explanation.shares],
    }
    if radius is not None:
        add_to_why(document, explanation, radius)
    return document


def print_explanation(person: str, explanation: Explanation, radius: Radius | None) -> None:
    """A table for people: the releases that revealed most about the person come first."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    console = stdout()
    if not explanation.shares:
        console.print(f"{person}: no release concerns this person.")
        return
    console.print(f"{person}: what each release revealed, and the ceiling without it")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("Step", "Sensor", "Released"):
        table.add_column(name, no_wrap=name != "Sensor")
    for name in ("Bits", "Share", "Ceiling without it"):
        table.add_column(name, justify="right", no_wrap=True)
    if radius is not None:
        table.add_column(heading(radius), justify="right")
    for share in explanation.shares:
        figures = _figures(explanation, share)
        within = () if radius is None else (raised_in_words(radius, explanation.without(share)),)
        table.add_row(str(share.step), share.sensor, share.mechanism, *figures, *within)
    console.print(table)


def _figures(explanation: Explanation, share: ReleaseShare) -> tuple[str, str, str]:
    """Bits, share of everything revealed and the ceiling without the release, in words."""
    from stream_app.watching.people import NATS_PER_BIT
    from stream_app.watching.wording import ceiling_in_words

    revealed = share.information_nats
    part = revealed / explanation.information_nats if explanation.information_nats > 0.0 else 0.0
    return (
        f"{revealed / NATS_PER_BIT:.3g}",
        f"{part:.0%}",
        ceiling_in_words(explanation.without(share)),
    )
