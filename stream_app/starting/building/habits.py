"""What is known beforehand of the people of a building: shifts, rosters and timetables become priors.

Each person has a law of where they are in each slot of the timetable's cycle: at an appointment with the
chance of ``attendance``; otherwise in a shift at the desk or around it, or away; otherwise outside. The chain
between two slots keeps people where they are as far as both laws allow, and has these laws exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from models.priors import Population, PopulationBuilder, Triplets
from stream_app.exceptions import InputError
from stream_app.starting.building.building_file import OUTSIDE, Building, Person

_LATE = 0.02  # share of the time outside a shift that is spent at the desk all the same
_LINGER = 0.8  # share of an hour's people who stay if they may; the others go by the next slot's law
_ABSENT = "OOF"  # what Exchange calls an appointment out of the office


@dataclass(frozen=True)
class Appointment:
    """Minutes since the first day, where (None for no room of the building), and who is invited."""

    begin: float
    end: float
    room: str | None
    invited: frozenset[str]
    is_absence: bool


def people_of(building: Building) -> tuple[Population, tuple[str, ...]]:
    """Everybody's prior, and remarks about what of the calendars was not used."""
    if not building.people:
        raise InputError(
            f"building {building.name!r} must say who works there", "no people", "add a table of people"
        )
    shared = [each for path in building.timetable for each in read_calendar(path, building)]
    names = {person.name.casefold() for person in building.people}
    builder = PopulationBuilder()
    elsewhere = sum(each.room is None for each in shared)
    nobody = sum(not each.invited & names for each in shared)
    for person in building.people:
        own = [each for each in shared if person.name.casefold() in each.invited]
        if person.calendar is not None:
            own += read_calendar(person.calendar, building)
        places, law = _law(person, own, building)
        moves = kept_moves(law, _LINGER ** (building.step_minutes / 60))
        slot, row, column = np.nonzero(moves)
        order = np.argsort([building.locations.index(place) for place in places], kind="stable")
        rank = np.argsort(order)
        where = [building.locations.index(places[each]) for each in order]
        triplets = Triplets(rank[row], rank[column], moves[slot, row, column], slot)
        builder.add(person.name, where, triplets, slots=building.slots, weight=person.people)
    unused = ((elsewhere, "at no room of the building"), (nobody, "without anybody of the people"))
    remarks = [f"Appointments {what}, left out: {number}." for number, what in unused if number]
    everybody = sum(person.people or 1.0 for person in building.people)
    known = "desks, shifts and timetables" if shared else "desks and shifts"
    return replace(
        builder.build(building.locations), assumed=f"{everybody:g} people by their {known}"
    ), tuple(remarks)


def kept_moves(law: NDArray[np.float64], linger: float) -> NDArray[np.float64]:
    """Moves (C, K, K) of a chain whose law in slot ``t`` is ``law[t]`` (C, K); the first follows the last.

    Of a share ``linger`` as many stay as both laws allow, ``min(p, q)``, and the rest goes where more are
    wanted (a maximal coupling); the others go by the next law, whatever they did before. With ``p`` and ``q``
    the two laws, ``p`` times either is ``q``.
    """
    now, later = law[:, :, None], np.roll(law, -1, axis=0)
    next_law = later[:, None, :]
    stays = np.divide(np.minimum(law, later), law, out=np.ones_like(law), where=law > 0.0)
    wanted = np.maximum(next_law - law[:, None, :], 0.0)
    total = wanted.sum(axis=2, keepdims=True)
    goes = np.divide(wanted, total, out=np.broadcast_to(next_law, wanted.shape).copy(), where=total > 0.0)
    coupled = stays[:, :, None] * np.eye(law.shape[1]) + (1.0 - stays[:, :, None]) * goes
    coupled = np.where(now > 0.0, coupled, next_law)  # nobody is there
    moves = linger * coupled + (1.0 - linger) * next_law
    return np.asarray(moves / moves.sum(axis=2, keepdims=True))


