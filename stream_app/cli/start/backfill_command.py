"""``tallyguard backfill``: an archive of counts published in step order, as a run would have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.shared.options import (
    ByOption,
    ConfigOption,
    JsonOption,
    ListenOption,
    PriorsOption,
    ReasonOption,
)
from stream_app.cli.shared.output import progress
from stream_app.cli.start.run_command import RiskFile, TakeOverOption, print_report, run_watched

if TYPE_CHECKING:
    from stream_app.embedded import RunOptions, RunReport
    from stream_app.setup.settings import Settings

_MEGABYTE = 1e6


def backfill(
    archive: Annotated[
        Path, typer.Argument(help="Messages (.jsonl), as `connect files` writes them.", show_default=False)
    ],
    output: Annotated[Path, typer.Option(help="Output folder; continued if it exists.", show_default=False)],
    priors: PriorsOption = None,
    config: ConfigOption = None,
    schedule: Annotated[
        Path | None,
        typer.Option(help="Schedule (JSON) or activations (CSV) known beforehand.", show_default=False),
    ] = None,
    risk_format: Annotated[
        RiskFile, typer.Option("--format", help="Format of per-person risks.")
    ] = RiskFile.JSONL,
    listen: ListenOption = None,
    create_keys: Annotated[
        bool, typer.Option("--create-keys", help="Make missing secret keys beside the output folder.")
    ] = False,
    by: ByOption = None,
    reason: ReasonOption = None,
    take_over: TakeOverOption = None,
    json: JsonOption = False,
) -> None:
    """Publish an archive of counts, step after step.

    The same engine, decisions, accounts and files as `tallyguard run`: a release of old counts costs as much
    as one of new counts. The whole archive is looked through first. It is refused where its readings are out
    of order, or where another input, such as a live run, has released its steps to OUTPUT already. Stop it
    with Ctrl-C, or kill it: the same command goes on, and ends in the same files. Steps close as the archive
    goes on, not by the clock, whatever grace_seconds says. A live run may continue the same OUTPUT.

    \b
    Examples:
      tallyguard backfill messages.jsonl --config tallyguard.toml --output out --create-keys
      tallyguard backfill 2024.jsonl --config tallyguard.toml --priors priors.parquet --output out
    """
    from stream_app.cli.shared.command_settings import settings_of
    from stream_app.embedded import RunOptions
    from stream_app.steps import RiskFormat

    settings = settings_of(config, {"listen": listen}).model_copy(update={"grace_seconds": None})
    options = RunOptions(
        output=output,
        input=archive,
        is_csv=False,
        schedule=schedule,
        risk_format=RiskFormat(risk_format.value),
        create_keys=create_keys,
        by=by,
        reason=reason,
        priors=None if priors is None else priors.name,
        take_over=take_over,
    )
    report = _publish(settings, options, priors)
    print_report(report, output, settings.delta, json)


def _publish(settings: Settings, options: RunOptions, priors: Path | None) -> RunReport:
    """Look through the archive, then run it; a progress bar for each."""
    from stream_app.embedded import check_unreleased, read_archive_steps
    from stream_app.watching.events import Observer, StepClosed

    archive = options.input
    assert archive is not None
    with progress() as bar:
        size = archive.stat().st_size if archive.is_file() else 0
        task = bar.add_task("MB looked through", total=round(size / _MEGABYTE, 1))
        steps = read_archive_steps(
            archive, lambda read: bar.advance(task, read / _MEGABYTE), late=settings.late
        )
        next_step = check_unreleased(steps, options.output, max_ahead=settings.max_ahead)
        bar.remove_task(task)
        task = bar.add_task("steps", total=max(steps.last_step + 1 - next_step, 0))

        class Shown(Observer):
            """Moves the bar."""

            def closed(self, event: StepClosed) -> None:
                bar.update(task, completed=event.step + 1 - next_step)

        return run_watched(settings, options, priors, Shown())
