"""``tallyguard audit``: every bound and attack for people under a schedule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accounting.settings import MISTAKES
from stream_app.cli.shared.adversary import (
    INFORMED,
    AdversaryOption,
    AloneOption,
    CompanionsOption,
    KnownOption,
    crowd_adversary,
    crowd_document,
    refuse_beside_crowd,
)
from stream_app.cli.shared.options import CovarianceOption, JsonOption, PriorsArgument, given_designs
from stream_app.cli.shared.output import print_json, progress, stdout
from stream_app.cli.study.audit_hindsight import (
    InHindsight,
    past_horizon,
    people_in_hindsight,
    print_hindsight,
)
from stream_app.cli.study.audit_posterior import (
    given_evidence,
    posterior_document,
    posterior_of_people,
    print_posterior,
)
from stream_app.cli.study.audit_radius import (
    add_to_audit,
    add_to_hindsight,
    check_document,
    given_check,
    heading,
    radius_of,
    raised_in_words,
)
from stream_app.cli.study.audit_why import as_document, explain_people, print_explanation

if TYPE_CHECKING:
    from accounting.audit import AttackSettings, Audit, Explanation, PosteriorCeiling
    from accounting.bounds import Effort
    from accounting.bounds.radius import Radius
    from accounting.exposure.crowd import CrowdAdversary
    from models.priors import Population
    from models.releases import Schedule

_ATTACK_DRAWS = 10_000


def audit(
    priors: PriorsArgument,
    schedule: Annotated[
        Path,
        typer.Option(help="What is released when (JSON); its length is the horizon.", show_default=False),
    ],
    mistakes: Annotated[int, typer.Option(help="Steps the adversary may get wrong (s).")] = MISTAKES,
    person: Annotated[
        list[str] | None,
        typer.Option(metavar="<str>", help="Only this person; may be repeated.", show_default=False),
    ] = None,
    sensors: Annotated[
        Path | None,
        typer.Option(help="Sensors (JSON or CSV); otherwise one per location.", show_default=False),
    ] = None,
    order: Annotated[int, typer.Option(help="Order of the moment bound: higher is sharper and slower.")] = 4,
    effort: Annotated[
        int, typer.Option(help="Most hit patterns and kept sets to enumerate; more is sharper and slower.")
    ] = 4096,
    draws: Annotated[
        int,
        typer.Option(help="Trajectories drawn to bound and to attack; 0 draws 10000 for attacks only."),
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    confidence: Annotated[float, typer.Option(help="Confidence of bounds by sampling.")] = 0.95,
    attacks: Annotated[
        bool, typer.Option(help="Try the attacks too, as by default.", show_default=False)
    ] = True,
    why: Annotated[
        bool, typer.Option("--why", help="Say which release did it; takes one more audit for each release.")
    ] = False,
    hindsight: Annotated[
        str | None,
        typer.Option(
            metavar="<first:last>",
            help="Risk of these steps when the last was released, and given the whole schedule.",
            show_default=False,
        ),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(
            metavar="<nats>",
            min=0.0,
            help="Also the ceiling for people this far from their prior, over the whole schedule.",
            show_default=False,
        ),
    ] = None,
    posterior: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Draw so many chains that the data could have given: how sure the ceiling is.",
            show_default=False,
        ),
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(help="For --posterior: what priors fit --evidence wrote.", show_default=False),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            help="What `priors check --json` said: if the priors are too low, the radius is what it leaves.",
            show_default=False,
        ),
    ] = None,
    adversary: AdversaryOption = None,
    known: KnownOption = 0,
    companions: CompanionsOption = 0,
    alone: AloneOption = 1.0,
    covariance: CovarianceOption = None,
    json: JsonOption = False,
) -> None:
    """Bound what a schedule gives away about each person.

    Prints the ceiling for any adversary, if habits are as the prior says, the best guess without releases,
    and what the paper's attacks achieve. With --json a list with one object per person.

    \b
    Examples:
      tallyguard audit priors.json --schedule schedule.json
      tallyguard audit priors.json --schedule schedule.json --person p1 --why
      tallyguard audit priors.json --schedule schedule.json --hindsight 0:4
      tallyguard audit priors.json --schedule schedule.json --radius 0.1
      tallyguard audit priors.json --schedule schedule.json --adversary crowd --known 10
      tallyguard audit priors.json --schedule schedule.json --posterior 50 --evidence evidence.parquet
      tallyguard audit priors.json --schedule schedule.json --check check.json --evidence evidence.parquet
      tallyguard audit priors.parquet --schedule schedule.json --mistakes 2 --person p1 --json
    """
    from accounting.audit import AttackSettings
    from accounting.bounds import Effort
    from models.prior_files import load_population
    from stream_app.setup.schedule_files import load_schedule
    from stream_app.setup.sensor_files import load_registry
    from stream_app.watching.prior_notes import basis_note

    crowd = crowd_adversary(adversary, known, companions, alone)
    refuse_beside_crowd(crowd, why=why, radius=radius, posterior=posterior, check=check)
    designs = given_designs(covariance)
    population = load_population(priors)
    registry = load_registry(sensors, population.location_names).with_designs(designs)
    registry.refuse_windows("an audit", "certify them with tg.certify_windows (docs/how-to/passages.md)")
    planned = load_schedule(schedule, registry)
    chosen = _positions(population, person or [])
    said = given_check(check, population)
    drawn_chains = given_evidence(posterior, evidence, said)
    within = radius_of(radius, len(planned.steps), said)
    past = None if hindsight is None else past_horizon(hindsight, planned, mistakes)
    limits = Effort(order=order, patterns=effort, draws=draws, seed=seed, confidence=confidence)
    trials = AttackSettings(draws=draws or _ATTACK_DRAWS, seed=seed) if attacks else None
    audits = _audit(population, planned, mistakes, chosen, (limits, trials), crowd)
    explanations = explain_people(population, planned, mistakes, chosen, limits) if why else []
    drawn = Effort(draws=draws, seed=seed, confidence=confidence)  # else as report and page compute it
    later = [] if past is None else people_in_hindsight(population, planned, past, chosen, drawn, crowd)
    sure = posterior_of_people(population, planned, mistakes, chosen, drawn_chains, limits)
    if json:
        documents = _documents(audits, explanations, later, within, sure)
        beside = {} if said is None else check_document(said)
        beside |= {} if crowd is None else crowd_document(crowd, len(population) - 1)
        named = set() if adversary is not None else {"adversary", "certified_informed"}
        print_json([{**_without(each, named), **beside} for each in documents])
        return
    _print_table(audits, within)
    _print_crowd(crowd, len(population) - 1)
    if (note := basis_note(len(population), population.assumed, said)) is not None:
        stdout().print(f"Note: {note}.", soft_wrap=True)
    for each, explanation in zip(audits, explanations, strict=False):  # without --why there are none
        print_explanation(each.person, explanation, within)
    if past is not None:
        print_hindsight([each.person for each in audits], later, past, within)
    print_posterior(audits, sure)


def _documents(
    audits: list[Audit],
    explanations: list[Explanation],
    later: list[InHindsight | None],
    radius: Radius | None,
    sure: list[PosteriorCeiling],
) -> list[dict[str, Any]]:
    """One object a person, with what other options add to it where they were asked for."""
    documents: list[dict[str, Any]] = [each.model_dump(mode="json") for each in audits]
    for document, explanation in zip(documents, explanations, strict=False):
        document["why"] = as_document(explanation, radius)
    for document, found in zip(documents, later, strict=False):
        document["hindsight"] = None if found is None else found.document()
        if found is not None and radius is not None:
            add_to_hindsight(document["hindsight"], found.found, radius)
    if radius is not None:
        for document, each in zip(documents, audits, strict=True):
            add_to_audit(document, each, radius)
    for document, posterior in zip(documents, sure, strict=False):
        document["posterior"] = posterior_document(posterior)
    return documents


def _without(document: dict[str, Any], left_out: set[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in left_out}


def _positions(population: Population, people: list[str]) -> list[int]:
    """Positions of the people asked for; everybody if none was."""
    return [population.position(person) for person in people] or list(range(len(population)))


def _audit(
    population: Population,
    planned: Schedule,
    mistakes: int,
    chosen: list[int],
    work: tuple[Effort, AttackSettings | None],
    adversary: CrowdAdversary | None,
) -> list[Audit]:
    from accounting.audit import audit_population

    with progress() as bar:
        task = bar.add_task("auditing", total=len(chosen))
        return list(
            audit_population(
                population,
                planned,
                mistakes,
                people=chosen,
                effort=work[0],
                attacks=work[1],
                adversary=adversary,
                progress=lambda done: bar.update(task, completed=done),
            )
        )


def _print_table(audits: list[Audit], radius: Radius | None) -> None:
    if not audits:
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    right = audits[0].steps - audits[0].mistakes
    console = stdout()
    console.print(f"Chance of telling where a person was in at least {right} of {audits[0].steps} steps:")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("Person", overflow="fold", min_width=len("Person"))
    in_crowd = audits[0].adversary != INFORMED
    # Not more than one fits in 80 columns.
    last = "Informed" if in_crowd else "Paper's" if radius is None else heading(radius)
    for name in ("Guess", "Best attack", "Ceiling", last):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("By", no_wrap=True)
    for each in audits:
        table.add_row(each.person, *_chances(each, radius), each.certified_by)
    console.print(table)
    console.print(
        "Guess: the best guess without any release, exact. Ceiling, and by which bound: if habits are as "
        "the prior says, no method does better."
        + (" Paper's: the ceiling of the paper's own bound." if last == "Paper's" else "")
        + (" Informed: the ceiling against whoever knows where everybody else is." if in_crowd else ""),
        soft_wrap=True,
    )
    if radius is not None:
        from stream_app.watching.prior_notes import radius_note

        console.print(f"{heading(radius)}: {radius_note(radius)}.", soft_wrap=True)


def _print_crowd(adversary: CrowdAdversary | None, others: int) -> None:
    """The condition of the ceilings."""
    if adversary is not None:
        from stream_app.watching.prior_notes import crowd_note

        stdout().print(f"In the crowd: {crowd_note(adversary, others)}.", soft_wrap=True)


def _chances(audit: Audit, radius: Radius | None) -> tuple[str, str, str, str]:
    """Guess, best attack, ceiling, and the informed one, the paper's or that within the radius, in words."""
    from stream_app.watching.wording import ceiling_in_words, in_a_hundred

    tried = (attack for attack in (audit.attacks or {}).values() if attack is not None)
    best = max((attack.success for attack in tried), default=None)
    paper = audit.bounds.tight if audit.adversary == INFORMED else audit.certified_informed
    return (
        in_a_hundred(audit.baseline),
        "not tried" if best is None else in_a_hundred(best),
        ceiling_in_words(audit.certified),
        ceiling_in_words(paper) if radius is None else raised_in_words(radius, audit.certified),
    )
