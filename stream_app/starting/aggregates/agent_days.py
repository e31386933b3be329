"""Days of synthetic agents, or of a survey's people, as aggregates: nobody's day leaves this module whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.fitting.personas import HOME, NO_WORK, WORK, Classes, DayType, Flows, grouped
from stream_app.exceptions import InputError

_STUDIES = ("school", "education", "college", "university")
AT_HOME, WORKS, STUDIES = "at home", "works", "studies"


@dataclass(frozen=True, eq=False)
class AgentDays:
    """Where each of n people is in each slot of a day, (n, C), and what they do; ``weights`` (n,)."""

    zone: NDArray[np.int64]
    activity: NDArray[np.int64]
    activities: tuple[str, ...]
    weights: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AgentAggregates:
    """What all of them make together: classes, days, visits of zones by activity, and trips by slot."""

    classes: Classes
    days: tuple[DayType, ...]
    visits: dict[str, NDArray[np.float64]]
    trips: Flows


def aggregates_of(
    agents: AgentDays, location: NDArray[np.int64], zones: int, least_people: float
) -> AgentAggregates:
    """Classes and day types, visits and trips between locations (``location`` of each zone).

    A home is where one is at home, work where one works most, or studies where one does not work.
    """
    names = list(agents.activities)
    if HOME not in names:
        raise InputError("agents must be at home at some time", ", ".join(names), "name that activity home")
    home = _most(agents, names.index(HOME), zones)
    if (home < 0).any():
        raise InputError(
            "each agent must be at home at some time", f"{int((home < 0).sum()):,} who are not", "drop them"
        )
    work = _most(agents, names.index(WORK), zones) if WORK in names else np.full(home.size, NO_WORK)
    studies = np.full(home.size, NO_WORK)
    for name in _STUDIES:
        if name in names:
            found = _most(agents, names.index(name), zones)
            studies = np.where(studies < 0, found, studies)
    kind = np.where(work >= 0, 0, np.where(studies >= 0, 1, 2))
    anchor = np.where(work >= 0, work, studies)
    return AgentAggregates(
        *_classes_and_days(agents, home, anchor, kind, least_people),
        _visits(agents, zones),
        _trips(agents, location),
    )


def _most(agents: AgentDays, activity: int, zones: int) -> NDArray[np.int64]:
    """Where each does an activity in most slots, the lowest zone of several; NO_WORK where they never do."""
    person, slot = np.nonzero(agents.activity == activity)
    key = person * zones + agents.zone[person, slot]
    pairs, count = np.unique(key, return_counts=True)
    order = np.lexsort((pairs, -count, pairs // zones))
    people, first = np.unique(pairs[order] // zones, return_index=True)
    found = np.full(len(agents.zone), NO_WORK, dtype=np.int64)
    found[people] = pairs[order][first] % zones
    return found


def _classes_and_days(
    agents: AgentDays,
    home: NDArray[np.int64],
    anchor: NDArray[np.int64],
    kind: NDArray[np.int64],
    least_people: float,
) -> tuple[Classes, tuple[DayType, ...]]:
    """A type of day for who works, who studies and who does neither; at school one is "at work"."""
    names = list(agents.activities)
    renamed = agents.activity.copy()
    if WORK not in names:
        names.append(WORK)
    for name in _STUDIES:
        if name in names:
            is_theirs = (kind == 1)[:, None] & (renamed == names.index(name))
            renamed[is_theirs] = names.index(WORK)
    days: list[DayType] = []
    numbers = np.zeros(3, dtype=np.int64)
    for number, label in enumerate((WORKS, STUDIES, AT_HOME)):
        own = kind == number
        if own.any():
            numbers[number] = len(days)
            days.append(DayType.of_sequences(label, names, renamed[own], agents.weights[own]))
    return grouped(numbers[kind], home, anchor, agents.weights, least_people), tuple(days)


def _visits(agents: AgentDays, zones: int) -> dict[str, NDArray[np.float64]]:
    """People-slots of each activity in each zone: what attracts to it."""
    weight = np.repeat(agents.weights, agents.zone.shape[1])
    found = {}
    for number, name in enumerate(agents.activities):
        chosen = (agents.activity == number).ravel()
        counts = np.bincount(agents.zone.ravel()[chosen], weights=weight[chosen], minlength=zones)
        found[name] = counts.astype(np.float64)
    return found


def _trips(agents: AgentDays, location: NDArray[np.int64]) -> Flows:
    """How many go from one location to another, slot by slot; each day is followed by itself."""
    here = location[agents.zone]
    there = np.roll(here, -1, axis=1)
    person, slot = np.nonzero(here != there)
    keys = np.stack([slot, here[person, slot], there[person, slot]])
    unique, group = np.unique(keys, axis=1, return_inverse=True)
    people = np.bincount(group.ravel(), weights=agents.weights[person], minlength=unique.shape[1])
    return Flows(unique[0], unique[1], unique[2], people.astype(np.float64))


def in_slots(
    person: NDArray[np.int64],
    begin_seconds: NDArray[np.float64],
    value: NDArray[np.int64],
    people: int,
    slots: int,
) -> NDArray[np.int64]:
    """What holds in the middle of each slot of a day, (people, C), of events in force until the next one.

    Before the first of the day, the last is in force: a day is followed by itself.
    """
    middle = (np.arange(slots) + 0.5) * 86_400 / slots
    order = np.lexsort((begin_seconds, person))
    person, begin, value = person[order], begin_seconds[order], value[order]
    first = np.searchsorted(person, np.arange(people + 1))
    found = np.empty((people, slots), dtype=np.int64)
    for each in range(people):
        own = slice(first[each], first[each + 1])
        position = np.searchsorted(begin[own], middle, side="right") - 1
        found[each] = value[own][position]  # -1 is the last: the night before
    return found


def numbered(values: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names, sorted, and the number of each value."""
    names, index = np.unique(np.array(values, dtype=str), return_inverse=True)
    return tuple(map(str, names)), index.reshape(-1).astype(np.int64)
