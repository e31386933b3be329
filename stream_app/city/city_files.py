"""Sensors and locations of a simulated city as the files a deployment reads."""

from __future__ import annotations

import json

from models.releases import Sensor
from stream_app.city.simulation import City


def sensors_json(city: City) -> str:
    """The text of a sensors file."""
    return json.dumps({"sensors": [_row(sensor) for sensor in city.registry.sensors]}, indent=1) + "\n"


def locations_text(city: City) -> str:
    """The text of a locations file."""
    return "".join(f"{name}\n" for name in city.population.location_names)


def _row(sensor: Sensor) -> dict[str, object]:
    row: dict[str, object] = {
        "name": sensor.name,
        "locations": list(sensor.locations),
        "group": sensor.group,
    }
    if sensor.position is not None:
        east, north = sensor.position
        row |= {"x": round(east, 3), "y": round(north, 3)}
    return row
