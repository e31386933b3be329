"""Schedule files: which sensors are active when, with mechanism and parameters, in the documented JSON.

``{"first_slot": 0, "steps": [{"sensors": [3, "s17"], "mechanism": "gaussian", "sigma": 1.0}, {"sensors": []},
{"releases": [{"sensor": 3, "mechanism": "raw"}]}]}``. The flat form is shorthand for ``releases``. For audits
there may be a ``calendar`` that slots follow: ``{"timezone": "Europe/Vienna", "origin":
"2026-03-29T00:00:00+01:00", "step_seconds": 3600, "holidays": ["2026-04-06"]}``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeGuard

from models import mechanisms
from models.calendar import Calendar, dates_of
from models.exceptions import MechanismError, ScheduleError, SensorError
from models.releases import Schedule, Sensor, SensorRegistry, SensorRelease, StepSchedule, check_window_ends
from models.text import number_of, parse_json
from stream_app.exceptions import meant

TIER_PREFIX = "epsilon_"
_TOP_KEYS = ("first_slot", "steps", "calendar")
_CALENDAR_KEYS = ("timezone", "origin", "step_seconds", "holidays")
_FLAT_EXAMPLE = 'write {"sensors": [...], "mechanism": "raw"} or {"releases": [...]}'


def load_schedule(path: Path, registry: SensorRegistry) -> Schedule:
    """Read a schedule file; :class:`ScheduleError` names the step and says what to write instead."""
    return parse_schedule(_document(path), registry)


def said_beside(path: Path) -> tuple[int, dict[str, float]]:
    """The slot of step 0 and the tiers that a schedule file names, whatever its sensors are.

    Nothing of activations (CSV). An epsilon is that of the first step with the tier.
    """
    document = None if path.suffix.lower() == ".csv" else _document(path)
    if not isinstance(document, dict):
        return 0, {}
    steps = document.get("steps")
    entries = [each for each in (steps if isinstance(steps, list) else ()) if isinstance(each, dict)]
    for each in [*entries]:
        detailed = each.get("releases")
        entries += [own for own in (detailed if isinstance(detailed, list) else ()) if isinstance(own, dict)]
    tiers: dict[str, float] = {}
    for each in entries:
        for key, value in each.items():
            if key.startswith(TIER_PREFIX) and isinstance(value, int | float):
                tiers.setdefault(key.removeprefix(TIER_PREFIX), float(value))
    first_slot = document.get("first_slot", 0)
    return (first_slot if _is_index(first_slot) else 0), tiers


def _document(path: Path) -> object:
    try:
        return parse_json(path.read_bytes())
    except OSError as error:
        must = f"schedule file {path} must be readable"
        raise ScheduleError(must, error.strerror, "check the path") from error
    except ValueError as error:
        raise ScheduleError(f"schedule file {path} must be JSON", error, "correct it there") from error


def schedule_fingerprint(path: Path) -> str:
    """SHA-256 of the file, by which a run knows its schedule again."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def parse_schedule(document: object, registry: SensorRegistry) -> Schedule:
    """The schedule in a document already decoded from JSON."""
    fields = _mapping(document, "a schedule", 'write {"first_slot": 0, "steps": [...]}')
    _only(fields, _TOP_KEYS, "a schedule has the keys first_slot, steps and calendar")
    first_slot = fields.get("first_slot", 0)
    if not _is_index(first_slot):
        raise ScheduleError(
            "first_slot must be an integer >= 0", repr(first_slot), "use the first step's slot in the cycle"
        )
    entries = fields.get("steps")
    if not isinstance(entries, list):
        raise ScheduleError("steps must be a list", repr(entries), "write one object per step")
    steps = tuple(_step(index, entry, registry) for index, entry in enumerate(entries))
    calendar = None if fields.get("calendar") is None else _calendar(fields["calendar"], first_slot)
    return Schedule(steps, first_slot, calendar)


def _calendar(document: object, first_slot: int) -> Calendar:
    """The clock that a schedule's slots follow: its first step begins at ``origin``."""
    example = (
        'write {"timezone": "Europe/Vienna", "origin": "2026-03-29T00:00:00+01:00", "step_seconds": 3600}'
    )
    fields = _mapping(document, "calendar", example)
    _only(fields, _CALENDAR_KEYS, f"calendar has the keys {', '.join(_CALENDAR_KEYS)}")
    zone, origin, step_seconds = (fields.get(key) for key in _CALENDAR_KEYS[:3])
    holidays = fields.get("holidays", [])
    if not isinstance(zone, str) or not _is_index(step_seconds) or not isinstance(origin, str):
        raise ScheduleError("calendar must have timezone, origin and step_seconds", repr(document), example)
    try:
        start = datetime.fromisoformat(origin)
    except ValueError:
        start = None
    if start is None or start.tzinfo is None:
        raise ScheduleError("origin of a calendar must be a time with its offset", repr(origin), example)
    if not isinstance(holidays, list) or not all(isinstance(each, str) for each in holidays):
        raise ScheduleError("holidays must be a list of dates", repr(holidays), 'write ["2026-05-01"]')
    return Calendar(zone, int(start.timestamp()), step_seconds, first_slot, dates_of(holidays))


