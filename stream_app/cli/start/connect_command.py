"""``tallyguard connect``: counts as a city has them, brought in by a declared mapping."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.shared.options import ConfigOption, JsonOption
from stream_app.cli.shared.output import own_command, print_json, progress, stdout
from stream_app.cli.start.http_connector import http
from stream_app.cli.start.live_connectors import mqtt, sensorthings

if TYPE_CHECKING:
    from stream_app.setup.sections.connect_settings import FilesMap
    from stream_app.setup.settings import Settings
    from stream_app.starting.counts import Counts

connect = typer.Typer(
    name="connect", help="Bring in counts as your city has them, and send releases.", no_args_is_help=True
)
_MEGABYTE = 1e6


class Channels(StrEnum):
    """What several channels of a sensor are."""

    SUM = "sum"
    APART = "apart"


connect.command()(mqtt)
connect.command()(sensorthings)


@connect.callback()
def _group() -> None:
    """Bring in counts as your city has them, and send releases."""


@connect.command()
def files(
    counts: Annotated[
        list[Path], typer.Argument(help="Counts, .csv (also .gz) or .parquet.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            help="New file: .jsonl for messages of the deployment of --config, .parquet or .csv for a table.",
            show_default=False,
        ),
    ],
    config: ConfigOption = None,
    preset: Annotated[
        str | None,
        typer.Option(help="A name of `connect presets`, or your own .toml file.", show_default=False),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Time zone of wall-clock times: Europe/Vienna.", show_default=False)
    ] = None,
    channels: Annotated[
        Channels | None, typer.Option(help="Several channels of a sensor.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Bring in files of counts by a declared mapping.

    The mapping is a preset, the table [connect.files] of the settings, or both: what the settings set counts
    more. An empty cell is "not counted", never 0. What the mapping leaves open (decimals, channels, hours
    that the clock shows twice) is refused with a sentence. Nothing is written then. Files about single
    people, images or devices are refused.

    Messages (.jsonl) are what `tallyguard run` and `tallyguard produce` take, at the steps of the settings.
    A table holds time, sensor and count as `tallyguard init` takes them.

    \b
    Examples:
      tallyguard connect files measures.csv --preset france --channels apart --output counts.parquet
      tallyguard connect files 2024.csv 2025.csv --config tallyguard.toml --output messages.jsonl
    """
    import time

    from stream_app.cli.shared.command_settings import settings_of
    from stream_app.starting.connect import (
        MESSAGES,
        ArchiveSteps,
        read_archive,
        require_new_file,
        resolved_map,
        write_counts,
    )

    require_new_file(output)
    settings = settings_of(config)
    said = {"preset": preset, "timezone": timezone, "channels": channels and channels.value}
    mapping = resolved_map(settings.connect.files, said)
    is_messages = output.suffix.lower() == MESSAGES
    steps = ArchiveSteps(settings.origin_seconds, settings.step_seconds) if is_messages else None
    sizes = [path.stat().st_size for path in counts if path.is_file()]
    with progress() as bar:
        task = bar.add_task("MB", total=round(sum(sizes) / _MEGABYTE, 1))
        found = read_archive(
            counts,
            mapping,
            steps,
            lambda size: bar.advance(task, size / _MEGABYTE),
            time.time() + settings.max_ahead_seconds,
        )
    if is_messages:
        _check_deployment(settings, found, mapping)
    write_counts(output, found)
    if json:
        print_json(_summary(found, output))
    else:
        _print_summary(found, output, config)


connect.command()(http)


@connect.command()
def presets(
    name: Annotated[
        str | None, typer.Argument(help="Print this one, to begin your own with.", show_default=False)
    ] = None,
) -> None:
    """List the mappings that come with tallyguard, or print one.

    A preset of your own is such a file, too: --preset mine.toml.

    \b
    Examples:
      tallyguard connect presets
      tallyguard connect presets france > mine.toml
    """
    from stream_app.setup.sections.connect_settings import FilesMap
    from stream_app.setup.sections.payload_settings import PayloadSettings
    from stream_app.starting.connect import preset_names, preset_text

    payloads = preset_names(PayloadSettings)
    if name is not None:
        typer.echo(preset_text(name, PayloadSettings if name in payloads else FilesMap), nl=False)
        return
    of_files = preset_names()
    width = max(map(len, (*of_files, *payloads)))
    for title, known in (("files", of_files), ("payloads", payloads)):
        stdout().print(f"{title}:", soft_wrap=True)
        for each, about in known.items():
            stdout().print(f"  {each:{width}}  {about}", soft_wrap=True)


def _check_deployment(settings: Settings, found: Counts, mapping: FilesMap) -> None:
    """:class:`InputError` for what the deployment would refuse, line by line, later."""
    from stream_app.exceptions import InputError
    from stream_app.setup.declared import require_most_counts
    from stream_app.setup.location_names import location_names
    from stream_app.setup.sensor_files import load_registry
    from stream_app.starting.counts.step_counts import NOT_COUNTED

    first = int((found.table != NOT_COUNTED).any(axis=1).argmax())
    if first > settings.max_ahead:
        raise InputError(
            f"the first count must be at most {settings.max_ahead:,} steps after origin",
            f"{first:,} steps after {settings.origin:%Y-%m-%d %H:%M} UTC",
            "set origin in the settings of a new deployment to the start of the archive, or --output a table "
            f"(.parquet) and let `{own_command()} init` make the deployment",
        )
    if settings.locations is None:
        require_most_counts(None, [mapping])
        return
    names = location_names(settings, "", "")
    registry = load_registry(settings.sensors, names)
    registry.refuse_windows("counts that are connected", "write their readings as messages (JSON lines)")
    require_most_counts(registry, [mapping])
    known = {sensor.name for sensor in registry.sensors}
    unknown = [name for name in found.sensors if name not in known]
    if unknown:
        raise InputError(
            "each sensor of the files must be one of the deployment",
            f"{len(unknown):,} that are not, such as {unknown[0]!r}",
            "give the deployment's name for it in [connect.files.names], or add it to the sensors",
        )


def _summary(found: Counts, output: Path) -> dict[str, object]:
    from stream_app.starting.counts.step_counts import NOT_COUNTED

    return {
        "output": str(output),
        "sensors": len(found.sensors),
        "steps": len(found.table),
        "step_seconds": found.step_seconds,
        "origin": found.origin.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "counts": int((found.table != NOT_COUNTED).sum()),
        "not_counted": int((found.table == NOT_COUNTED).sum()),
        "remarks": list(found.remarks),
    }


def _print_summary(found: Counts, output: Path, config: Path | None) -> None:
    from stream_app.starting.connect import MESSAGES
    from stream_app.watching.wording import duration

    console, said = stdout(), _summary(found, output)
    console.print(
        f"Read {said['counts']:,} counts of {said['sensors']:,} sensors in {said['steps']:,} steps of "
        f"{duration(found.step_seconds)}, {said['not_counted']:,} cells without one. Step 0 is "
        f"{found.origin:%Y-%m-%d %H:%M} UTC.",
        soft_wrap=True,
    )
    for remark in found.remarks:
        console.print(f"  {remark}", soft_wrap=True, markup=False)  # it may name a table: [connect.files]
    settings = f"--config {config} " if config else ""
    if output.suffix.lower() == MESSAGES:
        lines = [f"run {settings}--input {output} --output out", f"produce {settings}--input {output}"]
    else:
        lines = [f"init {output} --timezone {found.zone} --output city"]
    console.print(f"\nWritten to {output}. Next:")
    for line in lines:
        console.print(f"  {own_command()} {line}", soft_wrap=True)
