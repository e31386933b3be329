"""The files of a deployment made from counts: written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path

import numpy as np

from accounting.ledgers import ZcdpSpend, epsilon_from_zcdp
from accounting.settings import HorizonSettings
from models.calendar import Days
from models.fitting.personas import lazy_moves
from models.mechanisms import Gaussian
from models.prior_files import save_population
from models.priors import Population, PopulationBuilder, Triplets
from models.private_files import OPEN_FOLDER, new_file, private_file
from models.releases import SensorRegistry, SensorRelease, StepSchedule, in_single_steps
from stream_app.analysis.accounted_again import account
from stream_app.exceptions import InputError, OutputError
from stream_app.setup.run_folder.durable import PUBLIC_MODE, make_folder, replace_file
from stream_app.setup.sensor_files import registry_of
from stream_app.starting.counts.count_table import CountTable
from stream_app.starting.counts.doubts import NOT_COUNTED
from stream_app.starting.counts.lines import NamedMoves, ends_of, lines_of
from stream_app.starting.counts.message_lines import message_lines
from stream_app.starting.counts.tables import LATITUDES, LONGITUDES, BroughtTable
from stream_app.watching.wording import UP, ceiling_in_words, in_a_hundred, in_points

# Where sensors stand, from a city's own list of them.


@dataclass(frozen=True)
class SensorPlace:
    """A sensor as the deployment names it, and where it stands in degrees, if that is known.

    ``moves`` are what a counter on a line counts, None for a sensor that stands at a place.
    """

    name: str
    latitude: float | None = None
    longitude: float | None = None
    moves: NamedMoves | None = None


def sensor_places(path: Path | None, sensors: tuple[str, ...]) -> tuple[SensorPlace, ...]:
    """The places of the sensors of a file of counts, in their order.

    The column that names them is the one that names most of them. :class:`InputError` where one is missing.
    """
    if path is None:
        return tuple(map(SensorPlace, sensors))
    table = BroughtTable(path)
    columns = {name: _texts(table, name) for name in table.table.column_names}
    key = max(columns, key=lambda name: len(set(sensors) & set(columns[name])))
    row_of = {name: row for row, name in enumerate(columns[key])}
    missing = [name for name in sensors if name not in row_of]
    if missing:
        raise InputError(
            f"sensors file {path} must name each sensor of the counts",
            f"{len(missing)} of {len(sensors)} missing in column {key!r}, such as {missing[0]!r}",
            "add them, or leave columns that are no sensor out with --ignore",
        )
    repeated = [name for name in sensors if columns[key].count(name) > 1]
    if repeated:
        raise InputError(f"sensors file {path} must name each sensor once", repr(repeated[0]), "drop one")
    lines = lines_of(table, columns[key])
    north, east = table.usual(LATITUDES), table.usual(LONGITUDES)
    if north is None or east is None:
        return tuple(SensorPlace(name, moves=lines.get(name)) for name in sensors)
    degrees = [table.numbers(name, otherwise=nan).tolist() for name in (north, east)]
    found = []
    for name in sensors:
        at = [each[row_of[name]] for each in degrees]
        is_known = not any(map(isnan, at))
        if not is_known and name not in lines:
            raise InputError(
                f"sensor {name!r} of {path} must have coordinates, as it stands at a place",
                "none",
                "give them, or what it stands between (columns from and to)",
            )
        latitude, longitude = at if is_known else (None, None)
        found.append(SensorPlace(name, latitude, longitude, lines.get(name)))
    return tuple(found)


def _texts(table: BroughtTable, name: str) -> list[str]:
    """The cells of a column; none where they are no texts, so that it names no sensor."""
    try:
        return table.texts(name)
    except InputError:
        return []


# Habits assumed where nobody was measured: what they are, and how much the answer depends on them.
#
# They use the sensors' positions and the hour of the day. They use no count, as risk never depends on one.

ELSEWHERE = "elsewhere"
_HOURS, _DAY, _MORNING = 24, 86_400, 8
_KNOWN_PLACES = 6
_SEED = 1
PEOPLE, _LEAST_PEOPLE = 100, 10
_MATRICES = 28_800  # of everybody together: 100 people at steps of 5 minutes
TABLE_STEPS = 24
OPERATIONS = 200_000_000  # work of recomputing in a step: some tenths of a second, enough for these people
HORIZON, MISTAKES = 10, 0
DEPENDS = (
    "These people are invented. A ceiling holds if habits are as assumed; nobody's were measured. Where the "
    "rows differ, the answer is that of the assumption."
)


@dataclass(frozen=True)
class AssumedHabits:
    """One way in which everybody might move.

    ``linger`` is the probability of staying an hour longer; who does not stay is near a sensor with
    probability ``out_by_day`` (8 to 18), ``out_by_evening`` (18 to 24) or ``out_by_night``.
    """

    name: str
    linger: float
    out_by_day: float
    out_by_evening: float
    out_by_night: float = 0.02


ALTERNATIVES = (
    AssumedHabits("as assumed", 0.6, 0.5, 0.3),
    AssumedHabits("stays longer", 0.85, 0.5, 0.3),
    AssumedHabits("moves more", 0.3, 0.7, 0.4),
    AssumedHabits("evening economy", 0.6, 0.3, 0.7, 0.1),
)


@dataclass(frozen=True)
class Dependence:
    """What one assumption makes of the same steps: means, and the most added to anybody at any of them."""

    habits: str
    mean_guess: float
    mean_ceiling: float
    most_added: float


def assumed_population(habits: AssumedHabits, places: Sequence[SensorPlace], step_seconds: int) -> Population:
    """People who know a few sensors near each other, and "elsewhere", by the hour of the local day.

    The shorter the steps, the longer a day's cycle and the fewer people: the work is bounded.
    """
    slots = _slots(step_seconds)
    people = max(_LEAST_PEOPLE, min(PEOPLE, _MATRICES // slots))
    out = np.roll(_out_shares(habits, slots), -1)  # where people are in the slot they move to
    linger = habits.linger ** (step_seconds / 3600.0)
    random, builder = np.random.default_rng(_SEED), PopulationBuilder()
    for number in range(people):
        own = _known(places, random)
        liking = random.dirichlet(np.ones(own.size))
        goes = np.concatenate([out[:, None] * liking, 1.0 - out[:, None]], axis=1)  # goes[slot, place]
        moves = lazy_moves(goes, linger)
        slot, row, column = (index.ravel() for index in np.indices(moves.shape))
        where = np.append(own, len(places))
        name = f"assumed-{number + 1:03d}"
        builder.add(name, where, Triplets(row, column, moves.ravel(), slot), slots=slots)
    names = (*(place.name for place in places), ELSEWHERE)
    label = f"{people} invented people who stay another hour with probability {habits.linger:g}"
    return replace(builder.build(names), assumed=label)


def dependence(
    deployment: NewDeployment,
    steps: Sequence[StepSchedule],
    horizon: HorizonSettings,
    progress: Callable[[], None] = lambda: None,
) -> tuple[Dependence, ...]:
    """The guess and ceiling under each alternative; ``progress`` is called for each step of each."""

    def told() -> Iterator[StepSchedule]:
        for step in steps:
            yield in_single_steps(step, registry)
            progress()

    registry, rows = deployment.registry(), []
    for habits in ALTERNATIVES:
        population = assumed_population(habits, deployment.locations, deployment.counts.step_seconds)
        first_look = replace(horizon, operations=OPERATIONS, vectors=4)  # closer ones take half a minute
        found = account(population, told(), first_look)
        rows.append(Dependence(habits.name, found.mean_baseline, found.mean_risk, found.worst.most_added))
    return tuple(rows)


def table_steps(steps: int, first_slot: int, step_seconds: int) -> range:
    """The steps that the table is made of: from the first 8 in the morning on, while there are any."""
    slots = _slots(step_seconds)
    until_morning = (_MORNING * slots // _HOURS - first_slot) % slots
    first = min(until_morning, max(0, steps - TABLE_STEPS))
    return range(first, min(steps, first + TABLE_STEPS))


def _slots(step_seconds: int) -> int:
    """Steps of a day; :class:`InputError` where they do not fill one."""
    if step_seconds < _DAY and _DAY % step_seconds:
        raise InputError(
            "habits by the hour of the day must have steps that fill a day",
            f"steps of {step_seconds} s",
            "bring the counts to such an interval, or leave out --habits",
        )
    return max(1, _DAY // step_seconds)


def _out_shares(habits: AssumedHabits, slots: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    hour = np.arange(slots) * _HOURS / slots
    by_day = np.where((hour >= _MORNING) & (hour < 18), habits.out_by_day, habits.out_by_night)
    share = np.where(hour >= 18, habits.out_by_evening, by_day)
    return np.asarray(share if slots > 1 else np.array([habits.out_by_day]))


def _known(
    places: Sequence[SensorPlace], random: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Sensors a person passes, increasing: the nearest to a random one, or random where none is placed."""
    count = min(_KNOWN_PLACES, len(places))
    order = random.permutation(len(places))
    degrees = [(place.latitude, place.longitude) for place in places]
    if all(latitude is not None for latitude, _ in degrees):
        at = np.array(degrees, dtype=np.float64)
        centre = at[order[0]]
        apart = (at - centre) * [1.0, np.cos(np.radians(centre[0]))]
        order = np.argsort((apart**2).sum(axis=1), kind="stable")
    return np.asarray(np.sort(order[:count]))


