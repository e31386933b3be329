"""``tallyguard init``: a deployment's files from counts and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from models.text import number_of
from stream_app.cli import shared as cli
from stream_app.exceptions import InputError
from stream_app.setup.option_settings import OPTION_SETTINGS, Period

if TYPE_CHECKING:
    from models.priors import Population
    from stream_app.starting.counts.deployment_files import Dependence, NewDeployment

_DELTA: float = OPTION_SETTINGS["delta"].default
_YEAR_SECONDS = 365 * 86_400
_REMEDY = "fewer days or more noise (--days, --epsilon)"
_ONE_NOISE = "--within and --sigma both choose the noise: give one of them"
_OF_A_BUILDING = ("counts", "output", "sigma", "within", "often", "period")
_SHOWN_SENSORS = 5
_SHOWN_LINES = 20
_USEFUL_EPSILON = 10.0  # beyond it a guarantee lets odds change 20,000-fold


Habits = Literal["none", "assumed"]


def init(
    context: typer.Context,
    counts: Annotated[Path, typer.Argument(help=cli.COUNT_FILES)],
    output: Annotated[Path, typer.Option(help="New folder for the files.")],
    sensors: Annotated[
        Path | None,
        typer.Option(help="List of sensors (CSV) with name, lat, lon; from and to of one on a line."),
    ] = None,
    zones: Annotated[
        Path | None,
        typer.Option(help="Places that counters on a line may stand between: CSV with lat, lon, or GeoJSON."),
    ] = None,
    preset: Annotated[str | None, cli.setting_option("connect.files.preset")] = None,
    time_column: Annotated[str | None, typer.Option(help="Column of times.")] = None,
    sensor_column: Annotated[str | None, typer.Option(help="Column of sensors, in a long file.")] = None,
    count_column: Annotated[str | None, typer.Option(help="Column of counts, in a long file.")] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Time zone of wall-clock times: Europe/Vienna.")
    ] = None,
    time_format: Annotated[str | None, typer.Option(help="How times are written: %d/%m/%Y %H:%M.")] = None,
    wall_clock: Annotated[
        bool, typer.Option("--wall-clock", help="Times that are numbers are wall-clock times, no instants.")
    ] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column, or sensor of a long file, to leave out; repeatable.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Sensor that counts people of its own, though it looks like a total; repeatable."),
    ] = None,
    kind: Annotated[
        Literal["periodic", "total"] | None,
        typer.Option(help="What a count is: of its interval (the default), or since the counter began."),
    ] = None,
    channels: Annotated[cli.Channels | None, cli.setting_option("connect.files.channels")] = None,
    thousands: Annotated[str | None, typer.Option(help="What stands between thousands, as in 1.234.")] = None,
    decimal: Annotated[str | None, typer.Option(help="The decimal mark: a point or a comma.")] = None,
    missing: Annotated[
        list[str] | None, typer.Option(help="Mark of a cell without a count, such as -1; repeatable.")
    ] = None,
    drop_repeated: Annotated[
        bool, typer.Option("--drop-repeated", help="Treat several counts at one time as not counted.")
    ] = False,
    skip_missing_hour: Annotated[
        bool, typer.Option("--skip-missing-hour", help="Leave out the hour that the clock skips in spring.")
    ] = False,
    most_counts: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="By how much one person moves a count at most: above 1 where people are counted again in a "
            "step, or counts were scaled. Default: 1.",
        ),
    ] = None,
    most_counts_per_day: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How often one person is counted in a day at most, by all sensors together, where devices "
            "or turnstiles enforce it: less noise for the same --epsilon.",
        ),
    ] = None,
    days: Annotated[int, typer.Option(min=0, help="Last days to take; 0 for all.")] = 28,
    epsilon: Annotated[
        float, typer.Option(min=0.01, help="Differential privacy of everything together; it sets the noise.")
    ] = 5.0,
    sigma: Annotated[
        float | None, typer.Option(min=0.05, help="Noise in people, instead of --epsilon.")
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(help="Instead of --epsilon: the most noise with which a total is so many people off."),
    ] = None,
    often: cli.InOption = 95.0,
    period: cli.PeriodOption = Period.STEP,
    habits: Annotated[Habits | None, typer.Option(help="Account for nobody, or for invented people.")] = None,
) -> None:
    """Make a deployment from counts alone, or from a table of rooms.

    Reads a file as cities have it: a column a sensor, or time, sensor and count in each row. What is not said
    is found out, by a preset that knows the file or column by column; `connect guess` prints what was found,
    to be corrected and given as --preset. An empty cell is "not counted", never 0. Writes sensors, locations,
    schedule, settings and messages to a new folder, and says what it could not know. The noise is the least
    with which all of it together costs --epsilon. Without habits of people, run accounts differential privacy
    only; --habits assumed adds invented people, and shows how much the answer depends on what was assumed.
    Forms of the file: docs/reference/file-formats.md.

    A .toml file describes a building: rooms, desks, doors, who works there and when, calendars
    (docs/how-to/rooms.md). Its deployment has sensors, places, questions and priors, and is checked; only
    --output, --sigma and --within go with it.

    \b
    Examples:
      tallyguard init building.toml --output office
      tallyguard init counts.csv --sensors sensors.csv --timezone Europe/Vienna --output city
      tallyguard init counts.csv --within 50 --in 95 --for day --output city
      tallyguard init counts.parquet --time-column time --habits assumed --days 7 --output city
    """
    from stream_app.starting.aggregates.between import places_between
    from stream_app.starting.connect.guess import read_counts
    from stream_app.starting.counts import NewDeployment, write_deployment
    from stream_app.starting.counts.deployment_files import least_sigma, require_new, sensor_places

    require_new(output)
    if counts.suffix.lower() == ".toml":
        for name in context.params:
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE" and name not in _OF_A_BUILDING:
                raise typer.BadParameter(f"{counts} is a building: leave out --{name.replace('_', '-')}")
        _init_building(counts, output, sigma, None if within is None else (within, often, period))
        return
    timezone = timezone or _prompted("Time zone of the times, if they show the clock on the wall", "")
    read = read_counts(
        counts,
        most_counts=_most_counts(most_counts),
        preset=preset,
        start=None if time_column is None else [time_column],
        sensor=None if sensor_column is None else [sensor_column],
        count=None if count_column is None else [count_column],
        timezone=timezone or None,
        time_format=time_format,
        wall_clock=wall_clock or None,
        ignore=ignore,
        keep=keep,
        kind=kind,
        channels=channels,
        thousands=thousands,
        decimal=decimal,
        missing=missing,
        repeated="drop" if drop_repeated else None,
        nonexistent="drop" if skip_missing_hour else None,
    )
    taken = read.last_days(days)
    places = sensor_places(sensors, taken.sensors)
    places, ends, stand = places_between(sensors, places, zones)
    deployment = NewDeployment(output.resolve().name, taken, places, sigma or 1.0, most_counts_per_day, ends)
    if within is not None:
        if sigma is not None:
            raise typer.BadParameter(_ONE_NOISE)
        deployment = replace(deployment, sigma=_sigma_for(within, often, period, taken.step_seconds))
    elif sigma is None:
        least = least_sigma(deployment.spent().rho_value(), epsilon, _DELTA)
        deployment = replace(deployment, sigma=least)
    if habits is None:
        answer = _prompted("Account risk with habits: none or assumed", "none")
        habits = "assumed" if answer == "assumed" else "none"
    population, table = _assumed(deployment) if habits == "assumed" else (None, ())
    write_deployment(output, deployment, population, table)
    _print_reading(deployment, len(read.table))
    _print_lines(deployment, stand)
    _print_unknown(deployment, sensors)
    if table:
        _print_dependence(table)
    _print_next(output, population is not None)


def _init_building(
    path: Path, output: Path, sigma: float | None, accuracy: tuple[str, float, Period] | None
) -> None:
    from stream_app.analysis.preflight import check_files
    from stream_app.starting.building import PRIORS, load_building, people_of, write_building

    building = load_building(path)
    if accuracy is not None:
        if sigma is not None:
            raise typer.BadParameter(_ONE_NOISE)
        sigma = _sigma_for(*accuracy, building.step_minutes * 60)
    if sigma is not None:
        building = building.model_copy(update={"sigma": sigma})
    population, remarks = people_of(building) if building.people else (None, ())
    left_out = write_building(output, building, population)
    cli.say(
        f"{len(building.rooms)} rooms, {len(building.desks)} desks, {len(building.doors)} doors; steps of "
        f"{building.step_minutes} min from Monday {building.first_day} on; sigma {building.sigma:g}."
    )
    cli.say(*remarks)
    if left_out:
        names = ", ".join(each.sensor for each in left_out[:_SHOWN_SENSORS])
        more = len(left_out) - _SHOWN_SENSORS
        cli.say(
            f"Not released, since fewer than {building.least_people:g} people (least_people) use what they "
            f"count: {names}{f' and {more} more' if more > 0 else ''}."
        )
    config, priors = output / "tallyguard.toml", output / PRIORS if population is not None else None
    findings = check_files(config=config, priors=priors)
    cli.say_findings(findings)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)
    settings = f"--config {cli.typed(config)}{'' if priors is None else f' --priors {cli.typed(priors)}'}"
    cli.say(
        "A ceiling holds for people whose days are as the description says. Next:\n"
        f"  {cli.own_command()} run {settings} --input messages.jsonl --output out --create-keys"
    )


def _sigma_for(within: str, often: float, period: Period, step_seconds: int) -> float:
    from stream_app.analysis.accuracy import Accuracy, sigma_within

    target = Accuracy.of(within, often, period)
    sigma = None
    if not target.is_relative:
        sigma = sigma_within(int(target.within), target.level, target.steps(step_seconds))
    if sigma is None:
        raise InputError(
            "the accuracy of a new deployment must be in people, 1 or more: nobody knows how many to expect",
            within,
            "write --within 5; with priors, tallyguard plan --within 10% chooses by sensor and hour",
        )
    cli.say(f"Sigma {sigma:g}: {target.in_words()}.")
    return sigma


def _assumed(deployment: NewDeployment) -> tuple[Population, tuple[Dependence, ...]]:
    """The invented people, and how much the answer depends on them."""
    from accounting.settings import HorizonSettings
    from stream_app.starting.counts import deployment_files

    counts, places = deployment.counts, deployment.locations
    population = deployment_files.assumed_population(
        deployment_files.ALTERNATIVES[0], places, counts.step_seconds
    )
    chosen = deployment_files.table_steps(len(counts.table), counts.first_slot, counts.step_seconds)
    horizon = HorizonSettings(
        deployment_files.HORIZON,
        deployment_files.MISTAKES,
        first_slot=counts.first_slot,
        first_step=chosen.start,
        calendar=counts.calendar(counts.slots),
    )
    alternatives = deployment_files.ALTERNATIVES
    cli.remark(f"Comparing {len(alternatives)} assumptions about habits over {len(chosen)} steps.")
    with cli.progress() as bar:
        task = bar.add_task("steps", total=len(alternatives) * len(chosen))
        steps = deployment.schedule(chosen)
        table = deployment_files.dependence(deployment, steps, horizon, lambda: bar.advance(task))
    return population, table


def _most_counts(given: int | None) -> int:
    """By how much one person moves a count; asked first, as noise and epsilon depend on it."""
    if given is not None:
        return given
    answer = _prompted("How often can one person be counted by a sensor within a step, at most", "1")
    if not answer.isdecimal() or int(answer) < 1:
        raise InputError("how often a person is counted must be a whole number of 1 or more", answer, "say 1")
    return int(answer)


def _prompted(question: str, default: str) -> str:
    """The answer of whoever sits at a terminal; the default where nobody does."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return default
    return str(typer.prompt(question, default=default, show_default=bool(default)))


