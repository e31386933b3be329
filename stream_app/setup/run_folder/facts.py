"""What a deployment consists of, how that may change while it runs, and what changed, in words.

Accounts are functions of the releases so far, so what changes from a step on leaves every earlier account as
it was (docs/how-to/grow.md). A sensor is known by its name for good: its number in the record is the
order in which sensors came, a removed one keeps it, and what it counted stays known to the steps before.
Places keep their order, and further ones come at the end, so the accounts of all people stay the same bits.

Everything here is a pure function of recorded facts; :mod:`~stream_app.setup.run_folder.record` keeps them.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field

from models.mechanisms import Designs, Mechanism, parse
from models.releases import CountingWindow, Counts, PerDay, Sensor, SensorRegistry
from stream_app.exceptions import OutputError, RunChangedError, restoring

NETWORK = "network"
"""The key of a deployment's places and sensors among its recorded facts."""

_MOST_WORDS = 40  # changes that one entry says one by one
_ALONG = frozenset({"sensors", "counted_again", "locations"})  # fingerprints and extracts of the network
_FINGERPRINTS = frozenset(
    {
        "priors",
        "people_kept",
        "schedule",
        "noise_key",
        "pseudonym_key",
        "drawn.chains",
        "priors_check.priors",
        *_ALONG,
    }
)
_PEOPLE = frozenset({"priors", "people", "people_kept"})
_UNSAID = frozenset({"format", "earlier_noise_keys", "taken_over", *_ALONG})
_NEW_NAME = "give the device a new name, and leave the old one out: it stays known to the steps before"

ChangeKind = Literal["sensor", "place", "setting", "key", "people"]