ASSUMED_PRIORS = "assumed-priors.json"
_MOST_SIGMA = 10_000


@dataclass(frozen=True)
class NewDeployment:
    """Counts, where they were made, and by how much noise they are to be released.

    ``zones`` is where places are that counters on a line stand between. The first count of such a counter is
    left out: its moves began before the first step.
    """

    name: str
    counts: CountTable
    places: tuple[SensorPlace, ...]
    sigma: float
    most_counts_per_day: int | None = None
    zones: tuple[SensorPlace, ...] = ()

    def __post_init__(self) -> None:
        """Leave out what counters on a line counted in step 0."""
        if self.lines:
            table = self.counts.table.copy()
            table[0, [place.moves is not None for place in self.places]] = NOT_COUNTED
            object.__setattr__(self, "counts", replace(self.counts, table=table))

    @property
    def lines(self) -> tuple[NamedMoves, ...]:
        """What each counter on a line counts."""
        return tuple(place.moves for place in self.places if place.moves is not None)

    @property
    def locations(self) -> tuple[SensorPlace, ...]:
        """Where people can be, besides elsewhere: at sensors, and where counters on a line stand between."""
        stands = tuple(place for place in self.places if place.moves is None)
        at = {zone.name: zone for zone in self.zones}
        ends = ends_of(self.lines, (*(place.name for place in stands), ELSEWHERE))
        return (*stands, *(at.get(name, SensorPlace(name)) for name in ends))

    @property
    def most_lines(self) -> int:
        """How many counters on a line count one move at most, or the way back; 0 where there are none."""
        counted = Counter(pair for moves in self.lines for pair in set(map(frozenset, moves)))
        return max(counted.values(), default=0)

    def document(self) -> dict[str, object]:
        """The file of sensors."""
        most = self.counts.most_counts
        passages: dict[str, object] = {"counts": "passages", "most_counts": most}
        found = dict(passages) if most > 1 else {}
        if self.most_counts_per_day is not None:
            found["most_counts_per_day"] = self.most_counts_per_day
        if self.lines:
            found["most_sensors"] = self.most_lines
        rows = []
        for place in self.places:
            at = {} if place.latitude is None else {"lat": place.latitude, "lon": place.longitude}
            counted: dict[str, object] = {"locations": [place.name]}
            if place.moves is not None:
                again = {"miscounts": True} if most > 1 else {}  # to and fro within a step, for one move
                counted = {"moves": list(map(list, place.moves)), **passages, **again}
            rows.append({"name": place.name, **counted, **at})
        return {**found, "sensors": rows}

    def registry(self) -> SensorRegistry:
        """The sensors that the file describes, and the noise of those on a line."""
        names = (*(place.name for place in self.locations), ELSEWHERE)
        sensors = registry_of(self.document(), names)
        return sensors.with_windows({each.name: Gaussian(self.sigma) for each in sensors.windowed})

    def spent(self) -> ZcdpSpend:
        """What releasing all of it costs anybody in differential privacy, whoever looks."""
        spend, days = ZcdpSpend(), None
        if self.most_counts_per_day is not None:
            counts = self.counts
            days = Days(int(counts.origin.timestamp()), counts.step_seconds, counts.zone)
            if not days.fill_days(len(counts.table)):
                raise InputError(
                    "a bound over the day must have intervals that lie within one date of the local clock",
                    f"every {counts.step_seconds} s from {counts.origin.isoformat()}, {counts.zone}",
                    "bring the counts to whole hours, or leave out --most-counts-per-day",
                )
        for step in self.schedule(range(len(self.counts.table))):
            spend.add(step.releases, step.step, days)
        return spend

    def schedule(self, steps: range) -> list[StepSchedule]:
        """What these steps release."""
        noise = Gaussian(self.sigma)
        release = {each.name: SensorRelease(each, noise) for each in self.registry().sensors}
        return [
            StepSchedule(step, tuple(release[name] for name in names))
            for step, names in enumerate(self.counts.announced())
            if step in steps
        ]


