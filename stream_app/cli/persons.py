"""``tallyguard persons``: who is accounted for on Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.options import ConfigOption, JsonOption, PriorsArgument
from stream_app.cli.output import print_json, stdout

persons = typer.Typer(name="persons", help="The people accounted for on Kafka.", no_args_is_help=True)


@persons.callback()
def _group() -> None:
    """The people accounted for on Kafka."""


@persons.command()
def load(
    priors: PriorsArgument,
    config: ConfigOption = None,
    effective_from: Annotated[
        int, typer.Option(help="First step whose releases count for these people.", min=0)
    ] = 0,
    locations_file: Annotated[
        Path | None,
        typer.Option(help="Also write the location names there, for the workers.", show_default=False),
    ] = None,
    remove_others: Annotated[
        bool, typer.Option("--remove-others", help="Delete people who are not in the file.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Send everybody's prior to the account workers, by pseudonym; ids stay in this process.

    A person who is there already gets the new prior. Needs the pseudonym key; workers do not have it.

    \b
    Examples:
      tallyguard persons load priors.parquet --config tallyguard.toml --locations-file locations.txt
      tallyguard persons load priors.json --config tallyguard.toml --effective-from 8760 --remove-others
    """
    from models.prior_files import load_population
    from stream_app.kafka.person_loading import load_people, write_locations
    from stream_app.settings_sources import load_settings

    settings = load_settings(config)
    population = load_population(priors)
    if locations_file is not None:
        write_locations(locations_file, population.location_names)
    report = load_people(settings, population, effective_from, remove_others=remove_others)
    if json:
        print_json(report._asdict())
    else:
        stdout().print(
            f"{report.sent:,} people sent to {report.topic}, {report.removed:,} removed, "
            f"effective from step {effective_from}."
        )
