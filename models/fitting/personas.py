"""Makes personas of classes of people: places by attraction and distance, days by activities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from models.exceptions import PersonaError
from models.fitting.calibration import Layout, days_as_population
from models.numerics.arrays import Flags, Floats, Integers
from models.numerics.elementwise import exp
from models.numerics.jit import jit, pjit
from models.priors import Lists, MovementPrior, Population

# How a kind of person spends a day: a chain over activities, from a survey's sequences or from weights.
#
# A chain over activities has no places; those follow from a class's home and work.

HOME, WORK = "home", "work"
FORGETTING = 1e-3
"""Share of moves that depend on the hour alone, so that no kind of day is a closed class of its own."""


@dataclass(frozen=True)
class Activity:
    """An activity away from home and work: where people go there from, and how far (km, e-folding)."""

    name: str
    anchor: str = HOME
    reach_km: float = 2.0

    def __post_init__(self) -> None:
        """Refuse home, work, another anchor and a reach of 0."""
        if self.name in (HOME, WORK) or self.anchor not in (HOME, WORK) or not self.reach_km > 0.0:
            raise PersonaError(
                "an activity must be other than home and work, start from one of them and reach somewhere",
                f"{self.name!r} from {self.anchor!r} within {self.reach_km} km",
                "correct it",
            )


@dataclass(frozen=True, eq=False)
class DayType:
    """A kind of day of a ``share`` of the people with a place of work, or of those without one.

    ``moves`` (C, A, A) go from an activity in slot ``t`` to one in slot ``t + 1``, rows sum to one; ``law``
    (C, A) is the share of people at each activity in each slot, with ``law[t + 1] = law[t] moves[t]``, the
    last followed by the first. A day whose activities include work is of people with a place of work.
    """

    name: str
    activities: tuple[str, ...]
    moves: Floats
    law: Floats
    share: float = 1.0

    def __post_init__(self) -> None:
        """Check that it is a chain, and that the law is its own."""
        slots, size = self.law.shape
        wanted = (slots, size, size)
        if self.moves.shape != wanted or len(self.activities) != size or HOME not in self.activities:
            raise PersonaError(
                f"day {self.name!r} must have a home, and a matrix of its activities for each slot",
                f"{self.moves.shape} for {', '.join(self.activities)}",
                "correct it",
            )
        after = (self.law[:, :, None] * self.moves).sum(axis=1)
        is_chain = np.abs(self.moves.sum(axis=2) - 1.0).max() < 1e-9 and self.moves.min() >= 0.0
        if not (is_chain and np.abs(after - np.roll(self.law, -1, axis=0)).max() < 1e-9 and self.share > 0.0):
            raise PersonaError(
                f"day {self.name!r} must be a chain whose law goes on from slot to slot",
                "another",
                "make it with of_sequences or of_weights",
            )

    @property
    def works(self) -> bool:
        """Whether the day is of people with a place of work."""
        return WORK in self.activities

    @property
    def slots(self) -> int:
        """Slots of the cycle."""
        return int(self.law.shape[0])

    @classmethod
    def of_sequences(
        cls,
        name: str,
        activities: Sequence[str],
        sequences: Integers,
        weights: Floats | None = None,
        share: float = 1.0,
    ) -> DayType:
        """The chain of days ``sequences`` (n, C), numbers of activities; each day is followed by itself.

        Activities that nobody does are left out. A thousandth of the moves depend on the slot alone
        (:data:`FORGETTING`), which does not change the law of any slot.
        """
        count = np.ones(len(sequences)) if weights is None else weights
        done = np.unique(np.concatenate((sequences.ravel(), [list(activities).index(HOME)])))
        number = np.searchsorted(done, sequences)
        slots = sequences.shape[1]
        seen = np.zeros((slots, done.size, done.size))
        for slot in range(slots):
            np.add.at(seen[slot], (number[:, slot], number[:, (slot + 1) % slots]), count)
        law = seen.sum(axis=2) / count.sum()
        after = np.roll(law, -1, axis=0)[:, None, :]
        left = seen.sum(axis=2)[:, :, None]
        moves = np.divide(seen, left, out=np.broadcast_to(after, seen.shape).copy(), where=left > 0.0)
        moves = (1.0 - FORGETTING) * moves + FORGETTING * after
        return cls(name, tuple(activities[i] for i in done), moves, law, share)

    @classmethod
    def of_weights(
        cls, name: str, activities: Sequence[str], weights: Floats, linger: float, share: float = 1.0
    ) -> DayType:
        """The chain that stays with probability ``linger``, else draws from the next slot's ``weights``."""
        goes = weights / weights.sum(axis=1, keepdims=True)
        moves = lazy_moves(np.roll(goes, -1, axis=0), linger)
        law = MovementPrior.from_dense(name, moves).chain().start.copy()
        return cls(name, tuple(activities), moves, law, share)

    def then(self, other: DayType, days: tuple[int, int]) -> DayType:
        """A cycle of ``days[0]`` days of this type, then ``days[1]`` of another with the same activities.

        A person whose last activity does not exist in the next day begins that day by its first law.
        """
        activities = tuple(dict.fromkeys((*self.activities, *other.activities)))
        cycle = [day for day, times in ((self, days[0]), (other, days[1])) for _ in range(times)]
        goes = [np.zeros((day.slots, len(activities), len(activities))) for day in cycle]
        for number, (day, matrix) in enumerate(zip(cycle, goes, strict=True)):
            known = [activities.index(name) for name in day.activities]
            next_day = cycle[(number + 1) % len(cycle)]
            later = [activities.index(name) for name in next_day.activities]
            matrix[:, :, known] = np.roll(day.law, -1, axis=0)[:, None, :]
            matrix[np.ix_(range(day.slots), known, known)] = day.moves
            if next_day is not day:
                matrix[-1] = 0.0
                matrix[-1][:, later] = next_day.law[0]
        moves = np.concatenate(goes)
        law = MovementPrior.from_dense(self.name, moves).chain().start.copy()
        return DayType(self.name, activities, moves, law, self.share)