def least_sigma(rho: float, epsilon: float, delta: float) -> float:
    """The smallest whole sigma with which releases cost at most ``epsilon`` in differential privacy.

    ``rho`` is what they cost with sigma 1.
    """
    for sigma in range(1, _MOST_SIGMA + 1):
        if epsilon_from_zcdp(rho / sigma**2, delta) <= epsilon:
            return float(sigma)
    raise InputError(
        f"releases must cost at most epsilon {epsilon:g} together",
        f"more with any noise up to sigma {_MOST_SIGMA:,}",
        "take fewer days, or a larger --epsilon",
    )


def require_new(folder: Path) -> None:
    """:class:`OutputError` for a folder that holds anything."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError("--output must be a new or empty folder", folder, "choose another")


def write_deployment(
    folder: Path,
    deployment: NewDeployment,
    assumed: Population | None = None,
    table: Sequence[Dependence] = (),
) -> None:
    """Write everything to a new folder; nothing stays where that fails."""
    require_new(folder)
    unfinished = folder.with_name(folder.name + ".unfinished")
    make_folder(unfinished.parent)
    unfinished.mkdir(mode=OPEN_FOLDER)
    try:
        _write(unfinished, deployment)
        if assumed is not None:
            save_population(assumed, unfinished / ASSUMED_PRIORS)
            text = assumption_text(assumed.assumed or "", table)
            replace_file(unfinished / "assumed-habits.md", text.encode())
        if folder.exists():
            folder.rmdir()
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


_ASSUMPTION = f"""# Assumed habits

