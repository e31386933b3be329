"""Sensor files (JSON): ``[{"name": "s3", "locations": ["Station", 4], "group": "centre"}]``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from models.exceptions import SensorError
from models.sensors import Sensor, SensorRegistry


class SensorEntry(BaseModel):
    """One device as the file has it; locations by index or by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, Field(min_length=1, max_length=256)]
    locations: list[int | str]
    group: str = "default"


_ENTRIES = TypeAdapter(list[SensorEntry])


def load_sensors(path: Path | None, location_names: Sequence[str]) -> SensorRegistry:
    """The sensors of a file, or one per location without a file; :class:`SensorError` for what is wrong."""
    if path is None:
        return SensorRegistry.one_per_location(location_names)
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise SensorError(f"sensor file {path} must be readable", error.strerror, "check the path") from error
    except ValueError as error:
        raise SensorError(f"sensor file {path} must be JSON", error, "correct it there") from error
    if isinstance(document, dict) and set(document) == {"sensors"}:
        document = document["sensors"]
    try:
        entries = _ENTRIES.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise SensorError(
            f"sensor file {path} must list name, locations and group of each sensor",
            f"{where}: {first['msg']}",
            'write [{"name": "s3", "locations": [3]}]',
        ) from error
    index = {name: position for position, name in enumerate(location_names)}
    return SensorRegistry(tuple(location_names), tuple(_sensor(entry, index) for entry in entries))


def _sensor(entry: SensorEntry, index: Mapping[str, int]) -> Sensor:
    """One sensor with its locations as increasing indices."""
    locations = [_location(entry.name, location, index) for location in entry.locations]
    return Sensor(entry.name, tuple(sorted(locations)), entry.group)


def _location(sensor: str, location: int | str, index: Mapping[str, int]) -> int:
    """The index of one location."""
    if isinstance(location, int):
        return location
    if location not in index:
        from difflib import get_close_matches

        close = get_close_matches(location, index, n=1)
        raise SensorError(
            f"locations of sensor {sensor!r} must be those of the priors",
            repr(location),
            f"did you mean {close[0]!r}?" if close else "use a name or index of the priors file",
        )
    return index[location]