class Change(BaseModel):
    """One change as the record says it: ``sensor "s9" added at "station"``, ``sigma of "station" 2 -> 3``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: ChangeKind
    words: Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Network:
    """The places of a deployment and all sensors it ever had, in the order in which they came.

    ``removed`` are the names of those it no longer has.
    """

    places: tuple[str, ...]
    sensors: tuple[Sensor, ...]
    removed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, registry: SensorRegistry) -> Network:
        """That of a deployment which begins with these sensors."""
        return cls(registry.location_names, tuple(_accounted(registry, each) for each in registry.sensors))

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Network:
        """As :meth:`save` gave it; :class:`OutputError` for anything else."""
        try:
            sensors = tuple(_loaded(each) for each in saved["sensors"])
            found = cls(tuple(map(str, saved["places"])), sensors, frozenset(saved.get("removed", ())))
            SensorRegistry(found.places, found.sensors)  # names are unique, and places exist
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OutputError(
                "the places and sensors in the record must be as they were written",
                f"{type(error).__name__}",
                restoring("the record and run.json"),
            ) from error
        return found

    def save(self) -> dict[str, Any]:
        """As JSON values: the number of a sensor is its position."""
        removed = [each.name for each in self.sensors if each.name in self.removed]
        saved = {"places": list(self.places), "sensors": [_saved(each) for each in self.sensors]}
        return {**saved, "removed": removed} if removed else saved

    @property
    def present(self) -> tuple[Sensor, ...]:
        """The sensors that count now."""
        return tuple(each for each in self.sensors if each.name not in self.removed)

    def arranged(self, registry: SensorRegistry) -> SensorRegistry:
        """The same sensors in the order in which they came; those that are not known yet come last."""
        order = {each.name: number for number, each in enumerate(self.sensors)}
        sensors = sorted(registry.sensors, key=lambda each: order.get(each.name, len(order)))
        return replace(registry, sensors=tuple(sensors))

    def grown_to(self, registry: SensorRegistry) -> Network:
        """The network from a step on at which it has these places and sensors.

        :class:`RunChangedError` says which place or sensor cannot change like this, why, and what to do.
        """
        self._check_places(registry.location_names)
        known = {each.name: each for each in self.sensors}
        given = {each.name: _accounted(registry, each) for each in self.arranged(registry).sensors}
        for name in known.keys() & given.keys():
            _check_same_device(known[name], given[name], registry.location_names)
        sensors = [given.get(each.name, each) for each in self.sensors]
        sensors += [each for name, each in given.items() if name not in known]
        return Network(registry.location_names, tuple(sensors), frozenset(known.keys() - given.keys()))

    def changes_to(self, later: Network) -> Iterator[Change]:
        """What is different in a later network, in words."""
        for was, now in zip(self.places, later.places, strict=False):
            if was != now:
                yield Change(kind="place", words=f"place {_named(was)} renamed {_named(now)}")
        for place in later.places[len(self.places) :]:
            yield Change(kind="place", words=f"place {_named(place)} added")
        known = {each.name: each for each in self.sensors}
        for sensor in later.sensors:
            name, at = _named(sensor.name), _at(sensor, later.places)
            before = known.get(sensor.name)
            if before is None and sensor.name not in later.removed:
                yield Change(kind="sensor", words=f"sensor {name} added {at}")
            elif before is not None and sensor.name in later.removed - self.removed:
                yield Change(kind="sensor", words=f"sensor {name} removed")
            elif before is not None and sensor.name in self.removed - later.removed:
                yield Change(kind="sensor", words=f"sensor {name} added again {at}")
            if before is not None and before.most_counts != sensor.most_counts:
                often = f"{before.most_counts} -> {sensor.most_counts}"
                yield Change(kind="sensor", words=f"most_counts of {name} {often}")
            if before is not None and before.per_day != sensor.per_day:
                often = f"{per_day_in_words(before.per_day)} -> {per_day_in_words(sensor.per_day)}"
                yield Change(kind="sensor", words=f"counts of a person by {name} {often}")

    def _check_places(self, names: tuple[str, ...]) -> None:
        gone = next((each for each in self.places if each not in names), None)
        if len(names) < len(self.places) and gone is not None:
            raise RunChangedError(
                f"all {len(self.places)} places must stay, since the accounts of people are over them",
                f"{len(names)}, without {_named(gone)}",
                "put it back where it was; nobody needs to make use of it",
            )
        for position, (was, now) in enumerate(zip(self.places, names, strict=False)):
            if was == now:
                continue
            if was in names or now in self.places:
                raise RunChangedError(
                    f"place {position} must stay {_named(was)}: people's priors and sensors name places by "
                    "their position",
                    _named(now),
                    "keep the places that were there in their order, and add new ones at the end",
                )


def bounds_of(facts: Mapping[str, Any]) -> Mapping[str, PerDay]:
    """The bounds over a day that recorded facts name, by sensor."""
    return {
        str(each["name"]): PerDay(**each["per_day"])
        for each in facts.get(NETWORK, {}).get("sensors", ())
        if "per_day" in each
    }


def per_day_in_words(bound: PerDay | None) -> str:
    """How often a person is counted in a day at most: "4 a day, by 2 sensors a day"."""
    if bound is None:
        return "not bounded over a day"
    said = {
        "{} a day by this sensor": bound.own,
        "{} a day": bound.counts,
        "by {} sensors a day": bound.sensors,
    }
    return ", ".join(words.format(most) for words, most in said.items() if most is not None)


def _accounted(registry: SensorRegistry, sensor: Sensor) -> Sensor:
    """What accounts and noise depend on: without a point on the map, and a region where there is but one."""
    counts = sensor.counts if sensor.counts is Counts.OCCUPIED else None  # other kinds change no account
    return replace(sensor, position=None, counts=counts, region=sensor.region if registry.regions else None)


def _check_same_device(was: Sensor, now: Sensor, places: Sequence[str]) -> None:
    """:class:`RunChangedError` where a name would stand for two devices, which would share their noise."""
    name = f"sensor {_named(was.name)}"
    if was.locations != now.locations:
        raise RunChangedError(
            f"{name} must stay {_at(was, places)}, where it was: its published counts are of that place",
            _at(now, places),
            _NEW_NAME,
        )
    if (was.counts is Counts.OCCUPIED) != (now.counts is Counts.OCCUPIED):
        before, after = (
            "whether anybody is there" if each.counts is Counts.OCCUPIED else "people" for each in (was, now)
        )
        raise RunChangedError(
            f"{name} must go on to count {before}: others hide a person in a number of people, and nobody in "
            "what says whether anybody is there",
            after,
            _NEW_NAME,
        )
    for what, why in (
        ("group", "what it spent on differential privacy is in the account of that group"),
        ("region", "its noise is drawn with the key of that region"),
        ("corrections", "every value that a step may have is accounted when the step closes"),
        ("part_of", "what one person can change was charged for the device"),
        ("window", "a window is accounted in each of its steps, before its count is published"),
    ):
        if getattr(was, what) != getattr(now, what):
            raise RunChangedError(
                f"{what} of {name} must stay {_short(getattr(was, what))}: {why}",
                _short(getattr(now, what)),
                _NEW_NAME if what != "window" else "put it back",
            )
    if was.window is not None and was.most_counts != now.most_counts:
        raise RunChangedError(
            f"most_counts of {name} must stay {was.most_counts}: a window is accounted in each of its steps, "
            "before its count is published",
            now.most_counts,
            "put it back",
        )


def check_new_windows(before: Mapping[str, Any], now: Mapping[str, Any], first_free: int) -> None:
    """:class:`RunChangedError` for a new sensor whose windows may begin before ``first_free``, or one of old.

    ``before`` and ``now`` are recorded facts. Steps before ``first_free`` are closed or announced, or counts
    of them have come: they were accounted, or will be, without its windows.
    """
    known = {each["name"] for each in before.get(NETWORK, now.get(NETWORK, {})).get("sensors", ())}
    back = _present(now) & {*before.get(NETWORK, {}).get("removed", ())}
    for each in now.get(NETWORK, {}).get("sensors", ()):
        if each["name"] in back and "window" in each:
            raise RunChangedError(
                "a sensor with windows or moves that was removed must stay away: from which step on windows "
                f"are accounted is said once for a name, {_named(each['name'])}",
                "added again",
                _NEW_NAME,
            )
        first = each.get("window", {}).get("first_step", 0)
        if each["name"] not in known and "window" in each and first < first_free:
            raise RunChangedError(
                f"a new sensor with windows or moves must say from which step on they are accounted, here "
                f"{first_free} or later: {_named(each['name'])}",
                f"first_step {first}",
                f'give it "first_step": {first_free} in the sensors file, or a later one',
            )


HOLIDAYS = "holidays"


def check_holidays(before: Mapping[str, Any], now: Mapping[str, Any], first_free: int) -> None:
    """:class:`RunChangedError` where days differ that begin before ``first_free``.

    ``before`` and ``now`` are what a run is recorded with, of the same time zone. Steps before ``first_free``
    are closed or announced, or counts of them have come: else a count could decide what a day was.
    """
    was, is_now = (set(facts.get(HOLIDAYS) or ()) for facts in (before, now))
    changed = sorted(day for day in was ^ is_now if _first_step(now, day) < first_free)
    if changed:
        day = changed[0]
        raise RunChangedError(
            "holidays must stay as they were on days that have begun, or of which steps are announced or "
            f"counts have come: here those with steps before step {first_free}",
            f"{day} {'was one and is none now' if day in was else 'was none and is one now'}",
            "put these days back as they were; later days may be added and taken out",
        )


def _first_step(facts: Mapping[str, Any], day: str) -> int:
    """The step in which a day begins by the clock on the wall."""
    begins = datetime.combine(date.fromisoformat(day), datetime.min.time(), ZoneInfo(facts["timezone"]))
    origin = int(datetime.fromisoformat(facts["origin"]).timestamp())
    return int((begins.timestamp() - origin) // facts["step_seconds"])


WINDOWS = "windows"


def keeps_windows(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether counts over windows are published as before, but for those of sensors that came or went.

    Both are recorded facts.
    """
    was, is_now = (facts.get(WINDOWS) or {} for facts in (before, now))
    gone = _present(before) - _present(now) if NETWORK in now else frozenset[str]()
    stayed = {name: own for name, own in was.items() if name not in gone}
    return stayed.items() <= is_now.items() and not (is_now.keys() - stayed.keys()) & _present(before)