def _print_reading(deployment: NewDeployment, steps: int) -> None:
    from stream_app.starting.counts.doubts import NOT_COUNTED
    from stream_app.watching.wording import duration

    counts = deployment.counts
    counted = int((counts.table != NOT_COUNTED).sum())
    cli.say(
        f"Read {number_of(len(counts.sensors), 'sensor')}, every {duration(counts.step_seconds)}. "
        f"Took {len(counts.table):,} of {number_of(steps, 'step')} (--days), {number_of(counted, 'count')}, "
        f"{number_of(counts.table.size - counted, 'cell')} without one. Step 0 is "
        f"{counts.origin:%Y-%m-%d %H:%M} UTC."
    )
    cli.print_sensors(counts)
    cli.say(*(f"  {remark}" for remark in counts.remarks))


def _print_lines(deployment: NewDeployment, stand: Sequence[str]) -> None:
    """Which counters are taken to stand on a line, between what, and what is assumed of them."""
    from stream_app.watching.wording import duration

    if not deployment.lines:
        return
    ends = [place.name for place in deployment.locations if place not in deployment.places]
    named = ", ".join(ends[:_SHOWN_SENSORS]) + (
        f" and {len(ends) - _SHOWN_SENSORS} more" * (len(ends) > _SHOWN_SENSORS)
    )
    cli.say(
        f"{number_of(len(deployment.lines), 'counter')} on a line, counting moves from one place to another. "
        f"Places besides those of sensors: {named or 'none'}."
    )
    cli.say(*(f"  {each}" for each in stand[:_SHOWN_LINES]))
    if len(stand) > _SHOWN_LINES:
        cli.say(f"  and {len(stand) - _SHOWN_LINES} more: moves in sensors.json")
    cli.say(
        "  A move is of someone who is on one side in a step and on the other "
        f"{duration(deployment.counts.step_seconds)} later. A count belongs to the later step, so the first "
        "of each counter is left out. Ceilings know nothing of people who pass on the way between other "
        "places, or come back within a step: name all places on each side (from, to), or count in shorter "
        "intervals."
    )


