"""``tallyguard audit``: every bound and attack for people under a schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from accounting.settings import MISTAKES
from stream_app.cli.adversary import (
    INFORMED,
    AdversaryOption,
    AloneOption,
    CompanionsOption,
    KnownOption,
    crowd_adversary,
    crowd_document,
    refuse_beside_crowd,
)
from stream_app.cli.shared import (
    CovarianceOption,
    JsonOption,
    PriorsArgument,
    given_designs,
    print_json,
    progress,
    stdout,
)

if TYPE_CHECKING:
    from accounting.audit import AttackSettings, Audit, Explanation, PosteriorCeiling, ReleaseShare
    from accounting.bounds import Effort
    from accounting.bounds.radius import Radius
    from accounting.exposure.crowd import CrowdAdversary
    from models.priors import Evidence, Population
    from models.releases import Schedule
    from stream_app.setup.priors_verdict import PriorsVerdict
    from stream_app.watching.hindsight import Hindsight, PastHorizon


# Ceilings within a radius of the prior: what ``tallyguard audit --radius`` or ``--check`` adds to each.


def given_check(path: Path | None, population: Population) -> PriorsVerdict | None:
    """The check of these priors; a sentence for a file that is none, or is one of others."""
    if path is None:
        return None
    from stream_app.setup.priors_verdict import load_priors_check

    found = load_priors_check(path)
    found.require(population)
    return found


def check_document(check: PriorsVerdict) -> dict[str, Any]:
    """The field ``priors_check`` of an audit: the verdict, and what it means for the figures beside it."""
    from stream_app.watching.prior_notes import check_note

    return {
        "priors_check": {
            "people": check.people,
            "verdict": check.verdict,
            "kappa_min": check.kappa_min,
            "condition": check_note(check),
        }
    }


def radius_of(nats: float | None, steps: int, check: PriorsVerdict | None = None) -> Radius | None:
    """What ``--radius NATS`` declares: over every step of the schedule, none of which may be left out.

    Where the priors were refuted as too low it is the least that their traces leave, unless a larger one is
    named; a smaller one is refused.
    """
    from accounting.bounds.radius import Radius

    least = 0.0 if check is None else check.within_nats
    if nats is None and least > 0.0:
        nats = least
    if nats is not None and not isfinite(nats):
        raise typer.BadParameter("--radius takes a number of nats, 0.1 say")
    if nats is not None and nats < least:
        from stream_app.watching.wording import UP, significant

        enough = significant(least, 4, UP)
        raise typer.BadParameter(f"--radius must be at least {enough}: the check refutes any smaller one")
    return None if nats is None else Radius(0, steps - 1, kl=nats)


def heading(radius: Radius) -> str:
    """What stands above a ceiling within the radius: its condition, in short."""
    from stream_app.watching.wording import DOWN, significant

    return f"Within {significant(radius.kl, 3, DOWN)} nats"


def raised_in_words(radius: Radius, ceiling: float) -> str:
    """The ceiling within the radius: "31 in 100"."""
    from stream_app.watching.wording import ceiling_in_words

    return ceiling_in_words(radius.ceiling(ceiling).value)


def add_to_audit(document: dict[str, Any], audit: Audit, radius: Radius) -> None:
    """``certified_radius``, and under which condition it holds."""
    from stream_app.watching.prior_notes import radius_note

    document["certified_radius"] = radius.ceiling(audit.certified).value
    document["radius"] = {
        "nats": radius.kl,
        "first_step": radius.first,
        "last_step": radius.last,
        "condition": radius_note(radius),
    }


def add_to_why(document: dict[str, Any], explanation: Explanation, radius: Radius) -> None:
    """``certified_radius`` of each release: the ceiling within the radius without it."""
    for release, share in zip(document["releases"], explanation.shares, strict=True):
        release["certified_radius"] = radius.ceiling(explanation.without(share)).value


def add_to_hindsight(document: dict[str, Any], found: Hindsight, radius: Radius) -> None:
    """``then_radius`` and ``now_radius``."""
    document["then_radius"] = radius.ceiling(found.then).value
    document["now_radius"] = radius.ceiling(found.now).value


# Steps of a schedule in hindsight: what ``tallyguard audit --hindsight`` adds to its audits.


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


# Which release did it: the explanations that ``tallyguard audit --why`` adds to its audits.


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


# How sure a ceiling is for priors from few data: what ``tallyguard audit --posterior`` adds.


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


_ATTACK_DRAWS = 10_000


def audit(
    priors: PriorsArgument,
    schedule: Annotated[
        Path,
        typer.Option(help="What is released when (JSON); its length is the horizon."),
    ],
    mistakes: Annotated[int, typer.Option(help="Steps the adversary may get wrong (s).")] = MISTAKES,
    person: Annotated[
        list[str] | None,
        typer.Option(metavar="<str>", help="Only this person; may be repeated."),
    ] = None,
    sensors: Annotated[
        Path | None,
        typer.Option(help="Sensors (JSON or CSV); otherwise one per location."),
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
        ),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(
            metavar="<nats>",
            min=0.0,
            help="Also the ceiling for people this far from their prior, over the whole schedule.",
        ),
    ] = None,
    posterior: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Draw so many chains that the data could have given: how sure the ceiling is.",
        ),
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(help="For --posterior: what priors fit --evidence wrote."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            help="What `priors check --json` said: if the priors are too low, the radius is what it leaves.",
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