def _law(
    person: Person, appointments: Sequence[Appointment], building: Building
) -> tuple[list[str], NDArray[np.float64]]:
    """A person's places, and the law (C, K) of where they are in each slot."""
    floor = {room.name: room.floor for room in building.rooms}
    desk_room = building.room_of(person.desk)
    around = [
        room.name
        for room in building.rooms
        if room.kind == "shared" and room.floor == floor[desk_room] and room.name != desk_room
    ]
    rooms = [each.room for each in appointments if each.room is not None and not each.is_absence]
    places = list(dict.fromkeys([OUTSIDE, person.desk, *around, *rooms]))
    law = np.zeros((building.slots, len(places)))
    for place in dict.fromkeys(rooms):
        own = [each for each in appointments if each.room == place and not each.is_absence]
        law[:, places.index(place)] += building.attendance * covered(own, building)
    law /= np.maximum(law.sum(axis=1, keepdims=True), 1.0)  # double bookings
    free = 1.0 - law.sum(axis=1)
    works = covered(_shifts(person, building), building)
    absent = covered([each for each in appointments if each.is_absence], building)
    here = free * (1.0 - absent) * (works * (1.0 - person.away) + (1.0 - works) * _LATE)
    law[:, places.index(OUTSIDE)] += free - here
    share = building.around if around else 0.0
    law[:, places.index(person.desk)] += here * (1.0 - share)
    for place in around:
        law[:, places.index(place)] += here * share / len(around)
    return places, law / law.sum(axis=1, keepdims=True)


def _shifts(person: Person, building: Building) -> list[Appointment]:
    """When a person works: by the roster's file, or each week alike."""
    if person.shift.endswith(".ics"):
        return [each for each in read_calendar(Path(person.shift), building) if not each.is_absence]
    nobody: frozenset[str] = frozenset()
    return [
        Appointment(begin + 10_080 * week, end + 10_080 * week, None, nobody, False)
        for week in range(building.weeks)
        for begin, end in person.hours()
    ]


def covered(appointments: Sequence[Appointment], building: Building) -> NDArray[np.float64]:
    """The share (C,) of each slot of the cycle that lies within at least one of them, to the minute."""
    minutes = np.zeros(building.slots * building.step_minutes, dtype=np.bool_)
    for each in appointments:
        minutes[np.arange(round(each.begin), round(each.end)) % minutes.size] = True
    return np.asarray(minutes.reshape(building.slots, -1).mean(axis=1))


def read_calendar(path: Path, building: Building) -> list[Appointment]:
    """The appointments of the cycle that begins on the first day, repeated ones too, by the building's clock.

    Cancelled ones, those that block no time (TRANSP) and whole days that are no absence are left out.
    """
    import icalendar  # slow to import
    import recurring_ical_events

    try:
        calendar = icalendar.Calendar.from_ical(path.read_bytes())
        first = building.first_day
        events = recurring_ical_events.of(calendar).between(first, first + timedelta(weeks=building.weeks))
        return list(_appointments(events, building))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} must be a calendar (iCalendar)", error, "export it again") from None


def _appointments(events: Sequence[Mapping[str, Any]], building: Building) -> Iterator[Appointment]:
    zone, cycle = ZoneInfo(building.timezone), building.slots * building.step_minutes
    origin = datetime.combine(building.first_day, time())
    rooms = {room.name.casefold(): room.name for room in building.rooms}
    for event in events:
        is_absence = str(event.get("X-MICROSOFT-CDO-BUSYSTATUS", "")) == _ABSENT
        start, end = event["DTSTART"].dt, event["DTEND"].dt
        is_day = not isinstance(start, datetime)
        if event.get("STATUS") == "CANCELLED" or event.get("TRANSP") == "TRANSPARENT" or start == end:
            continue
        if is_day and not is_absence:
            continue
        begin, until = ((_clock(each, zone) - origin).total_seconds() / 60 for each in (start, end))
        said = str(event.get("LOCATION", ""))
        named = [rooms.get(part.strip().casefold()) for part in (said, *said.replace(";", ",").split(","))]
        room = next((each for each in named if each is not None), None)
        yield Appointment(max(0.0, begin), min(cycle, until), room, _invited(event), is_absence)


def _clock(moment: date, zone: ZoneInfo) -> datetime:
    """What the clock on the wall shows; a time without a zone is the building's."""
    if not isinstance(moment, datetime):
        return datetime.combine(moment, time())
    return moment.astimezone(zone).replace(tzinfo=None) if moment.tzinfo else moment


def _invited(event: Mapping[str, Any]) -> frozenset[str]:
    """Names and addresses of who takes part; the part before the @, too."""
    given = event.get("ATTENDEE", [])
    everybody = [*(given if isinstance(given, list) else [given])]
    if "ORGANIZER" in event:
        everybody.append(event["ORGANIZER"])
    found: set[str] = set()
    for each in everybody:
        if each.params.get("PARTSTAT") != "DECLINED":
            mail = str(each).casefold().removeprefix("mailto:")
            found |= {mail, mail.split("@")[0], str(each.params.get("CN", mail)).casefold()}
    return frozenset(found)
