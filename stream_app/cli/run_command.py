"""``tallyguard run``: the embedded engine on a file or a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from models.text import number_of
from stream_app.cli import shared as cli
from stream_app.setup.option_settings import RiskFormat

if TYPE_CHECKING:
    from stream_app.embedded import RunOptions, RunReport
    from stream_app.setup.settings import Settings
    from stream_app.watching.events import Observer


# Options of both commands.

OutputOption = Annotated[Path, typer.Option(help="Output folder; continued if it exists.")]
ScheduleOption = Annotated[
    Path | None, typer.Option(help="Schedule (JSON) or activations (CSV) known beforehand.")
]
RiskFormatOption = Annotated[RiskFormat, typer.Option("--format", help="Format of per-person risks.")]
CreateKeysOption = Annotated[
    bool, typer.Option("--create-keys", help="Make missing secret keys beside the output folder.")
]
TakeOverOption = Annotated[
    str | None,
    typer.Option(
        "--take-over",
        help="Continue although more was published with the noise key than OUTPUT holds; why, for the "
        "record.",
        metavar="REASON",
    ),
]


def run(
    output: OutputOption,
    priors: cli.PriorsOption = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Messages, .jsonl or .csv; standard input if left out.")
    ] = None,
    schedule: ScheduleOption = None,
    config: cli.ConfigOption = None,
    horizon: cli.HorizonOption = None,
    mistakes: cli.MistakesOption = None,
    listen: cli.ListenOption = None,
    risk_format: RiskFormatOption = RiskFormat.JSONL,
    csv: Annotated[
        bool | None,
        typer.Option("--csv/--jsonl", help="Input format; by file name if left out.", show_default=False),
    ] = None,
    keep_open: Annotated[
        bool, typer.Option("--keep-open", help="Leave unfinished steps open at the end of the input.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Keep reading what is appended to --input, also after log rotation, until stopped.",
        ),
    ] = False,
    create_keys: CreateKeysOption = False,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes",
            help="Continue although people, priors, sensors, places at the end, release policy, schedule, "
            "noise key, thresholds, priors_check or evidence changed, or without the rest of a followed "
            "input.",
        ),
    ] = False,
    effective_from: Annotated[
        int | None,
        typer.Option(
            help="First step whose releases are accounted for new people of whom the priors do not say when "
            "they came. [default: the log's first]",
            min=0,
        ),
    ] = None,
    new_priors: cli.NewPriorsOption = None,
    by: cli.ByOption = None,
    reason: cli.ReasonOption = None,
    take_over: TakeOverOption = None,
    json: cli.JsonOption = False,
) -> None:
    """Publish counts and account every person's risk.

    Reads activations and readings, writes releases.jsonl, risks.jsonl and rejected.jsonl to the output
    folder. Stop it with Ctrl-C, or kill it: started again on the same output it continues where it stopped,
    and publishes nothing twice. Without --priors counts are published with the noise of the settings, and
    only their differential privacy is accounted; setting locations names the places.
    --create-keys makes the keys in OUTPUT-keys (mode 0700), for you only. Forms of all files:
    docs/reference/file-formats.md.

    \b
    Examples:
      tallyguard run --priors priors.json --input day.jsonl --output out --create-keys
      tallyguard run --config tallyguard.toml --input day.jsonl --output out
      producer | tallyguard run --priors priors.parquet --output out --config tallyguard.toml
      tallyguard run --priors priors.json --input counts.csv --schedule schedule.json --output out
      tallyguard run --config tallyguard.toml --input from-http/messages.jsonl --follow --output out
      tallyguard run --config other.toml --output out --accept-changes --reason "the trial is over"
      tallyguard run --priors survey-2027.parquet --input day.jsonl --output out --accept-changes \\
        --new-priors redone --reason "survey of 2027"
    """
    from stream_app.embedded import RunOptions
    from stream_app.wire import mostly_refused

    settings = cli.settings_of(config, {"horizon": horizon, "mistakes": mistakes, "listen": listen})
    options = RunOptions(
        output=output,
        input=input_file,
        is_csv=csv,
        schedule=schedule,
        risk_format=risk_format,
        keep_open=keep_open,
        follow=follow,
        create_keys=create_keys,
        accept_changes=accept_changes,
        by=by,
        reason=reason,
        priors=None if priors is None else priors.name,
        take_over=take_over,
        effective_from=effective_from,
        new_priors=new_priors,
    )
    report = run_watched(settings, options, priors, config=config)
    print_report(report, output, settings.delta, json)
    if report.closed_no_step and not (keep_open and not report.rejected):
        why = mostly_refused(report.lines, report.rejected) or "the input held no message that closes a step"
        print(f"tallyguard: no step could be closed: {why}; see {output / 'rejected.jsonl'}", file=sys.stderr)
        raise SystemExit(3)


def run_watched(
    settings: Settings,
    options: RunOptions,
    priors: Path | None,
    more: Observer | None = None,
    config: Path | None = None,
) -> RunReport:
    """Run the engine, with its page and metrics; ``more`` hears of everything, too.

    Plans that are taken on the page are written beside the settings file ``config``.
    """
    from functools import partial

    from stream_app import embedded
    from stream_app.analysis.served import answer_of_run, plans_of_run
    from stream_app.setup.given_priors import population_of
    from stream_app.setup.run_folder.run_settings import with_known_names
    from stream_app.setup.sensor_files import load_registry
    from stream_app.watching.events import Observers
    from stream_app.watching.web import watching

    options.check_input()
    population = with_known_names(options.output, population_of(settings, priors))
    registry = load_registry(settings.sensors, population.location_names)
    plans = plans_of_run(options.output, settings, population, config) if len(population) else None
    answer = partial(answer_of_run, options.output)
    with watching(settings, registry.sensors, answer=answer, planner=plans) as watch:
        if watch.address:
            cli.remark(f"watch it at {watch.address} (metrics at {watch.address}metrics)")
        observer = watch.observer if more is None else Observers([watch.observer, more])
        return embedded.run(settings, options, population, observer=observer)


def print_report(report: RunReport, output: Path, delta: float, json: bool) -> None:
    """What a run did: in sentences, or as one JSON object."""
    from dataclasses import asdict

    from stream_app.setup.run_folder.run_settings import load_run

    if json:
        cli.print_json(asdict(report))
        return
    rejected = sum(report.rejected.values())
    cli.say(
        f"{number_of(report.steps, 'step')} from {number_of(report.lines, 'message')} in "
        f"{report.seconds:.1f} s, {number_of(rejected, 'message')} rejected; stopped by {report.reason} "
        f"before step {report.next_step:,}.",
        *(f"  rejected, {reason}: {count:,}" for reason, count in sorted(report.rejected.items())),
        f"Results are in {output}.",
    )
    if report.note is not None:
        cli.say(f"Note: {report.note}.")
    if load_run(output).get("people") == 0:
        _print_spent(output, delta)


def _print_spent(output: Path, delta: float) -> None:
    from math import isfinite

    from accounting.ledgers import EVERY_GROUP
    from stream_app.setup.run_folder.run_settings import load_account
    from stream_app.watching.wording import WHOLE_LOG, epsilon_in_words, why_no_epsilon

    account = load_account(output)
    if account is None:
        return
    spend = account.spends[EVERY_GROUP]
    if isfinite(epsilon := spend.epsilon(delta)):
        what = f"Differential privacy of all that was published so far ({WHOLE_LOG})"
        cli.say(f"{what}: epsilon {epsilon_in_words(epsilon)} at delta {delta:g}.")
    else:
        cli.say(f"No differential privacy guarantee: {why_no_epsilon(spend, delta)}.")


# ``tallyguard backfill``: an archive of counts published in step order, as a run would have.

_MEGABYTE = 1e6


def backfill(
    archive: Annotated[Path, typer.Argument(help="Messages (.jsonl), as `connect files` writes them.")],
    output: OutputOption,
    priors: cli.PriorsOption = None,
    config: cli.ConfigOption = None,
    schedule: ScheduleOption = None,
    risk_format: RiskFormatOption = RiskFormat.JSONL,
    listen: cli.ListenOption = None,
    create_keys: CreateKeysOption = False,
    by: cli.ByOption = None,
    reason: cli.ReasonOption = None,
    take_over: TakeOverOption = None,
    json: cli.JsonOption = False,
) -> None:
    """Publish an archive of counts, step after step.

    The same engine, decisions, accounts and files as `tallyguard run`: a release of old counts costs as much
    as one of new counts. The whole archive is looked through first. It is refused where its readings are out
    of order, or where another input, such as a live run, has released its steps to OUTPUT already. Stop it
    with Ctrl-C, or kill it: the same command continues, and ends with the same files. Steps close as the
    archive is read, not by the clock, whatever grace_seconds says. A live run may continue the same OUTPUT.

    \b
    Examples:
      tallyguard backfill messages.jsonl --config tallyguard.toml --output out --create-keys
      tallyguard backfill 2024.jsonl --config tallyguard.toml --priors priors.parquet --output out
    """
    from stream_app.embedded import RunOptions, check_unreleased, read_archive_steps
    from stream_app.watching.events import Observer, StepClosed

    settings = cli.settings_of(config, {"listen": listen}).model_copy(update={"grace_seconds": None})
    options = RunOptions(
        output=output,
        input=archive,
        is_csv=False,
        schedule=schedule,
        risk_format=risk_format,
        create_keys=create_keys,
        by=by,
        reason=reason,
        priors=None if priors is None else priors.name,
        take_over=take_over,
    )
    with cli.progress() as bar:
        size = archive.stat().st_size if archive.is_file() else 0
        task = bar.add_task("MB looked through", total=round(size / _MEGABYTE, 1))
        steps = read_archive_steps(
            archive, lambda read: bar.advance(task, read / _MEGABYTE), late=settings.late
        )
        next_step = check_unreleased(steps, output, max_ahead=settings.max_ahead)
        bar.remove_task(task)
        task = bar.add_task("steps", total=max(steps.last_step + 1 - next_step, 0))

        class Shown(Observer):
            """Moves the bar."""

            may_lag = True

            def closed(self, event: StepClosed) -> None:
                bar.update(task, completed=event.step + 1 - next_step)

        report = run_watched(settings, options, priors, Shown())
    print_report(report, output, settings.delta, json)
