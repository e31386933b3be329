"""``tallyguard export``: what a run has released, for the public."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from models.text import number_of
from stream_app.analysis.catalogue import Address, Rhythm
from stream_app.cli import shared as cli
from stream_app.setup.option_settings import ExportFormat

if TYPE_CHECKING:
    from stream_app.setup.total_levels import Level


def export(
    run: Annotated[Path, typer.Argument(help="Output folder of a run.")],
    output: Annotated[Path, typer.Option(help="Folder for the files.")],
    kinds: Annotated[
        list[ExportFormat] | None,
        typer.Option("--format", help="May be repeated; csv and parquet if left out."),
    ] = None,
    sensors: Annotated[
        Path | None, typer.Option(help="Sensors file with other lat and lon than the run describes.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option(help="Licence you declare, by its SPDX name: CC-BY-4.0.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the data.")] = None,
    publisher: Annotated[str | None, typer.Option(help="Who is to be cited.")] = None,
    level: Annotated[
        float | None,
        typer.Option(min=0.5, max=0.9999, help="Probability of intervals; the run's confidence if left out."),
    ] = None,
    totals: Annotated[
        list[str] | None,
        typer.Option(
            help='Also totals: "day by district", hour, day or week by sensor, device, district or city; '
            '"declared" for those of the setting totals. May be repeated.'
        ),
    ] = None,
    catalogue: Annotated[
        str | None,
        typer.Option(
            help="Web address of the folder the files will be in: also writes a record for data portals."
        ),
    ] = None,
    contact: Annotated[str | None, typer.Option(help="Mail address for questions, in that record.")] = None,
    rhythm: Annotated[
        Rhythm, typer.Option(help="How often you will export again, in that record.")
    ] = Rhythm.UNKNOWN,
    json: cli.JsonOption = False,
) -> None:
    """Write what a run has released as open data.

    Made from releases only: tables by day (UTC) with a Frictionless datapackage.json, which states units,
    noise, how to cite, the ceiling of the period with its condition, and whether the rule of the run was
    kept, as its report says; the last step as GeoJSON and as NGSI-LD CrowdFlowObserved. What was not
    published is empty, never 0. Each value has the ends of an interval in which the count is with the
    probability --level. Of tiered releases only what everybody may read is written. Run it again
    whenever there is more: files are replaced as a whole. With --catalogue catalogue.jsonld describes all
    of it by DCAT-AP 3 and mobilityDCAT-AP, which data portals harvest.

    \b
    Examples:
      tallyguard export out --output open-data --licence CC-BY-4.0
      tallyguard export out --output open-data --totals "day by district" --totals "week by city"
      tallyguard export out --output open-data --format geojson --format ngsi-ld
      tallyguard export out --output open-data --catalogue https://data.example.org/counts --rhythm daily
    """
    from stream_app.analysis.export import export_run, places_of_run
    from stream_app.setup.sensor_files import sensor_degrees

    formats = kinds or [ExportFormat.CSV, ExportFormat.PARQUET]
    said = {"licence": licence, "title": title, "publisher": publisher}
    about = {name: text for name, text in said.items() if text}
    places = places_of_run(run, None if sensors is None else sensor_degrees(sensors))
    address = None if catalogue is None else Address(catalogue, contact, rhythm)
    found = export_run(run, output, formats, places, about, level, _levels(totals), address)
    if json:
        cli.print_json({**vars(found), "output": str(output)})
        return
    none_yet = "no totals, as no whole period of any is over; " if totals else ""
    sums = f"{number_of(found.totals, 'total')}; " if found.totals else none_yet
    cli.say(
        f"{number_of(found.values, 'value')} of {number_of(found.days, 'day')}, {found.not_published:,} not "
        f"published; {sums}{number_of(len(found.files), 'file')} in {output}."
    )
    from stream_app.watching.wording import UP, significant

    highest = found.ceiling["highest"]
    shown = None if highest is None else significant(highest, 3, UP)
    stated = "No ceiling of the period" if shown is None else f"Ceiling of the period {shown}"
    cli.say(f"{stated}: {found.ceiling['condition']}.")
    if found.verdict["answer"] == "no":
        cli.say("The verdict on this run is No: publishing these files breaks its rule.")
    cli.say(f"May this be published? {found.verdict['sentence']}")


def _levels(given: list[str] | None) -> list[Level] | None:
    from stream_app.setup.total_levels import Level

    if given is None:
        return None
    try:
        return [Level.of(each) for each in given if each != "declared"]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
