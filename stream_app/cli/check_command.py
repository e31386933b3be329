"""``tallyguard check``: are priors, sensors, schedule and settings fit to run with?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli import shared as cli

AskedRunner = StrEnum(
    "AskedRunner", ["run", "plan", "release", "intake", "coordinator", "account", "persons"]
)


def check(
    priors: Annotated[
        Path | None, typer.Option("--priors", help="Movement priors, .json or .parquet.")
    ] = None,
    schedule: Annotated[Path | None, typer.Option("--schedule", help="Schedule (JSON).")] = None,
    sensors: Annotated[Path | None, typer.Option("--sensors", help="Sensors (JSON or CSV).")] = None,
    config: cli.ConfigOption = None,
    runner: Annotated[
        list[AskedRunner] | None,
        typer.Option(
            "--for",
            help="Ask only this one, as where each process has a settings file of its own; may be repeated.",
        ),
    ] = None,
    new_priors: cli.NewPriorsOption = None,
    json: cli.JsonOption = False,
) -> None:
    """Check files and settings before a run, or before workers start.

    Asks whatever the settings name: a run, or with kafka.servers the workers and `persons load`; connectors;
    with --schedule a plan. What one of them would refuse at its start is a problem here, in the same words;
    docs/reference/limits.md lists what does not go together. No broker or service is asked. Exits with 1 when
    something is wrong. Warnings alone exit with 0. Sensors and schedule are checked against the locations of
    --priors, or of the settings. --new-priors asks for what a run, or `persons load`, that goes on with these
    priors would be given. Forms of all files: docs/reference/file-formats.md.

    \b
    Examples:
      tallyguard check --config tallyguard.toml --priors priors.json
      tallyguard check --config account.toml --for account
      tallyguard check --priors priors.parquet --sensors sensors.csv --schedule tomorrow.json --json
    """
    from stream_app.analysis.preflight import check_files
    from stream_app.setup.combinations import Runner
    from stream_app.starting.connect.connectors import check_connectors

    findings = check_files(
        config=config,
        priors=priors,
        sensors=sensors,
        schedule=schedule,
        runners=None if runner is None else [Runner[each.name.upper()] for each in runner],
        new_priors=new_priors,
    )
    if runner is None:
        findings += check_connectors(config, findings)
    if json:
        cli.print_json([vars(finding) for finding in findings])
    else:
        cli.say_findings(findings)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)
