"""``tallyguard init``: a deployment's files from counts and nothing else."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.output import own_command, stdout

if TYPE_CHECKING:
    from stream_app.starting.assumed import Dependence
    from stream_app.starting.files import Deployment

_TABLE_STEPS = 48
_USEFUL_EPSILON = 10.0  # beyond it a guarantee lets odds change 20,000-fold


class Habits(StrEnum):
    """What to account people's risk with where nobody was measured."""

    NONE = "none"
    ASSUMED = "assumed"


def init(
    counts: Annotated[Path, typer.Argument(help="Counts, .csv (also .gz) or .parquet.", show_default=False)],
    output: Annotated[Path, typer.Option(help="New folder for the files.", show_default=False)],
    sensors: Annotated[
        Path | None, typer.Option(help="List of sensors (CSV) with name, lat, lon.", show_default=False)
    ] = None,
    time_column: Annotated[str | None, typer.Option(help="Column of times.", show_default=False)] = None,
    sensor_column: Annotated[
        str | None, typer.Option(help="Column of sensors, in a long file.", show_default=False)
    ] = None,
    count_column: Annotated[
        str | None, typer.Option(help="Column of counts, in a long file.", show_default=False)
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Time zone of wall-clock times: Europe/Vienna.", show_default=False)
    ] = None,
    time_format: Annotated[
        str | None, typer.Option(help="How times are written: %d/%m/%Y %H:%M.", show_default=False)
    ] = None,
    wall_clock: Annotated[
        bool, typer.Option("--wall-clock", help="Times that are numbers show the clock on the wall.")
    ] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column that is no sensor; may be repeated.", show_default=False)
    ] = None,
    drop_repeated: Annotated[
        bool, typer.Option("--drop-repeated", help="Several counts at one time are no count.")
    ] = False,
    skip_missing_hour: Annotated[
        bool, typer.Option("--skip-missing-hour", help="Leave out the hour that the clock skips in spring.")
    ] = False,
    days: Annotated[int, typer.Option(min=0, help="Last days to take; 0 for all.")] = 28,
    sigma: Annotated[float, typer.Option(min=0.1, help="Noise of the releases, in people.")] = 2.0,
    habits: Annotated[
        Habits | None, typer.Option(help="Account nobody, or invented people.", show_default=False)
    ] = None,
) -> None:
    """Make a deployment from counts and nothing else.

    Reads a file as cities have it: a column a sensor, or time, sensor and count in each row. An empty cell
    is "not counted", never 0. Writes sensors, locations, schedule, settings and messages to a new folder,
    and says what it could not know. Without habits of people, run accounts differential privacy only;
    --habits assumed adds invented people, and shows how much the answer depends on what was assumed.

    \b
    Examples:
      tallyguard init counts.csv --sensors sensors.csv --timezone Europe/Vienna --output city
      tallyguard init counts.parquet --time-column time --habits assumed --days 7 --output city
    """
    from stream_app.starting import CountsQuestions, Deployment, read_counts, write_deployment
    from stream_app.starting.files import require_new
    from stream_app.starting.sensor_places import sensor_places

    require_new(output)
    timezone = timezone or _asked("Time zone of the times, if they show the clock on the wall", "")
    read = read_counts(
        counts,
        CountsQuestions(
            time_column=time_column,
            sensor_column=sensor_column,
            count_column=count_column,
            timezone=timezone or None,
            time_format=time_format,
            wall_clock=wall_clock,
            ignore=tuple(ignore or ()),
            drop_repeated=drop_repeated,
            skip_missing_hour=skip_missing_hour,
        ),
    )
    taken = read.last_days(days)
    places = sensor_places(sensors, taken.sensors)
    deployment = Deployment(output.resolve().name, taken, places, sigma)
    if habits is None:
        habits = Habits(_asked("Account risk with habits: none or assumed", "none") or "none")
    table: tuple[Dependence, ...] = ()
    population = None
    if habits is Habits.ASSUMED:
        from accounting.continuous import HorizonSettings
        from stream_app.starting.assumed import ALTERNATIVES, assumed_population, dependence
        from stream_app.starting.files import first_slot

        population = assumed_population(ALTERNATIVES[0], places, taken.step_seconds)
        horizon = HorizonSettings(first_slot=first_slot(taken))
        steps = deployment.schedule(min(_TABLE_STEPS, len(taken.table)))
        table = dependence(places, steps, taken.step_seconds, horizon)
    write_deployment(output, deployment, population, table)
    _print_reading(deployment, len(read.table))
    _print_unknown(deployment)
    if table:
        _print_dependence(table)
    _print_next(output, population is not None)


