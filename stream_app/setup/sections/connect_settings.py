"""Settings of connectors: how a city's own files are understood, column by column."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from stream_app.setup.sections.http_settings import HttpSettings
from stream_app.setup.sections.mqtt_settings import MqttSettings
from stream_app.setup.sections.payload_settings import PayloadSettings
from stream_app.setup.sections.sensorthings_settings import SensorThingsSettings
from stream_app.setup.sections.settings_section import NameList, Section


class FilesMap(Section):
    """What stands where in files of counts; a preset has the same keys. What is undecided is refused."""

    preset: str | None = Field(
        default=None,
        description="mapping to begin with: one of `tallyguard connect presets`, or a TOML file",
    )
    start: NameList = Field(
        default=(), description="column of the intervals' starts; of several names the first that is there"
    )
    end: str | None = Field(default=None, description="column of the intervals' ends")
    ends: Literal["recognise", "exclusive", "inclusive"] = Field(
        default="recognise",
        description="what an end is: the next interval's start, or the last second (millisecond) of its own; "
        "recognise = inclusive where all of the file end so",
    )
    interval_seconds: int | None = Field(
        default=None, ge=1, description="length of an interval; none = by `end`, or as most starts are apart"
    )
    timezone: str | None = Field(
        default=None, description="time zone of times that show the clock on the wall, like Europe/Vienna"
    )
    time_format: str | None = Field(default=None, description="how times are written, like %d/%m/%Y %H:%M")
    wall_clock: bool = Field(
        default=False, description="times that are numbers show the clock on the wall, and are no instants"
    )
    ambiguous: Literal["refuse", "earlier", "later", "in_order"] = Field(
        default="refuse",
        description="times that the clock shows twice in autumn: of the earlier or the later hour, or in the "
        "order of the file",
    )
    nonexistent: Literal["refuse", "drop"] = Field(
        default="refuse", description="times that the clock skips in spring: drop takes them as not counted"
    )
    sensor: NameList = Field(
        default=(), description="long files: column of the sensor; of several names the first that is there"
    )
    channel: str | None = Field(
        default=None, description="long files: column of a sensor's channel (direction, lane, side)"
    )
    count: NameList = Field(
        default=(), description="long files: column of the count; of several names the first that is there"
    )
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="wide files: sensor of each column; several of one are its channels",
    )
    column_pattern: str | None = Field(
        default=None,
        description="wide files instead of `columns`: regular expression with the groups `sensor` and "
        "`channel`; a column that is the name of a sensor with channels is its total, and left out",
    )
    ignore: NameList = Field(default=(), description="wide files: columns that hold no counts")
    names: dict[str, str] = Field(
        default_factory=dict, description="the deployment's name for a sensor of the file"
    )
    lookup_file: Path | None = Field(
        default=None, description="table (CSV or Parquet) with names or sites for the sensors of the file"
    )
    lookup_key: str | None = Field(default=None, description="its column of what the file says")
    lookup_name: str | None = Field(
        default=None, description="its column of the sensor that is meant; several keys of one are channels"
    )
    channels: Literal["refuse", "sum", "apart"] = Field(
        default="refuse", description="several channels of a sensor: one count, or a sensor each"
    )
    decimals: Literal["refuse", "round"] = Field(
        default="refuse",
        description="counts with decimals: round takes the nearest, and needs largest_factor",
    )
    largest_factor: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None,
        description="by how much one person moves a count at most, where counts were scaled, converted or "
        "averaged before they came; sensors must declare most_counts of it, rounded up",
    )
    repeated: Literal["refuse", "drop"] = Field(
        default="refuse", description="several counts of one channel and interval: drop takes none of them"
    )
    shorter: Literal["refuse", "sum"] = Field(
        default="refuse",
        description="intervals shorter than a step: sum adds them where all of a step were counted",
    )
    uptime: str | None = Field(
        default=None, description="column with the share of the interval in which the counter worked"
    )
    least_uptime: float = Field(
        default=0.5, ge=0, le=1, description="share below which an interval is taken as not counted"
    )


class ConnectSettings(Section):
    """How counts come in that are no messages, and how releases go out."""

    files: FilesMap = Field(default=FilesMap(), description="files of counts")
    http: HttpSettings = Field(default=HttpSettings(), description="payloads that counters send over HTTP")
    mqtt: MqttSettings = Field(default=MqttSettings(), description="an MQTT broker")
    sensorthings: SensorThingsSettings = Field(
        default=SensorThingsSettings(), description="a service of OGC SensorThings 1.1"
    )

    @property
    def scaled(self) -> list[FilesMap | PayloadSettings | SensorThingsSettings]:
        """The mappings that declare that counts were scaled before they came."""
        mappings = (self.files, self.http.map, self.mqtt.map, self.sensorthings)
        return [mapping for mapping in mappings if mapping.largest_factor is not None]
