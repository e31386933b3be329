"""``tallyguard ledger``: one release log, read as several kinds of privacy."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.text import number_of
from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from accounting.ledgers import SecretQuestion


def ledger(
    log: Annotated[Path, typer.Argument(help="Output folder of a run, or a schedule (JSON).")],
    priors: cli.PriorsOption = None,
    config: cli.ConfigOption = None,
    delta: Annotated[float | None, cli.setting_option("delta")] = None,
    horizon: cli.HorizonOption = None,
    mistakes: cli.MistakesOption = None,
    independent_people: Annotated[
        bool, typer.Option("--independent-people", help="Vouch that people move independently of each other.")
    ] = False,
    covariance: cli.CovarianceOption = None,
    secret: Annotated[
        str | None, typer.Option(help="Compute what a sensor's series reveals about these steps: 24,25.")
    ] = None,
    sensor: Annotated[str | None, typer.Option(help="The sensor of --secret.")] = None,
    length_scale: Annotated[float, typer.Option(help="Of the RBF prior of its counts, in steps.")] = 8.0,
    variance: Annotated[float, typer.Option(help="Of that prior, in people squared.")] = 1.0,
    order: Annotated[float, typer.Option(help="Rényi order of the loss about --secret.")] = 5.0,
    radius: Annotated[float, typer.Option(help="People by which two secrets may differ.")] = 1.0,
    hours: Annotated[
        float, typer.Option(min=0.0, help="Also protect what a person did in any so many hours.")
    ] = 24.0,
    visit: Annotated[
        float, typer.Option(min=0.0, help="Also protect one visit of so many hours to one place.")
    ] = 1.0,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Ask dp_accounting too, where it is installed.")
    ] = False,
    json: cli.JsonOption = False,
) -> None:
    """Say which guarantees a log of releases keeps.

    Differential, Bayesian, inferential and reconstruction privacy, read from one log. Differential privacy is
    said for several units: the whole log, a person's day, any hours on end, and one visit.

    Each guarantee is computed where it holds and refused with the reason where it does not. A run's folder
    says all that is needed, its copy of the priors included. Its own settings, sensors and noise designs
    count; others are refused in a sentence that says what differs.

    \b
    Examples:
      tallyguard ledger out
      tallyguard ledger schedule.json --priors priors.json --delta 1e-8 --json
      tallyguard ledger out --sensor s3 --secret 24,25 --length-scale 6
    """
    from models.exceptions import TallyguardError
    from stream_app.analysis.ledger_document import ledger_document, load_log
    from stream_app.exceptions import OutputError
    from stream_app.setup.declared import bounded_days, days_of
    from stream_app.setup.exclusions import NO_EXCLUSIONS, load_exclusions
    from stream_app.setup.given_priors import population_of
    from stream_app.setup.run_folder.people_record import as_accounted
    from stream_app.setup.run_folder.run_settings import (
        check_belongs,
        load_run,
        people_of_run,
        sensors_of_run,
        settings_of_run,
        with_recorded_windows,
    )
    from stream_app.setup.schedule_files import load_schedule
    from stream_app.setup.sensor_files import load_registry
    from stream_app.steps import first_slot_of

    settings = cli.settings_of(config, {"delta": delta, "horizon": horizon, "mistakes": mistakes})
    question = _secret(secret, sensor, length_scale, variance, order, radius)
    designs = cli.given_designs(covariance)
    if log.is_dir():
        settings = settings_of_run(log, settings)
        population, missing = people_of_run(log, settings, priors), None
        if priors is None and load_run(log).get("people"):
            try:
                population = as_accounted(log)
            except TallyguardError as error:
                missing = error
        registry = sensors_of_run(log, settings, population.location_names).with_designs(designs)
        check_belongs(log, population, registry)
        if len(population):
            population = as_accounted(log, population)
        registry, first_slot = with_recorded_windows(log, registry), settings.first_slot
    else:
        if not log.exists():
            raise OutputError(
                f"{log} must be the output folder of a run, a log of decisions or a schedule",
                "nothing there",
                "name the folder of --output, or the file",
            )
        population, missing = population_of(settings, priors), None
        registry = load_registry(settings.sensors, population.location_names).with_designs(designs)
        first_slot = first_slot_of(settings, load_schedule(log, registry))
    if question is not None:
        registry.get(question.sensor)
    excluded = NO_EXCLUSIONS if log.is_dir() else load_exclusions(settings, registry)
    releases = load_log(log, registry, excluded)
    with cli.progress() as bar:
        task = bar.add_task("reading the log", total=len(releases.steps))
        document = ledger_document(
            releases,
            population,
            settings.horizon_settings(first_slot),
            settings.delta,
            independent_people=independent_people,
            secret=question,
            oracle=oracle,
            priors_check=settings.priors_check,
            sensors=registry,
            run=log if log.is_dir() else None,
            missing=missing,
            days=bounded_days(settings, registry) or days_of(settings),
            hours=(hours, visit),
            progress=lambda done: bar.update(task, completed=done),
        )
    if json:
        cli.print_json(document)
    else:
        _print(document)


def _secret(
    steps: str | None, sensor: str | None, length_scale: float, variance: float, order: float, radius: float
) -> SecretQuestion | None:
    from accounting.ledgers import SecretQuestion
    from models.gaussian_process import RBF

    if steps is None and sensor is None:
        return None
    if steps is None or sensor is None:
        raise typer.BadParameter("--secret and --sensor belong together")
    if not all(part.strip().isdecimal() for part in steps.split(",")):
        raise typer.BadParameter("--secret must be steps with commas between, e.g. 24,25")
    numbers = tuple(sorted({int(part) for part in steps.split(",")}))
    return SecretQuestion(sensor, numbers, RBF(length_scale, variance), order, radius)


def _print(document: dict[str, Any]) -> None:
    counts = ", ".join(f"{count:,} {name}" for name, count in document["releases"].items()) or "none"
    cli.say(f"{number_of(document['steps'], 'step')}; sensor-steps accounted: {counts}")
    if document["note"] is not None:
        cli.say(f"Note: {document['note']}.")
    cli.say(*map(_dp_sentence, document["differential_privacy"]))
    print_units(document["differential_privacy_by_unit"])
    cli.say(
        _sentence("Bayesian privacy of whole traces", document["bayesian"]),
        _reconstruction_sentence(document["reconstruction"]),
        *(
            _sentence(name.capitalize(), document[name])
            for name in ("inferential", "oracle")
            if name in document
        ),
    )


def print_units(units: list[dict[str, Any]]) -> None:
    """Epsilon of each unit, with what it covers."""
    from stream_app.watching.wording import epsilon_in_words

    rows = (
        (each["unit"], each["covers"], epsilon_in_words(inf if each["epsilon"] is None else each["epsilon"]))
        for each in units
    )
    cli.print_table(rows, ("Unit of privacy", "Covers"), ("Epsilon",))
    cli.say(
        "Each epsilon is for somebody who did all of the unit, or none of it; everything else may be known. "
        "To move the person elsewhere costs at most twice the rho."
    )


def _dp_sentence(statement: dict[str, Any]) -> str:
    from stream_app.watching.wording import epsilon_in_words

    if "refused" in statement:
        return _sentence("Differential privacy", statement)
    what = f"Differential privacy of the {statement['unit']}, {statement['neighbours']}"
    if statement["epsilon"] is None:
        return f"{what}: no guarantee. {statement['no_guarantee']}"
    paper = statement["paper_epsilon"]
    shown = "" if paper is None else f"; the paper's formula says {paper:.3g}, which is no guarantee"
    return (
        f"{what}: epsilon {epsilon_in_words(statement['epsilon'])} at delta {statement['delta']:g} "
        f"(by {statement['certified_by']}{shown})"
    )


def _reconstruction_sentence(statement: dict[str, Any]) -> str:
    from stream_app.watching.wording import ceiling_in_words

    if "refused" in statement:
        return _sentence("Reconstruction", statement)
    most, half, ever = map(
        ceiling_in_words, (statement["risk"]["1"], statement["risk"]["0.5"], statement["highest_ever"]["1"])
    )
    return (
        f"Reconstruction, {statement['condition']}: not even somebody who knows where everybody else is can "
        f"tell {statement['question']} in more than {most} cases for the most exposed person after the last "
        f"step, and {half} for half of the people; after any step: {ever}"
    )


def _sentence(name: str, statement: dict[str, Any]) -> str:
    """Numbers of a statement in one line, or why there is none."""
    if "refused" in statement:
        from stream_app.watching.wording import sentence_case

        return f"{name}: no guarantee. {sentence_case(statement['refused'])}; {statement['remedy']}"
    if statement.get("no_guarantee") is not None:
        return f"{name}: no guarantee. {statement['no_guarantee']}"
    numbers = (
        f"{key.replace('_', ' ')} "
        f"{'not computed' if value is None else f'{value:.4g}' if isinstance(value, float) else value}"
        for key, value in statement.items()
        if key != "no_guarantee"
    )
    return f"{name}: {', '.join(numbers)}"
