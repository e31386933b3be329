"""What ``tallyguard audit`` computes of people and says: loaded when the command runs, not for its help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import typer

from accounting.audit import (
    Audit,
    Explanation,
    PosteriorCeiling,
    ReleaseShare,
    audit_population,
    explain,
    posterior_ceiling,
    seen_among,
)
from accounting.bounds import Effort
from accounting.bounds.radius import Radius
from accounting.exposure import Exposure
from accounting.exposure.crowd import CrowdAdversary
from models.prior_files import load_evidence
from models.priors import PLACE, Evidence, Population
from models.priors import Question as AskedQuestion
from models.releases import Schedule, SensorRegistry, schedule_in_single_steps
from stream_app.analysis.crowd import crowd_document
from stream_app.cli import shared as cli
from stream_app.setup.exclusions import load_exclusions
from stream_app.setup.given_priors import clock_warning
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.setup.settings import Settings
from stream_app.watching.hindsight import SHARED_NOISE, Hindsight, PastHorizon, hindsight
from stream_app.watching.people import NATS_PER_BIT
from stream_app.watching.prior_notes import basis_note, check_note, places_note, posterior_note, radius_note
from stream_app.watching.wording import (
    DOWN,
    UP,
    ceiling_in_words,
    confidence_in_words,
    in_a_hundred,
    in_interval,
    significant,
)


class Study(NamedTuple):
    """Whom an audit is about, under what: the ``chosen`` people of a population, and the schedule."""

    population: Population
    planned: Schedule
    mistakes: int
    chosen: Sequence[int]

    def audits(self, asked: AskedQuestion, **how: Any) -> list[Audit]:
        """Every bound, and every attack where they are to be tried, for each chosen person."""
        with cli.progress() as bar:
            task = bar.add_task("auditing", total=len(self.chosen))
            how["progress"] = lambda done: bar.update(task, completed=done)
            return list(audit_population(*self[:3], people=self.chosen, asked=asked, **how))

    def explanations(self, effort: Effort) -> list[Explanation]:
        """Each chosen person's audit taken apart by release, with the seeds the audits themselves had."""

        def of(person: int) -> Explanation:
            chain, initial = self.population.chain(person), self.population.initial(person)
            exposure = Exposure.of(chain, self.planned, self.population.location_count, initial)
            own = replace(effort, seed=effort.seed + person)
            return explain(exposure, self.planned.steps, self.mistakes, effort=own)

        return [of(person) for person in cli.tracked(self.chosen, "explaining")]

    def in_hindsight(
        self, past: PastHorizon, effort: Effort, adversary: CrowdAdversary | None
    ) -> list[PersonInHindsight | None]:
        """Each chosen person's risk of these steps; None where it cannot be computed."""
        crowd = None if adversary is None else seen_among(self.population, self.planned, adversary)
        shown = schedule_in_single_steps(self.planned.steps)

        def of(person: int) -> PersonInHindsight | None:
            question = self.population, person, shown, self.planned.first_slot, past, effort
            informed = hindsight(*question, calendar=self.planned.calendar)
            if crowd is None:
                return None if informed is None else PersonInHindsight(informed)
            found = hindsight(*question, crowd, calendar=self.planned.calendar)
            return None if found is None else PersonInHindsight(found, informed)

        return [of(person) for person in cli.tracked(self.chosen, "in hindsight")]

    def posteriors(
        self, drawn: PosteriorDraws | None, effort: Effort, asked: AskedQuestion
    ) -> list[PosteriorCeiling]:
        """Each chosen person's ceilings over chains that the data could have given; none if not asked for."""
        if drawn is None:
            return []
        how: dict[str, Any] = {"draws": drawn.draws, "effort": effort, "asked": asked}
        return [
            posterior_ceiling(self.population, person, self.planned, self.mistakes, drawn.evidence, **how)
            for person in cli.tracked(self.chosen, "drawing chains")
        ]


