"""The last step as maps and context brokers take it: GeoJSON, and NGSI-LD ``CrowdFlowObserved``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from stream_app.analysis.released_rows import ReleasedRow
from stream_app.exceptions import InputError

Places = Mapping[str, tuple[float, float]]  # longitude and latitude in degrees
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_CONTEXT = [
    "https://raw.githubusercontent.com/smart-data-models/dataModel.Transportation/master/context.jsonld",
    "https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context.jsonld",
]


def geojson(rows: Sequence[ReleasedRow], places: Places) -> dict[str, Any]:
    """A point for each sensor; :class:`InputError` where one has no place. ``value`` null = not published."""
    without = sorted({row.sensor for row in rows} - places.keys())
    if without:
        raise InputError(
            "each released sensor must have lat and lon for GeoJSON",
            f"{len(without):,} without, such as {without[0]!r}",
            "add both to the sensors file and name it with --sensors, or leave geojson out of --format",
        )
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "id": row.sensor,
                "geometry": {"type": "Point", "coordinates": list(places[row.sensor])},
                "properties": {
                    **row._asdict(),
                    "start": f"{row.start:{_TIME}}",
                    "end": f"{row.end:{_TIME}}",
                },
            }
            for row in rows
        ],
    }


def crowd_flow(
    rows: Sequence[ReleasedRow], deployment: str, places: Places, verdict: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """An entity a sensor, normalized; one that published nothing has no ``peopleCount``.

    Each says what the ``verdict`` on the run is, as it may be read alone.
    """
    said = {"privacyVerdict": _property(verdict["answer"])}
    return [{**_entity(row, deployment, places.get(row.sensor)), **said} for row in rows]


def _entity(row: ReleasedRow, deployment: str, place: tuple[float, float] | None) -> dict[str, Any]:
    name = f"{quote(deployment, safe='')}:{quote(row.sensor, safe='')}"
    entity: dict[str, Any] = {
        "id": f"urn:ngsi-ld:CrowdFlowObserved:{name}",
        "type": "CrowdFlowObserved",
        "name": _property(row.sensor),
        "dateObservedFrom": _property({"@type": "DateTime", "@value": f"{row.start:{_TIME}}"}),
        "dateObservedTo": _property({"@type": "DateTime", "@value": f"{row.end:{_TIME}}"}),
        "mechanism": _property(row.mechanism),
    }
    if row.value is not None:
        entity["peopleCount"] = _property(row.value)
        if row.sigma is not None:
            entity["peopleCount"]["sigma"] = _property(row.sigma)
    if place is not None:
        entity["location"] = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": list(place)}}
    return {**entity, "@context": _CONTEXT}


def _property(value: object) -> dict[str, Any]:
    return {"type": "Property", "value": value}
