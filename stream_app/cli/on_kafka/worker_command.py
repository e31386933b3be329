"""``tallyguard worker``: the processes of a deployment on Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.shared import ByOption, ConfigOption, ListenOption, ReasonOption, stderr

worker = typer.Typer(name="worker", help="Processes of a deployment on Kafka.", no_args_is_help=True)


@worker.callback()
def _group() -> None:
    """Processes of a deployment on Kafka."""


ScheduleOption = Annotated[
    Path | None,
    typer.Option("--schedule", help="Schedule (JSON) whose mechanisms go before the settings'."),
]
AcceptChangesOption = Annotated[
    bool,
    typer.Option(
        "--accept-changes",
        help="Continue although release policy or noise key changed, or input records are lost.",
    ),
]


@worker.command()
def release(
    config: ConfigOption = None,
    schedule: ScheduleOption = None,
    listen: ListenOption = None,
    accept_changes: AcceptChangesOption = False,
    by: ByOption = None,
    reason: ReasonOption = None,
) -> None:
    """Close steps, draw values, write the release log.

    Exactly one runs; a second one refuses to start. Sensors of several regions need a coordinator and intake
    workers in its place.

    \b
    Examples:
      tallyguard worker release --config tallyguard.toml
      TALLYGUARD_KAFKA__SERVERS=broker:9092 tallyguard worker release --config city.toml --listen 0.0.0.0:9464
    """
    from stream_app.cli.shared import settings_of
    from stream_app.kafka.processes import run_release_worker
    from stream_app.setup.run_folder.record import Author

    settings = settings_of(config, {"listen": listen})
    code = run_release_worker(
        settings,
        schedule,
        accept_changes=accept_changes,
        announce=stderr().print,
        author=Author.given(by, reason),
    )
    raise SystemExit(code)


@worker.command()
def intake(
    config: ConfigOption = None,
    listen: ListenOption = None,
    accept_changes: AcceptChangesOption = False,
) -> None:
    """Take in the counts of some regions, draw values, publish them.

    For sensors of several regions. Start as many as there are regions at most; they share out the regions by
    themselves. A coordinator decides for all of them.

    \b
    Examples:
      tallyguard worker intake --config tallyguard.toml
      tallyguard worker intake --config tallyguard.toml --listen 127.0.0.1:9466
    """
    from stream_app.cli.shared import settings_of
    from stream_app.kafka.processes import run_intake_worker

    settings = settings_of(config, {"listen": listen})
    raise SystemExit(run_intake_worker(settings, accept_changes=accept_changes, announce=stderr().print))


@worker.command()
def coordinator(
    config: ConfigOption = None,
    schedule: ScheduleOption = None,
    listen: ListenOption = None,
    accept_changes: AcceptChangesOption = False,
    by: ByOption = None,
    reason: ReasonOption = None,
) -> None:
    """Decide for sensors of several regions, without seeing a count.

    Exactly one runs; a second one refuses to start. It needs no noise key.

    \b
    Examples:
      tallyguard worker coordinator --config tallyguard.toml
    """
    from stream_app.cli.shared import settings_of
    from stream_app.kafka.processes import run_coordinator
    from stream_app.setup.run_folder.record import Author

    settings = settings_of(config, {"listen": listen})
    code = run_coordinator(
        settings,
        schedule,
        accept_changes=accept_changes,
        announce=stderr().print,
        author=Author.given(by, reason),
    )
    raise SystemExit(code)


@worker.command()
def account(config: ConfigOption = None, listen: ListenOption = None) -> None:
    """Account every released step for its share of the people.

    The people are split into partitions. Start as many workers as there are partitions at most; they share
    out the people by themselves.

    \b
    Examples:
      tallyguard worker account --config tallyguard.toml
      tallyguard worker account --config tallyguard.toml --listen 127.0.0.1:9465
    """
    from stream_app.cli.shared import settings_of
    from stream_app.kafka.processes import run_account_worker

    raise SystemExit(run_account_worker(settings_of(config, {"listen": listen}), announce=stderr().print))
