"""Totals of what was published: of hours, days and weeks, by sensor, by district and of the city.

How many are inside a place is a difference of such sums. A total is made of published values, so it reveals
nothing more, and its sigma and interval follow from the law of that sum. It is made once no late or corrected
value of its steps can come any more, of the last value of each count; so it follows from the logs alone,
whenever and by whomever it is made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import ceil, sqrt
from pathlib import Path
from typing import Any, TypeAlias

from models.calendar import Days
from models.mechanisms import Correlated, Mechanism, half_width, interval_of_mean, sigma_of_sum
from models.noise_design.levels import Estimate, consistent, whole_numbers
from models.releases import CountingWindow, Sensor
from stream_app.exceptions import OutputError, SettingsError
from stream_app.setup.run_folder.description import description_in
from stream_app.setup.run_folder.durable import parsed_line, replace_file, whole_lines
from stream_app.setup.run_folder.progress import load_progress, steps_out
from stream_app.setup.run_folder.run_settings import days_of_run, load_run, registries_of
from stream_app.setup.sections import OccupancySettings
from stream_app.setup.total_levels import Level, Occupancy, Space, Whole
from stream_app.steps.intervals import Interval, Intervals, around, noise_of
from stream_app.steps.plan import public_release
from stream_app.watching.events import Observer, RunStarted, StepClosed
from stream_app.wire import SensorValue, StepRelease


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of the values that were published of a place in the steps ``first_step`` to ``last_step``.

    ``cells`` of ``of`` counts were published: those of the place's sensors that were announced in these
    steps. ``value`` is the sum with its noise, which adds up over places and times, None where nothing was
    published; ``people`` is the same as a number that people can have, which is too large on average. What
    was counted is from ``low`` to ``high``; without all cells there is no upper end. ``sigma`` None: of a
    noise not known here. ``estimate`` is the best by least squares where a sensor with a window counts what
    its parts count: ``people``, ``sigma`` are then its own, and whole numbers of parts add up to the whole.
    """

    level: str
    place: str
    first_step: int
    last_step: int
    start: str
    end: str
    cells: int
    of: int
    value: int | None
    people: int | None
    sigma: float | None
    low: int | None
    high: int | None
    estimate: float | None = None

    def line(self) -> bytes:
        """The total as a line of JSON; what is not known is left out."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps({"v": 1, "type": "total", **fields}, ensure_ascii=False).encode() + b"\n"


_Entry: TypeAlias = tuple[int, SensorValue]
"""With which step a value was published."""


class Totals:
    """Makes totals, step by step.

    ``late`` is for how many steps after its close a value of a step may still come. ``sensors`` are all that
    ever were, by name.
    """

    def __init__(
        self,
        levels: Sequence[Level | Occupancy | Whole],
        days: Days,
        late: int,
        sensors: Mapping[str, Sensor],
        intervals: Intervals,
    ) -> None:
        self._levels, self._days, self._late, self._intervals = tuple(levels), days, late, intervals
        self._sensors = sensors
        require_sensors(self._levels, sensors)
        self._wholes = {each.place for each in self._levels if isinstance(each, Whole)}
        self._values: dict[int, dict[str, SensorValue]] = {}  # of steps whose totals are not all made
        self._first: int | None = None

    def take(self, release: StepRelease) -> None:
        """What was released of a step, or later of it: the last value of a count is the one that counts."""
        known = self._values.setdefault(release.step, {})
        if self._first is None:
            self._first = release.step
        for entry in release.releases:
            before = known.get(entry.sensor)
            if before is None or (entry.version or 1) >= (before.version or 1) or before.value is None:
                known[entry.sensor] = entry

    def closed(self, step: int) -> Iterator[Total]:
        """The totals that are complete once this step was closed, and late values with it."""
        last = step - self._late
        if last < 0 or self._first is None:
            return
        for level in self._levels:
            if isinstance(level, Occupancy):
                yield from self._inside(level, last)
            elif isinstance(level, Whole):
                yield from self._both(level, last)
            elif level.period(self._days, last) != level.period(self._days, last + 1):
                yield from self._of(level, last)
        oldest = min(self._begin(level, last + 1) for level in self._levels)
        for done in [each for each in self._values if each < oldest]:
            del self._values[done]

    def _begin(self, level: Level | Occupancy | Whole, step: int) -> int:
        """The first step of the period of a step, from the log's first on."""
        if isinstance(level, Whole):
            window = self._sensors[level.place].window or CountingWindow()
            return max(self._first or 0, step - step % window.steps)
        period, first = level.period(self._days, step), self._first or 0
        while step > first and level.period(self._days, step - 1) == period:
            step -= 1
        return step

    def _inside(self, place: Occupancy, last: int) -> Iterator[Total]:
        """How many are inside after a step, where it is known when nobody was.

        Of the true passages a share of up to ``drift`` was not counted, or counted twice; they are at most as
        many as the upper end of what was published of them.
        """
        first, names = self._begin(place, last), (*place.entered, *place.left)
        if place.period(self._days, first - 1) == place.period(self._days, first):
            return
        windows = [self._sensors[name].window or CountingWindow() for name in names]
        if any(
            first % each.steps or (last + 1) % each.steps or (each.moves and first == 0) for each in windows
        ):
            return  # in the middle of a sensor's window, or moves into step 0 are not known
        of = sum(self._windows(name, first, last) for name in names)
        own = _published(
            first,
            [
                (step, entry)
                for step in range(first, last + 1)
                for name, entry in self._values.get(step, {}).items()
                if name in names
            ],
        )
        value, ends, spread = None, Interval(0, None), None
        if len(own) == of:
            value = sum((entry.value or 0) * (1 if entry.sensor in place.entered else -1) for _, entry in own)
            level = self._intervals.level
            spread = self._spread(own, level if place.drift == 0 else (1 + level) / 2)
        if spread is not None and value is not None:
            passages = max(0, sum(entry.value or 0 for _, entry in own) + spread[1])
            off = spread[1] + ceil(place.drift / (1 - place.drift) * passages)
            ends = Interval(*around(value, off))
        yield self._made("occupancy", place.place, (last, last), (len(own), of), value, spread, ends)

    def _of(self, level: Level, last: int) -> Iterator[Total]:
        first = self._begin(level, last)
        entries: dict[str, list[_Entry]] = {}
        for step in range(first, last + 1):
            for entry in self._values.get(step, {}).values():
                if entry.sensor in self._wholes and level.space is not Space.SENSOR:
                    continue  # its people are counted by its parts
                entries.setdefault(level.place(entry.sensor, self._sensors), []).append((step, entry))
        for place in sorted(entries):
            yield self._total(level, place, first, last, entries[place])

    def _both(self, whole: Whole, last: int) -> Iterator[Total]:
        """What the whole published of its window, and the estimates of it and of its parts with it.

        Without a part, or with noise that is not known to be independent, the whole stands alone.
        """
        window = self._sensors[whole.place].window or CountingWindow()
        first = self._begin(whole, last)
        own = self._values.get(last, {}).get(whole.place)
        if not window.ends_with(last) or first > window.first_of(last) or own is None:
            return
        parts = {
            f"{step} {name}": (step, entry)
            for step in range(first, last + 1)
            for name in whole.parts
            if (entry := self._values.get(step, {}).get(name)) is not None and entry.value is not None
        }
        of = sum(self._windows(name, first, last) for name in whole.parts)
        alone = self._total("whole", whole.place, first, last, [(last, own)])
        alone = replace(alone, cells=len(parts), of=of)
        noises = {key: noise_of(entry, self._intervals.designs) for key, (_, entry) in parts.items()}
        noises[""] = noise_of(own, self._intervals.designs)
        known = [each for each in noises.values() if each is not None and not each.is_exact]
        is_once = whole.counted_by_parts(self._sensors) <= self._sensors[whole.place].most_counts
        if (
            len(parts) < of
            or len(known) < len(noises)
            or any(isinstance(each, Correlated) for each in known)
            or not (is_once or self._days.of(first) == self._days.of(last))  # the parts' bound is of one day
        ):
            yield alone
            return
        values = {key: entry.value or 0 for key, (_, entry) in parts.items()} | {"": own.value or 0}
        variances = {key: None if each is None else each.variance() for key, each in noises.items()}
        found = consistent({"": list(parts)}, values, variances, "")
        people = whole_numbers({"": list(parts)}, found, "")
        ends = interval_of_mean(values[""], sum(values.values()) - values[""], known, self._intervals.level)
        low, high = ends or (alone.low, alone.high)
        yield replace(_at_best(alone, found[""], people[""]), low=low, high=high)
        for key, (step, entry) in parts.items():
            part = self._total("part", entry.sensor, entry.first_step(step), step, [(step, entry)])
            yield _at_best(part, found[key], people[key])

    def _total(
        self, level: Level | str, place: str, first: int, last: int, entries: Sequence[_Entry]
    ) -> Total:
        own = _published(first, entries)
        of = sum(self._windows(name, first, last) for name in {entry.sensor for _, entry in entries})
        value = sum(entry.value or 0 for _, entry in own) if own else None
        spread, ends = self._spread(own), Interval(0, None)
        if spread is not None and value is not None:
            low, high = around(value, spread[1])
            ends = Interval(low, high if len(own) == of else None)
        return self._made(str(level), place, (first, last), (len(own), of), value, spread, ends)

    def _made(
        self,
        level: str,
        place: str,
        steps: tuple[int, int],
        cells: tuple[int, int],
        value: int | None,
        spread: tuple[float, int] | None,
        ends: Interval,
    ) -> Total:
        people = None if value is None else max(0, value)
        sigma = None if spread is None else spread[0]
        times = self._time(steps[0]), self._time(steps[1] + 1)
        return Total(level, place, *steps, *times, *cells, value, people, sigma, *ends)

    def _spread(self, own: Sequence[_Entry], level: float | None = None) -> tuple[float, int] | None:
        """Sigma and half an interval of the sum; None where the noise of a value is not known."""
        alone: list[Mechanism] = []
        shared: dict[tuple[str, int], list[Correlated]] = {}
        for step, entry in own:
            noise = noise_of(entry, self._intervals.designs)
            if noise is None:
                return None
            if isinstance(noise, Correlated):
                shared.setdefault((entry.sensor, step - noise.position), []).append(noise)
            else:
                alone.append(noise)
        if not own:
            return None
        windows = list(shared.values())
        return sigma_of_sum(alone, windows), half_width(alone, level or self._intervals.level, windows)

    def _windows(self, name: str, first: int, last: int) -> int:
        """How many counts a sensor can have that lie within the steps."""
        sensor = self._sensors.get(name)
        window = None if sensor is None else sensor.window
        if window is None:
            return last + 1 - first
        return sum(
            window.ends_with(step) and window.first_of(step) >= first for step in range(first, last + 1)
        )

    def _time(self, step: int) -> str:
        at = datetime.fromtimestamp(self._days.origin + step * self._days.step_seconds, UTC)
        return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _published(first: int, entries: Sequence[_Entry]) -> list[_Entry]:
    """The values among them; a count over several steps belongs to a total that has all of them."""
    return [each for each in entries if each[1].value is not None and each[1].first_step(each[0]) >= first]


