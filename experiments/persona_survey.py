"""A closed loop on survey-shaped data: personas of one half, and the other half's days to be guessed.

One day of people in 190 zones of San Francisco (the output of a travel model, no real persons). Who made no
trip has no known home and is left out. Zones have no coordinates; their numbers follow the map roughly, and
stand for it here.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accounting.audit.calibration import (
    CheckSettings,
    GroupedCheck,
    PriorsCheck,
    RecordedPeople,
    check_priors,
)
from experiments.persona_city import flow_chain, persona_of
from models.fitting.calibration import Flows, calibrate
from models.fitting.personas import (
    HOME,
    NO_WORK,
    WORK,
    Activity,
    Classes,
    DayType,
    Surroundings,
    Zones,
    grouped,
    personas,
)
from models.mechanisms import parse
from models.priors import Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from stream_app.starting.aggregates.agent_files import in_slots

SLOTS, STEPS, MISTAKES, PENALTY = 24, 10, 1, 10.0
MOST_CHECKED, MOST_BY_FLOWS = 2_000, 100  # a chain on 190 zones takes a hundred times as long
KM_A_NUMBER = 0.1
OTHERS = ("shopping", "eatout", "escort", "othmaint", "othdiscr", "social", "atwork", "other")
ACTIVITIES = (HOME, WORK, *OTHERS)
_WORK_LIKE = ("work", "atwork")


@dataclass(frozen=True, eq=False)
class Survey:
    """People of the survey: where they live and work (or study), their kind, and their day."""

    home: NDArray[np.int64]
    work: NDArray[np.int64]
    kind: NDArray[np.int64]  # 0 works, 1 studies, 2 neither
    person_type: NDArray[np.int64]  # one of eight
    activity: NDArray[np.int64]  # (n, 24)
    zone: NDArray[np.int64]  # (n, 24)
    zones: int


@dataclass(frozen=True)
class SurveyRow:
    """What one way predicted of the other half's days, and what happened."""

    way: str
    classes: int
    people: int
    unmatched: int
    unknown: float
    guess_predicted: float
    guess_realised: float
    guess_verdict: str
    attack: str
    ceiling: float
    attack_realised: float
    low: float
    high: float
    quarters: str
    verdict: str
    radius: float
    radius_of_worst: float