def lazy_moves(goes: Floats, linger: float) -> Floats:
    """Moves (C, K, K) that stay with probability ``linger``, and else go by the law ``goes`` (C, K)."""
    return np.asarray(linger * np.eye(goes.shape[1]) + (1.0 - linger) * goes[:, None, :])


# The kernel that merges a chain over (activity, place) to one over places.


class States(NamedTuple):
    """The states (activity, place) of classes with one type of day: S states each.

    ``place`` (n, S) is the number of the state's place among the class's own; ``share`` (n, S) is the
    probability of the place when the activity is taken up.
    """

    activity: Integers  # (S,)
    place: Integers
    share: Floats


@jit
def _presence(law: Floats, activity: Integers, place: Integers, share: Floats, out: Floats) -> None:
    """The probability of each place: the activity's times the place's share."""
    out[:] = 0.0
    for s in range(activity.size):
        out[place[s]] += law[activity[s]] * share[s]


@pjit(lambda chosen, *_: chosen.size, least=64)
def write_persona_days(
    begin: int, end: int, chosen: Integers, states: States, moves: Floats, law: Floats, days: Floats
) -> None:
    """``P_t(z, z') = sum_{a, a'} Pr[a | z] P_t((a, z), (a', z'))`` of some classes, dense (n, C, K, K).

    A person who continues an activity stays; one who begins another goes to one of its places. The shares of
    an activity's places are always the same, so ``Pr[a, z]`` is the activity's law times the place's share.
    The row of a place where the person never is in a slot is the law one slot later.
    """
    present, later = np.empty(days.shape[2]), np.empty(days.shape[2])
    activity = states.activity
    for number in range(begin, end):
        person = chosen[number]
        place, share = states.place[person], states.share[person]
        for slot in range(law.shape[0]):
            matrix = days[number, slot]
            matrix[:] = 0.0
            _presence(law[slot], activity, place, share, present)
            for s in range(activity.size):
                mass = law[slot, activity[s]] * share[s]
                if mass > 0.0:
                    _leave(s, mass / present[place[s]], moves[slot, activity[s]], states, person, matrix)
            _presence(law[(slot + 1) % law.shape[0]], activity, place, share, later)
            for z in range(place.max() + 1):
                if not present[z] > 0.0:
                    matrix[z] = later / later.sum()