def _print_unknown(deployment: NewDeployment, sensors: Path | None) -> None:
    from models.mechanisms import Gaussian
    from stream_app.watching.wording import WHOLE_LOG, duration

    error, change = Gaussian(deployment.sigma).expected_absolute_error(), deployment.counts.clock_change
    most = deployment.counts.most_counts
    again = (
        f"One person moves a count by at most {most}: noise and epsilon are for that."
        if most > 1
        else "One person moves a count by one: nobody is counted twice by a sensor within a step. A counter "
        "that counts passages counts some people again: say so with --most-counts, it changes noise and "
        "epsilon."
    )
    sentences = [
        "A time is the start of its interval. If it is the end, set origin in tallyguard.toml a step back.",
        "A missing count means that nobody counted. If your system leaves out zeros, write them first.",
        "A sensor is announced from its first count to its last; where it did not count in between, nothing "
        "is published.",
        f"{_most_sensors(deployment)} within {duration(deployment.counts.step_seconds)}. Anyone who is "
        "has less protection than priors and epsilon say: count in shorter intervals, or add noise.",
        again,
        f"Noise of sigma {deployment.sigma:g} people on every count: off by {error:.2g} people on "
        f"average. In differential privacy, all these releases together (the {WHOLE_LOG}) cost "
        f"{_spent(deployment)}.",
    ]
    if change is not None:
        sentences.append(
            f"The clocks change on {change:%Y-%m-%d}. Habits by the hour follow them, as timezone in "
            "tallyguard.toml says."
        )
    if all(place.latitude is None for place in deployment.places):
        why = "" if sensors is None else f", as {sensors} says no lat and lon of them"
        sentences.append(f"Where the sensors stand is not known{why}: the page draws no map.")
    cli.say("\nWhat the file cannot say, and what was assumed:", *(f"  - {each}" for each in sentences))