Nobody was measured. {ASSUMED_PRIORS} holds {{label}}.
Everything computed with them holds for such people only. No count was used to make them.

How much the answer depends on the assumption, over {TABLE_STEPS} steps at most, from 8 in the
morning on. Chances that each of a person's last {HORIZON} steps is reconstructed:

| habits | mean guess | mean ceiling | most added to anybody |
|---|---|---|---|"""


def assumption_text(label: str, table: Sequence[Dependence]) -> str:
    """What was assumed, and how much the answer depends on it."""
    rows = [
        f"| {row.habits} | {in_a_hundred(row.mean_guess)} | {ceiling_in_words(row.mean_ceiling)} "
        f"| {in_points(row.most_added, UP)} |"
        for row in table
    ]
    return "\n".join([_ASSUMPTION.format(label=label), *rows, "", DEPENDS, ""])


def _write(folder: Path, deployment: NewDeployment) -> None:
    names = [place.name for place in deployment.locations]
    for name, text in (
        ("sensors.json", json.dumps(deployment.document(), indent=1) + "\n"),
        ("locations.txt", "".join(f"{name}\n" for name in (*names, ELSEWHERE))),
        ("tallyguard.toml", _settings(deployment)),
    ):
        replace_file(folder / name, text.encode())
    with private_file(folder / "messages.jsonl") as messages:
        messages.writelines(message_lines(deployment.counts))
    with os.fdopen(new_file(folder / "schedule.json", PUBLIC_MODE), "w") as schedule:
        schedule.write(f'{{"first_slot": {deployment.counts.first_slot}, "steps": [')
        for step, announced in enumerate(deployment.counts.announced()):
            release = {"mechanism": "gaussian", "sigma": deployment.sigma} if announced else {}
            schedule.write((",\n" if step else "\n") + json.dumps({"sensors": announced, **release}))
        schedule.write("\n]}\n")


def _settings(deployment: NewDeployment) -> str:
    counts = deployment.counts
    return f"""# Written by tallyguard init; every setting: tallyguard config show --config tallyguard.toml
deployment = {json.dumps(deployment.name)}
step_seconds = {counts.step_seconds}
origin = {counts.origin:%Y-%m-%dT%H:%M:%SZ}  # start of step 0
first_slot = {counts.first_slot}  # place of step 0 in the local day, for a daily cycle
timezone = {json.dumps(counts.zone)}  # slots follow its clock, days of 23 hours too
horizon = {HORIZON}  # steps of which an observer tries to tell where a person was
mistakes = {MISTAKES}  # how many of them may be wrong; with 0 the ceiling is sharpest
sharpen_operations = {OPERATIONS}  # work for ceilings in a step, of about a nanosecond
# Raise it with the people you have priors of; page, report and check say whether it suffices.
sensors = "sensors.json"
locations = "locations.txt"

[release]
mechanism = "gaussian"
sigma = {deployment.sigma:g}  # standard deviation of the noise, in people: yours to decide
"""
