"""``tallyguard priors fit``: movement priors from check-ins."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_app.cli import shared as cli
from stream_app.cli.personas_command import personas
from stream_app.cli.priors_check_command import check

if TYPE_CHECKING:
    from models.fitting import Checkins, FitOptions


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
    checkins: Annotated[
        Path, typer.Argument(help="Check-ins, .parquet or .csv: user, time (unix s UTC), loc.")
    ],
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
        rows = _rows(checkins, sensors, within_km, zones, reject_bad_rows)
    summary = _fit(rows, output, given, evidence)
    if json:
        rests_on = {} if evidence is None else {"evidence": str(evidence)}
        cli.print_json({**summary, "output": str(output), **rests_on})
    else:
        _print_summary(summary, output)


priors.command()(personas)
priors.command()(finer)
priors.command()(check)
priors.command()(watch)
_NOT_OPTIONS = {
    *("checkins", "output", "json", "evidence", "reject_bad_rows", "sensors", "within_km", "zones", "config")
}


def _rows(
    path: Path, sensors: Path | None, within_km: float, zones: Path | None, reject_bad_rows: bool
) -> Checkins:
    """The check-ins of a file, at sensors where these are given."""
    from models.fitting import read_checkins

    rows = read_checkins(path, "reject" if reject_bad_rows else "fail")
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
