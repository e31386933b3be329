"""``tallyguard priors personas``: priors from what is public of all people together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from models.fitting.calibration import MissedCell
    from stream_app.starting.aggregates import MadePersonas

_SHOWN = 5


def personas(
    output: Annotated[Path, typer.Option(help="Priors to write, .json or .parquet.")],
    source: Annotated[
        Path | None,
        typer.Argument(
            help="Home-work table (LODES, MOBPRO, or origin, destination, flow) or synthetic agents ("
            "eqasim's output folder, UVA's activity_location_assignment), or a building (.toml); nothing "
            "with counts alone."
        ),
    ] = None,
    zones: Annotated[
        Path | None, typer.Option(help="Where zones are: CSV with lat, lon (or x, y in m), GeoJSON.")
    ] = None,
    sensors: Annotated[
        Path | None, typer.Option(help="Where sensors stand: CSV, or sensors.json of a deployment.")
    ] = None,
    within_km: Annotated[float, typer.Option(help="How near a zone must be to its sensor.")] = 1.0,
    activities: Annotated[
        Path | None, typer.Option(help="A survey: what people do in slot 0, 1, 2, ... of a day (CSV).")
    ] = None,
    flows: Annotated[
        Path | None, typer.Option(help="Hourly flows: slot, origin, destination, people (CSV).")
    ] = None,
    counts: Annotated[Path | None, typer.Option(help="Counts of earlier days, as for init.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Time zone of the counts' times.")] = None,
    holidays: Annotated[
        Path | None, typer.Option(help="Holidays, a date a line: their counts are a Sunday's in a week.")
    ] = None,
    people: Annotated[float | None, typer.Option(help="How many people all personas stand for.")] = None,
    slots: Annotated[int, typer.Option(min=1, help="Slots of a day.")] = 24,
    cycle: Annotated[Literal["day", "week"], typer.Option(help="Of assumed days, or of a survey.")] = "day",
    least_people: Annotated[
        float, typer.Option(min=0.0, help="Smaller classes are added to another of their home and day.")
    ] = 0.0,
    places: Annotated[int, typer.Option(min=1, help="Places a persona knows for each other activity.")] = 2,
    reach: Annotated[
        float, typer.Option(min=0.01, help="How many times as far as assumed people go for other activities.")
    ] = 1.0,
    habits: Annotated[
        str, typer.Option(help="With sensors alone: as assumed, stays longer, moves more, evening economy.")
    ] = "as assumed",
    penalty: Annotated[
        float, typer.Option(min=0.0, help="How much a table weighs beside the days; 0 to meet it exactly.")
    ] = 10.0,
    sweeps: Annotated[int, typer.Option(min=1, help="Most sweeps of the calibration.")] = 300,
    json: cli.JsonOption = False,
) -> None:
    """Make priors without anybody's traces: personas.

    A persona is a way of living that so many people share: a home, a place of work, a kind of day. Homes and
    work come from a table, days from a survey (or are assumed), other places from attraction and distance.
    Flows and mean counts calibrate them; cells that cannot be met are named. What may be said of a persona:
    docs/how-to/get-a-prior.md.

    \b
    Examples:
      tallyguard priors personas od.csv.gz --zones tracts.csv --sensors sensors.csv --output personas.parquet
      tallyguard priors personas eqasim-output --zones zones.csv --output personas.parquet
      tallyguard priors personas --sensors city/sensors.json --people 50000 --output personas.json
    """
    from models.prior_files import save_population
    from stream_app.starting.aggregates import PersonaQuestions, make_personas
    from stream_app.starting.connect.guess import beforehand, read_counts

    questions = PersonaQuestions(
        zones=zones,
        sensors=sensors,
        within_km=within_km,
        activities=activities,
        flows=flows,
        counts=None if counts is None else read_counts(counts, timezone=timezone, remedies=beforehand),
        holidays=cli.clock_of(timezone, holidays, None)[1],
        people=people,
        slots=slots,
        week=cycle == "week",
        least_people=least_people,
        places=places,
        reach=reach,
        habits=habits,
        penalty=penalty or None,
        most_sweeps=sweeps,
    )
    with cli.stderr().status("making personas") as status:
        made = make_personas(
            source, questions, lambda off: status.update(f"calibrating: {off:.1e} of all off")
        )
        save_population(made.population, output)
    if json:
        cli.print_json({**_document(made), "output": str(output)})
    else:
        _print(made, output)


def _document(made: MadePersonas) -> dict[str, Any]:
    found, weights = made.calibration, made.population.weights
    return {
        "personas": len(made.population),
        "people": 0.0 if weights is None else float(weights.sum()),
        "assumed": made.population.assumed,
        "remarks": list(made.remarks),
        "calibration": None
        if found is None
        else {
            "settled": found.is_met,
            "sweeps": found.sweeps,
            "missed_people": found.missed_people,
            "worst_slot": found.worst_slot,
            "missed": [vars(cell) for cell in found.missed],
            "impossible": [vars(cell) for cell in found.impossible],
        },
    }


def _print(made: MadePersonas, output: Path) -> None:
    found = made.calibration
    cli.say(f"{made.population.assumed}.", *made.remarks)
    if found is None:
        cli.say("Not calibrated: no flows and no counts were given.")
    else:
        settled = "settled" if found.is_met else "not settled"
        cli.say(
            f"Calibrated in {found.sweeps} sweeps ({settled}); slot {found.worst_slot} is off most, by "
            f"{found.missed_people:,.4g} people over all its cells."
        )
        _print_cells("Furthest off", found.missed)
        _print_cells("No persona can go", found.impossible)
    cli.say(
        "A figure computed with them holds for people who behave like a persona; nobody real was measured.\n"
        f"Written to {output}. Next:\n"
        f"  {cli.own_command()} run --priors {cli.typed(output)} --input messages.jsonl --output out "
        "--create-keys"
    )


def _print_cells(title: str, cells: tuple[MissedCell, ...]) -> None:
    for cell in cells[:_SHOWN]:
        cli.say(
            f"  {title}: slot {cell.slot}, {cell.name}: {cell.wanted:,.4g} people wanted, "
            f"{cell.found:,.4g} found"
        )
    if len(cells) > _SHOWN:
        cli.say(f"  {title}: {len(cells) - _SHOWN} cells more (--json)")