@jit
def _leave(state: int, weight: float, row: Floats, states: States, person: int, matrix: Floats) -> None:
    """Add the moves from a state, ``weight`` being the state's share of its place."""
    place, share, activity = states.place[person], states.share[person], states.activity
    here = place[state]
    matrix[here, here] += weight * row[activity[state]]
    for s in range(activity.size):
        if activity[s] != activity[state]:
            matrix[here, place[s]] += weight * row[activity[s]] * share[s]


# Zones of a city: their positions, and the places people go to from them.

_EARTH_KM = 6371.0088
_CHUNK = 256  # zones whose distances to all others are in memory at once


@dataclass(frozen=True, eq=False)
class Zones:
    """Zones by name, with ``position_km`` (Z, 2), east and north, known where ``is_placed`` (Z,)."""

    names: tuple[str, ...]
    position_km: Floats
    is_placed: Flags

    @classmethod
    def on_plane(
        cls, names: Sequence[str], east_km: Sequence[float | None], north_km: Sequence[float | None]
    ) -> Zones:
        """Zones on a map in kilometres; None where a zone's position is not known."""
        both = list(zip(east_km, north_km, strict=True))
        placed = [None not in pair for pair in both]
        pairs = [(east or 0.0, north or 0.0) for east, north in both]
        at = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        return cls(tuple(names), at, np.array(placed, dtype=np.bool_))

    def distances_km(self, chosen: Integers) -> Floats:
        """From some zones to all, (n, Z), as the crow flies."""
        apart = self.position_km[chosen][:, None, :] - self.position_km[None, :, :]
        return np.asarray(np.sqrt((apart**2).sum(axis=2)))

    def nearest(self, places: Zones, within_km: float) -> Integers:
        """The nearest of ``places`` for each zone (Z,); ``len(places.names)`` where none is near enough."""
        found = np.full(len(self.names), len(places.names), dtype=np.int64)
        candidates, mine = np.flatnonzero(places.is_placed), np.flatnonzero(self.is_placed)
        if candidates.size and mine.size:
            tree = cKDTree(places.position_km[candidates])
            apart, best = tree.query(self.position_km[mine])
            best = np.minimum(best, candidates.size - 1)  # the tree's answer for an infinite distance
            is_near = np.isfinite(apart) & (apart <= within_km)
            found[mine] = np.where(is_near, candidates[best], len(places.names))
        return found

    def between(self, places: Zones) -> Between:
        """Which two of ``places`` each of these points lies between; all are placed, at two spots at least.

        A point lies in the Voronoi cell of the place ``a`` nearest to it. The cell is convex, bounded by
        lines of points as near to ``a`` as to another place ``b``. So its boundary is nearest where such a
        line is, ``(|p - b|^2 - |p - a|^2) / (2 |b - a|)`` away. Beyond half of ``|b - a|`` the point is on
        the far side of ``a`` as seen from ``b``, and not between them.
        """
        count = len(self.names)
        ranked, off_km = np.full((count, 3), -1), np.full((count, 2), np.inf)
        is_between = np.empty(count, np.bool_)
        for point, at in enumerate(self.position_km):
            apart = ((at - places.position_km) ** 2).sum(axis=1)
            nearest = int(apart.argmin())
            length = np.sqrt(((places.position_km - places.position_km[nearest]) ** 2).sum(axis=1))
            gap = np.full(apart.size, np.inf)
            np.divide(apart - apart[nearest], 2.0 * length, out=gap, where=length > 0.0)
            others = np.argsort(gap, kind="stable")[:2]
            others = others[np.isfinite(gap[others])]
            ranked[point, 0], ranked[point, 1 : 1 + others.size] = nearest, others
            off_km[point, : others.size] = gap[others]
            is_between[point] = gap[others[0]] <= length[others[0]] / 2.0
        return Between(ranked[:, :2], off_km[:, 0], is_between, ranked[:, 2], off_km[:, 1])


class Between(NamedTuple):
    """The nearest place and the one beyond the line (Z, 2), the way to that line in km (Z,), and whether the
    point lies between the two. ``other`` is the place beyond the next line, -1 if there is none.
    """

    pair: Integers
    off_km: Floats
    is_between: Flags
    other: Integers
    other_off_km: Floats


