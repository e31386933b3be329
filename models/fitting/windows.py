"""Check-ins to windows: one place for each person and window, for people with enough windows to fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from models.calendar import Calendar
from models.exceptions import CheckinError
from models.fitting.checkins import Checkins
from models.fitting.fit_options import FitOptions
from models.numerics.arrays import Flags, Integers, Integers32
from models.priors import Population

_DAY_SECONDS = 86_400
_MOST_WINDOWS = 1_000_000  # 114 years of hours
_MOST_CELLS = 1_000_000_000  # of windows and people: 4 GB
_FEW_CELLS, _CELLS_A_ROW = 4_000_000, 10_000  # more cells than that must not be nearly all empty
NOWHERE = -1  # a window without a check-in at a kept place, when that is not a location of its own


@dataclass(frozen=True, eq=False)
class Traces:
    """One location per person and window.

    ``places[person, window]`` is a location index or ``NOWHERE``; window 0 begins at ``origin_seconds`` and
    is in slot ``first_slot``; later ones follow the ``calendar``, if any. ``dropped`` counts check-ins and
    people left out, by reason.
    """

    people: tuple[str, ...]
    location_names: tuple[str, ...]
    places: Integers32
    origin_seconds: int
    first_slot: int
    dropped: dict[str, int]
    calendar: Calendar | None = None


@dataclass(frozen=True, eq=False)
class _CheckinRows:
    """Check-ins as columns of equal length."""

    user: Integers32
    location: Integers32
    window: Integers
    time: Integers

    @property
    def cell(self) -> Integers:
        """A number for each person and window, in their order: less than :data:`_MOST_CELLS`."""
        return np.asarray(self.user * (self.window.max(initial=0) + 1) + self.window)

    def take(self, index: Integers) -> _CheckinRows:
        """The rows at ``index``."""
        return _CheckinRows(self.user[index], self.location[index], self.window[index], self.time[index])


def traces(checkins: Checkins, options: FitOptions) -> Traces:
    """The windows of all people with enough of them; :class:`CheckinError` if there are no windows to fit."""
    if not len(checkins):
        raise CheckinError("there must be check-ins to fit", "none", "check the file and the rejected rows")
    origin, first_slot = _origin(checkins, options)
    count = _window_count(checkins, options, origin)
    dropped = {"check-ins rejected while reading": len(checkins.rejected)}
    rows = _in_windows(checkins, options, origin, count, dropped)
    kept = _top_locations(rows, len(checkins.location_names), options, count)
    names = tuple(checkins.location_names[location] for location in kept)
    stays = _stays(_at_kept(rows, kept, len(checkins.location_names), dropped), options)
    chosen = _chosen(stays, len(checkins.user_names), options, count, dropped)
    empty = kept.size if options.elsewhere == "location" else NOWHERE
    places = _matrix(stays, chosen, (len(checkins.user_names), count), empty)
    people = tuple(checkins.user_names[user] for user in chosen)
    calendar = options.calendar(origin)
    return Traces(people, _names(names, options), places, origin, first_slot, dropped, calendar)


def traces_of(population: Population, checkins: Checkins, options: FitOptions) -> Traces:
    """The windows of those of ``population`` who are named in the check-ins, at its locations.

    As in a fit, but people and places are those of the priors: nothing is chosen by the windows.
    ``"bridge"`` moves a person's known windows together, to the front.
    :class:`~models.exceptions.CheckinError` where nobody is named, or no location stands for elsewhere.
    """
    names = population.location_names
    empty = _elsewhere(names, options)
    users = {name: user for user, name in enumerate(checkins.user_names)}
    people = tuple(person for person in population.people if person in users)
    if not people:
        raise CheckinError(
            "the check-ins must name people of the priors as these do",
            f"none of {len(population):,} people among {len(users):,} users",
            "give check-ins of the same people",
        )
    origin, first_slot = _origin(checkins, options)
    count = _window_count(checkins, options, origin)
    dropped = {
        "check-ins rejected while reading": len(checkins.rejected),
        "people without a prior": len(users) - len(people),
        "priors of people without check-ins": len(population) - len(people),
    }
    rows = _in_windows(checkins, options, origin, count, dropped)
    position = {name: location for location, name in enumerate(checkins.location_names)}
    kept = np.array([position.get(name, -1) for name in names], dtype=np.int64)
    stays = _stays(_at_kept(rows, kept, len(checkins.location_names), dropped), options)
    chosen = np.array([users[person] for person in people], dtype=np.int64)
    places = _matrix(stays, chosen, (len(users), count), empty)
    if options.elsewhere == "bridge":
        places = np.take_along_axis(places, np.argsort(places == NOWHERE, axis=1, kind="stable"), axis=1)
    return Traces(people, names, places, origin, first_slot, dropped, options.calendar(origin))


def _elsewhere(names: tuple[str, ...], options: FitOptions) -> int:
    """The location that stands for a window without check-ins, or ``NOWHERE``."""
    if options.elsewhere != "location":
        return NOWHERE
    if options.elsewhere_name not in names:
        raise CheckinError(
            "a location of the priors must stand for windows without check-ins",
            f"none named {options.elsewhere_name!r} among {len(names)}",
            "name it (elsewhere_name), or choose elsewhere 'skip', and such windows are unknown",
        )
    return names.index(options.elsewhere_name)


def _in_windows(
    checkins: Checkins, options: FitOptions, origin: int, count: int, dropped: dict[str, int]
) -> _CheckinRows:
    """The check-ins within the windows."""
    window = (checkins.time_seconds - origin) // options.window_seconds
    dropped["check-ins before the origin"] = int((window < 0).sum())
    dropped["check-ins in the last, partial window"] = int((window >= count).sum())
    rows = _CheckinRows(checkins.user, checkins.location, window, checkins.time_seconds)
    return rows.take(np.flatnonzero((window >= 0) & (window < count)))


def _at_kept(rows: _CheckinRows, kept: Integers, locations: int, dropped: dict[str, int]) -> _CheckinRows:
    """The check-ins at the kept places (-1: nobody was there), their locations replaced by ranks."""
    rank = np.full(locations, -1, dtype=np.int32)
    rank[kept[kept >= 0]] = np.flatnonzero(kept >= 0)
    ranked = _CheckinRows(rows.user, rank[rows.location], rows.window, rows.time)
    at_kept = np.flatnonzero(ranked.location >= 0)
    dropped["check-ins outside the top places"] = rows.user.size - at_kept.size
    return ranked.take(at_kept)


def _origin(checkins: Checkins, options: FitOptions) -> tuple[int, int]:
    """The time at which window 0 begins, and its slot."""
    earliest = int(checkins.time_seconds.min())
    clock, first_slot = options.calendar(earliest), 0
    origin = earliest if isinstance(options.origin, str) else options.origin
    if options.origin == "midnight":
        origin = earliest - earliest % _DAY_SECONDS if clock is None else clock.midnight
    if options.origin == "epoch":
        number = earliest // options.window_seconds
        origin, first_slot = number * options.window_seconds, number % options.slots
    calendar = options.calendar(origin)
    return origin, first_slot if calendar is None else calendar.first_slot


def slots_of(windows: Integers, first_slot: int, cycle: int, calendar: Calendar | None) -> Integers:
    """The slot of each of these windows in a cycle."""
    if calendar is None:
        return np.asarray((first_slot + windows) % cycle)
    return calendar.slots(cycle, calendar.hours(windows))


def is_in_slot(windows: Integers, cycle: int, calendar: Calendar | None) -> Flags:
    """Whether the move from each of these windows to the next is that of the window's slot.

    It is not where a clock is changed between the two; a cycle of one slot knows no clock.
    """
    if calendar is None or cycle == 1:
        return np.ones(windows.size, dtype=np.bool_)
    return np.asarray(calendar.hours(windows + 1) - calendar.hours(windows) == 1)


def _window_count(checkins: Checkins, options: FitOptions, origin: int) -> int:
    """Number of windows up to the last check-in; some must be left to fit."""
    covered = int(checkins.time_seconds.max()) - origin + 1
    whole, rest = divmod(max(covered, 0), options.window_seconds)
    count = whole + (1 if rest and options.keep_partial_window else 0)
    if count <= options.held_out_windows:
        raise CheckinError(
            f"there must be more windows than the {options.held_out_windows} held out",
            f"{count} of {options.window_seconds} s",
            "choose shorter windows or hold out fewer",
        )
    if count > _MOST_WINDOWS or count * len(checkins.user_names) > _MOST_CELLS:
        raise CheckinError(
            f"there must be at most {_MOST_WINDOWS:,} windows, and {_MOST_CELLS:,} of all people together",
            f"{count:,} windows of {options.window_seconds} s",
            "look for a check-in of another century, choose longer windows or a later origin",
        )
    cells = count * len(checkins.user_names)
    if cells > max(_FEW_CELLS, _CELLS_A_ROW * checkins.user.size):
        raise CheckinError(
            "windows of all people together must not be empty nearly everywhere",
            f"{cells:,} of {options.window_seconds} s for {checkins.user.size:,} check-ins",
            "look for a check-in of another year, choose longer windows or a later origin",
        )
    return count


def _top_locations(rows: _CheckinRows, locations: int, options: FitOptions, count: int) -> Integers:
    """The locations kept, most visited first, ties by name."""
    location = rows.location
    if options.ranking == "training_rows":
        location = location[rows.window < count - options.held_out_windows]
    if options.ranking == "users":
        pairs = np.unique(rows.user.astype(np.int64) * locations + rows.location)
        location = (pairs % locations).astype(np.int32)
    visits = np.bincount(location, minlength=locations)
    ranked = np.argsort(-visits, kind="stable")[: options.top_places]
    return ranked[visits[ranked] > 0]


def _stays(rows: _CheckinRows, options: FitOptions) -> _CheckinRows:
    """One row for each person and window, at the place chosen by ``window_place``."""
    if options.window_place == "most_frequent":
        rows, visits = _visits(rows)
        rows = rows.take(_highest(rows.cell, visits))
        rows = rows.take(_highest(rows.cell, rows.time))
    else:
        time = rows.time if options.window_place == "first" else -rows.time
        rows = rows.take(np.lexsort((rows.location, time, rows.cell)))
    return rows.take(_begins(rows.cell))


def _visits(rows: _CheckinRows) -> tuple[_CheckinRows, Integers]:
    """One row for each person, window and location, at the latest time, and the number of check-ins."""
    key = rows.cell * (int(rows.location.max(initial=0)) + 1) + rows.location
    order = np.argsort(key, kind="stable")
    first = _begins(key[order])
    latest = np.maximum.reduceat(rows.time[order], first)
    return replace(rows.take(order[first]), time=latest), np.diff(first, append=order.size)


def _highest(key: Integers, score: Integers) -> Integers:
    """The rows with the highest score among those of their key; equal keys follow each other."""
    first = _begins(key)
    highest = np.maximum.reduceat(score, first)
    return np.flatnonzero(score == np.repeat(highest, np.diff(first, append=key.size)))


def _begins(key: Integers) -> Integers:
    """Where each run of equal keys begins."""
    return np.flatnonzero(np.diff(key, prepend=-1))


def _chosen(
    stays: _CheckinRows, users: int, options: FitOptions, count: int, dropped: dict[str, int]
) -> Integers:
    """The people with enough windows."""
    counted = stays.user
    if options.min_windows_counted == "training":
        counted = stays.user[stays.window < count - options.held_out_windows]
    present = np.bincount(stays.user, minlength=users) > 0
    enough = present & (np.bincount(counted, minlength=users) >= options.min_windows)
    dropped["people without a check-in at the top places"] = users - int(present.sum())
    dropped["people with too few windows"] = int(present.sum() - enough.sum())
    return np.flatnonzero(enough)


def _matrix(stays: _CheckinRows, chosen: Integers, shape: tuple[int, int], empty: int) -> Integers32:
    """Places (people, windows) of the people chosen; ``shape`` is that of all people."""
    users, count = shape
    number = np.full(users, -1)
    number[chosen] = np.arange(chosen.size)
    known = stays.take(np.flatnonzero(number[stays.user] >= 0))
    places = np.full((chosen.size, count), empty, dtype=np.int32)
    places[number[known.user], known.window] = known.location
    return places


def _names(names: tuple[str, ...], options: FitOptions) -> tuple[str, ...]:
    """The names of the locations, "somewhere else" last if it is one."""
    if options.elsewhere != "location":
        return names
    if options.elsewhere_name in names:
        raise CheckinError(
            "elsewhere_name must not be the name of a place", repr(options.elsewhere_name), "choose another"
        )
    return (*names, options.elsewhere_name)
