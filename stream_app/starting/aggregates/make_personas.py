"""Makes personas of what a city knows about all people together, and says what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from models.fitting.calibration import (
    Calibration,
    Flows,
    MeanCounts,
    MoveCounts,
    calibrate,
    expected_flows,
)
from models.fitting.personas import (
    PLACES_AN_ACTIVITY,
    WORK,
    Activity,
    Classes,
    DayType,
    Surroundings,
    Zones,
    classes_of,
    personas,
)
from models.priors import Population
from models.text import number_of
from stream_app.exceptions import InputError
from stream_app.starting.aggregates.agent_files import AgentAggregates, aggregates_of, is_agents, read_agents
from stream_app.starting.aggregates.between import WITHIN_KM, known_to, moves_between
from stream_app.starting.aggregates.survey_files import (
    ASSUMED_ACTIVITIES,
    assumed_days,
    read_days,
    read_flows,
)
from stream_app.starting.aggregates.zone_files import (
    MOST_COUNTS,
    WINDOW,
    NamedHomeWork,
    Points,
    is_home_work,
    read_home_work,
    read_points,
)
from stream_app.starting.building import load_building, people_of
from stream_app.starting.counts.count_table import CountTable
from stream_app.starting.counts.deployment_files import (
    ALTERNATIVES,
    ELSEWHERE,
    SensorPlace,
    assumed_population,
)
from stream_app.starting.counts.doubts import NOT_COUNTED
from stream_app.starting.counts.lines import NamedMoves, ends_of
from stream_app.starting.counts.tables import BroughtTable, columns_in_words

OUTSIDE = "outside"
PENALTY = 10.0
_DAY = 86_400


@dataclass(frozen=True)
class PersonaQuestions:
    """What personas are made of besides the source; the counts are of ``people`` people.

    With ``penalty`` None the tables are met exactly. ``reach`` is a factor on the distances that people go
    for other activities; ``habits`` names the habits of invented people, where there are sensors alone.
    """

    zones: Path | None = None
    sensors: Path | None = None
    within_km: float = WITHIN_KM
    activities: Path | None = None
    flows: Path | None = None
    counts: CountTable | None = None
    holidays: Sequence[date] = ()
    people: float | None = None
    slots: int = 24
    week: bool = False
    least_people: float = 0.0
    places: int = PLACES_AN_ACTIVITY
    reach: float = 1.0
    habits: str = ALTERNATIVES[0].name
    penalty: float | None = PENALTY
    most_sweeps: int = 300
    tolerance: float = 1e-6


@dataclass(frozen=True, eq=False)
class MadePersonas:
    """Personas, and what is to be known of them: remarks in sentences, and how they were calibrated."""

    population: Population
    remarks: tuple[str, ...]
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class _City:
    """Zones on a map, the last one for everything outside it, and the location that each belongs to."""

    zones: Zones
    location: NDArray[np.int64]
    location_names: tuple[str, ...]
    points: Points | None
    lines: Mapping[str, NamedMoves] = field(default_factory=dict)  # what each counter on a line counts

    @property
    def outside(self) -> int:
        return len(self.zones.names) - 1


def make_personas(
    source: Path | None, questions: PersonaQuestions, progress: Callable[[float], None] = lambda off: None
) -> MadePersonas:
    """Personas of a home-work table, synthetic agents or a building; of sensors alone without a source.

    :class:`~stream_app.exceptions.InputError` says what is missing or does not fit.
    """
    if source is None:
        _require_days(questions)
        return _of_counts(questions, progress)
    if source.suffix.lower() == ".toml":
        _require_days(questions)
        return MadePersonas(*people_of(load_building(source)))
    table = None if source.is_dir() or source.suffix.lower() == ".gpkg" else BroughtTable(source)
    if table is None or is_agents(table):
        _require_days(questions)
        return _of_agents(source, questions, progress)
    if not is_home_work(table):
        raise InputError(
            f"{source} must be a home-work table (h_geocode, w_geocode, S000; origin, destination, flow) or "
            "synthetic agents (eqasim's activities, UVA's activity_location_assignment)",
            columns_in_words(table.table),
            "rename its columns",
        )
    return _of_home_work(read_home_work(table), questions, progress)


def _require_days(questions: PersonaQuestions) -> None:
    """A week is made of assumed days or of those of a survey."""
    if questions.week:
        raise InputError(
            "a cycle of a week must be of a home-work table with assumed days or those of a survey",
            "days of another source",
            "leave out --cycle week",
        )


def _of_home_work(
    table: NamedHomeWork, questions: PersonaQuestions, progress: Callable[[float], None]
) -> MadePersonas:
    """Personas of a home-work table, with days of a survey or assumed ones."""
    if questions.zones is not None:
        table = table.coarse(_digits(table, questions.zones))
    named = sorted({zone for zone in (*table.home, *table.work) if zone})
    city, remarks = _city(named, questions)
    table = NamedHomeWork(_known(table.home, city), _known(table.work, city), table.people)
    numbered = table.numbered(city.zones.names)
    away = (numbered.home == city.outside) | (numbered.work == city.outside)
    if away.any():
        remarks.append(
            f"{numbered.people[away].sum():,.0f} of {numbered.people.sum():,.0f} people live or work in "
            f"zones without a place on the map; there they are {OUTSIDE}."
        )
    if questions.activities is None:
        days = assumed_days(questions.slots, questions.week)
    else:
        days = read_days(questions.activities, questions.week)
    is_lived = {True: (numbered.work >= 0).any(), False: (numbered.work < 0).any()}  # with work, without
    days = tuple(day for day in days if is_lived[day.works])
    classes = classes_of(numbered, days, questions.least_people)
    jobs = np.bincount(
        numbered.work[numbered.work >= 0], numbered.people[numbered.work >= 0], city.outside + 1
    )
    around = _surroundings(city, questions.reach, days, {}, jobs.astype(np.float64))
    basis = f"a home-work table and {'assumed' if questions.activities is None else 'surveyed'} days"
    return _finished(
        personas(classes, days, around, questions.places),
        classes,
        questions,
        city,
        basis,
        remarks,
        progress,
    )


def _of_agents(source: Path, questions: PersonaQuestions, progress: Callable[[float], None]) -> MadePersonas:
    """Personas of synthetic agents; no single agent's day is kept."""
    if questions.zones is None and questions.sensors is None:
        raise InputError(
            "synthetic agents must have zones that their points lie in", "none", "give --zones, or --sensors"
        )
    if questions.activities is not None:
        raise InputError("agents have activities of their own", "--activities too", "leave it out")
    events = read_agents(source)
    are_sensors = questions.zones is None
    points = read_points(questions.zones or questions.sensors or source, are_sensors=are_sensors)
    if points.is_globe != events.is_globe:
        raise InputError(
            "agents and zones must both have degrees, or both metres of one map",
            f"{'degrees' if events.is_globe else 'metres'} for agents",
            "give zones with " + ("lat and lon" if events.is_globe else "x and y"),
        )
    city, remarks = _city(points.places, questions)

    within = np.inf if questions.zones is not None else questions.within_km

    def zone_of(north: NDArray[np.float64], east: NDArray[np.float64]) -> NDArray[np.int64]:
        names = tuple(map(str, range(north.size)))
        at = Points(names, tuple(north.tolist()), tuple(east.tolist()), points.is_globe)
        near = at.placed(names, points.middle).nearest(city.zones, within)
        return np.minimum(near, city.outside)  # which has no place, so nothing is nearest to it

    agents = events.days(questions.slots, zone_of, city.outside)
    found: AgentAggregates = aggregates_of(
        agents, city.location, len(city.zones.names), questions.least_people
    )
    around = _surroundings(city, questions.reach, found.days, found.visits, found.visits.get(WORK))
    made = personas(found.classes, found.days, around, questions.places)
    basis = "days of synthetic agents, added up"
    return _finished(made, found.classes, questions, city, basis, remarks, progress, found.trips)


