"""``tallyguard produce``: messages onto the topics, at a rate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.shared import ConfigOption, JsonOption, print_json, stdout

if TYPE_CHECKING:
    from stream_app.setup.settings import Settings


def produce(
    config: ConfigOption = None,
    input_file: Annotated[Path | None, typer.Option("--input", help="Messages, .jsonl.")] = None,
    checkins: Annotated[
        Path | None,
        typer.Option(help="Check-ins, .parquet or .csv, counted by sensor and step."),
    ] = None,
    city_people: Annotated[int | None, typer.Option(help="People of a simulated city to count.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of the simulated city.", min=1)] = 48,
    seed: Annotated[int, typer.Option(help="Seed of the simulated city.")] = 20260,
    rate: Annotated[
        float | None, typer.Option(help="Messages a second; as fast as it goes if left out.", min=0.001)
    ] = None,
    steps_rate: Annotated[
        float | None, typer.Option("--steps-per-second", help="Steps a second instead.", min=0.001)
    ] = None,
    batch: Annotated[bool, typer.Option("--batch", help="Readings of a step in one message.")] = False,
    json: JsonOption = False,
) -> None:
    """Write activations and readings to their topics.

    They come from a file, from check-ins or from a simulated city.

    \b
    Examples:
      tallyguard produce --config tallyguard.toml --input day.jsonl
      tallyguard produce --config tallyguard.toml --checkins checkins.parquet --steps-per-second 10
      tallyguard produce --config tallyguard.toml --city-people 2000 --steps 48 --rate 500 --batch
    """
    from stream_app.cli.shared import settings_of
    from stream_app.kafka.broker.clients import writing
    from stream_app.kafka.broker.connection import Connection
    from stream_app.kafka.broker.topics import Topics
    from stream_app.kafka.tools.producing import Pace
    from stream_app.kafka.tools.producing import produce as write
    from stream_app.setup.sensor_files import regions_by_sensor
    from stream_app.wire import batched

    if sum(source is not None for source in (input_file, checkins, city_people)) != 1:
        raise typer.BadParameter("give exactly one of --input, --checkins and --city-people")
    if rate is not None and steps_rate is not None:
        raise typer.BadParameter("give --rate or --steps-per-second, not both")
    settings = settings_of(config)
    lines = _lines(settings, input_file, checkins, city_people, steps, seed)
    if batch:
        lines = batched(lines)
    paced = "messages" if steps_rate is None else "steps"
    with writing(Connection.of(settings.kafka)) as producer:
        report = write(
            producer,
            Topics.of(settings),
            lines,
            Pace(rate or steps_rate),
            paced=paced,
            region_of=regions_by_sensor(settings.sensors),
        )
    if json:
        print_json(vars(report))
    else:
        stdout().print(
            f"{report.activations:,} activations and {report.readings:,} readings in {report.seconds:.1f} s"
        )


def _lines(
    settings: Settings,
    input_file: Path | None,
    checkins: Path | None,
    city_people: int | None,
    steps: int,
    seed: int,
) -> Iterable[bytes]:
    """The messages of the chosen source."""
    from stream_app.kafka.deployment.deployment import Deployment
    from stream_app.kafka.tools import producing

    if input_file is not None:
        return producing.file_lines(input_file)
    if checkins is not None:
        registry = Deployment.of(settings).registry
        return producing.checkin_lines(checkins, registry, settings.step_seconds, settings.origin_seconds)
    return producing.city_lines(city_people or 0, steps, seed)
