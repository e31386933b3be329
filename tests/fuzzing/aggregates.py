"""Doors of personas and of what is held against priors: public tables, synthetic agents, checks, panels."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from accounting.audit.calibration import PanelCheck, RunningCheck
from accounting.settings import HorizonSettings
from stream_app.embedded.panel import VolunteerPanel
from stream_app.setup.priors_verdict import load_priors_check
from stream_app.starting.aggregates import PersonaQuestions, make_personas
from stream_app.starting.aggregates.survey_files import read_days, read_flows
from stream_app.starting.aggregates.zone_files import read_points
from stream_app.watching.events import Observer, RunStarted
from tests.fuzzing.check import PERSON, Target, door
from tests.fuzzing.files import as_file, memory_folder
from tests.stream_app.engine_support import population
from tests.stream_app.starting.test_personas import (
    ZONES,
    eqasim_gpkg,
    eqasim_parquet,
    lodes,
    mobpro,
    od,
    uva,
)

_Shape = Callable[[Path], list[object]]


@cache
def _made(shape: _Shape) -> tuple[Path, Path]:
    """The file to be changed, in a folder with all that belongs to it, and the zones."""
    folder = memory_folder() / shape.__name__
    folder.mkdir(exist_ok=True)
    source, _, zones = shape(folder)
    found = Path(str(source))
    return (next(found.glob("*activities*")) if found.is_dir() else found), Path(str(zones))


def _personas(*shapes: _Shape) -> Callable[[str], Target]:
    """Personas of such a file, whose zones are as they should be."""

    def call(data: bytes) -> None:
        source, zones = _made(shapes[0])
        source.write_bytes(data)
        make_personas(source, PersonaQuestions(zones=zones, slots=4))

    return lambda name: Target(
        name, tuple(_made(shape)[0].read_bytes() for shape in shapes), call, quick_inputs=300
    )


def _flows(path: Path) -> None:
    read_flows(path, ("north", "mill"), np.array([0, 1, 2]), 2)


def _panel(path: Path) -> None:
    path.chmod(0o600)
    people = population(3)
    check = PanelCheck(people, HorizonSettings(2, 0), RunningCheck(0.05))
    VolunteerPanel(path, people, check, Observer()).started(RunStarted(3, 0))


def _reports() -> bytes:
    place, person = population(3).location_names[0], population(3).people[0]
    lines = [{"person": person, "step": step, "location": place} for step in range(5)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


_GEOJSON = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"name": "north"},
            "geometry": {"type": "Polygon", "coordinates": [[[2, 48], [2.1, 48], [2.1, 48.1], [2, 48]]]},
        },
        {
            "type": "Feature",
            "properties": {"name": "mill"},
            "geometry": {"type": "Point", "coordinates": [2, 48]},
        },
    ],
}
_GROUP = {
    "people": 40,
    "predicted": 0.3,
    "realised": 0.4,
    "low": 0.3,
    "high": 0.5,
    "verdict": "ceilings too low",
}
_CHECK = {
    "priors": "0" * 64, "people": 40, "steps": 5, "mistakes": 1, "verdict": "ceilings too low",
    "kappa_min": 0.02, "everybody": _GROUP, "groups": [_GROUP],
}  # fmt: skip

AGGREGATES: dict[str, Callable[[str], Target]] = {
    "home-work table": _personas(od, lodes, mobpro),
    "synthetic agents, CSV": _personas(uva),
    "synthetic agents, GeoPackage": _personas(eqasim_gpkg),
    "synthetic agents, Parquet": _personas(eqasim_parquet),
    "zones, CSV": door(
        as_file("zones.csv", read_points), ZONES.encode(), b"name;x;y\nnorth;0;0\nmill;0;1100\n"
    ),
    "zones, GeoJSON": door(as_file("zones.geojson", read_points), json.dumps(_GEOJSON).encode()),
    "days of a survey": door(
        as_file("days.csv", lambda path: read_days(path, week=path.read_bytes().startswith(b"day"))),
        f"person,weight,0,1,2\n{PERSON},120,home,work,home\nb,95.5,home,shop,home\n".encode(),
        f"day,0,1,2\n1,home,work,home\nweekend,home,shop,home\n{PERSON},home,home,home\n".encode(),
    ),
    "hourly flows": door(
        as_file("flows.csv", _flows), b"slot,origin,destination,people\n0,north,mill,30\n1,mill,x,2.5\n"
    ),
    "check of priors": door(as_file("check.json", load_priors_check), json.dumps(_CHECK).encode()),
    "volunteers' places": lambda name: Target(
        name, (_reports(),), as_file("panel.jsonl", _panel), quick_inputs=1000
    ),
}