def _at_best(total: Total, best: Estimate, people: int) -> Total:
    return replace(total, estimate=best.value, people=people, sigma=sqrt(best.variance))


def require_sensors(levels: Sequence[Level | Occupancy | Whole], sensors: Mapping[str, Sensor]) -> None:
    """:class:`SettingsError` for an unknown sensor of an occupancy, or a whole of other counts."""
    for place in levels:
        if isinstance(place, Whole):
            place.counted_by_parts(sensors)
        if isinstance(place, Occupancy):
            unknown = next((name for name in (*place.entered, *place.left) if name not in sensors), None)
            if unknown is not None:
                raise SettingsError(
                    f"entered and left of [occupancy.{place.place}] must name sensors",
                    repr(unknown),
                    "correct the name, or add the sensor",
                )


def declared_totals(
    totals: Sequence[str],
    occupancy: Mapping[str, OccupancySettings | Mapping[str, Any]],
    total_of: Mapping[str, Sequence[str]],
) -> list[Level | Occupancy | Whole]:
    """What these settings declare, also as a run's description has them."""
    inside = [OccupancySettings.model_validate(each).of(place) for place, each in occupancy.items()]
    return [
        *map(Level.of, totals),
        *inside,
        *(Whole(place, tuple(parts)) for place, parts in total_of.items()),
    ]


