"""``tallyguard priors check``: priors held against traces they were not fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accounting.settings import HORIZON, MISTAKES
from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from accounting.audit.calibration import GroupedCheck
    from models.priors import Population
    from models.releases import Schedule
    from stream_app.analysis.priors_against_traces import CheckedPriors

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
        f"{check.guess.everybody.people:,} people, {check.steps} steps of which {check.mistakes} may be "
        f"wrong, in {checked.windows:,} windows that were not fitted."
    )
    if check.left_out:
        cli.say(f"{check.left_out:,} people without so many known windows in a row are left out.")
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
