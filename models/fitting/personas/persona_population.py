"""Classes become personas: own places by attraction and distance, days by activities, one state a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PersonaError
from models.fitting.personas.classes import Classes
from models.fitting.personas.day_types import HOME, WORK, Activity, DayType
from models.fitting.personas.dense_days import Layout, days_as_population
from models.fitting.personas.persona_days_kernel import States, write_persona_days
from models.fitting.personas.zones import OwnPlaces, Zones, own_places
from models.priors import Lists, Population

PLACES_AN_ACTIVITY = 2


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Where personas live: zones, what attracts to them, and the location that stands for each.

    ``attraction`` (Z,) by activity; ``location`` (Z,) indexes ``location_names``: zones without a sensor may
    share one such as "elsewhere". ``activities`` are those other than home and work.
    """

    zones: Zones
    activities: Mapping[str, Activity]
    attraction: Mapping[str, NDArray[np.float64]]
    location: NDArray[np.int64]
    location_names: tuple[str, ...]


def personas(
    classes: Classes,
    days: Sequence[DayType],
    around: Surroundings,
    places_an_activity: int = PLACES_AN_ACTIVITY,
) -> Population:
    """A persona a class, with the class's people as its weight.

    Whoever takes up an activity other than home and work goes to one of the ``places_an_activity`` likeliest
    zones by gravity from its anchor; states at one location are merged to one, with the same flows.
    """
    if len({day.slots for day in days}) != 1:
        raise PersonaError("all types of day must have the same slots", "others", "give them one cycle")
    parts = []
    for number in np.unique(classes.day):
        own = np.flatnonzero(classes.day == number)
        chosen = Classes(classes.home[own], classes.work[own], classes.day[own], classes.people[own])
        parts.append(_of_day(chosen, days[number], around, places_an_activity))
    return Population.concatenate(parts)


def _of_day(classes: Classes, day: DayType, around: Surroundings, most: int) -> Population:
    """The personas of one type of day."""
    activity, zone, share = _zones_of_states(classes, day, around, most)
    location = around.location[zone]
    location = np.where(share > 0.0, location, location[:, :1])  # what fills up adds no place
    order = np.argsort(location, axis=1, kind="stable")
    rising = np.take_along_axis(location, order, axis=1)
    is_new = np.concatenate((np.ones((len(rising), 1), dtype=np.bool_), np.diff(rising, axis=1) > 0), axis=1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.cumsum(is_new, axis=1) - 1, axis=1)
    states = States(activity, place, share)
    layout = Layout(
        _names(classes, day, around.zones),
        Lists(np.concatenate(([0], np.cumsum(is_new.sum(axis=1)))), rising[is_new].astype(np.int32)),
        day.slots,
        around.location_names,
    )
    made = days_as_population(
        layout, lambda chosen, dense: write_persona_days(chosen, states, day.moves, day.law, dense)
    )
    return replace(made, weights=classes.people)


def _zones_of_states(
    classes: Classes, day: DayType, around: Surroundings, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Activity (S,), zone (n, S) and share (n, S) of each state; the first state is home."""
    count = classes.home.size
    activities: list[int] = [day.activities.index(HOME)]
    zones, shares = [classes.home[:, None]], [np.ones((count, 1))]
    for number, name in enumerate(day.activities):
        if name == HOME:
            continue
        if name == WORK:
            found = OwnPlaces(classes.work[:, None], np.ones((count, 1)))
        else:
            found = _own_places(classes, name, around, most)
        activities += [number] * found.zone.shape[1]
        zones.append(found.zone)
        shares.append(found.share)
    return np.array(activities), np.concatenate(zones, axis=1), np.concatenate(shares, axis=1)


def _own_places(classes: Classes, name: str, around: Surroundings, most: int) -> OwnPlaces:
    """Where each class goes for an activity."""
    if name not in around.activities or name not in around.attraction:
        raise PersonaError(
            "each activity of a day must have an anchor, a reach and an attraction", repr(name), "describe it"
        )
    activity = around.activities[name]
    works = classes.work[0] >= 0
    anchor = classes.work if activity.anchor == WORK and works else classes.home
    found = own_places(around.zones, activity, around.attraction[name], np.unique(anchor), most)
    return OwnPlaces(found.zone[anchor], found.share[anchor])


def _names(classes: Classes, day: DayType, zones: Zones) -> tuple[str, ...]:
    """What each persona is called: where one lives and works, and how one's day is."""
    where = [
        zones.names[home] if work < 0 else f"{zones.names[home]} to {zones.names[work]}"
        for home, work in zip(classes.home, classes.work, strict=True)
    ]
    return tuple(f"{each}, {day.name}" for each in where)
