"""``tallyguard check``: are priors, sensors, schedule and settings fit to run with?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.shared import ConfigOption, JsonOption, print_json, say


def check(
    priors: Annotated[
        Path | None, typer.Option("--priors", help="Movement priors, .json or .parquet.")
    ] = None,
    schedule: Annotated[Path | None, typer.Option("--schedule", help="Schedule (JSON).")] = None,
    sensors: Annotated[Path | None, typer.Option("--sensors", help="Sensors (JSON or CSV).")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Check files and settings before a run.

    Explains each finding. Exits with 1 when something is wrong. Warnings alone exit with 0. Sensors and
    schedule are checked against the locations of --priors, or of the settings. Forms of all files:
    docs/reference/file-formats.md.

    \b
    Examples:
      tallyguard check --config tallyguard.toml --priors priors.json
      tallyguard check --priors priors.parquet --sensors sensors.csv --schedule tomorrow.json --json
    """
    from stream_app.analysis.preflight import check_files

    findings = check_files(config=config, priors=priors, sensors=sensors, schedule=schedule)
    if json:
        print_json([finding.as_json() for finding in findings])
    else:
        marks = {"ok": "[green]ok[/]     ", "warning": "[yellow]warning[/]", "problem": "[red]problem[/]"}
        for finding in findings:
            say(f"{marks[finding.level]} [bold]{finding.subject}[/]: {finding.sentence}")
            if finding.remedy:
                say(f"        {finding.remedy}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)
