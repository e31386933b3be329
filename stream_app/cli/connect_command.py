"""``tallyguard connect``: counts as a city has them, brought in by a declared mapping."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.text import number_of
from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from stream_app.setup.sections import FilesMap
    from stream_app.setup.settings import Settings
    from stream_app.starting.connect.intake import PayloadIntake
    from stream_app.starting.counts import CountTable


FolderOption = Annotated[
    Path, typer.Option("--output", help="The connector's own folder; continued if it exists.")
]


# ``tallyguard connect http``: payloads that counters and context brokers send.


def http(
    output: FolderOption,
    config: cli.ConfigOption = None,
    listen: Annotated[str | None, cli.setting_option("connect.http.listen")] = None,
) -> None:
    """Receive payloads over HTTP by a declared mapping.

    Address, senders and mapping are in [connect.http] of the settings. A payload is answered with 200 once
    its counts are on disk, as a whole or not at all: killed at any moment, this loses nothing that it
    answered, and the same payload sent again changes nothing. What is about single people, images or devices
    is refused with a sentence. Stop it with Ctrl-C.

    The folder's messages.jsonl is what `tallyguard run --follow` reads.

    \b
    Examples:
      tallyguard connect http --config tallyguard.toml --output from-http
      tallyguard run --config tallyguard.toml --input from-http/messages.jsonl --follow --output out
    """
    from stream_app.starting.connect import connectors
    from stream_app.starting.connect.http import Receiver
    from stream_app.starting.connect.intake import open_dead_letters
    from stream_app.starting.connect.journal import MESSAGES, journal_of
    from stream_app.starting.connect.payloads import PayloadMap

    settings = cli.settings_of(config, {"connect.http.listen": listen})
    mapping, sensors = connectors.http(settings)
    assert mapping is not None
    with journal_of(output, settings, mapping, sensors) as journal:
        receiver = Receiver(settings.connect.http, PayloadMap(mapping), journal, open_dead_letters(output))

        def announce(address: str) -> None:
            cli.remark(f"receiving at {address}")
            given = (
                f"{f'--config {cli.typed(config)} ' if config else ''}--input {cli.typed(output / MESSAGES)}"
            )
            cli.remark(f"read it with {cli.own_command()} run {given} --follow --output out")

        receiver.run(announce)
        ends = journal.ends
    taken = receiver.answered.pop(200, 0)
    cli.say(f"{number_of(taken, 'payload')} taken, {receiver.answered.total():,} refused.")
    if ends is not None:
        cli.say(ends)


# ``tallyguard connect mqtt`` and ``connect sensorthings``: counts and releases while they happen.

ReleasesOption = Annotated[
    Path | None, typer.Option("--releases", help="Output folder of a run whose releases are sent as well.")
]


def mqtt(output: FolderOption, config: cli.ConfigOption = None, releases: ReleasesOption = None) -> None:
    """Take counts from an MQTT broker, and publish releases there.

    Broker, topics and mapping are in [connect.mqtt] of the settings. A message is acknowledged once it is on
    disk: killed at any moment, this loses nothing and takes nothing twice. With --releases what a run
    releases is published, retained, as it comes. Stop it with Ctrl-C; the broker keeps what arrives
    until it is started again.

    \b
    Examples:
      tallyguard connect mqtt --config tallyguard.toml --output from-broker
      tallyguard connect mqtt --config tallyguard.toml --output from-broker --releases out
    """
    from stream_app.setup.this_process import stop_on_signals
    from stream_app.starting.connect import connectors
    from stream_app.starting.connect.intake import open_intake
    from stream_app.starting.connect.journal import MESSAGES
    from stream_app.starting.connect.mqtt import BrokerAddress, BrokerSession, RetainedReleases, relay

    settings = cli.settings_of(config)
    chosen = settings.connect.mqtt
    _require_direction(bool(chosen.topics), releases, "connect.mqtt.topics")
    mapping, sensors = connectors.mqtt(settings)
    address = BrokerAddress.of(settings)
    is_known = bool(chosen.topics) and (output / MESSAGES).exists()
    session = BrokerSession(address, chosen, chosen.topics, is_known=is_known)
    with open_intake(output, settings, mapping, sensors) as intake, stop_on_signals() as stop:
        sent = None
        if releases is not None:
            sent = RetainedReleases(session, address.under, releases, output / "published.json")
        relay(session, None if intake is None else intake.take, sent, stop)
        _print_done(intake, sent.steps if sent else None)
        cli.say(*session.weaker)


def sensorthings(
    output: FolderOption,
    config: cli.ConfigOption = None,
    releases: ReleasesOption = None,
    once: Annotated[bool, typer.Option("--once", help="Take and send what is there, and end.")] = False,
) -> None:
    """Take counts from a SensorThings service, and write releases there.

    Service and datastreams are in [connect.sensorthings] of the settings. New Observations are looked for
    every poll_seconds, from where an earlier process stopped. With --releases what a run releases is written
    to datastreams of your own, sigma and mechanism in resultQuality, each value once.

    \b
    Examples:
      tallyguard connect sensorthings --config tallyguard.toml --output from-frost
      tallyguard connect sensorthings --config tallyguard.toml --output from-frost --releases out --once
    """
    from stream_app.setup.this_process import stop_on_signals
    from stream_app.starting.connect import connectors
    from stream_app.starting.connect.intake import open_intake
    from stream_app.starting.connect.sensorthings import exchange

    settings = cli.settings_of(config)
    is_read = bool(settings.connect.sensorthings.datastreams)
    _require_direction(is_read, releases, "connect.sensorthings.datastreams")
    mapping, sensors = connectors.sensorthings(settings)
    with open_intake(output, settings, mapping, sensors) as intake, stop_on_signals() as stop:
        take = None if intake is None else intake.take
        writer = exchange(settings, take, releases, output, stop, once=once)
        _print_done(intake, None if writer is None else writer.steps)
        if writer is not None:
            cli.say(f"Of them {writer.values:,} values have a datastream; {writer.sent:,} were sent now.")
            why = "which [connect.sensorthings.releases] names"
            cli.say(*(f"Nothing is released of {sensor!r}, {why}." for sensor in sorted(writer.silent)))


def _require_direction(is_read: bool, releases: Path | None, key: str) -> None:
    """:class:`SettingsError` where there is nothing to take and nothing to send."""
    from stream_app.exceptions import SettingsError

    if not is_read and releases is None:
        raise SettingsError(
            "a connector must take counts or send releases",
            "neither",
            f"set {key} in the settings, or name a run with --releases",
        )


def _print_done(intake: PayloadIntake | None, sent: int | None) -> None:
    parts = []
    if intake is not None:
        parts.append(
            f"{number_of(intake.taken, 'count')} taken, {number_of(intake.refused, 'payload')} refused"
        )
    if sent is not None:
        parts.append(f"the releases of {number_of(sent, 'step')} are there")
    cli.say(f"{'; '.join(parts)}.")
    if intake is not None and intake.ends is not None:
        cli.say(intake.ends)


connect = cli.command_group("connect", "Bring in counts as your city has them, and send releases.")
_MEGABYTE = 1e6


connect.command()(mqtt)
connect.command()(sensorthings)
connect.command()(http)


@connect.command()
def files(
    counts: Annotated[list[Path], typer.Argument(help=cli.COUNT_FILES)],
    output: Annotated[
        Path,
        typer.Option(
            help="New file: .jsonl for messages of the deployment of --config, .parquet or .csv for a table."
        ),
    ],
    config: cli.ConfigOption = None,
    preset: Annotated[str | None, cli.setting_option("connect.files.preset")] = None,
    timezone: Annotated[str | None, cli.setting_option("connect.files.timezone")] = None,
    channels: Annotated[cli.Channels | None, cli.setting_option("connect.files.channels")] = None,
    json: cli.JsonOption = False,
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

    from stream_app.starting.connect import (
        MESSAGES,
        ArchiveSteps,
        read_archive,
        require_new_file,
        resolved_map,
        write_counts,
    )
    from stream_app.starting.connect.journal import windows_of

    require_new_file(output)
    settings = _files_settings(config, preset, timezone, channels)
    mapping = resolved_map(settings.connect.files)
    is_messages = output.suffix.lower() == MESSAGES
    steps = None
    if is_messages:
        steps = ArchiveSteps(settings.origin_seconds, settings.step_seconds, windows_of(settings))
    sizes = [path.stat().st_size for path in counts if path.is_file()]
    with cli.progress() as bar:
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
    write_counts(output, found, {} if steps is None else steps.windows)
    if json:
        cli.print_json(_summary(found, output))
    else:
        _print_summary(found, output, config)


def _files_settings(
    config: Path | None, preset: str | None, timezone: str | None, channels: cli.Channels | None
) -> Settings:
    given = {"preset": preset, "timezone": timezone, "channels": channels}
    return cli.settings_of(config, {f"connect.files.{name}": value for name, value in given.items()})


@connect.command()
def guess(
    counts: Annotated[Path, typer.Argument(help=cli.COUNT_FILES)],
    config: cli.ConfigOption = None,
    preset: Annotated[str | None, cli.setting_option("connect.files.preset")] = None,
    timezone: Annotated[str | None, cli.setting_option("connect.files.timezone")] = None,
    channels: Annotated[cli.Channels | None, cli.setting_option("connect.files.channels")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw what was read, as SVG; it shows counts.")] = None,
    json: cli.JsonOption = False,
) -> None:
    """Propose the mapping of a file, with the reason for each key.

    Prints TOML to be read, corrected and kept: `--preset mine.toml` of `init` and `connect files` takes it.
    What the file raises as a question stands in it as a comment, with the keys that answer it. What was read
    of each sensor goes to the terminal beside it: first and last count, sum, largest, what is missing. No
    deployment is written.

    \b
    Examples:
      tallyguard connect guess counts.xlsx > mine.toml
      tallyguard connect guess export.csv --timezone Europe/Berlin --picture read.svg > mine.toml
    """
    from models.private_files import private_file
    from stream_app.starting.connect.guess import proposal
    from stream_app.starting.counts.picture import picture as drawn

    settings = _files_settings(config, preset, timezone, channels)
    found = proposal(counts, settings.connect.files.model_dump(exclude_unset=True))
    if picture is not None and found.found is not None:
        with private_file(picture) as file:
            file.write(drawn(found.found).encode())
    if json:
        read = {} if found.found is None else _summary(found.found, picture)
        question = None if found.question is None else str(found.question)
        cli.print_json({**read, "question": question, "mapping": found.text})
        return
    if found.found is not None:
        cli.print_sensors(found.found, cli.stderr())
    typer.echo(found.text, nl=False)


@connect.command()
def presets(
    name: Annotated[str | None, typer.Argument(help="Print this one, to begin your own with.")] = None,
) -> None:
    """List the mappings that come with tallyguard, or print one.

    A preset of your own is such a file, too: --preset mine.toml.

    \b
    Examples:
      tallyguard connect presets
      tallyguard connect presets france > mine.toml
    """
    from stream_app.setup.sections import FilesMap, PayloadSettings
    from stream_app.starting.connect import preset_names, preset_text

    payloads = preset_names(PayloadSettings)
    if name is not None:
        typer.echo(preset_text(name, PayloadSettings if name in payloads else FilesMap), nl=False)
        return
    of_files = preset_names()
    width = max(map(len, (*of_files, *payloads)))
    for title, known in (("files", of_files), ("payloads", payloads)):
        cli.say(f"{title}:", *(f"  {each:{width}}  {about}" for each, about in known.items()))


def _check_deployment(settings: Settings, found: CountTable, mapping: FilesMap) -> None:
    """:class:`InputError` for what the deployment would refuse, line by line, later."""
    from stream_app.exceptions import InputError
    from stream_app.setup.declared import require_most_counts
    from stream_app.setup.given_priors import declared_sensors
    from stream_app.starting.counts.doubts import NOT_COUNTED

    first = int((found.table != NOT_COUNTED).any(axis=1).argmax())
    if first > settings.max_ahead:
        raise InputError(
            f"the first count must be at most {settings.max_ahead:,} steps after origin",
            f"{first:,} steps after {settings.origin.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
            "set origin in the settings of a new deployment to the start of the archive, or --output a table "
            f"(.parquet) and let `{cli.own_command()} init` make the deployment",
        )
    registry = declared_sensors(settings)
    require_most_counts(registry, [mapping])
    if registry is None:
        return
    known = {sensor.name for sensor in registry.sensors}
    unknown = [name for name in found.sensors if name not in known]
    if unknown:
        raise InputError(
            "each sensor of the files must be one of the deployment",
            f"{len(unknown):,} that are not, such as {unknown[0]!r}",
            "give the deployment's name for it in [connect.files.names], or add it to the sensors",
        )


def _summary(found: CountTable, output: Path | None) -> dict[str, Any]:
    from stream_app.starting.counts.doubts import NOT_COUNTED

    return {
        "output": None if output is None else str(output),
        "sensors": len(found.sensors),
        "steps": len(found.table),
        "step_seconds": found.step_seconds,
        "origin": found.origin.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "counts": int((found.table != NOT_COUNTED).sum()),
        "not_counted": int((found.table == NOT_COUNTED).sum()),
        "by_sensor": [
            {**each._asdict(), "first": each.first.isoformat(), "last": each.last.isoformat()}
            for each in found.by_sensor()
        ],
        "remarks": list(found.remarks),
    }


def _print_summary(found: CountTable, output: Path, config: Path | None) -> None:
    from stream_app.starting.connect import MESSAGES
    from stream_app.watching.wording import duration

    said = _summary(found, output)
    cli.say(
        f"Read {number_of(said['counts'], 'count')} of {number_of(said['sensors'], 'sensor')} in "
        f"{number_of(said['steps'], 'step')} of {duration(found.step_seconds)}, "
        f"{number_of(said['not_counted'], 'cell')} without one. Step 0 is "
        f"{found.origin:%Y-%m-%d %H:%M} UTC."
    )
    cli.print_sensors(found)
    cli.say(*(f"  {remark}" for remark in found.remarks))
    settings, made = f"--config {cli.typed(config)} " if config else "", cli.typed(output)
    if output.suffix.lower() == MESSAGES:
        lines = [f"run {settings}--input {made} --output out", f"produce {settings}--input {made}"]
    else:
        lines = [f"init {made} --timezone {found.zone} --output city"]
    cli.say(f"\nWritten to {output}. Next:", *(f"  {cli.own_command()} {line}" for line in lines))