def _of_counts(questions: PersonaQuestions, progress: Callable[[float], None]) -> MadePersonas:
    """The invented people of ``init --habits assumed``, as personas; mean counts are all that is known."""
    if questions.sensors is None or questions.people is None:
        raise InputError(
            "without a home-work table or agents there must be sensors and a number of people",
            "no --sensors" if questions.sensors is None else "no --people",
            "give both, and --counts if there are any",
        )
    sensors = read_points(questions.sensors, are_sensors=True)
    points = None if questions.zones is None else read_points(questions.zones)
    lines, remarks = moves_between(questions.sensors, sensors, points, known_to(sensors, points))
    at = {} if points is None else points.degrees
    at = {**at, **sensors.degrees}
    stands = (*sensors.places, *ends_of(list(lines.values()), (*sensors.places, ELSEWHERE)))
    places = [SensorPlace(name, *at.get(name, ())) for name in stands]
    habits = {each.name: each for each in ALTERNATIVES}
    if questions.habits not in habits:
        raise InputError("--habits must be among " + ", ".join(habits), repr(questions.habits), "choose one")
    people = assumed_population(habits[questions.habits], places, _DAY // questions.slots)
    weights = np.full(len(people), questions.people / len(people))
    made = replace(people, weights=weights)
    zones = sensors.placed((*stands, ELSEWHERE), sensors.middle)
    city = _City(zones, np.arange(len(stands) + 1), people.location_names, sensors, lines)
    nobody = np.zeros(0, dtype=np.int64)
    classes = Classes(nobody, nobody, nobody, np.zeros(0))
    return _finished(made, classes, questions, city, people.assumed or "", remarks, progress)


def _digits(table: NamedHomeWork, zones: Path) -> int:
    """How much of a zone's code the zones file knows: tracts are the first digits of blocks."""
    codes = {*table.home, *table.work}
    longest = max(map(len, codes))
    names = set(read_points(zones, codes).names)
    lengths = {len(name) for name in names}
    if names & codes or len(lengths) != 1:
        return longest
    shorter = lengths.pop()
    return shorter if names & {code[:shorter] for code in codes} else longest


def _city(named: Sequence[str], questions: PersonaQuestions) -> tuple[_City, list[str]]:
    """The zones that are known, and one for everything outside."""
    points = None if questions.zones is None else read_points(questions.zones, set(named))
    sensors = None if questions.sensors is None else read_points(questions.sensors, are_sensors=True)
    if points is None and sensors is not None and set(named) & set(sensors.places):
        points = sensors
    if sensors is not None and sensors.places and (points is None or points.is_globe != sensors.is_globe):
        raise InputError(
            "zones and sensors must both have degrees, or both metres of one map",
            "zones without a place" if points is None else "one of each",
            "give --zones with the same two columns as --sensors",
        )
    remarks = []
    known = set(named) if points is None else set(points.names)
    names = tuple(zone for zone in named if zone in known)
    if points is None:
        remarks.append("No zone has a place on the map: people know home and work alone. Give --zones.")
    elif not names:
        raise InputError(
            "zones must have the names that the table uses",
            f"{points.names[0]!r} there, {named[0]!r} here",
            "give --zones with a column of these names",
        )
    everywhere, nowhere = (*names, OUTSIDE), [None] * (len(names) + 1)
    middle = 0.0 if points is None else points.middle
    zones = (
        Zones.on_plane(everywhere, nowhere, nowhere) if points is None else points.placed(everywhere, middle)
    )
    if sensors is None:
        return _City(zones, np.arange(len(everywhere)), (*names, ELSEWHERE), points), remarks
    assert questions.sensors is not None
    listed = (*(known_to(sensors, points) or sensors.places), *named)
    lines, stand = moves_between(questions.sensors, sensors, points, listed, questions.within_km)
    ends = ends_of(list(lines.values()), (*sensors.places, ELSEWHERE))
    location = zones.nearest(sensors.placed(sensors.places, middle), questions.within_km)
    near_end = zones.nearest((points or sensors).placed(ends, middle), questions.within_km)
    first = len(sensors.places)
    location = np.where(location < first, location, first + near_end)  # at a line's end where no sensor is
    own = {name: first + number for number, name in enumerate(ends)}
    location[:-1] = [own.get(name, near) for name, near in zip(names, location[:-1], strict=True)]
    return _City(zones, location, (*sensors.places, *ends, ELSEWHERE), points, lines), [*remarks, *stand]


def _known(column: Sequence[str], city: _City) -> list[str]:
    """Zones by name, outside where they are not known; empty stays empty."""
    names = set(city.zones.names)
    return [zone if zone in names or not zone else OUTSIDE for zone in column]


def _surroundings(
    city: _City,
    reach: float,
    days: Sequence[DayType],
    visits: Mapping[str, NDArray[np.float64]],
    otherwise: NDArray[np.float64] | None,
) -> Surroundings:
    """What attracts: visits of an activity, a column of its name in the zones file, else people at work."""
    names = {name for day in days for name in day.activities} - {"home", WORK}
    attraction = {}
    for name in names:
        found = visits.get(name)
        if found is None and city.points is not None and name in city.points.columns:
            by_name = dict(zip(city.points.names, city.points.columns[name], strict=True))
            found = np.array([by_name.get(zone, 0.0) for zone in city.zones.names])
        if found is None:
            found = np.zeros(len(city.zones.names)) if otherwise is None else otherwise
        attraction[name] = np.maximum(found, 0.0)
    usual = {name: ASSUMED_ACTIVITIES.get(name, Activity(name)) for name in names}
    activities = {name: replace(each, reach_km=each.reach_km * reach) for name, each in usual.items()}
    return Surroundings(city.zones, activities, attraction, city.location, city.location_names)


def _finished(
    made: Population,
    classes: Classes,
    questions: PersonaQuestions,
    city: _City,
    basis: str,
    remarks: list[str],
    progress: Callable[[float], None],
    trips: Flows | None = None,
) -> MadePersonas:
    """Weights scaled to the people asked for, calibrated, and labelled."""
    assert made.weights is not None
    scale = 1.0 if questions.people is None else questions.people / float(made.weights.sum())
    made = replace(made, weights=made.weights * scale)
    tables: list[Flows | MeanCounts | MoveCounts] = []
    if questions.flows is not None:
        tables.append(read_flows(questions.flows, city.zones.names, city.location, city.outside))
        basis += ", hourly flows"
    elif trips is not None and trips.people.size:
        tables.append(replace(trips, people=trips.people * scale))
    if questions.counts is not None:
        slots = int(made.arrays.slots[0])
        most = _most_counts(questions)
        at_places, on_lines = _by_kind(questions.counts, city.lines)
        if at_places.sensors:
            tables.append(mean_counts(at_places, city.location_names, slots, questions.holidays, most))
        if on_lines.sensors:
            moves = mean_moves(on_lines, city.lines, city.location_names, slots, questions.holidays, most)
            _require_moves(made, moves)
            tables.append(moves)
            remarks.append(
                f"{number_of(len(on_lines.sensors), 'counter')} on a line: a count is of people who are on "
                "one side in a step and on the other in the next."
            )
        basis += ", mean counts"
        remarks += questions.counts.remarks
        if several := [name for name in questions.counts.sensors if most.get(name, 1.0) > 1.0]:
            remarks.append(
                f"{number_of(len(several), 'sensor')} may count somebody several times in a step "
                "(most_counts): anything from one person for so many counts to a person for each is met."
            )
    if classes.moved:
        remarks.append(
            f"{classes.moved:,.0f} people of small classes were added to another of their home and day."
        )
    calibration = None
    if tables:
        calibration = calibrate(
            made,
            tables,
            penalty=questions.penalty,
            tolerance=questions.tolerance,
            most_sweeps=questions.most_sweeps,
            progress=progress,
        )
        made = calibration.population
    people = float(made.weights.sum()) if made.weights is not None else 0.0
    if questions.reach != 1.0:
        basis += f", going {questions.reach:g} times as far as assumed"
    label = f"{len(made):,} personas for {people:,.0f} people from {basis}"
    return MadePersonas(replace(made, assumed=label), tuple(remarks), calibration)


def _most_counts(questions: PersonaQuestions) -> dict[str, float]:
    """How often each sensor may count somebody in a step, where the file of sensors says so.

    :class:`InputError` for counts over windows: what they say of the places in one step is not known.
    """
    if questions.sensors is None:
        return {}
    points = read_points(questions.sensors, are_sensors=True)
    counted = () if questions.counts is None else questions.counts.sensors
    for name, steps in zip(points.names, points.columns.get(WINDOW, ()), strict=False):
        if steps > 1 and name in counted:
            raise InputError(
                f"counts that personas are calibrated on must be of one step, as {name!r} of "
                f"{questions.sensors} is to be",
                f"a window of {steps:g} steps",
                "leave its column out of the counts",
            )
    most = points.columns.get(MOST_COUNTS, np.ones(len(points.names)))
    return {name: max(1.0, often) for name, often in zip(points.names, most.tolist(), strict=True)}


def mean_counts(
    counts: CountTable,
    locations: Sequence[str],
    slots: int,
    holidays: Sequence[date] = (),
    most_counts: Mapping[str, float] = MappingProxyType({}),
) -> MeanCounts:
    """What each sensor counts on average in each slot of a cycle of a day or a week by the counts' clock.

    Of a sensor that may count somebody ``most_counts`` times that is a range of people. Slots of nobody's
    count are left out. Counts of a holiday are a Sunday's where the cycle is a week.
    """
    index = {name: number for number, name in enumerate(locations)}
    unknown = [name for name in counts.sensors if name not in index]
    if unknown:
        raise InputError(
            "each sensor of the counts must be a location", repr(unknown[0]), "give --sensors with its place"
        )
    slot, number, mean, least = _means(counts, slots, holidays, most_counts)
    location = np.array([index[name] for name in counts.sensors])[number]
    return MeanCounts(slot, location, mean, least)


def mean_moves(
    counts: CountTable,
    lines: Mapping[str, NamedMoves],
    locations: Sequence[str],
    slots: int,
    holidays: Sequence[date] = (),
    most_counts: Mapping[str, float] = MappingProxyType({}),
) -> MoveCounts:
    """The same of counters on a line: how many go between a slot and the next.

    A step's count is of the moves into it, as releases are accounted, so of the slot of the step before it.
    A step before which the clock skips or repeats an hour has other moves and is left out.
    """
    index = {name: number for number, name in enumerate(locations)}
    slot, number, mean, least = _means(counts, slots, holidays, most_counts, are_moves=True)
    moves = [
        np.array([[index[start], index[end]] for start, end in lines[name]], dtype=np.int64).T
        for name in counts.sensors
    ]
    return MoveCounts(slot, number, mean, moves, counts.sensors, least)


_Means = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64] | None]


