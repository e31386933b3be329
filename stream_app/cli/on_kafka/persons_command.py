"""``tallyguard persons``: who is accounted for on Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.shared import ConfigOption, JsonOption, print_json, stdout

if TYPE_CHECKING:
    from models.priors import Population

persons = typer.Typer(name="persons", help="The people accounted for on Kafka.", no_args_is_help=True)


@persons.callback()
def _group() -> None:
    """The people accounted for on Kafka."""


@persons.command()
def load(
    priors: Annotated[Path | None, typer.Argument(help="Movement priors, .json or .parquet.")] = None,
    config: ConfigOption = None,
    city_people: Annotated[
        int | None,
        typer.Option(help="Load this many people of the simulated city instead.", min=1),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated city.")] = 20260,
    effective_from: Annotated[
        int | None,
        typer.Option(
            help="First step whose releases are accounted for people who are new. [default: the log's first]",
            min=0,
        ),
    ] = None,
    locations_file: Annotated[
        Path | None,
        typer.Option(help="Also write the location names there, for the workers."),
    ] = None,
    remove_others: Annotated[
        bool, typer.Option("--remove-others", help="Delete people who are not in the file.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Send everybody's prior to the account workers.

    By pseudonym: ids stay in this process. A person who is there already gets the new prior and keeps their
    first step: all that was released since is accounted again under it. --effective-from is for people who
    were not here before; load who was removed and comes back without it. Needs the pseudonym key; workers
    do not have it.

    \b
    Examples:
      tallyguard persons load priors.parquet --config tallyguard.toml --locations-file locations.txt
      tallyguard persons load priors.json --config tallyguard.toml --remove-others
      tallyguard persons load who-moved-here.json --config tallyguard.toml --effective-from 8760
      tallyguard persons load --config tallyguard.toml --city-people 2000
    """
    from stream_app.cli.shared import settings_of
    from stream_app.kafka.tools.person_loading import load_people, write_locations
    from stream_app.setup.given_priors import refuse_evidence
    from stream_app.watching.prior_notes import basis_note

    if (priors is None) == (city_people is None):
        raise typer.BadParameter("give a priors file or --city-people")
    settings = settings_of(config)
    population = _population(priors, city_people, seed)
    if locations_file is not None:
        write_locations(locations_file, population.location_names)
    refuse_evidence(settings)
    report = load_people(settings, population, effective_from, remove_others=remove_others)
    if json:
        print_json(report._asdict())
    else:
        stdout().print(
            f"{report.sent:,} people sent to {report.topic}, {report.removed:,} removed. {report.known:,} "
            "were there before and keep their first step; the others count from step "
            f"{effective_from or 0} on."
        )
        if (note := basis_note(len(population), population.assumed, settings.priors_check)) is not None:
            stdout().print(f"Note: {note}.", soft_wrap=True)


@persons.command()
def remove(
    people: Annotated[list[str] | None, typer.Argument(help="Ids, as in the priors file.")] = None,
    config: ConfigOption = None,
    people_file: Annotated[
        Path | None,
        typer.Option(help="Ids, one a line: a command line can be seen by others."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Delete people: their priors at once, their accounts soon.

    Accounts go with the next snapshots. Nobody is removed if one of them is not there. Needs the pseudonym
    key. When a person has left the brokers' disks says docs/how-to/run-a-cluster.md.

    \b
    Examples:
      tallyguard persons remove p17 --config tallyguard.toml
      tallyguard persons remove --people-file who-objected.txt --config tallyguard.toml
    """
    from stream_app.cli.shared import settings_of
    from stream_app.kafka.tools.person_loading import remove_people
    from stream_app.kafka.tools.producing import file_lines

    if (not people) == (people_file is None):
        raise typer.BadParameter("give ids or --people-file")
    if people_file is not None:
        people = [line.decode("utf-8", "replace") for line in file_lines(people_file)]
    report = remove_people(settings_of(config), people or ())
    if json:
        print_json(report._asdict())
    else:
        stdout().print(f"{report.removed:,} people removed from {report.topic}.")


def _population(priors: Path | None, city_people: int | None, seed: int) -> Population:
    """The people of a file, or of the simulated city."""
    if priors is not None:
        from models.prior_files import load_population

        return load_population(priors)
    from stream_app.city import CityOptions, build_city

    return build_city(CityOptions(people=city_people or 0, seed=seed)).population