# The totals of a run, beside its logs: made from them, so they are the same however often they are made.

TOTALS_FILE = "totals.jsonl"
_LOGS = ("releases.jsonl", "revised.jsonl")


class RunTotals:
    """The totals of a run's folder, made as its logs grow.

    Of tiered releases only what everybody may read is added up.
    """

    def __init__(self, folder: Path, totals: Totals) -> None:
        self._folder, self._totals = folder, totals
        self._read = dict.fromkeys(_LOGS, 0)
        self._next = 0

    def until(self, next_step: int) -> Iterator[Total]:
        """The totals that became complete with the steps before this one, since they were asked for last."""
        for name in _LOGS:
            for release in self._new(name):
                self._totals.take(public_release(release))
        while self._next < next_step:
            yield from self._totals.closed(self._next)
            self._next += 1

    def _new(self, name: str) -> Iterator[StepRelease]:
        path = self._folder / name
        for line in whole_lines(path, self._read[name]):
            self._read[name] += len(line)
            yield parsed_line(StepRelease, path, line)


def totals_of_run(folder: Path, levels: Sequence[Level] = (), level: float | None = None) -> RunTotals:
    """The totals of a run: of these levels, else of those that it declares; intervals at ``level``.

    :class:`OutputError` where neither says any.
    """
    description = description_in(folder)
    if description is None:
        raise OutputError(
            f"{folder} must describe its sensors for totals",
            "a run of an earlier version",
            "export counts only",
        )
    said = description.settings
    total_of = said.get("total_of", {})
    declared = declared_totals(said.get("totals", ()), said.get("occupancy", {}), total_of)
    if levels:
        declared = [*levels, *declared_totals((), {}, total_of)]
    if not declared:
        raise OutputError(
            f"{folder} must declare its totals, or they must be asked for",
            "none",
            'set totals = ["day by sensor"], or say --totals "day by sensor"',
        )
    sensors = registries_of(folder, description.registry()).ever
    late = int(description.settings.get("late", 0))
    days = days_of_run(load_run(folder))
    return RunTotals(folder, Totals(declared, days, late, sensors, Intervals.of_run(folder, level)))


