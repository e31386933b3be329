"""``tallyguard replay``: everybody's risks computed again from the logs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.shared import ConfigOption, JsonOption, print_json, stdout


def replay(
    config: ConfigOption = None,
    output: Annotated[Path | None, typer.Option(help="Also write the risks there, .jsonl.")] = None,
    json: JsonOption = False,
) -> None:
    """Compute all risks again from the logs and compare.

    Reads people and decisions from Kafka and compares the risks with those reported live. Exit 1 if a single
    bit differs. A person whose prior was replaced since differs before the change.

    \b
    Examples:
      tallyguard replay --config tallyguard.toml
      tallyguard replay --config tallyguard.toml --output risks.jsonl --json
    """
    from models.private_files import private_file
    from stream_app.cli.shared import settings_of
    from stream_app.kafka.deployment.deployment import Deployment
    from stream_app.kafka.tools.replay import compare
    from stream_app.kafka.tools.replay import replay as compute

    deployment = Deployment.of(settings_of(config))
    if output is not None:
        with private_file(output) as file:
            compute(deployment, lambda partition, line: file.writelines((line, b"\n")))
    result = compare(deployment)
    if json:
        print_json({**asdict(result), "same": result.is_same})
    else:
        stdout().print(
            f"{result.steps:,} steps, {result.people:,} people, {result.compared:,} messages compared: "
            f"{result.missing:,} missing, {result.different:,} different"
        )
        for line in result.examples:
            stdout().print(line, markup=False)
    if not result.is_same:
        raise SystemExit(1)
