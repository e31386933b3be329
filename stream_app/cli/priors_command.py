"""``tallyguard priors``: movement priors from check-ins or from public tables, checked and made finer."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from accounting.settings import HORIZON, MISTAKES
from models.text import number_of
from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from accounting.audit.calibration import GroupedCheck
    from models.fitting import Checkins, FitOptions, OnBadRow
    from models.fitting.calibration import MissedCell
    from models.priors import Population
    from models.releases import Schedule
    from stream_app.analysis.priors_against_traces import CheckedPriors
    from stream_app.starting.aggregates import MadePersonas

_SHOWN = 5


# ``tallyguard priors finer``: priors for counts over shorter steps than theirs.


def finer(
    priors: cli.PriorsArgument,
    parts: Annotated[int, typer.Option(help="Steps that one step of the priors becomes, e.g. 4 quarters.")],
    output: Annotated[Path, typer.Option(help="Priors to write, .json or .parquet.")],
) -> None:
    """Cut the steps of priors for counts that come more often.

    People stay where they are within a step of the priors and move at its end, as the priors say. Divide
    step_seconds by the same number, and multiply horizon, mistakes and first_slot by it: they count steps.

    \b
    Examples:
      tallyguard priors finer by-hour.json --parts 4 --output by-quarter.json
    """
    from models.prior_files import load_population, save_population
    from models.priors import in_finer_steps

    population = in_finer_steps(load_population(priors), parts)
    save_population(population, output)
    cli.remark(f"{len(population):,} priors in steps {parts} times as short: {output}")


# ``tallyguard priors watch``: volunteers' true places held against priors, beside an engine on Kafka.


def watch(
    priors: cli.PriorsArgument,
    config: cli.ConfigOption = None,
    every: Annotated[
        float, typer.Option(min=1.0, help="Seconds between two looks at the volunteers' file.")
    ] = 60.0,
    listen: cli.ListenOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read what there is, say what it shows and end.")
    ] = False,
    json: cli.JsonOption = False,
) -> None:
    """Hold the priors against volunteers' true places as they come in.

    Where one process accounts everybody, `run` does this by itself. On Kafka people are spread over workers:
    this is one more process, which reads the priors and the file of the setting `panel` and nothing else. Its
    metrics are at the address `listen`; the alert TallyguardPriorsRefuted watches them. Horizon, mistakes and
    first_slot must be those of the deployment.

    \b
    Examples:
      tallyguard priors watch priors.parquet --config tallyguard.toml
      tallyguard priors watch priors.parquet --config tallyguard.toml --once
    """
    from models.prior_files import load_population
    from stream_app.embedded import panel_of, watch_panel
    from stream_app.watching.prior_notes import panel_note

    settings = cli.settings_of(config, {"listen": listen})
    panel = panel_of(settings, load_population(priors))
    if not once:
        watch_panel(panel, settings, every, cli.remark)
    panel.read()
    if json:
        cli.print_json(asdict(panel.shown))
        return
    note = panel_note(panel.shown) or "too few places of volunteers to say anything yet"
    cli.say(f"{note[:1].upper()}{note[1:]}.")


priors = cli.command_group("priors", "Make and check movement priors.")


@priors.command()
def fit(
    checkins: Annotated[Path, typer.Argument(help="Check-ins, .parquet or .csv: user, time, loc.")],
    output: Annotated[Path, typer.Option(help="Priors to write, .json or .parquet.")],
    window_seconds: Annotated[
        int, typer.Option(help="Length of a fitting window, which becomes one step.")
    ] = 1_728_000,
    origin: Annotated[
        str, typer.Option(help="Start of window 0: earliest, midnight, epoch, or unix seconds.")
    ] = "earliest",
    keep_partial_window: Annotated[
        bool,
        typer.Option(help="Whether the last, partial window counts; it does by default.", show_default=False),
    ] = True,
    top_places: Annotated[int, typer.Option(help="Locations kept.")] = 100,
    ranking: Annotated[str, typer.Option(help="Ranked by training_rows, rows or users.")] = "training_rows",
    window_place: Annotated[
        str, typer.Option(help="Check-in that stands for a window: most_frequent, first or last.")
    ] = "most_frequent",
    elsewhere: Annotated[
        str, typer.Option(help="A window without check-in: a location of its own, bridge or skip.")
    ] = "location",
    elsewhere_name: Annotated[str, typer.Option(help="Name of that location.")] = "elsewhere",
    min_windows: Annotated[int, typer.Option(help="Windows with a check-in a person needs.")] = 10,
    min_windows_counted: Annotated[
        str, typer.Option(help="Counted among training windows, or all, which looks ahead.")
    ] = "training",
    held_out_windows: Annotated[int, typer.Option(help="Last windows that are not fitted.")] = 5,
    smoothing: Annotated[
        str, typer.Option(help="Which moves get the weight: between visited places, all locations, or none.")
    ] = "visited",
    smoothing_weight: Annotated[float, typer.Option(help="Added to the count of each such move.")] = 0.1,
    recency: Annotated[
        float, typer.Option(help="What a window counts beside the one after it; 1 for equal weights.")
    ] = 1.0,
    never_left: Annotated[
        str, typer.Option(help="Row of a place nobody left: smoothed, stay or uniform.")
    ] = "smoothed",
    slots: Annotated[int, typer.Option(help="Matrices per cycle, e.g. 24 with --window-seconds 3600.")] = 1,
    shrinkage_weight: Annotated[
        float, typer.Option(help="Moves that a person's row without a cycle counts for in each slot.")
    ] = 5.0,
    order: Annotated[
        int, typer.Option(help="2: the next place may depend on the one before, where that predicts better.")
    ] = 1,
    dwell: Annotated[
        bool,
        typer.Option("--dwell", help="It may depend on how long one has stayed, where that predicts better."),
    ] = False,
    evidence: Annotated[
        Path | None,
        typer.Option(
            help="Also write what each row rests on (.parquet): audit --posterior, setting evidence."
        ),
    ] = None,
    sensors: Annotated[
        Path | None,
        typer.Option(
            help="Where sensors stand (lat, lon): each check-in is at the nearest, by its own lat and lon."
        ),
    ] = None,
    within_km: Annotated[float, typer.Option(help="How near to a sensor it must be.")] = 1.0,
    zones: Annotated[
        Path | None,
        typer.Option(
            help="Where places are that sensors on a line stand between: CSV with lat, lon, or GeoJSON."
        ),
    ] = None,
    timezone: cli.TimezoneOption = None,
    holidays: cli.HolidaysOption = None,
    config: cli.ClockOfOption = None,
    reject_bad_rows: Annotated[
        bool, typer.Option("--reject-bad-rows", help="Leave out bad rows and count them.")
    ] = False,
    json: cli.JsonOption = False,
) -> None:
    """Fit a movement prior for each person from check-ins.

    The defaults are the preprocessing of Koga, Meehan and Chaudhuri, "Measuring Privacy Loss in Distributed
    Spatio-Temporal Data"; each choice it leaves open is an option. They also chose people and places by the
    held-out windows: --ranking rows --min-windows-counted all.

    With --order 2 or --dwell priors have several states a place, if training moves are then less surprising,
    each predicted from those before it.

    \b
    Examples:
      tallyguard priors fit checkins.parquet --output priors.json
      tallyguard priors fit checkins.csv --output priors.parquet --window-seconds 3600 --slots 24
        --origin epoch --held-out-windows 0
      tallyguard priors fit checkins.csv --output priors.parquet --window-seconds 3600 --slots 168
        --origin midnight --timezone Europe/Vienna --holidays holidays.txt
      tallyguard priors fit checkins.csv --output priors.parquet --window-seconds 3600 --slots 24
        --origin epoch --order 2 --dwell
    """
    given = {name: value for name, value in locals().items() if name not in _NOT_OPTIONS}
    given["origin"] = int(origin) if origin.lstrip("-").isdecimal() else origin
    given["timezone"], given["holidays"] = cli.clock_of(timezone, holidays, config)
    with cli.stderr().status("reading check-ins"):
        on_bad_row: Any = "reject" if reject_bad_rows else "fail"
        rows = _rows(checkins, sensors, within_km, zones, on_bad_row, given["timezone"])
    summary = _fit(rows, output, given, evidence)
    if json:
        rests_on = {} if evidence is None else {"evidence": str(evidence)}
        cli.print_json({**summary, "output": str(output), **rests_on})
    else:
        _print_summary(summary, output)


_NOT_OPTIONS = {
    *("checkins", "output", "json", "evidence", "reject_bad_rows", "sensors", "within_km", "zones", "config")
}


def _rows(
    path: Path,
    sensors: Path | None,
    within_km: float,
    zones: Path | None,
    on_bad_row: OnBadRow,
    timezone: str | None,
) -> Checkins:
    """The check-ins of a file, at sensors where these are given."""
    from models.fitting import read_checkins

    rows = read_checkins(path, on_bad_row, timezone)
    if rows.without_zone:
        taken = "UTC: if they are local times, say --timezone" if timezone is None else f"times of {timezone}"
        cli.remark(f"{rows.without_zone:,} times of check-ins name no time zone and are taken as {taken}.")
    if sensors is None:
        return rows
    from stream_app.starting.aggregates.zone_files import at_sensors

    found = at_sensors(rows, path, sensors, within_km, zones)
    cli.remark(f"{len(rows) - len(found):,} of {len(rows):,} check-ins are near no sensor and left out.")
    nobody = set(range(len(found.location_names))) - set(found.location.tolist())
    if nobody:
        names = ", ".join(found.location_names[place] for place in sorted(nobody))
        cli.remark(f"No check-in is at {names}: priors without these places fit no deployment that has them.")
    return found


def _fit(rows: Checkins, output: Path, given: dict[str, Any], evidence: Path | None) -> dict[str, Any]:
    from models.fitting import FitOptions, fit_priors, predict_held_out, training_surprise
    from models.prior_files import save_evidence, save_population

    options: FitOptions = FitOptions(**given)
    with cli.stderr().status("fitting"):
        result = fit_priors(rows, options)
        save_population(result.population, output)
        if evidence is not None:
            save_evidence(result.evidence, evidence)
    predicted = predict_held_out(result)
    return {
        **result.summary(),
        "training surprise": training_surprise(result)._asdict(),
        "held-out prediction": None if predicted is None else predicted._asdict(),
    }


def _print_summary(summary: dict[str, Any], output: Path) -> None:
    prediction, surprise = summary.pop("held-out prediction"), summary.pop("training surprise")
    for name, value in summary.items():
        if isinstance(value, dict):
            cli.say(f"{name}:", *(f"  {reason}: {count:,}" for reason, count in value.items()))
        else:
            cli.say(*(f"{name}: {each}" for each in (value if isinstance(value, list) else [value])))
    cli.say(_surprise_in_words(surprise), _prediction_in_words(prediction), f"Written to {output}.")


def _surprise_in_words(found: dict[str, Any]) -> str:
    """How well this way of fitting predicts within the training windows; never that it is better."""
    surprise, equal = found["surprise"], found["with_equal_weights"]
    if surprise is None or equal is None:
        return "Evidence: none, as a training move was impossible by those before it; smooth more."
    compared = "" if surprise == equal else f", {equal:.3f} with equal weights for all windows"
    chosen = ""
    if len(found["by_habit"]) > 1:
        said = [
            f"{_HABITS[habit]} {'impossible' if value is None else f'{value:.3f}'}"
            for habit, value in found["by_habit"].items()
        ]
        chosen = f" Of what was tried it is the least: {', '.join(said)}."
    return (
        f"Evidence: {found['moves']:,} training moves, each predicted from those before it: surprise "
        f"{surprise:.3f} nats a move{compared}.{chosen} Less is better on these windows only."
    )


_HABITS = {
    "places": "by the present place",
    "second order": "by the last two places",
    "stays": "by the place and the stay so far",
}


def _prediction_in_words(prediction: dict[str, Any] | None) -> str:
    """How far ceilings computed with these priors can be trusted."""
    from stream_app.watching.wording import in_a_hundred

    if prediction is None:
        return (
            "No window was held out (--held-out-windows), so nothing is known of how well the priors predict."
        )
    expected, actual = prediction["expected"], prediction["actual"]
    if actual - expected > prediction["margin"]:
        verdict = (
            "People are more regular than the priors say: an attack can succeed more often than a ceiling "
            "computed with them. Fit shorter windows or more months, or smooth less."
        )
    elif expected - actual > prediction["margin"]:
        verdict = "People are less regular than the priors say: ceilings may be higher than they need to be."
    else:
        verdict = "That agrees, as far as this number of people can show."
    return (
        f"Held-out windows of {prediction['people']:,} people: by habit alone the likeliest place should be "
        f"right in {in_a_hundred(expected)}, and is right in {in_a_hundred(actual)}. {verdict}"
    )


# ``tallyguard priors personas``: priors from what is public of all people together.


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
        cli.print_json({**_personas_document(made), "output": str(output)})
    else:
        _print_personas(made, output)


def _personas_document(made: MadePersonas) -> dict[str, Any]:
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


def _print_personas(made: MadePersonas, output: Path) -> None:
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


# ``tallyguard priors check``: priors held against traces they were not fitted to.

_AS_FITTED = "as fitted by default"


def check(
    priors: cli.PriorsArgument,
    checkins: Annotated[
        Path, typer.Option(help="Check-ins of the same people, .parquet or .csv, as for fit.")
    ],
    horizon: Annotated[
        int | None, typer.Option(help=f"Steps to guess (T); the windows there are, at most {HORIZON}.")
    ] = None,
    mistakes: Annotated[int, typer.Option(help="How many of them may be wrong (s).")] = MISTAKES,
    schedule: Annotated[
        Path | None,
        typer.Option(help="What the attack sees (JSON); nothing by default. Its length is the horizon."),
    ] = None,
    attack: Annotated[
        str | None,
        typer.Option(
            help="The attack to try: marginal (default), map, prior or constant; prior (default) or constant "
            "where states share a place."
        ),
    ] = None,
    groups: Annotated[int, typer.Option(help="Groups of people, by what is predicted of them.")] = 4,
    held_out_windows: Annotated[
        int | None,
        typer.Option(
            help="Last windows of the file, if not all that were not fitted; 5 where that is not known."
        ),
    ] = None,
    window_seconds: Annotated[int | None, typer.Option(help=f"Length of a window; {_AS_FITTED}.")] = None,
    origin: Annotated[
        str | None,
        typer.Option(help=f"Start of window 0: earliest, midnight, epoch or unix seconds; {_AS_FITTED}."),
    ] = None,
    window_place: Annotated[
        str | None, typer.Option(help=f"Check-in that stands for a window; {_AS_FITTED}.")
    ] = None,
    elsewhere: Annotated[
        str | None, typer.Option(help=f"A window without check-in: location, bridge or skip; {_AS_FITTED}.")
    ] = None,
    elsewhere_name: Annotated[str | None, typer.Option(help=f"Name of that location; {_AS_FITTED}.")] = None,
    timezone: cli.TimezoneOption = None,
    holidays: cli.HolidaysOption = None,
    config: cli.ClockOfOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the horizons chosen and of noise.")] = 0,
    reject_bad_rows: Annotated[
        bool, typer.Option("--reject-bad-rows", help="Leave out bad rows and count them.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw predicted against realised (PNG).")] = None,
    json: cli.JsonOption = False,
) -> None:
    """Find out whether priors can be trusted.

    Holds them against windows they were not fitted to: is the best guess, and one attack, right as often as
    the priors say, for everybody and in groups of people? The verdict is the worst group's. Choose horizon,
    attack and groups before you look. The priors file says which windows were fitted; for priors from
    elsewhere give the options. Exit status 1 if ceilings are too low.

    \b
    Examples:
      tallyguard priors check priors.json --checkins checkins.parquet
      tallyguard priors check priors.json --checkins checkins.csv --schedule day.json --attack map
        --plot check.png
      tallyguard priors check others.json --checkins checkins.csv --window-seconds 3600 --origin epoch
        --held-out-windows 336 --horizon 10
    """
    from accounting.audit.calibration import CheckSettings
    from models.prior_files import load_population
    from stream_app.analysis.priors_against_traces import WindowOptions, check_files

    population = load_population(priors)
    attack = attack or ("prior" if population.shares_places else "marginal")
    zone, days = cli.clock_of(timezone, holidays, config)
    cut = (window_seconds, origin, window_place, elsewhere, elsewhere_name, held_out_windows)
    windows = WindowOptions(*cut, zone, None if zone is None and not days else days)
    settings = CheckSettings(mistakes=mistakes, attack=attack, groups=groups, seed=seed)
    steps_or_schedule = horizon if schedule is None else _schedule(schedule, population, horizon)
    on_bad_row = "reject" if reject_bad_rows else "fail"
    with cli.progress() as bar:
        task = bar.add_task("checking", total=len(population))
        checked = check_files(
            population,
            checkins,
            windows,
            steps_or_schedule,
            settings,
            on_bad_row=on_bad_row,  # type: ignore[arg-type]
            progress=lambda done: bar.update(task, completed=done),
        )
    if plot is not None:
        from stream_app.analysis.plan_figure import draw_check

        draw_check(checked.check, plot)
    if json:
        cli.print_json(checked.as_json())
    else:
        _print_check(checked)
    if checked.is_too_low:
        raise typer.Exit(1)


def _schedule(path: Path, population: Population, horizon: int | None) -> Schedule:
    from models.releases import SensorRegistry
    from stream_app.exceptions import SettingsError
    from stream_app.setup.schedule_files import load_schedule

    planned = load_schedule(path, SensorRegistry.one_per_location(population.location_names))
    if horizon is not None and horizon != len(planned.steps):
        raise SettingsError(
            "the horizon must be the schedule's length",
            f"{horizon} and {len(planned.steps)}",
            "name one of them",
        )
    return planned


def _print_check(checked: CheckedPriors) -> None:
    check = checked.check
    released = "under the schedule" if checked.is_released else "with nothing released"
    cli.say(
        f"{number_of(check.guess.everybody.people, 'person')}, {number_of(check.steps, 'step')} of which "
        f"{check.mistakes} may be "
        f"wrong, in {checked.windows:,} windows that were not fitted."
    )
    if check.left_out:
        cli.say(f"{number_of(check.left_out, 'person')} without so many known windows in a row are left out.")
    _print_groups("Best guess from habits alone", check.guess)
    _print_groups(f"Attack {check.attack_name} {released}, against ceilings", check.attack)
    dropped = (f"left out: {reason}: {count:,}" for reason, count in checked.traces.dropped.items() if count)
    cli.say(_surprise(checked), *checked.sentences(), *dropped)


def _print_groups(title: str, grouped: GroupedCheck) -> None:
    from stream_app.watching.wording import DOWN, UP, shortened, significant

    rows = (
        (
            f"{row.predicted_lowest:.2f}-{row.predicted_highest:.2f}" if number else "everybody",
            f"{row.people:,}",
            f"{row.predicted:.3f}",
            f"{row.realised:.3f} ({shortened(row.low, 2, DOWN)}-{shortened(row.high, 2, UP)})",
            f"{row.p_higher:.1g}",
            "-" if row.p_lower is None else f"{row.p_lower:.1g}",
            significant(row.kappa_min, 3, DOWN),
            row.refuted.value.removeprefix("ceilings "),
        )
        for number, row in enumerate((grouped.everybody, *grouped.groups))
    )
    figures = ("People", "Predicted", "Realised", "p more", "p fewer", "Radius")
    cli.print_table(rows, ("Group",), figures, ("Verdict",), padding=0, title=title)


def _surprise(checked: CheckedPriors) -> str:
    found = checked.check.sharpness
    if found.z is None or found.z_by_person is None:
        return "Surprise: no move could have surprised."
    return (
        f"Surprise of {found.moves:,} moves: {found.surprise:.2f} nats a move, {found.expected:.2f} expected "
        f"(z {found.z:+.1f}; {found.z_by_person:+.1f} with the spread between people)."
    )


priors.command()(personas)
priors.command()(finer)
priors.command()(check)
priors.command()(watch)