def _present(facts: Mapping[str, Any]) -> frozenset[str]:
    """The names of the sensors that count by these recorded facts."""
    network = facts.get(NETWORK, {})
    return frozenset(each["name"] for each in network.get("sensors", ())) - {*network.get("removed", ())}


def _saved(sensor: Sensor) -> dict[str, Any]:
    """A sensor as JSON values; what is as usual is left out."""
    saved: dict[str, Any] = {"name": sensor.name, "locations": list(sensor.locations)}
    if sensor.group != "default":
        saved["group"] = sensor.group
    if sensor.most_counts > 1:
        saved["most_counts"] = sensor.most_counts
    if sensor.counts is not None:
        saved["counts"] = sensor.counts.value
    if sensor.corrections:
        saved["corrections"] = sensor.corrections
    if sensor.window is not None:
        saved["window"] = json.loads(json.dumps(sensor.window.facts()))
    if sensor.per_day is not None:
        saved["per_day"] = asdict(sensor.per_day)
    if sensor.part_of is not None:
        saved["part_of"] = sensor.part_of
    if sensor.region is not None:
        saved["region"] = sensor.region
    return saved


def _loaded(saved: Mapping[str, Any]) -> Sensor:
    window = saved.get("window")
    if window is not None:
        moves = tuple(tuple(map(int, move)) for move in window["moves"])
        window = CountingWindow(**{**window, "moves": moves})
    return Sensor(
        str(saved["name"]),
        tuple(map(int, saved["locations"])),
        str(saved.get("group", "default")),
        most_counts=int(saved.get("most_counts", 1)),
        counts=Counts(saved["counts"]) if "counts" in saved else None,
        corrections=int(saved.get("corrections", 0)),
        window=window,
        region=saved.get("region"),
        per_day=PerDay(**saved["per_day"]) if "per_day" in saved else None,
        part_of=saved.get("part_of"),
    )