def plane_km(
    latitude: Sequence[float | None], longitude: Sequence[float | None], middle: float
) -> tuple[list[float | None], list[float | None]]:
    """East and north of degrees, on a map of one city that is true to scale at the latitude ``middle``."""
    degree = math.radians(1.0) * _EARTH_KM
    along = degree * math.cos(math.radians(middle))
    east = [None if value is None else value * along for value in longitude]
    return east, [None if value is None else value * degree for value in latitude]


@dataclass(frozen=True, eq=False)
class ActivityPlaces:
    """The places of an activity for people of each zone: ``zone`` (Z, K), with ``share`` (Z, K)."""

    zone: Integers
    share: Floats


def gravity_places(
    zones: Zones, activity: Activity, attraction: Floats, anchors: Integers, most: int
) -> ActivityPlaces:
    """The ``most`` likely zones of a gravity model, ``p(z) ~ attraction(z) exp(-distance / reach)``.

    From zones that are not among ``anchors``, have no known position or are attracted nowhere, people stay.
    """
    count = len(zones.names)
    if attraction.shape != (count,) or not (attraction >= 0.0).all() or not np.isfinite(attraction).all():
        raise PersonaError(
            f"attraction of {activity.name!r} must be one number of 0 or more for each of {count} zones",
            attraction.shape,
            "correct the table of zones",
        )
    most = min(most, count)
    zone = np.repeat(np.arange(count)[:, None], most, axis=1)
    share = np.zeros((count, most))
    share[:, 0] = 1.0
    pulls = np.where(zones.is_placed, attraction, 0.0)
    from_here = anchors[zones.is_placed[anchors]]
    for first in range(0, from_here.size, _CHUNK):
        chosen = from_here[first : first + _CHUNK]
        apart = zones.distances_km(chosen)
        nearest = np.where(pulls > 0.0, apart, np.inf).min(axis=1, keepdims=True)
        if not np.isfinite(nearest).all():
            break  # nothing attracts at all
        weight = pulls * exp((nearest - apart) / activity.reach_km)
        best = np.argsort(-weight, axis=1, kind="stable")[:, :most]
        likely = np.take_along_axis(weight, best, axis=1)
        zone[chosen] = best
        share[chosen] = likely / likely.sum(axis=1, keepdims=True)
    return ActivityPlaces(zone, share)


# Classes of people with one home, place of work and type of day, and how many they are.

NO_WORK = -1


@dataclass(frozen=True, eq=False)
class HomeWork:
    """``people`` who live in zone ``home`` and work in zone ``work``, or :data:`NO_WORK`."""

    home: Integers
    work: Integers
    people: Floats


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes (home, work, type of day) and the people in each, (N,); ordered by type, home and work."""

    home: Integers
    work: Integers
    day: Integers
    people: Floats
    moved: float = 0.0  # people of small classes that were added to another class of their home and day


def classes_of(table: HomeWork, days: Sequence[DayType], least_people: float = 0.0) -> Classes:
    """The classes of a home-work table: each pair's people times the shares of their types of day.

    Pairs with a place of work have the days with work, the others the days without. A class of fewer than
    ``least_people`` is added to the largest of the same home and day, so nobody is lost and no day becomes an
    average of several.
    """
    wrong = np.flatnonzero(~((table.people >= 0.0) & (table.people < np.inf)))
    if wrong.size or not table.people.sum() > 0.0:
        raise PersonaError(
            "a home-work table must have a number of people in each row, and somebody in all",
            table.people[wrong[0]] if wrong.size else "nobody",
            "correct the table",
        )
    parts = []
    for works in (True, False):
        chosen = (table.work != NO_WORK) == works
        fitting = [number for number, day in enumerate(days) if day.works == works]
        if chosen.any() and not fitting:
            raise PersonaError(
                f"people {'with' if works else 'without'} a place of work must have a type of day",
                "none",
                "give one, or leave these people out of the home-work table",
            )
        total = sum(days[number].share for number in fitting)
        for number in fitting:
            people = table.people[chosen] * (days[number].share / total)
            parts.append((np.full(people.size, number), table.home[chosen], table.work[chosen], people))
    day, home, work, people = (np.concatenate(column) for column in zip(*parts, strict=True))
    return grouped(day, home, work, people, least_people)


def grouped(
    day: Integers, home: Integers, work: Integers, people: Floats, least_people: float = 0.0
) -> Classes:
    """People with a type of day, a home and a place of work (or none) as classes, small ones merged."""
    kept = people > 0.0
    keys = np.stack([day[kept], home[kept], work[kept]])
    unique, group = np.unique(keys, axis=1, return_inverse=True)
    total = np.bincount(group.ravel(), weights=people[kept], minlength=unique.shape[1]).astype(np.float64)
    return _merged(Classes(unique[1], unique[2], unique[0], total), least_people)


def _merged(classes: Classes, least: float) -> Classes:
    """The classes with small ones added to the largest of their home and day."""
    by_home = np.lexsort((-classes.people, classes.home, classes.day))
    day, home = classes.day[by_home], classes.home[by_home]
    begins = np.ones(by_home.size, dtype=np.bool_)
    begins[1:] = (day[1:] != day[:-1]) | (home[1:] != home[:-1])
    largest = by_home[np.maximum.accumulate(np.where(begins, np.arange(by_home.size), 0))]
    target = np.empty_like(by_home)
    target[by_home] = np.where(classes.people[by_home] < least, largest, by_home)
    people = np.bincount(target, weights=classes.people, minlength=target.size).astype(np.float64)
    kept = np.unique(target)
    moved = float(classes.people[target != np.arange(target.size)].sum())
    return Classes(classes.home[kept], classes.work[kept], classes.day[kept], people[kept], moved)


PLACES_AN_ACTIVITY = 2


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Where personas live: zones, how much each attracts, and the location of each.

    ``attraction`` (Z,) by activity; ``location`` (Z,) are indices into ``location_names``: zones without a
    sensor may share one such as "elsewhere". ``activities`` are those other than home and work.
    """

    zones: Zones
    activities: Mapping[str, Activity]
    attraction: Mapping[str, Floats]
    location: Integers
    location_names: tuple[str, ...]


