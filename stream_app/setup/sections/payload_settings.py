"""How payloads in JSON, as counters and brokers send them, become counts: what stands where."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stream_app.setup.sections.settings_section import NameList, Section

SENSOR = "{sensor}"


class PayloadSettings(Section):
    """Where things stand in a payload. A path like ``time_info.start`` or ``lines[0].in`` begins at a record.

    Records are the elements of ``records``; a path that begins with ``$.`` is one from the whole payload.
    """

    preset: str | None = Field(
        default=None,
        description="mapping to begin with: one of `tallyguard connect presets`, or a TOML file",
    )
    records: NameList = Field(
        default=(),
        description="path of the list that holds the counts, of several the first that is there; none = the "
        "payload itself, a list or one record",
    )
    sensor: NameList = Field(default=(), description="path of the sensor; of several the first that is there")
    sensor_pattern: str | None = Field(
        default=None, description="regular expression with the group `sensor` that a sensor's text must match"
    )
    topic: str | None = Field(
        default=None,
        description=f"form of topics (HTTP: of paths), {SENSOR} where the sensor stands, like city/{SENSOR}",
    )
    names: dict[str, str] = Field(
        default_factory=dict, description="the deployment's name for a sensor of the payloads"
    )
    channel: str | None = Field(default=None, description="path of a sensor's channel (line, region, side)")
    channels: Literal["refuse", "sum", "apart"] = Field(
        default="refuse",
        description="several channels of a sensor in one payload: one count, or a sensor each",
    )
    start: NameList = Field(
        default=(), description="path of the interval's start; of several the first that is there"
    )
    end: NameList = Field(
        default=(),
        description="path of the interval's end (exclusive), of a total the time of it; of several the first "
        "that is there",
    )
    interval: str | None = Field(default=None, description="path of an interval of ISO 8601, start/end")
    interval_seconds: int | None = Field(
        default=None, ge=1, description="length of an interval of which one end is not said"
    )
    timezone: str | None = Field(
        default=None, description="time zone of times without an offset, like Europe/Vienna"
    )
    offset: str | None = Field(
        default=None,
        description="path of the offset of times without one, like UTC+8:00; instead of timezone",
    )
    daylight: str | None = Field(
        default=None, description="with offset: path of whether the clock is an hour ahead of it in summer"
    )
    ambiguous: Literal["refuse", "earlier", "later"] = Field(
        default="refuse", description="times that the clock shows twice in autumn"
    )
    time_format: str | None = Field(default=None, description="how times are written, like %Y/%m/%d %H:%M:%S")
    time_unit: Literal["seconds", "milliseconds"] = Field(
        default="seconds", description="what numbers count that are times since 1970"
    )
    count: NameList = Field(
        default=(),
        description="path of the count, of several the first that is there; null = not counted",
    )
    count_more: NameList = Field(
        default=(), description="paths of further counts that are added to it (out beside in); all of them"
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
    kind: Literal["periodic", "total"] = Field(
        default="periodic",
        description="periodic = what was counted in the interval; total = what was counted since the counter "
        "began, of which the engine is given the differences",
    )
    resets: Literal["not_counted", "from_zero"] = Field(
        default="not_counted",
        description="a total below the one before: the step was not counted, or the counter began again at 0",
    )
    shorter: Literal["refuse", "sum"] = Field(
        default="refuse",
        description="intervals shorter than a step: sum adds them where all of a step were counted",
    )
    ends: Literal["recognise", "exclusive", "inclusive"] = Field(
        default="recognise",
        description="what an interval's end is: the next one's start, or the last second (millisecond) that "
        "belongs to it; recognise = inclusive where intervals, two at least, all end so",
    )
    tolerance_seconds: int = Field(
        default=0, ge=0, description="how far a time may be off the bound of a step and be taken for it"
    )
    own_addresses: NameList = Field(
        default=(),
        description="paths from the payload, without indices, of addresses that are the counter's own; other "
        "addresses of devices are refused",
    )