class Registries:
    """The sensors of a deployment at each step, by what its record says held then.

    ``now`` are those of the next step; steps before the first entry that names sensors had those of it.
    """

    def __init__(self, now: SensorRegistry, held: Iterable[tuple[int, Mapping[str, Any]]] = ()) -> None:
        """``held`` are the steps from which facts held, in order, with these facts."""
        found = [(step, facts) for step, facts in held if NETWORK in facts]
        self._starts = [step for step, _ in found]
        self._registries = [self._as_of(facts, now) for _, facts in found] or [now]

    def at(self, step: int) -> SensorRegistry:
        """The sensors that counted at a step, and all that was removed before."""
        return self._registries[max(0, bisect_right(self._starts, step) - 1)]

    @property
    def ever(self) -> dict[str, Sensor]:
        """All sensors that count, or counted once, by name."""
        return {each.name: each for known in self._registries for each in known.sensors}

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that sensors belong to, or belonged to."""
        return tuple(sorted({each.group for known in self._registries for each in known.sensors}))

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that sensors lie in, or lay in; none where all are in one."""
        return tuple(sorted({region for known in self._registries for region in known.regions}))

    @staticmethod
    def _as_of(facts: Mapping[str, Any], now: SensorRegistry) -> SensorRegistry:
        """All sensors known then: a value of a step before a removal may still be published."""
        network = Network.load(facts[NETWORK])
        sensors = tuple(
            replace(now.get(each.name), region=each.region)
            if each.name in now and now.get(each.name) == each
            else each
            for each in network.sensors
        )
        if sensors == now.sensors and network.places == now.location_names and not network.removed:
            return now
        known = SensorRegistry(
            network.places, sensors, now.designs, removed=dict.fromkeys(network.removed, 0)
        )
        return known.with_windows({**now.in_windows, **mechanisms_of(facts.get(WINDOWS) or {}, now.designs)})


def mechanisms_of(windows: Mapping[str, Any], designs: Designs) -> dict[str, Mechanism]:
    """The mechanisms of sensors with windows, as recorded facts have them."""
    return {name: parse(own["mechanism"], own["parameters"], designs) for name, own in windows.items()}


# What changed, in words: a fingerprint says nothing to a reader, so none is shown.


def changes_between(
    before: Mapping[str, Any], after: Mapping[str, Any], *, says_people: bool = True
) -> tuple[Change, ...]:
    """How facts differ from those before; of the people only with ``says_people``."""
    found = list(_changes(before, after, says_people=says_people))
    more = len(found) - _MOST_WORDS
    if more > 0:
        found = [*found[:_MOST_WORDS], Change(kind=found[-1].kind, words=f"and {more} more changes")]
    return tuple(found)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], *, says_people: bool) -> Iterator[Change]:
    networks = [Network.load(facts[NETWORK]) if NETWORK in facts else None for facts in (before, after)]
    was, now = networks
    has_other_places = was is not None and now is not None and was.places != now.places
    if was is not None and now is not None:
        yield from was.changes_to(now)
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key) or key == NETWORK:
            continue
        if key in _UNSAID and not (key == "sensors" and None in networks):
            continue
        if key == WINDOWS and was is not None and keeps_windows(before, after):
            continue  # the sensors were said
        is_unnamed = has_other_places and before.get("people") == after.get("people")
        if key == "people_kept" or (key in _PEOPLE and (is_unnamed or not says_people)):
            continue  # the list of places is part of what the fingerprint is of
        for name, old, new in leaves(key, before.get(key), after.get(key)):
            yield Change(kind="key" if key.endswith("_key") else "setting", words=_difference(name, old, new))