def questions_asked(
    names: Sequence[str] | None, at: Sequence[str] | None, settings: Settings | None, *, is_one: bool
) -> list[AskedQuestion]:
    """What ``--question`` and ``--at`` ask, each once; if nothing, what the settings ask, or which place.

    A usage error for an unknown one, and for several where ``is_one`` is all that can be asked.
    """
    found = [] if not at else [AskedQuestion(" or ".join(at), {" or ".join(at): tuple(at)})]
    if not names and not at:
        names = [PLACE] if settings is None else [settings.question, *settings.also_asked]
        names = names[:1] if is_one else names
    for name in dict.fromkeys(names or ()):
        if name != PLACE and (settings is None or name not in settings.questions):
            known = ", ".join([PLACE, *(() if settings is None else settings.questions)])
            raise typer.BadParameter(
                f"--question must be one of {known}, got {name}; define it in [questions] of --config"
            )
        found.append(AskedQuestion() if settings is None else settings.asked(name))
    if len(found) > 1 and is_one:
        raise typer.BadParameter("--hindsight, --why and --posterior take one question; ask them in turn")
    return found


def as_settings_say(
    planned: Schedule, settings: Settings, registry: SensorRegistry, population: Population
) -> Schedule:
    """The schedule without what a table of the settings excludes; a remark where they have another clock."""
    if (warning := clock_warning(population, settings, planned.first_slot)) is not None:
        cli.remark(f"warning: {warning}")
    return load_exclusions(settings, registry).without(planned)


def documents(
    audits: Sequence[Audit],
    explanations: Sequence[Explanation],
    later: Sequence[PersonInHindsight | None],
    radius: Radius | None,
    sure: Sequence[PosteriorCeiling],
    verdict: PriorsVerdict | None,
    crowd: CrowdAdversary | None,
    population: Population,
) -> list[dict[str, Any]]:
    """One object a person, with what each option adds to it where it was asked for."""
    found: list[dict[str, Any]] = [each.model_dump(mode="json") for each in audits]
    for document, explanation in zip(found, explanations, strict=False):
        document["why"] = _why_document(explanation, radius)
    for document, past in zip(found, later, strict=False):
        document["hindsight"] = None if past is None else past.document(radius)
    for document, posterior in zip(found, sure, strict=False):
        document["posterior"] = {**asdict(posterior), "condition": posterior_note()}
    of_all: dict[str, Any] = {}
    if radius is not None:
        ends = {"nats": radius.kl, "first_step": radius.first, "last_step": radius.last}
        of_all["radius"] = {**ends, "condition": radius_note(radius)}
        for document, audit in zip(found, audits, strict=True):
            document["certified_radius"] = radius.ceiling(audit.certified).value
    if verdict is not None:
        said = {name: getattr(verdict, name) for name in ("people", "verdict", "kappa_min")}
        of_all["priors_check"] = {**said, "condition": check_note(verdict)}
    if crowd is not None:
        of_all["crowd"] = crowd_document(crowd, population)
    return [document | of_all for document in found]


def print_audits(
    audits: Sequence[Audit],
    radius: Radius | None,
    crowd: CrowdAdversary | None,
    study: Study,
    verdict: PriorsVerdict | None,
    asked: Sequence[AskedQuestion],
) -> None:
    """A table for people and question, with what its figures are and under which conditions they hold.

    There is a note, too, where places are guessed that are probably states of one place.
    """
    population = study.population
    for each in asked if audits else ():
        _print_table([audit for audit in audits if audit.question == each.name], radius, each)
    if audits:
        of_last = {
            "Paper's": " Paper's: the ceiling of the paper's own bound.",
            "Informed": " Informed: the ceiling against whoever knows where everybody else is.",
        }
        cli.say(
            "Guess: the best guess without any release, exact. Ceiling, and by which bound: if habits are as "
            f"the prior says, no method does better.{of_last.get(_last_column(audits, radius), '')}"
        )
    if audits and radius is not None:
        cli.say(f"{heading(radius)}: {radius_note(radius)}.")
    if crowd is not None:
        cli.say(f"In the crowd: {crowd_document(crowd, population)['condition']}.")
    covered = [each.sensor.locations for step in study.planned.steps for each in step.releases]
    places = places_note(population, covered, study.chosen) if AskedQuestion() in asked else None
    notes = basis_note(len(population), population.assumed, verdict), places
    cli.say(*(f"Note: {note}." for note in notes if note is not None))


