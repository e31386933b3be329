"""The files of an occupancy service: sensors, places, settings and priors of a building."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from math import ceil, sqrt
from pathlib import Path
from zoneinfo import ZoneInfo

from models.prior_files import save_population
from models.priors import Population
from stream_app.setup.run_folder.durable import make_folder, replace_file
from stream_app.starting.building.building_file import OUTSIDE, Building

PRIORS = "priors.parquet"
_GAP = 6.0  # metres between floors on the plan
HORIZON, MISTAKES, OPERATIONS = 10, 1, 5_000_000


@dataclass(frozen=True)
class LeftOut:
    """A sensor whose counts would be about fewer people than the building's ``least_people``."""

    sensor: str
    people: float


def write_building(folder: Path, building: Building, population: Population | None) -> tuple[LeftOut, ...]:
    """Write the deployment to a folder; the sensors that are not released are returned."""
    make_folder(folder)
    rows = list(sensor_rows(building))
    left_out = () if population is None else tuple(_small(building, rows, population))
    document: dict[str, object] = {"sensors": rows}
    doors = [move for _, _, moves in building.counted_doors() for move in moves]
    if doors:
        document = {"most_sensors": max(map(doors.count, set(doors))), **document}
    for name, text in (
        ("sensors.json", json.dumps(document, indent=1) + "\n"),
        ("locations.txt", "".join(f"{name}\n" for name in building.locations)),
        ("tallyguard.toml", _settings(building, left_out)),
    ):
        replace_file(folder / name, text.encode())
    if population is not None:
        save_population(population, folder / PRIORS)
    return left_out


def sensor_rows(building: Building) -> Iterator[dict[str, object]]:
    """Rooms with a sensor, desks with one, and both directions of counted doors; floors beside each other."""
    apart = _floors_apart(building)
    at: dict[str, dict[str, object]] = {}
    row: dict[str, object]
    for room in building.rooms:
        if room.x is not None and room.y is not None:
            east, north = apart[room.floor]
            at[room.name] = {"x": round(room.x + east, 3), "y": round(room.y + north, 3)}
        counts = "occupied" if room.sensor == "presence" else "presence"
        row = {"name": room.name, "locations": list(building.in_room(room.name)), "counts": counts}
        size = {} if room.width is None else {"width": room.width, "depth": room.depth}
        if room.sensor != "none":
            yield {**row, "group": room.floor or "rooms", **at.get(room.name, {}), **size}
    for desk in building.desks:
        if desk.sensor != "none":
            row = {"name": desk.name, "locations": [desk.name], "group": "desks", "counts": "occupied"}
            yield row
    for name, direction, moves in building.counted_doors():
        row = {"name": f"{name}, {direction}", "moves": list(map(list, moves)), "group": "doors"}
        yield {**row, "counts": "passages", "most_counts": 1}


def _floors_apart(building: Building) -> dict[str, tuple[float, float]]:
    """How far each floor is moved east and north: all in a grid, like a page read from the top left."""
    floors = list(dict.fromkeys(room.floor for room in building.rooms))
    placed = [(room.x, room.y, room.width or 0.0, room.depth or 0.0) for room in building.rooms]
    ends = [
        (x + side * width / 2, y + side * depth / 2)
        for x, y, width, depth in placed
        if x is not None and y is not None
        for side in (-1, 1)
    ]
    broad, deep = (max(each) - min(each) + _GAP for each in zip(*ends, strict=True)) if ends else (0.0, 0.0)
    row = ceil(sqrt(len(floors)))
    return {floor: (number % row * broad, -(number // row) * deep) for number, floor in enumerate(floors)}


def _small(building: Building, rows: list[dict[str, object]], population: Population) -> Iterator[LeftOut]:
    """Sensors of rooms and desks that hardly anybody ever uses: by the priors alone, never by counts."""
    weights = population.weights if population.weights is not None else [1.0] * len(population)
    known = [{building.locations[place] for place in prior.places} for prior in population.priors()]
    for row in rows:
        places = set(row.get("locations", ()))  # type: ignore[call-overload]
        people = float(sum(weight for weight, own in zip(weights, known, strict=True) if own & places))
        if places and people < building.least_people:
            yield LeftOut(str(row["name"]), people)


def _settings(building: Building, left_out: tuple[LeftOut, ...]) -> str:
    origin = datetime.combine(building.first_day, time(), ZoneInfo(building.timezone)).astimezone(UTC)
    desks = sorted(
        {person.desk for person in building.people}
        | {place for room in building.rooms if room.kind == "desks" for place in building.in_room(room.name)}
    )
    meetings = [room.name for room in building.rooms if room.kind == "meeting"]
    inside = [name for name in building.locations if name != OUTSIDE]
    text = f"""# Written by tallyguard init; every setting: tallyguard config show --config tallyguard.toml
deployment = {json.dumps(building.name)}
step_seconds = {building.step_minutes * 60}
origin = {origin:%Y-%m-%dT%H:%M:%SZ}  # midnight before the first Monday, step 0
first_slot = 0
timezone = {json.dumps(building.timezone)}  # slots follow its clock
horizon = {HORIZON}  # steps of which an observer tries to tell where a person was
mistakes = {MISTAKES}  # how many of them may be wrong
sharpen_operations = {OPERATIONS:_}  # work for ceilings in a step, of about a nanosecond
sensors = "sensors.json"
locations = "locations.txt"
question = "place"  # or desk, meeting, present: what ceilings and budgets are about

[questions.present]  # was she in the building?
at = {json.dumps(inside)}

"""
    if desks:
        text += f"[questions.desk]  # was she at a desk?\nat = {json.dumps(desks)}\n\n"
    if meetings:
        rows = (f"{json.dumps(name)} = {json.dumps(list(building.in_room(name)))}\n" for name in meetings)
        text += f"[questions.meeting.groups]  # in which meeting room, or in none?\n{''.join(rows)}\n"
    text += f"""[release]
mechanism = "gaussian"
sigma = {building.sigma:g}  # standard deviation of the noise, in people: yours to decide
"""
    for each in left_out:
        text += f"""
[release.sensors.{json.dumps(each.sensor)}]  # {each.people:g} people use it
mechanism = "suppressed"
"""
    return text