def _difference(name: str, was: Any, now: Any) -> str:
    """``sigma of "station" 2 -> 3``, ``release.sigma 1 -> 2``, ``noise_key: another one``."""
    parts = name.split(".")
    if parts[:2] == ["release", "sensors"] and len(parts) > 2:
        what = f"{parts[-1]} of {_named('.'.join(parts[2:-1]))}" if len(parts) > 3 else f"rule of {parts[2]}"
    else:
        what = name
    if name in _FINGERPRINTS and was is not None and now is not None:
        return f"{what}: another one"
    return f"{what} {' -> '.join(_pair(name, was, now))}"


def differences(changed: Sequence[str], stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What changed, before and now, each setting by its full name; no fingerprint."""
    pairs = [
        pair for key in changed if key != NETWORK for pair in leaves(key, stored.get(key), wanted.get(key))
    ]
    said = [_was_is(*pair) for pair in pairs]
    if NETWORK in changed and stored.get(NETWORK) and wanted.get(NETWORK):
        said = [each for each, (name, _, _) in zip(said, pairs, strict=True) if name not in _ALONG]
        grown = Network.load(stored[NETWORK]).changes_to(Network.load(wanted[NETWORK]))
        said = [*(each.words for each in grown), *said]
    more = len(said) - _MOST_SHOWN
    return "; ".join([*said[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])])


_MOST_SHOWN = 12  # settings in a sentence
_LONGEST = 80  # characters of a value
_BESIDE = 20  # characters of what is equal that stand before a difference


IN_WORDS = {
    NETWORK: "places and sensors",
    "people_kept": "the list of people that the run accounts",
    "counted_again": "how often sensors count a person, and correct a count",
    "drawn": "the chains drawn for people",
}
"""Facts by words, where their name in the record says little."""


def _was_is(name: str, was: Any, now: Any) -> str:
    if name in _FINGERPRINTS and was is not None and now is not None:
        return f"{IN_WORDS.get(name, name)} was another one"
    before, after = _pair(name, was, now)
    return f"{name} was {before}, is {after}"


def _pair(name: str, was: object, now: object) -> tuple[str, str]:
    """Both values, short enough for a sentence; of two long ones the part from where they differ."""
    if name in _FINGERPRINTS:
        before, after = (_short(each) if each is None else "another one" for each in (was, now))
        return before, after
    texts = [json.dumps(each) if isinstance(each, list | str) else _short(each) for each in (was, now)]
    same = next((k for k, each in enumerate(zip(*texts, strict=False)) if len({*each}) > 1), 0)
    skipped = max(0, same - _BESIDE) if max(map(len, texts)) > _LONGEST else 0
    before, after = (_cut(("..." if skipped else "") + each[skipped:]) for each in texts)
    return before, after


def leaves(name: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Each value that differs, under the name of the setting it is the value of."""
    if isinstance(was, Mapping) and isinstance(now, Mapping) and "kappa_min" not in was:
        for key in sorted(was.keys() | now.keys()):
            if was.get(key) != now.get(key):
                yield from leaves(f"{name}.{key}", was.get(key), now.get(key))
    else:
        yield name, was, now


def _short(value: object) -> str:
    """A value short enough for a sentence."""
    if isinstance(value, CountingWindow):
        value = f"window of {value.steps} steps"
    if isinstance(value, Mapping) and "kappa_min" in value:  # of a check of the priors what ceilings go by
        value = {name: value.get(name) for name in ("verdict", "kappa_min")}
    return "not set" if value is None else _cut(json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _named(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _at(sensor: Sensor, places: Sequence[str]) -> str:
    """Where a sensor is, in words."""
    known = [_named(places[each]) if each < len(places) else f"place {each}" for each in sensor.locations]
    shown = ", ".join(known[:4])
    return f"at {shown}{f' and {len(known) - 4} more' if len(known) > 4 else ''}"