def _print_table(audits: Sequence[Audit], radius: Radius | None, asked: AskedQuestion) -> None:
    def row(each: Audit) -> tuple[str, ...]:
        tried = (attack for attack in (each.attacks or {}).values() if attack is not None)
        best = max((attack.success for attack in tried), default=None)
        paper = each.bounds.tight if each.adversary == cli.INFORMED else each.certified_informed
        return (
            each.person,
            in_a_hundred(each.baseline),
            "not tried" if best is None else in_a_hundred(best),
            ceiling_in_words(each.certified),
            ceiling_in_words(paper) if radius is None else raised_in_words(radius, each.certified),
            each.certified_by,
        )

    right = audits[0].asked - audits[0].mistakes
    cli.say(f"Chance of telling {asked.sentence(right, audits[0].asked)}:")
    numbers = ("Guess", "Best attack", "Ceiling", _last_column(audits, radius))
    cli.print_table(map(row, audits), ("Person",), numbers, ("By",))


def _last_column(audits: Sequence[Audit], radius: Radius | None) -> str:
    """80 columns have room for one of three."""
    if audits[0].adversary != cli.INFORMED:
        return "Informed"
    return "Paper's" if radius is None else heading(radius)


# Ceilings within a radius of the prior: what ``--radius`` or ``--check`` adds to each.


def radius_of(nats: float | None, steps: int, check: PriorsVerdict | None = None) -> Radius | None:
    """What ``--radius NATS`` declares: over every step of the schedule, none of which may be left out.

    Where the priors were refuted as too low it is the least that their traces leave, unless a larger one is
    named; a smaller one is refused.
    """
    least = 0.0 if check is None else check.within_nats
    if nats is None and least > 0.0:
        nats = least
    if nats is None:
        return None
    if not isfinite(nats):
        raise typer.BadParameter("--radius takes a number of nats, 0.1 say")
    if nats < least:
        enough = significant(least, 4, UP)
        raise typer.BadParameter(f"--radius must be at least {enough}: the check refutes any smaller one")
    return Radius(0, steps - 1, kl=nats)


def heading(radius: Radius) -> str:
    """The heading of ceilings within the radius: its condition, in short."""
    return f"Within {significant(radius.kl, 3, DOWN)} nats"


def raised_in_words(radius: Radius, ceiling: float) -> str:
    """The ceiling within the radius: "31 in 100"."""
    return ceiling_in_words(radius.ceiling(ceiling).value)


# Steps of a schedule in hindsight: what ``--hindsight`` adds.


def past_horizon(text: str, planned: Schedule, mistakes: int) -> PastHorizon:
    """The steps that ``FIRST:LAST`` names, both included; a usage error where the schedule lacks them."""
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


class PersonInHindsight(NamedTuple):
    """One person's risk of past steps against the adversary asked for, and against the informed one."""

    found: Hindsight
    informed: Hindsight | None = None
    """None where the adversary asked for is the informed one."""

    def document(self, radius: Radius | None) -> dict[str, Any]:
        """The field ``hindsight`` of an audit."""
        document = asdict(self.found)
        if self.informed is not None:
            document |= {"then_informed": self.informed.then, "now_informed": self.informed.now}
        if radius is not None:
            document["then_radius"] = radius.ceiling(self.found.then).value
            document["now_radius"] = radius.ceiling(self.found.now).value
        return document


