"""``tallyguard connect mqtt`` and ``connect sensorthings``: counts and releases while they happen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.shared.options import ConfigOption
from stream_app.cli.shared.output import stdout

if TYPE_CHECKING:
    from stream_app.starting.connect.intake import PayloadIntake

FolderOption = Annotated[
    Path,
    typer.Option("--output", help="The connector's own folder; continued if it exists.", show_default=False),
]
ReleasesOption = Annotated[
    Path | None,
    typer.Option(
        "--releases", help="Output folder of a run whose releases are sent as well.", show_default=False
    ),
]


def mqtt(output: FolderOption, config: ConfigOption = None, releases: ReleasesOption = None) -> None:
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
    from stream_app.cli.shared.command_settings import settings_of
    from stream_app.setup.signals import stop_on_signals
    from stream_app.starting.connect import resolved_map
    from stream_app.starting.connect.intake import open_intake
    from stream_app.starting.connect.journal import MESSAGES, announced_sensors
    from stream_app.starting.connect.mqtt import BrokerAddress, BrokerSession, RetainedReleases, relay

    settings = settings_of(config)
    chosen = settings.connect.mqtt
    _require_a_way(bool(chosen.topics), releases, "connect.mqtt.topics")
    address = BrokerAddress.of(settings)
    is_known = bool(chosen.topics) and (output / MESSAGES).exists()
    session = BrokerSession(address, chosen, chosen.topics, is_known=is_known)
    mapping = resolved_map(chosen.map) if chosen.topics else None
    sensors = announced_sensors(settings, mapping, "connect.mqtt.map") if mapping is not None else ()
    with open_intake(output, settings, mapping, sensors) as intake, stop_on_signals() as stop:
        sent = None
        if releases is not None:
            sent = RetainedReleases(session, address.under, releases, output / "published.json")
        relay(session, None if intake is None else intake.take, sent, stop)
        _say(intake, sent.steps if sent else None)
        for sentence in session.weaker:
            stdout().print(sentence, soft_wrap=True)


def sensorthings(
    output: FolderOption,
    config: ConfigOption = None,
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
    from stream_app.cli.shared.command_settings import settings_of
    from stream_app.setup.signals import stop_on_signals
    from stream_app.starting.connect.intake import open_intake
    from stream_app.starting.connect.sensorthings import Way, exchange, observation_map

    settings = settings_of(config)
    chosen = settings.connect.sensorthings
    is_read = bool(chosen.datastreams)
    _require_a_way(is_read, releases, "connect.sensorthings.datastreams")
    mapping = observation_map(chosen) if is_read else None
    sensors = tuple(chosen.datastreams.values())
    with open_intake(output, settings, mapping, sensors) as intake, stop_on_signals() as stop:
        way = Way(None if intake is None else intake.take, output, releases)
        written = exchange(settings, way, stop, once=once)
        _say(intake, written.steps if releases else None)
        if releases is not None:
            stdout().print(
                f"Of them {written.values:,} values have a datastream; {written.sent:,} were sent now.",
                soft_wrap=True,
            )
        for sensor in written.silent:
            stdout().print(
                f"Nothing is released of {sensor!r}, which [connect.sensorthings.releases] names.",
                soft_wrap=True,
                markup=False,
            )


def _require_a_way(is_read: bool, releases: Path | None, key: str) -> None:
    """:class:`SettingsError` where there is nothing to take and nothing to send."""
    from stream_app.exceptions import SettingsError

    if not is_read and releases is None:
        raise SettingsError(
            "a connector must take counts or send releases",
            "neither",
            f"set {key} in the settings, or name a run with --releases",
        )


def _say(intake: PayloadIntake | None, sent: int | None) -> None:
    """What was done, on stdout."""
    parts = []
    if intake is not None:
        parts.append(f"{intake.taken:,} counts taken, {intake.refused:,} payloads refused")
    if sent is not None:
        parts.append(f"the releases of {sent:,} steps are there")
    stdout().print(f"{'; '.join(parts)}.", soft_wrap=True)
    if intake is not None and intake.ends is not None:
        stdout().print(intake.ends, soft_wrap=True)
