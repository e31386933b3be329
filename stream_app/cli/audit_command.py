"""``tallyguard audit``: every bound and attack for people under a schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accounting.settings import MISTAKES
from stream_app.cli import shared as cli

_ATTACK_DRAWS = 10_000


def audit(
    priors: cli.PriorsArgument,
    schedule: Annotated[Path, typer.Option(help="What is released when (JSON); its length is the horizon.")],
    mistakes: Annotated[int, typer.Option(help="Steps the adversary may get wrong (s).")] = MISTAKES,
    person: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="Only this person; may be repeated.")
    ] = None,
    sensors: Annotated[
        Path | None, typer.Option(help="Sensors (JSON or CSV); otherwise one per location.")
    ] = None,
    order: Annotated[int, typer.Option(help="Order of the moment bound: higher is sharper and slower.")] = 4,
    effort: Annotated[
        int, typer.Option(help="Most hit patterns and kept sets to enumerate; more is sharper and slower.")
    ] = 4096,
    draws: Annotated[
        int, typer.Option(help="Trajectories drawn to bound and to attack; 0 draws 10000 for attacks only.")
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
            min=2, help="Draw so many chains that the data could have given: how sure the ceiling is."
        ),
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option(help="For --posterior: what priors fit --evidence wrote.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            help="What `priors check --json` said: if the priors are too low, the radius is what it leaves."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Settings whose table of exclusions is left out of the schedule; with their origin, "
            "step_seconds and questions."
        ),
    ] = None,
    question: Annotated[
        list[str] | None,
        typer.Option(
            metavar="<str>",
            help="What is to be guessed: place, or one of [questions] in --config; may be repeated.",
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="<str>",
            help="Ask whether a person was at this place, or at any of several; may be repeated.",
        ),
    ] = None,
    adversary: cli.AdversaryOption = None,
    known: cli.KnownOption = None,
    companions: cli.CompanionsOption = None,
    alone: cli.AloneOption = None,
    least: cli.LeastOption = None,
    counted_once: cli.CountedOnceOption = None,
    covariance: cli.CovarianceOption = None,
    json: cli.JsonOption = False,
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
      tallyguard audit priors.json --schedule schedule.json --at clinic --at shelter
      tallyguard audit priors.json --schedule schedule.json --config settings.toml --question district
      tallyguard audit priors.json --schedule schedule.json --posterior 50 --evidence evidence.parquet
      tallyguard audit priors.json --schedule schedule.json --check check.json --evidence evidence.parquet
      tallyguard audit priors.parquet --schedule schedule.json --mistakes 2 --person p1 --json
    """
    from accounting.audit import AttackSettings
    from accounting.bounds import Effort
    from models.prior_files import load_population
    from stream_app.cli import audit_answers as answers
    from stream_app.setup.priors_verdict import load_priors_check
    from stream_app.setup.schedule_files import load_schedule
    from stream_app.setup.sensor_files import load_registry

    settings = None if config is None else cli.settings_of(config)
    crowd = cli.CrowdOptions(adversary, known, companions, alone, least, counted_once).of(settings)
    informed_only = {"why": why, "radius": radius is not None, "posterior": posterior, "check": check}
    if crowd is not None and (given := [f"--{name}" for name, value in informed_only.items() if value]):
        raise typer.BadParameter(
            f"{', '.join(given)} cannot be combined with --adversary crowd; ask with --adversary informed"
        )
    population = load_population(priors)
    registry = load_registry(sensors, population.location_names).with_designs(cli.given_designs(covariance))
    planned = load_schedule(schedule, registry)
    if settings is not None:
        planned = answers.as_settings_say(planned, settings, registry, population)
    is_one = hindsight is not None or why or posterior is not None
    asked = answers.questions_asked(question, at, settings, is_one=is_one)
    chosen = [population.position(name) for name in person or ()] or list(range(len(population)))
    if (verdict := None if check is None else load_priors_check(check)) is not None:
        verdict.require(population)
    drawn_chains = answers.posterior_draws(posterior, evidence, verdict)
    within = answers.radius_of(radius, len(planned.steps), verdict)
    past = None if hindsight is None else answers.past_horizon(hindsight, planned, mistakes)
    limits = Effort(order=order, patterns=effort, draws=draws, seed=seed, confidence=confidence)
    trials = AttackSettings(draws=draws or _ATTACK_DRAWS, seed=seed) if attacks else None
    study = answers.Study(population, planned, mistakes, chosen)
    how = {"effort": limits, "attacks": trials, "adversary": crowd}
    audits = [audit for each in asked for audit in study.audits(each, **how)]
    study = study._replace(population=asked[0].asked_of(population))
    explanations = study.explanations(limits) if why else []
    drawn = Effort(draws=draws, seed=seed, confidence=confidence)  # else as report and page compute it
    later = [] if past is None else study.in_hindsight(past, drawn, crowd)
    sure = study.posteriors(drawn_chains, limits, asked[0])
    if json:
        document = answers.documents(
            audits, explanations, later, within, sure, verdict, crowd, study.population
        )
        if adversary is None:
            for one in document:
                del one["adversary"], one["certified_informed"]
        cli.print_json(document)
        return
    answers.print_audits(audits, within, crowd, study, verdict, asked)
    for each, explanation in zip(audits, explanations, strict=False):  # without --why there are none
        answers.print_explanation(each.person, explanation, within)
    if past is not None:
        answers.print_hindsight([each.person for each in audits], later, past, within)
    if sure:
        answers.print_posterior(audits, sure)
