"""Exclusions: which sensors are not active in which steps, declared beforehand in a table (CSV).

``sensor,from,to,reason`` and optionally ``timezone``, a line for each device that is maintained, broken or
calibrated. Times have an offset (``2026-03-02T08:00Z``, ``2026-03-02T09:00+01:00``), or are those of the
clock on the wall in the line's ``timezone``; an empty ``to`` is open. A step is excluded if any part of it
lies in the interval, and the count of a window if any of its steps is.

In these steps the sensor is as one that nobody announced: nothing of it is decided, accounted, drawn or
released. The table is public knowledge, as a schedule is, so people choose it without looking at counts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from models.calendar import known_zone
from models.exceptions import SensorError
from models.releases import Schedule, SensorRegistry
from stream_app.exceptions import RunChangedError, SettingsError
from stream_app.setup.settings import Settings

_COLUMNS = ("sensor", "from", "to", "reason")
_TIMEZONE = "timezone"
_MOST_REASON = 200  # characters
_EXAMPLE = "gate-3,2026-03-02T08:00Z,2026-03-04T12:00Z,maintenance"


class Exclusion(NamedTuple):
    """Steps ``first`` to ``until`` (exclusive) in which a sensor is not active; None for an open end."""

    sensor: str
    first: int
    until: int | None
    reason: str

    def covers(self, step: int) -> bool:
        """Whether the sensor is not active in this step."""
        return self.first <= step and (self.until is None or step < self.until)


@dataclass(frozen=True)
class Exclusions:
    """A table of exclusions in steps; without rows every sensor is active whenever it is announced.

    ``unknown`` are sensors it names that the sensors file does not, each with its line: those that were
    removed while a deployment runs, or names that are wrong.
    """

    rows: tuple[Exclusion, ...] = ()
    unknown: Mapping[str, SettingsError] = field(default_factory=dict)
    _by_sensor: Mapping[str, tuple[Exclusion, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own: dict[str, tuple[Exclusion, ...]] = {}
        for row in self.rows:
            own[row.sensor] = (*own.get(row.sensor, ()), row)
        object.__setattr__(self, "_by_sensor", own)

    def of(self, step: int, sensor: str) -> Exclusion | None:
        """Why the sensor is not active in the step; None where it may be."""
        return next((row for row in self._by_sensor.get(sensor, ()) if row.covers(step)), None)

    def active(self, step: int, sensors: Sequence[str]) -> tuple[str, ...]:
        """Those of the sensors that are not excluded in the step, in their order."""
        if not self._by_sensor:
            return tuple(sensors)
        return tuple(name for name in sensors if self.of(step, name) is None)

    def announced(self, sensors: Mapping[int, tuple[str, ...]]) -> Mapping[int, tuple[str, ...]]:
        """The announced sensors of each step without those excluded; a step may be left without any."""
        if not self._by_sensor:
            return sensors
        return {step: self.active(step, names) for step, names in sensors.items()}

    def without(self, schedule: Schedule) -> Schedule:
        """The schedule without the releases of excluded sensors."""
        if not self._by_sensor:
            return schedule
        steps = []
        for step in schedule.steps:
            own = (each for each in step.releases if self.of(step.step, each.sensor.name) is None)
            steps.append(replace(step, releases=tuple(own)))
        return replace(schedule, steps=tuple(steps))

    def require_known(self, former: Iterable[str] = ()) -> None:
        """:class:`SettingsError` for the first sensor that is neither there nor among ``former`` ones."""
        known = {*former}
        for name, error in self.unknown.items():
            if name not in known:
                raise error

    def facts(self) -> list[list[Any]]:
        """The table as JSON values for the record of a run."""
        return [list(row) for row in self.rows]


NO_EXCLUSIONS = Exclusions()


def load_exclusions(settings: Settings, registry: SensorRegistry) -> Exclusions:
    """The table that the settings name; without one nothing is excluded.

    :class:`SettingsError` names the line of a wrong time, an interval before the first step, or one that
    overlaps another one of the same sensor; that of an unknown sensor is for
    :meth:`Exclusions.require_known` to raise, since it may have been removed.
    """
    path = settings.quality.exclusions
    if path is None:
        return NO_EXCLUSIONS
    rows, taken = [], dict[str, list[tuple[int, float, float]]]()
    unknown: dict[str, SettingsError] = {}
    for number, line in _lines(path):
        sensor, start, end = line["sensor"], *_interval(path, number, line)
        window = None
        try:
            window = registry.get(sensor).window
        except SensorError as error:
            wrong = SettingsError(f"{path} line {number}: {error.must}", error.got, error.remedy)
            unknown.setdefault(sensor, wrong)
        for other, its_start, its_end in taken.setdefault(sensor, []):
            if start < its_end and its_start < end:
                raise _wrong(path, number, f"must not overlap line {other}, also of {sensor!r}", "both")
        taken[sensor].append((number, start, end))
        first, until = _steps(settings, start, end, 1 if window is None else window.steps)
        if until is not None and until <= 0:
            raise _wrong(path, number, f"must not end before the first step, {settings.origin}", line["to"])
        rows.append(Exclusion(sensor, max(0, first), until, line["reason"]))
    return Exclusions(tuple(rows), unknown)


def _steps(settings: Settings, start: float, end: float, window: int) -> tuple[int, int | None]:
    """The steps that an interval touches, and those with which a window ends that it cuts."""
    first = int((start - settings.origin_seconds) // settings.step_seconds)
    if end == float("inf"):
        return first, None
    return first, int(-((settings.origin_seconds - end) // settings.step_seconds)) + window - 1


def _lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and values of each line; what is not there is empty."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as content:
            reader = csv.DictReader(content, strict=True, skipinitialspace=True)
            columns = [name.strip() for name in reader.fieldnames or ()]
            known = {*_COLUMNS, _TIMEZONE}
            if not set(_COLUMNS) <= set(columns) <= known or len(set(columns)) < len(columns):
                must = f"must be the header {','.join(_COLUMNS)}, with {_TIMEZONE} or without"
                raise _wrong(path, 1, must, columns)
            reader.fieldnames = columns
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingsError(f"exclusions {path} must be a readable CSV", error, "check the file") from error
    for number, row in rows:
        if None in row or None in row.values():
            raise _wrong(path, number, f"must have {len(columns)} values", "others")
        line = {_TIMEZONE: "", **{name: " ".join(value.split()) for name, value in row.items()}}
        if not 1 <= len(line["reason"]) <= _MOST_REASON:
            raise _wrong(path, number, f"must have a reason of 1 to {_MOST_REASON} characters", "another one")
        yield number, line


def _interval(path: Path, number: int, line: Mapping[str, str]) -> tuple[float, float]:
    """Start and end of a line's interval, unix seconds; an open end is infinite."""
    zone = None
    if line[_TIMEZONE]:
        try:
            zone = known_zone(line[_TIMEZONE])
        except ValueError:
            must = "must have a time zone of the IANA database, like Europe/Vienna"
            raise _wrong(path, number, must, line[_TIMEZONE]) from None
    start = _instant(path, number, line["from"], zone, fold=0)
    end = _instant(path, number, line["to"], zone, fold=1) if line["to"] else float("inf")
    if end <= start:
        raise _wrong(path, number, "must end after it begins", f"{line['from']} to {line['to']}")
    return start, end