def _step(index: int, entry: object, registry: SensorRegistry) -> StepSchedule:
    """One step of either form."""
    fields = _mapping(entry, f"step {index}", _FLAT_EXAMPLE)
    if ("releases" in fields) == ("sensors" in fields):
        raise ScheduleError(
            f"step {index} must have either sensors or releases", sorted(fields) or "{}", _FLAT_EXAMPLE
        )
    read = _detailed if "releases" in fields else _flat
    releases = read(index, fields, registry)
    names = [release.sensor.name for release in releases]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ScheduleError(
            f"step {index} must release each sensor once", ", ".join(repeated), "drop the repetition"
        )
    for release in releases:
        check_window_ends(release.sensor, index)
    return StepSchedule(index, releases)


def _detailed(
    index: int, fields: Mapping[str, object], registry: SensorRegistry
) -> tuple[SensorRelease, ...]:
    """The form with one object per release."""
    unknown = sorted(fields.keys() - {"releases"})
    entries = fields["releases"]
    if unknown or not isinstance(entries, list):
        raise ScheduleError(
            f"step {index} must have releases as a list and no other key",
            unknown or entries,
            _FLAT_EXAMPLE,
        )
    releases = []
    for entry in entries:
        item = dict(_mapping(entry, f"a release of step {index}", '{"sensor": 3, "mechanism": "raw"}'))
        sensor = find_sensor(index, item.pop("sensor", None), registry)
        releases.append(SensorRelease(sensor, _mechanism(index, item, registry)))
    return tuple(releases)


def _flat(index: int, fields: Mapping[str, object], registry: SensorRegistry) -> tuple[SensorRelease, ...]:
    """The short form: some sensors, all with the same mechanism."""
    item = dict(fields)
    sensors = item.pop("sensors")
    if not isinstance(sensors, list):
        raise ScheduleError(f"sensors of step {index} must be a list", repr(sensors), _FLAT_EXAMPLE)
    if not sensors and not item:
        return ()
    mechanism = _mechanism(index, item, registry)
    return tuple(SensorRelease(find_sensor(index, sensor, registry), mechanism) for sensor in sensors)


def find_sensor(index: int, sensor: object, registry: SensorRegistry) -> Sensor:
    """The sensor meant by a name, or by the index of the only location it counts."""
    if isinstance(sensor, str):
        try:
            return registry.get(sensor)
        except SensorError as error:
            must = f"step {index} must name sensors of the deployment"
            raise ScheduleError(must, error.got, error.remedy) from error
    if not _is_index(sensor):
        must = f"a sensor of step {index} must be a name or a location index"
        raise ScheduleError(must, repr(sensor), _FLAT_EXAMPLE)
    found = [candidate for candidate in registry.sensors if candidate.locations == (sensor,)]
    if len(found) != 1:
        raise ScheduleError(
            f"location {sensor} of step {index} must have exactly one sensor of its own",
            len(found),
            f"there are {number_of(len(registry.location_names), 'location')}, counted from 0; give the "
            "sensor's name instead",
        )
    return found[0]


def _mechanism(index: int, fields: Mapping[str, object], registry: SensorRegistry) -> mechanisms.Mechanism:
    """The mechanism of one release, by its name and the parameters next to it."""
    parameters = dict(fields)
    name = parameters.pop("mechanism", None)
    if not isinstance(name, str):
        raise ScheduleError(
            f"step {index} must name a mechanism",
            repr(name),
            "write raw, gaussian with sigma, or suppressed; where a risk budget decides, raw will do",
        )
    try:
        return mechanisms.parse(name, parameters, registry.designs)
    except MechanismError as error:
        raise ScheduleError(f"step {index}: {error.must}", error.got, error.remedy) from error


def _mapping(value: object, what: str, example: str) -> Mapping[str, object]:
    """The value as a JSON object, or a sentence."""
    if not isinstance(value, dict):
        raise ScheduleError(f"{what} must be an object", type(value).__name__, example)
    return value


def _only(fields: Mapping[str, object], known: Sequence[str], must: str) -> None:
    """Nothing but known keys, or a sentence."""
    for key in fields:
        if key not in known:
            raise ScheduleError(must, repr(key), meant(key, known, "remove it"))


def _is_index(value: object) -> TypeGuard[int]:
    """Whether the value is an integer >= 0; JSON's true is not one."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
