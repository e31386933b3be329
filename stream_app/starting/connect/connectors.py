"""What each connector to senders, brokers and services is made of, before a folder or a peer is looked at.

The commands begin with it, and `tallyguard check` asks every connector that the settings name: it raises
whatever of the configuration the connector refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from models.exceptions import TallyguardError
from stream_app.analysis.preflight import Finding
from stream_app.setup.sections import PayloadSettings
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.connect.archive import check_mapping
from stream_app.starting.connect.http import Senders
from stream_app.starting.connect.journal import announced_sensors
from stream_app.starting.connect.mqtt import BrokerAddress
from stream_app.starting.connect.payloads import PayloadMap
from stream_app.starting.connect.presets_at_hand import resolved_map
from stream_app.starting.connect.sensorthings import SensorThings, observation_map
from stream_app.watching.web import parse_address


class Connected(NamedTuple):
    """How a connector understands payloads, and whose they are; None and nobody where it takes none."""

    mapping: PayloadSettings | None = None
    sensors: tuple[str, ...] = ()


def http(settings: Settings) -> Connected:
    """The receiver of [connect.http]."""
    chosen = settings.connect.http
    mapping = resolved_map(chosen.map)
    sensors = announced_sensors(settings, mapping, "connect.http.map")
    PayloadMap(mapping)
    Senders(chosen)
    parse_address(chosen.listen)
    return Connected(mapping, sensors)


def mqtt(settings: Settings) -> Connected:
    """What reads topics of [connect.mqtt]; nothing is read where none is named."""
    chosen = settings.connect.mqtt
    BrokerAddress.of(settings)
    if not chosen.topics:
        return Connected()
    mapping = resolved_map(chosen.map)
    sensors = announced_sensors(settings, mapping, "connect.mqtt.map")
    PayloadMap(mapping)
    return Connected(mapping, sensors)


def sensorthings(settings: Settings) -> Connected:
    """What reads the datastreams of [connect.sensorthings]; nothing is read where none is named."""
    chosen = settings.connect.sensorthings
    SensorThings(chosen)
    if not chosen.datastreams:
        return Connected()
    mapping = observation_map(chosen)
    PayloadMap(mapping)
    return Connected(mapping, tuple(chosen.datastreams.values()))


def _files(settings: Settings) -> Connected:
    """The mapping of [connect.files] without a file."""
    check_mapping(resolved_map(settings.connect.files))
    return Connected()


def named_connectors(settings: Settings) -> Mapping[str, Callable[[Settings], Connected]]:
    """The connectors of which the settings say anything, by command."""
    chosen = settings.connect
    each = {
        "files": (_files, chosen.files),
        "http": (http, chosen.http),
        "mqtt": (mqtt, chosen.mqtt),
        "sensorthings": (sensorthings, chosen.sensorthings),
    }
    return {
        f"tallyguard connect {name}": make
        for name, (make, section) in each.items()
        if section != type(section)()
    }


def check_connectors(config: Path | None, found: Sequence[Finding]) -> list[Finding]:
    """What the connectors that the settings name would refuse at their start, unless it was found before."""
    try:
        settings = load_settings(config)
    except TallyguardError:  # which is found already
        return []
    said, findings = {finding.sentence for finding in found}, []
    for name, make in named_connectors(settings).items():
        try:
            make(settings)
        except TallyguardError as error:
            finding = Finding("problem", name, f"{error.must}, got {error.got}", str(error.remedy))
            if finding.sentence not in said:
                findings.append(finding)
        else:
            findings.append(Finding("ok", name, "takes these settings"))
    return findings