def personas(
    classes: Classes,
    days: Sequence[DayType],
    around: Surroundings,
    places_an_activity: int = PLACES_AN_ACTIVITY,
) -> Population:
    """One persona for each class, with the class's people as its weight.

    An activity other than home and work is at one of the ``places_an_activity`` likeliest zones by gravity
    from its anchor; states at one location are merged into one, with the same flows.
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
    location = np.where(share > 0.0, location, location[:, :1])  # padding adds no place
    order = np.argsort(location, axis=1, kind="stable")
    rising = np.take_along_axis(location, order, axis=1)
    is_new = np.concatenate((np.ones((len(rising), 1), dtype=np.bool_), np.diff(rising, axis=1) > 0), axis=1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.cumsum(is_new, axis=1) - 1, axis=1)
    states = States(activity, place, share)
    names = around.zones.names
    where = [
        names[home] if work < 0 else f"{names[home]} to {names[work]}"
        for home, work in zip(classes.home, classes.work, strict=True)
    ]
    layout = Layout(
        tuple(f"{each}, {day.name}" for each in where),
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
) -> tuple[Integers, Integers, Floats]:
    """Activity (S,), zone (n, S) and share (n, S) of each state; the first state is home."""
    count = classes.home.size
    activities: list[int] = [day.activities.index(HOME)]
    zones, shares = [classes.home[:, None]], [np.ones((count, 1))]
    for number, name in enumerate(day.activities):
        if name == HOME:
            continue
        if name == WORK:
            found = ActivityPlaces(classes.work[:, None], np.ones((count, 1)))
        else:
            found = _places_of_activity(classes, name, around, most)
        activities += [number] * found.zone.shape[1]
        zones.append(found.zone)
        shares.append(found.share)
    return np.array(activities), np.concatenate(zones, axis=1), np.concatenate(shares, axis=1)


def _places_of_activity(classes: Classes, name: str, around: Surroundings, most: int) -> ActivityPlaces:
    """The places of an activity for each class."""
    if name not in around.activities or name not in around.attraction:
        raise PersonaError(
            "each activity of a day must have an anchor, a reach and an attraction", repr(name), "describe it"
        )
    activity = around.activities[name]
    works = classes.work[0] >= 0
    anchor = classes.work if activity.anchor == WORK and works else classes.home
    found = gravity_places(around.zones, activity, around.attraction[name], np.unique(anchor), most)
    return ActivityPlaces(found.zone[anchor], found.share[anchor])