def print_hindsight(
    people: Sequence[str], found: Sequence[PersonInHindsight | None], past: PastHorizon, radius: Radius | None
) -> None:
    """A table for people, with the condition under which it holds."""
    steps = past.last - past.first + 1
    cli.say(
        f"Steps {past.first} to {past.last} in hindsight: chance of telling at least "
        f"{steps - past.mistakes} of {steps}"
    )
    is_in_crowd = any(each is not None and each.informed is not None for each in found)
    rows = []
    for person, each in zip(people, found, strict=True):
        if each is None:
            continue
        risk, informed = each
        ceilings = (risk.then, risk.now, *(() if informed is None else (informed.then, informed.now)))
        within = () if radius is None else (raised_in_words(radius, risk.now),)
        rows.append((person, in_a_hundred(risk.baseline), *map(ceiling_in_words, ceilings), *within))
    if rows:
        known = ("Then, if they are known", "Now, if they are known") if is_in_crowd else ()
        near = () if radius is None else (f"Now, {heading(radius).lower()}",)
        numbers = ("Guess", "Ceiling then", "Ceiling now")
        cli.print_table(rows, ("Person",), numbers, broken=(*known, *near))
        confidence = min(each.found.confidence for each in found if each is not None)
        others = ", and in the crowd under its condition above" if is_in_crowd else ""
        drawn = f" Ceilings from draws: with {confidence_in_words(confidence)} confidence each."
        drawn = "" if confidence == 1.0 else drawn
        cli.say(
            f"Ceiling then: given what was released up to step {past.last}; now: given the whole schedule. "
            f"Both hold if habits are as the prior says{others}.{drawn}"
        )
    if None in found:
        cli.say(f"In hindsight: {SHARED_NOISE}.")


# What each release revealed: what ``--why`` adds.


def _why_document(explanation: Explanation, radius: Radius | None) -> dict[str, Any]:
    """The field ``why`` of an audit: the total and every release that concerns the person."""
    releases = [asdict(share) for share in explanation.shares]
    if radius is not None:
        for share, release in zip(explanation.shares, releases, strict=True):
            release["certified_radius"] = radius.ceiling(explanation.without(share)).value
    return {"information_nats": explanation.information_nats, "releases": releases}


def print_explanation(person: str, explanation: Explanation, radius: Radius | None) -> None:
    """A table for people: the releases that revealed most about the person come first."""
    if not explanation.shares:
        cli.say(f"{person}: no release concerns this person.")
        return
    total = explanation.information_nats

    def row(share: ReleaseShare) -> tuple[str, ...]:
        without = explanation.without(share)
        return (
            *(str(share.step), share.sensor, share.mechanism),
            f"{share.information_nats / NATS_PER_BIT:.3g}",
            f"{share.information_nats / total if total > 0.0 else 0.0:.0%}",
            ceiling_in_words(without),
            *(() if radius is None else (raised_in_words(radius, without),)),
        )

    cli.say(f"{person}: what each release revealed, and the ceiling without it")
    near = () if radius is None else (heading(radius),)
    numbers = ("Bits", "Share", "Ceiling without it")
    rows = map(row, explanation.shares)
    cli.print_table(rows, ("Step", "Sensor", "Released"), numbers, broken=near)


# How sure a ceiling is for priors from few data: what ``--posterior`` adds.


class PosteriorDraws(NamedTuple):
    """How many chains are drawn for each person, and from what."""

    draws: int
    evidence: Evidence


DRAWS = 50
"""For priors that were refuted as too low, where nobody says how many."""


def posterior_draws(
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
    return PosteriorDraws(draws, load_evidence(evidence))


def print_posterior(audits: Sequence[Audit], found: Sequence[PosteriorCeiling]) -> None:
    """A table for people, with what the figures are and are not."""
    cli.say(f"How sure the ceilings are: {found[0].draws:,} chains a person that the data could give")
    rows = (
        (
            *(audit.person, ceiling_in_words(audit.certified)),
            *(in_interval(each.mean, each.mean_low, each.mean_high), ceiling_in_words(each.credible)),
        )
        for audit, each in zip(audits, found, strict=True)
    )
    cli.print_table(rows, ("Person",), ("Ceiling", "Mean ceiling", "Credible, 90 %"))
    cli.say(f"{posterior_note()}.")