def _asked(question: str, default: str) -> str:
    """The answer of whoever sits at a terminal; the default where nobody does."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return default
    return str(typer.prompt(question, default=default, show_default=bool(default)))


def _print_reading(deployment: Deployment, steps: int) -> None:
    from stream_app.starting.counts import NOT_COUNTED
    from stream_app.wording import duration

    console, counts = stdout(), deployment.counts
    counted = int((counts.table != NOT_COUNTED).sum())
    console.print(
        f"Read {len(counts.sensors):,} sensors, every {duration(counts.step_seconds)}. "
        f"Took {len(counts.table):,} of {steps:,} steps (--days), {counted:,} counts, "
        f"{counts.table.size - counted:,} cells without one. Step 0 is {counts.origin:%Y-%m-%d %H:%M} UTC.",
        soft_wrap=True,
    )
    for remark in counts.remarks:
        console.print(f"  {remark}", soft_wrap=True)


def _print_unknown(deployment: Deployment) -> None:
    console = stdout()
    console.print("\nWhat the file cannot say, and what was assumed:")
    for sentence in (
        "A time is the start of its interval. If it is the end, set origin in tallyguard.toml a step back.",
        "A missing count means that nobody counted. If your system leaves out zeros, write them first.",
        "A sensor is announced from its first count to its last; where it did not count in between, nothing "
        "is published.",
        f"Noise of sigma {deployment.sigma:g} people on every count: change it in tallyguard.toml. All these "
        f"releases together then cost {_spent(deployment)}.",
        *(
            ["Where the sensors stand is not known: the page draws no map."]
            if deployment.places[0].latitude is None
            else []
        ),
    ):
        console.print(f"  - {sentence}", soft_wrap=True)


def _spent(deployment: Deployment) -> str:
    """The differential privacy of everything that is to be released, in words."""
    delta = 1e-6  # the settings' own, unless they are changed
    epsilon = deployment.epsilon(delta)
    if epsilon == float("inf"):
        return "more than differential privacy can state, which protects nobody: fewer releases or more noise"
    useful = "" if epsilon <= _USEFUL_EPSILON else ", which protects nobody: fewer releases or more noise"
    return f"epsilon {epsilon:,.3g} at delta {delta:g} in differential privacy{useful}"


def _print_dependence(table: tuple[Dependence, ...]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from stream_app.wording import in_a_hundred

    console = stdout()
    console.print(
        f"\nHow much the answer depends on assumed habits (first {_TABLE_STEPS} steps at most):",
        soft_wrap=True,
    )
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    shown.add_column("Habits")
    for name in ("Mean guess", "Mean ceiling", "Worst ceiling"):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in table:
        shown.add_row(row.habits, *map(in_a_hundred, (row.mean_guess, row.mean_ceiling, row.worst_ceiling)))
    console.print(shown)
    console.print(
        "These people are invented. A ceiling holds if habits are as assumed; nobody's were measured.",
        soft_wrap=True,
    )


def _print_next(output: Path, has_priors: bool) -> None:
    console, command = stdout(), own_command()
    priors = f" --priors {output}/assumed-priors.json" if has_priors else ""
    settings = f"--config {output}/tallyguard.toml{priors}"
    console.print("\nNext:")
    for line in (
        f"check {settings} --schedule {output}/schedule.json",
        f"run {settings} --input {output}/messages.jsonl --output {output}/out --create-keys",
        f"ledger {output}/out {settings}",
        f"report {output}/out --output {output}/report.html",
    ):
        console.print(f"  {command} {line}", soft_wrap=True)
    if not has_priors:
        console.print(
            "No risk of persons is computed without priors: fit some to check-ins "
            "(docs/how-to/get-a-prior.md), or start again with --habits assumed.",
            soft_wrap=True,
        )