def _instant(path: Path, number: int, text: str, zone: ZoneInfo | None, *, fold: int) -> float:
    """A time in unix seconds. One that the clock shows twice is a start the first time, an end the second."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise _wrong(path, number, "must have times like 2026-03-02T08:00Z", repr(text)) from None
    if time.tzinfo is not None:
        return time.timestamp()
    if zone is None:
        raise _wrong(path, number, f"must have times with an offset, or a {_TIMEZONE}", text)
    instant = time.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) != time:
        raise _wrong(path, number, f"must have times that the clock in {zone.key} shows", text)
    return instant.timestamp()


def _wrong(path: Path, number: int, must: str, got: object) -> SettingsError:
    return SettingsError(f"line {number} of {path} {must}", got, f"correct the line, as in {_EXAMPLE}")


# A table may change while a deployment lives, for steps of which nothing is known yet. Steps that are closed,
# announced, or of which a count has come stay as they were: else a count could decide what is left out.


def check_change(before: object, now: object, first_free: int) -> None:
    """:class:`RunChangedError` where two tables (:meth:`Exclusions.facts`) differ before ``first_free``."""
    was, is_now = (_cut(facts, first_free) for facts in (before, now))
    changed = sorted(name for name in was.keys() | is_now.keys() if was.get(name) != is_now.get(name))
    if changed:
        name = changed[0]
        raise RunChangedError(
            "the table of exclusions must stay as it was in steps that are closed or announced, or of which "
            f"counts have come: here those before step {first_free}",
            f"sensor {name!r} was excluded in {_in_words(was.get(name, ()))}, now in "
            f"{_in_words(is_now.get(name, ()))}",
            f"put these steps back as they were, and change the table from step {first_free} on",
        )


def excludes_no_less(before: object, now: object) -> bool:
    """Whether every step of a sensor that was excluded still is."""
    was, is_now = (_spans(facts) for facts in (before, now))
    return all(
        any(first <= start and end <= until for first, until in is_now.get(name, ()))
        for name, spans in was.items()
        for start, end in spans
    )


_Spans = tuple[tuple[int, float], ...]


def _spans(facts: object) -> dict[str, _Spans]:
    """Each sensor's excluded steps as intervals that do not touch."""
    found: dict[str, _Spans] = {}
    rows = [Exclusion(*row) for row in (facts if isinstance(facts, list | tuple) else ())]
    for sensor, first, until, _ in sorted(rows, key=lambda row: row[:2]):
        end = float("inf") if until is None else until
        own = found.get(sensor, ())
        if own and first <= own[-1][1]:
            found[sensor] = (*own[:-1], (own[-1][0], max(own[-1][1], end)))
        else:
            found[sensor] = (*own, (first, end))
    return found


def _cut(facts: object, until: int) -> dict[str, _Spans]:
    """The same, as far as it is about steps before ``until``."""
    cut = {
        name: tuple((first, min(end, until)) for first, end in spans if first < until)
        for name, spans in _spans(facts).items()
    }
    return {name: spans for name, spans in cut.items() if spans}


def _in_words(spans: _Spans) -> str:
    return " and ".join(f"steps {first} to {int(end) - 1}" for first, end in spans) or "none of them"