def _most_sensors(deployment: NewDeployment) -> str:
    """By how many sensors one person is counted at most: differential privacy rests on it."""
    if not deployment.lines:
        return "Nobody is counted by two sensors"
    stands = len(deployment.lines) < len(deployment.places)
    most = deployment.most_lines
    at_place = " and one at a place" if stands else ""
    return f"Nobody is counted by more than {number_of(most, 'counter')} on a line{at_place}"


def _spent(deployment: NewDeployment) -> str:
    from accounting.ledgers import epsilon_from_zcdp
    from stream_app.watching.wording import epsilon_in_words

    spend = deployment.spent()
    epsilon = spend.epsilon(_DELTA)
    if epsilon == float("inf"):
        return f"no epsilon, as noise so small leaves counts as they are: {_REMEDY}"
    if epsilon > _USEFUL_EPSILON:
        return f"epsilon {epsilon_in_words(epsilon)} at delta {_DELTA:g}, which protects nobody: {_REMEDY}"
    a_year = (
        spend.rho_value() * _YEAR_SECONDS / (len(deployment.counts.table) * deployment.counts.step_seconds)
    )
    return (
        f"epsilon {epsilon_in_words(epsilon)} at delta {_DELTA:g}; a whole year like it would cost "
        f"{epsilon_in_words(epsilon_from_zcdp(a_year, _DELTA))}. --epsilon or --sigma choose otherwise, "
        "docs/explanation/guarantees.md says what epsilon promises"
    )


def _print_dependence(table: tuple[Dependence, ...]) -> None:
    from stream_app.starting.counts.deployment_files import DEPENDS, HORIZON, TABLE_STEPS
    from stream_app.watching.wording import UP, ceiling_in_words, in_a_hundred, in_points

    cli.say(
        f"\nHow much the answer depends on assumed habits: chances that each of the last {HORIZON} steps is "
        f"reconstructed, over {TABLE_STEPS} steps at most, from 8 in the morning on"
    )
    rows = (
        (
            *(row.habits, in_a_hundred(row.mean_guess), ceiling_in_words(row.mean_ceiling)),
            in_points(row.most_added, UP),
        )
        for row in table
    )
    cli.print_table(rows, ("Habits",), ("Mean guess", "Mean ceiling", "Most added to anybody"))
    cli.say(DEPENDS)


def _print_next(output: Path, has_priors: bool) -> None:
    def file(name: str) -> str:
        return cli.typed(output / name)

    priors = f" --priors {file('assumed-priors.json')}" if has_priors else ""
    settings = f"--config {file('tallyguard.toml')}{priors}"
    commands = (
        f"check {settings} --schedule {file('schedule.json')}",
        f"run {settings} --input {file('messages.jsonl')} --output {file('out')} --create-keys",
        f"ledger {file('out')} {settings}",
        f"report {file('out')} --output {file('report.html')}",
    )
    cli.say("\nNext:", *(f"  {cli.own_command()} {line}" for line in commands))
    if not has_priors:
        cli.say(
            "No risk of persons is computed without priors: fit some to check-ins "
            "(docs/how-to/get-a-prior.md), or start again with --habits assumed."
        )