class TotalsFile(Observer):
    """Keeps ``totals.jsonl`` beside a run's logs while it goes on.

    It is made anew from the logs of the committed steps when a run starts, and goes on from there: after a
    kill at any moment it is as if there had been none.
    """

    may_lag = True

    def __init__(self, folder: Path) -> None:
        self._path, self._totals = folder / TOTALS_FILE, totals_of_run(folder)

    def started(self, event: RunStarted) -> None:
        """Write what is known before the first step of this process."""
        replace_file(self._path, b"".join(each.line() for each in self._totals.until(event.next_step)))

    def closed(self, event: StepClosed) -> None:
        """Add what the step completes."""
        lines = b"".join(each.line() for each in self._totals.until(event.step + 1))
        if lines:
            with self._path.open("ab") as file:
                file.write(lines)


def complete_totals(folder: Path, levels: Sequence[Level] = (), level: float | None = None) -> list[Total]:
    """All totals of a run that are complete at its last commit, of steps that are out."""
    next_step = min(int(load_progress(folder).get("next_step", 0)), steps_out(folder))
    return list(totals_of_run(folder, levels, level).until(next_step))


class TotalsWithReleases:
    """For whoever sends releases on, step by step: the totals that go with each.

    With a step go those that the step before completed, because of that all late values are there. A process
    that begins later leaves out what went with earlier steps.
    """

    def __init__(self, folder: Path) -> None:
        description = description_in(folder)
        said = {} if description is None else description.settings
        has_any = any(said.get(name) for name in ("totals", "occupancy", "total_of"))
        self._totals = totals_of_run(folder) if has_any else None
        self._has_begun = False

    def with_step(self, step: int) -> list[Total]:
        """Those that go with a step."""
        if self._totals is None:
            return []
        if not self._has_begun:
            self._has_begun = True
            for _ in self._totals.until(step - 1):
                pass
        return list(self._totals.until(step))