def _means(
    counts: CountTable,
    slots: int,
    holidays: Sequence[date],
    most_counts: Mapping[str, float],
    *,
    are_moves: bool = False,
) -> _Means:
    """Slot, number of the sensor, mean count, and the least people that it may be of, if it is a range."""
    if slots * counts.step_seconds not in (_DAY, 7 * _DAY):
        raise InputError(
            "counts must come at the interval of the personas' slots",
            f"{counts.step_seconds} s, for {slots} slots a cycle",
            f"say --slots {counts.slots}, or bring the counts to another interval",
        )
    calendar = counts.calendar(slots, holidays)
    hours = calendar.hours(np.arange(-1, len(counts.table)))
    slot_of = calendar.slots(slots, hours[:-1] if are_moves else hours[1:])
    is_counted = counts.table != NOT_COUNTED
    if are_moves and slots > 1:
        is_counted &= (np.diff(hours) == 1)[:, None]
    times, people = np.zeros((2, slots, len(counts.sensors)), dtype=np.int64)
    np.add.at(times, slot_of, is_counted)
    np.add.at(people, slot_of, np.where(is_counted, counts.table, 0))
    slot, number = np.nonzero(times)
    mean, most = people[slot, number] / times[slot, number], [most_counts.get(s, 1.0) for s in counts.sensors]
    return slot, number, mean, mean / np.array(most)[number] if max(most) > 1.0 else None


def _by_kind(counts: CountTable, lines: Mapping[str, NamedMoves]) -> tuple[CountTable, CountTable]:
    """The counts of sensors at places, and those of counters on a line."""
    on_line = np.array([name in lines for name in counts.sensors])
    names = np.array(counts.sensors)
    at_places, on_lines = (
        replace(counts, sensors=tuple(map(str, names[own])), table=counts.table[:, own])
        for own in (~on_line, on_line)
    )
    return at_places, on_lines


def _require_moves(made: Population, moves: MoveCounts) -> None:
    """:class:`InputError` for a counter that counts people where no persona ever moves."""
    flows = expected_flows(made, int(made.arrays.slots[0])).sum(axis=0)
    for number, (name, ends) in enumerate(zip(moves.names, moves.moves, strict=True)):
        if moves.people[moves.counter == number].sum() > 0.0 and not flows[tuple(ends)].any():
            start, end = (made.location_names[place] for place in ends[:, 0])
            raise InputError(
                f"some persona must move between the places that counter {name!r} stands between",
                f"none ever goes from {start!r} to {end!r}, or as else it counts, where people are counted",
                "look at its from and to, --within-km and the table's zones; or leave it out of the counts",
            )