def read_survey(folder: Path) -> Survey:
    """The people who made a trip, in the order of their ids."""
    people = {int(row["person_id"]): row for row in _rows(folder / "survey_persons.csv.gz")}
    trips = _rows(folder / "survey_trips.csv.gz")
    trips.sort(
        key=lambda row: (
            int(row["person_id"]),
            float(row["depart"]),
            row["outbound"] != "True",
            int(row["trip_id"]),
        )
    )
    homes: dict[int, int] = {}
    for row in trips:
        homes.setdefault(int(row["person_id"]), int(row["origin"]))
    for row in trips:  # a home is where one goes home to, where that is known
        if row["purpose"] == "Home":
            homes[int(row["person_id"])] = int(row["destination"])
    ids = sorted(homes)
    zones = len(_rows(folder / "land_use.csv"))
    number = {person: index for index, person in enumerate(ids)}
    anchor, kind = _anchors([people[person] for person in ids])
    home = np.array([homes[person] - 1 for person in ids])
    who = np.array([number[int(row["person_id"])] for row in trips])
    where = np.array([int(row["destination"]) - 1 for row in trips])
    what = np.array(
        [
            _activity(row["purpose"], z, home[i], anchor[i])
            for row, z, i in zip(trips, where, who, strict=True)
        ]
    )
    begin = np.array([float(row["depart"]) * 3600.0 for row in trips])
    night = np.arange(len(ids))
    state = in_slots(
        np.concatenate((night, who)),
        np.concatenate((np.zeros(len(ids)), begin)),
        np.concatenate((home, what * zones + where)),
        len(ids),
        SLOTS,
    )
    kinds = np.array([int(people[person]["ptype"]) for person in ids])
    return Survey(home, anchor, kind, kinds, state // zones, state % zones, zones)


def _rows(path: Path) -> list[dict[str, str]]:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    return list(csv.DictReader(io.StringIO(text.decode())))


def _anchors(people: Sequence[Mapping[str, str]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each works, else studies; and 0, 1 or 2 for works, studies, neither."""
    work = np.array([int(row["workplace_zone_id"]) for row in people])
    school = np.array([int(row["school_zone_id"]) for row in people])
    kind = np.where(work > 0, 0, np.where(school > 0, 1, 2))
    return np.where(kind == 0, work - 1, np.where(kind == 1, school - 1, NO_WORK)), kind


def _activity(purpose: str, zone: int, home: int, anchor: int) -> int:
    """What a trip is for; work and school are the usual place's only, and home is home's."""
    name = purpose.lower()
    if name == "home":
        return 0 if zone == home else ACTIVITIES.index("other")
    if name in ("work", "school", "univ"):
        return 1 if zone == anchor else ACTIVITIES.index("other")
    return ACTIVITIES.index(name) if name in OTHERS else ACTIVITIES.index("other")


def half(survey: Survey, chosen: NDArray[np.bool_]) -> Survey:
    """Some of the people."""
    of_people = {name: value[chosen] for name, value in vars(survey).items() if name != "zones"}
    return replace(survey, **of_people)


def made(
    known: Survey, table: Survey, label: NDArray[np.int64], table_label: NDArray[np.int64]
) -> tuple[Population, Classes]:
    """Personas whose days and attraction come from ``known``, and classes from the home-work table."""
    labels = np.unique(np.concatenate((label, table_label)))
    days = []
    for each in labels:
        own = label == each
        sequences = known.activity[own]
        if not own.any():
            sequences = np.zeros((1, SLOTS), dtype=np.int64)
        days.append(DayType.of_sequences(f"kind {each}", ACTIVITIES, sequences))
    visits = {
        name: np.bincount(known.zone[known.activity == index], minlength=known.zones).astype(float)
        for index, name in enumerate(ACTIVITIES)
    }
    line = (np.arange(known.zones) * KM_A_NUMBER).tolist()
    names = tuple(str(zone + 1) for zone in range(known.zones))
    around = Surroundings(
        Zones.on_plane(names, line, [0.0] * known.zones),
        {name: Activity(name, WORK if name in _WORK_LIKE else HOME, 2.0) for name in OTHERS},
        visits,
        np.arange(known.zones),
        names,
    )
    day = np.searchsorted(labels, table_label)
    without = np.array([WORK not in each.activities for each in days])
    work = np.where(without[day], NO_WORK, table.work)
    classes = grouped(day, table.home, work, np.ones(day.size))
    return personas(classes, days, around, 3), classes


def trips(known: Survey, people: float) -> Flows:
    """Hourly trips of one half, scaled to so many people."""
    there = np.roll(known.zone, -1, axis=1)
    person, slot = np.nonzero(known.zone != there)
    keys, count = np.unique(
        np.stack([slot, known.zone[person, slot], there[person, slot]]), axis=1, return_counts=True
    )
    return Flows(keys[0], keys[1], keys[2], count * people / len(known.home))


def by_flows(known: Survey) -> Population:
    """One persona that moves as everybody together."""
    flows = np.zeros((SLOTS, known.zones, known.zones))
    there = np.roll(known.zone, -1, axis=1)
    for slot in range(SLOTS):
        np.add.at(flows[slot], (known.zone[:, slot], there[:, slot]), 1.0)
    return flow_chain(flows, [str(zone + 1) for zone in range(known.zones)])


def nearest_class(
    classes: Classes, day: NDArray[np.int64], people: Survey, work: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The class of each person's kind whose home and work have the nearest numbers; -1 without any."""
    found = persona_of(classes, day, people.home, work)
    for person in np.flatnonzero(found < 0):
        own = np.flatnonzero(classes.day == day[person])
        if own.size:
            apart = np.abs(classes.home[own] - people.home[person]) * 1000 + np.abs(
                classes.work[own] - work[person]
            )
            found[person] = own[np.argmin(apart)]
    return found


def survey_rows(folder: Path, seed: int = 1, most: int = MOST_CHECKED) -> list[SurveyRow]:
    """Every way, against the days of people of the half it does not know: at most so many, drawn."""
    everybody = read_survey(folder)
    chosen = np.random.default_rng(seed).random(len(everybody.home)) < 0.5
    known, others = half(everybody, chosen), half(everybody, ~chosen)
    rows = []
    drawn = np.sort(np.random.default_rng(seed).permutation(len(others.home))[:most])
    for way, population, persona, unmatched in _ways(known, others):
        for attack, schedule in (("nothing released", None), ("10 busiest zones, raw", busiest(known))):
            sample = drawn if len(population) > 1 else drawn[:MOST_BY_FLOWS]
            checked = _checked(population, persona, others, sample, schedule)
            rows.append(_row(way, len(population), unmatched, attack, checked))
    return rows


def _ways(known: Survey, others: Survey) -> list[tuple[str, Population, NDArray[np.int64], int]]:
    """Name, personas, the persona of each of the others, and how many had no class of their own."""
    count = len(others.home)
    found = [("one persona, flows alone", by_flows(known), np.zeros(count, dtype=np.int64), 0)]
    population, classes = made(known, known, known.kind, known.kind)
    exact = persona_of(classes, others.kind, others.home, others.work)
    near = nearest_class(classes, others.kind, others, others.work)
    found.append(
        ("home, work, 3 kinds; table of one half, nearest class", population, near, int((exact < 0).sum()))
    )
    for name, label, table in (
        ("3 kinds", known.kind, others.kind),
        ("8 kinds", known.person_type, others.person_type),
    ):
        population, classes = made(known, others, label, table)
        labels = np.unique(np.concatenate((label, table)))
        work = classes_work(classes, np.searchsorted(labels, table), others)
        own = persona_of(classes, np.searchsorted(labels, table), others.home, work)
        found.append((f"home, work, {name}; table of everybody", population, own, int((own < 0).sum())))
        if name == "3 kinds":
            flows = trips(known, float(population.weights.sum()) if population.weights is not None else 0.0)
            fitted = calibrate(
                population, [flows], penalty=PENALTY, tolerance=1e-7, most_sweeps=100
            ).population
            found.append(("the same, calibrated to the half's hourly trips", fitted, own, 0))
    return found


def classes_work(classes: Classes, day: NDArray[np.int64], people: Survey) -> NDArray[np.int64]:
    """The place of work that people's classes have: none where their kind of day knows none."""
    works = {int(each) for each in np.unique(classes.day[classes.work >= 0])}
    return np.where(np.isin(day, list(works)), people.work, NO_WORK)


def busiest(known: Survey) -> Schedule:
    """Raw counts in the ten zones that most of the known half visit away from home, in every step."""
    away = known.activity != 0
    zones = np.sort(np.argsort(-np.bincount(known.zone[away], minlength=known.zones), kind="stable")[:10])
    raw = parse("raw", {})
    releases = tuple(SensorRelease(Sensor(str(zone + 1), (int(zone),)), raw) for zone in zones)
    return Schedule(tuple(StepSchedule(step, releases) for step in range(STEPS)))


def _checked(
    population: Population,
    persona: NDArray[np.int64],
    others: Survey,
    drawn: NDArray[np.int64],
    schedule: Schedule | None,
) -> PriorsCheck:
    """The drawn people's days against the personas that stand for them."""
    matched = drawn[persona[drawn] >= 0]
    recorded = RecordedPeople(persona[matched], others.zone[matched].astype(np.int32), 0)
    settings = CheckSettings(mistakes=MISTAKES, attack="marginal")
    return check_priors(population, recorded, STEPS if schedule is None else schedule, settings)


def _row(way: str, classes: int, unmatched: int, attack: str, found: PriorsCheck) -> SurveyRow:
    guess, tried = found.guess.everybody, found.attack.everybody
    surprise = found.sharpness
    return SurveyRow(
        way,
        classes,
        guess.people,
        unmatched,
        surprise.unknown / max(surprise.moves + surprise.unknown, 1),
        guess.predicted,
        guess.realised,
        found.guess.refuted.value,
        attack,
        tried.predicted,
        tried.realised,
        tried.low,
        tried.high,
        _quarters(found.attack),
        found.attack.refuted.value,
        tried.kappa_min,
        max(group.kappa_min for group in found.attack.groups),
    )


def _quarters(grouped_: GroupedCheck) -> str:
    return " ".join(f"{group.predicted:.2f}/{group.realised:.2f}" for group in grouped_.groups)
