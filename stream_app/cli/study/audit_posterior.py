"""How sure a ceiling is for priors from few data: what ``tallyguard audit --posterior`` adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from stream_app.cli.shared.output import progress, stdout

if TYPE_CHECKING:
    from accounting.audit import Audit, PosteriorCeiling
    from accounting.bounds import Effort
    from models.priors import Evidence, Population
    from models.releases import Schedule
    from stream_app.setup.priors_verdict import PriorsVerdict


class PosteriorDraws(NamedTuple):
    """How many chains are drawn for each person, and from what."""

    draws: int
    evidence: Evidence


DRAWS = 50
"""For priors that were refuted as too low, where nobody says how many."""


def given_evidence(
    draws: int | None, evidence: Path | None, check: PriorsVerdict | None = None
) -> PosteriorDraws | None:
    """What ``--posterior`` and ``--evidence`` ask for together; a usage error for one without the other.

    Of priors that were refuted as too low the evidence alone asks for it.
    """
    if draws is None and evidence is not None and check is not None and check.is_too_low:
        draws = DRAWS
    if draws is None and evidence is None:
        return None
    if draws is None or evidence is None:
        raise typer.BadParameter(
            "--posterior and --evidence belong together: the file is from priors fit --evidence"
        )
    from models.prior_files import load_evidence

    return PosteriorDraws(draws, load_evidence(evidence))


def posterior_of_people(
    population: Population,
    planned: Schedule,
    mistakes: int,
    chosen: Sequence[int],
    posterior: PosteriorDraws | None,
    effort: Effort,
) -> list[PosteriorCeiling]:
    """Each chosen person's ceilings over the draws; none where they were not asked for."""
    if posterior is None:
        return []
    from accounting.audit import posterior_ceiling

    with progress() as bar:
        return [
            posterior_ceiling(
                population,
                person,
                planned,
                mistakes,
                posterior.evidence,
                draws=posterior.draws,
                effort=effort,
            )
            for person in bar.track(chosen, description="drawing chains")
        ]


def posterior_document(found: PosteriorCeiling) -> dict[str, Any]:
    """The field ``posterior`` of an audit: the figures and their condition."""
    from stream_app.watching.prior_notes import posterior_note

    return {**asdict(found), "condition": posterior_note()}


def print_posterior(audits: Sequence[Audit], found: Sequence[PosteriorCeiling]) -> None:
    """A table for people, with what the figures are and are not."""
    if not found:
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from stream_app.watching.prior_notes import posterior_note
    from stream_app.watching.wording import ceiling_in_words, in_interval

    console = stdout()
    console.print(f"How sure the ceilings are: {found[0].draws:,} chains a person that the data could give")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("Person", overflow="fold", min_width=len("Person"))
    for name in ("Ceiling", "Mean ceiling", "Credible, 90 %"):
        table.add_column(name, justify="right", no_wrap=True)
    for audit, each in zip(audits, found, strict=True):
        mean = in_interval(each.mean, each.mean_low, each.mean_high)
        table.add_row(audit.person, ceiling_in_words(audit.certified), mean, ceiling_in_words(each.credible))
    console.print(table)
    console.print(f"{posterior_note()}.", soft_wrap=True)
