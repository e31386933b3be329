"""What was, or will be, released at each step: sensors with mechanism and parameters, never a count.

Accountants read nothing else about releases. A :class:`StepSchedule` is a frozen fact; :mod:`accounting`
computes what it costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

from models.arguments import checked
from models.calendar import Calendar
from models.exceptions import ScheduleError, SensorError
from models.mechanisms import (
    NO_DESIGNS,
    Designs,
    Gaussian,
    Mechanism,
    Raw,
    admit,
    all_versions,
    counted_again,
)
from models.text import CloseNames

# Sensors: named devices, each counting the people at one location or at a set of them.


class Counts(StrEnum):
    """What a sensor counts."""

    PRESENCE = "presence"  # people, each once in a step
    OCCUPIED = "occupied"  # 1 while anybody is there: no sum over people, so nobody hides among others
    PASSAGES = "passages"  # events: one person can be counted again


@checked(SensorError)
@dataclass(frozen=True, slots=True)
class CountingWindow:
    """What one published count covers, where that is not presence in a single step.

    ``steps`` consecutive steps, the first window from step 0: a count of four steps is published with the
    steps 3, 7, 11 and so on. No window begins before ``first_step``, from which on the deployment has the
    sensor. ``moves`` has triples (from, to, times) of a sensor that counts moves, each of
    which ends in a step of the window; it is empty for a sensor that counts presence. With ``miscounts`` the
    device may miss a person or count one twice, up to ``most_counts`` in all. At most ``most_sensors`` of the
    deployment's sensors can count one person in a window; None for all of them.
    """

    steps: int = 1
    moves: tuple[tuple[int, int, int], ...] = ()
    miscounts: bool = False
    most_sensors: int | None = None
    first_step: int = 0

    def __post_init__(self) -> None:
        """:class:`SensorError` for impossible values."""
        if self.first_step < 0:
            raise SensorError("first_step must be 0 or more", self.first_step, "count steps from 0")
        if self.steps < 1 or (self.most_sensors is not None and self.most_sensors < 1):
            raise SensorError(
                "a window must have at least 1 step, and 1 sensor that can count somebody",
                (self.steps, self.most_sensors),
                "leave out what is not known",
            )
        if any(start < 0 or end < 0 or times < 1 for start, end, times in self.moves):
            raise SensorError(
                "moves of a window must go between locations from 0 on, once or more",
                list(self.moves),
                "give location indices, and leave out moves that are not counted",
            )

    def first_of(self, last: int) -> int:
        """The first step of the window that ends with the step ``last``."""
        return last - self.steps + 1

    def ends_with(self, step: int) -> bool:
        """Whether a count is published with this step, a window's last."""
        return (step + 1) % self.steps == 0 and step >= self.first_end

    @property
    def first_end(self) -> int:
        """The last step of the first window: its first move leaves the place in ``first_step`` or later."""
        begins = self.first_step + int(bool(self.moves))
        return (-(-begins // self.steps) + 1) * self.steps - 1

    def facts(self) -> dict[str, Any]:
        """As a dictionary; the first step only where it is not 0, as records of versions without it are."""
        found = asdict(self)
        return found if self.first_step else {key: found[key] for key in found if key != "first_step"}

    def begun_in(self, step: int) -> int | None:
        """The last step of the window that is accounted from this step on; None where none begins."""
        last = step + self.steps - 1 + int(bool(self.moves))
        return last if self.ends_with(last) else None


@checked(SensorError)
@dataclass(frozen=True, slots=True)
class PerDay:
    """How often one person is counted in a day at most; None where nothing is declared.

    ``own`` counts by this sensor, ``counts`` by all sensors of the deployment together, and by ``sensors`` of
    them. A day is a date of the local clock. Differential privacy rests on it, ceilings do not need it.
    """

    own: int | None = None
    counts: int | None = None
    sensors: int | None = None

    def __post_init__(self) -> None:
        """:class:`SensorError` for impossible values."""
        declared = [each for each in (self.own, self.counts, self.sensors) if each is not None]
        if not declared or min(declared) < 1:
            raise SensorError(
                "a bound over a day must be at least 1",
                (self.own, self.counts, self.sensors),
                "leave out what is not known",
            )


@checked(SensorError)
@dataclass(frozen=True, slots=True)
class Sensor:
    """One device. ``locations`` are indices into the deployment's locations, increasing, without repeats.

    ``most_counts`` is how often it can count one person in a step at most: more than once where it counts
    passages. How often must not depend on where else the person goes, and a person who is elsewhere in the
    step is not counted. ``counts`` is what the deployment declares that it counts, None where nothing is
    declared. ``corrections`` is how many more values of one step are published at most, each with noise of
    its own; whether a correction is published must not depend on the counts. Accounts include all of them
    from the start. ``position`` is a point on a plane, east and north in any unit, for maps only, and the
    middle of a room of this ``size`` (width, depth in the same unit). ``window`` is what a count covers where
    that is not presence in one step; ``most_counts`` is then for the window, and ``locations`` are all that
    the moves leave or reach. Sensors with one ``region`` are processed together until their release, and
    share a noise key. ``per_day`` bounds how often one person is counted in a day.
    Sensors that are ``part_of`` one device count its people by direction, mode or age: a person is in one of
    them at a time, so ``most_counts`` is for all of them together.
    """

    name: str
    locations: tuple[int, ...]
    group: str = "default"
    position: tuple[float, float] | None = field(default=None, compare=False)
    most_counts: int = 1
    counts: Counts | None = field(default=None, compare=False)
    corrections: int = 0
    window: CountingWindow | None = None
    region: str | None = field(default=None, compare=False)
    per_day: PerDay | None = None
    part_of: str | None = None
    size: tuple[float, float] | None = field(default=None, compare=False)
    is_sum: bool = field(default=True, init=False, repr=False)
    """Whether it counts the people of one step, so that others hide a person in its counts."""

    def __post_init__(self) -> None:
        """:class:`SensorError` for impossible values."""
        object.__setattr__(self, "is_sum", self.window is None and self.counts is not Counts.OCCUPIED)
        is_once = self.counts in (Counts.PRESENCE, Counts.OCCUPIED) and self.window is None
        if self.most_counts < 1 or (is_once and self.most_counts > 1):
            raise SensorError(
                f"most_counts of sensor {self.name!r} must be at least 1, and 1 for counts of presence",
                self.most_counts,
                "declare passages where one person can be counted more than once in a step",
            )
        if self.corrections < 0:
            raise SensorError(
                f"corrections of sensor {self.name!r} must be 0 or more",
                self.corrections,
                "say how many corrected values of one step are published at most",
            )
        if not self.locations:
            raise SensorError(
                f"sensor {self.name!r} must cover at least one location", "none", "name its locations"
            )
        if list(self.locations) != sorted(set(self.locations)):
            raise SensorError(
                f"locations of sensor {self.name!r} must be increasing and without repeats",
                list(self.locations),
                "sort them and drop repeats",
            )
        if self.locations[0] < 0:
            raise SensorError(
                f"locations of sensor {self.name!r} must be 0 or more",
                list(self.locations),
                "count locations from 0",
            )


def _check_parts_alike(one: Sensor, other: Sensor) -> None:
    """:class:`SensorError` unless two parts of a device see the same people in the same steps."""
    for what in ("locations", "most_counts", "window", "per_day", "group", "region"):
        if getattr(one, what) != getattr(other, what):
            raise SensorError(
                f"parts of the device {one.part_of!r} must have the same {what}: a person is in one of them",
                f"{getattr(one, what)!r} of {one.name!r}, {getattr(other, what)!r} of {other.name!r}",
                "declare what the device as a whole does, or leave part_of out",
            )


@dataclass(frozen=True)
class SensorRegistry:
    """A deployment's sensors by name, and its noise ``designs`` by number, as messages refer to them.

    Without a list of sensors each location has a sensor of its own name (:meth:`one_per_location`).
    ``in_windows`` has the mechanism of each sensor with a window, where it is known: such sensors are
    accounted in every step, so all steps must have the same mechanism. Those that were ``removed`` count no
    more from that step on, and are known for the steps before.
    """

    location_names: tuple[str, ...]
    sensors: tuple[Sensor, ...]
    designs: Designs = field(default=NO_DESIGNS, repr=False, compare=False)
    in_windows: Mapping[str, Mechanism] = field(default_factory=dict, repr=False, compare=False)
    removed: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    _by_name: Mapping[str, Sensor] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check names and locations; build the look-up."""
        by_name: dict[str, Sensor] = {}
        count = len(self.location_names)
        for sensor in self.sensors:
            if sensor.name in by_name:
                raise SensorError("sensor names must be unique", repr(sensor.name), "rename one of the two")
            if sensor.locations[-1] >= count:
                raise SensorError(
                    f"locations of sensor {sensor.name!r} must lie in 0..{count - 1}",
                    list(sensor.locations),
                    "use the location indices of the priors file",
                )
            by_name[sensor.name] = sensor
        without = [sensor.name for sensor in self.sensors if sensor.region is None]
        if without and len(without) < len(self.sensors):
            raise SensorError(
                "every sensor must have a region, or none",
                f"{len(without)} of {len(self.sensors)} without, such as {without[0]!r}",
                "name the region of each",
            )
        first_part: dict[str, Sensor] = {}
        for sensor in self.sensors:
            if sensor.part_of is not None:
                _check_parts_alike(first_part.setdefault(sensor.part_of, sensor), sensor)
        object.__setattr__(self, "_by_name", by_name)

    @classmethod
    def one_per_location(cls, location_names: Sequence[str]) -> SensorRegistry:
        """A registry in which each location has a sensor of its own name."""
        names = tuple(location_names)
        return cls(names, tuple(Sensor(name, (index,)) for index, name in enumerate(names)))

    def accounted_facts(self) -> list[list[object]]:
        """The facts about each sensor that accounts and noise depend on, as JSON values, for comparison.

        ``most_counts``, ``corrections``, windows, bounds over a day, regions and that a sensor says only
        whether anybody is there are listed only where they are, so that records of versions without them
        compare equal.
        """
        found: list[list[object]] = []
        for each in self.sensors:
            again = [each.most_counts] if each.most_counts > 1 else []
            more = [{"corrections": each.corrections}] if each.corrections else []
            window = [{"window": each.window.facts()}] if each.window is not None else []
            a_day = [{"per_day": asdict(each.per_day)}] if each.per_day is not None else []
            part = [{"part_of": each.part_of}] if each.part_of is not None else []
            region = [{"region": each.region}] if self.regions else []
            only = [{"counts": each.counts.value}] if each.counts is Counts.OCCUPIED else []
            listed = (*again, *more, *window, *a_day, *part, *region, *only)
            found.append([each.name, list(each.locations), each.group, *listed])
        return found

    def most_at_one_place(self) -> int:
        """The most presence sensors at one location, which is how many can count one person in a step."""
        counted = Counter(
            location for sensor in self.sensors if sensor.window is None for location in sensor.locations
        )
        return max(counted.values(), default=0)

    @cached_property
    def regions(self) -> tuple[str, ...]:
        """The names of the regions in order; none where all sensors are in one."""
        found = sorted({sensor.region for sensor in self.sensors if sensor.region is not None})
        return tuple(found) if len(found) > 1 else ()

    @property
    def is_bounded(self) -> bool:
        """Whether it is declared of any sensor how often it counts a person in a day."""
        return any(each.per_day is not None for each in self.sensors)

    def of_region(self, region: str) -> SensorRegistry:
        """The sensors of one region."""
        return replace(self, sensors=tuple(each for each in self.sensors if each.region == region))

    def in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names of sensors in the order of the registry."""
        wanted = set(names)
        return tuple(sensor.name for sensor in self.sensors if sensor.name in wanted)

    @cached_property
    def windowed(self) -> tuple[Sensor, ...]:
        """The sensors whose counts cover several steps, or moves."""
        return tuple(sensor for sensor in self.sensors if sensor.window is not None)

    def windowed_in(self, step: int) -> tuple[Sensor, ...]:
        """Those of them that are accounted in a step."""
        if not self.removed:
            return self.windowed
        return tuple(each for each in self.windowed if step < self.removed.get(each.name, step + 1))

    def with_windows(self, mechanisms: Mapping[str, Mechanism]) -> SensorRegistry:
        """The same sensors, with the mechanisms of those that have windows."""
        return replace(self, in_windows=dict(mechanisms))

    def with_designs(self, more: Designs) -> SensorRegistry:
        """The same sensors, and more noise designs."""
        return replace(self, designs=self.designs.with_designs(more))

    def __contains__(self, name: str) -> bool:
        """Whether a sensor of this name exists."""
        return name in self._by_name

    @cached_property
    def _as_raw(self) -> dict[str, SensorRelease]:
        return {}

    def as_raw(self, name: str) -> SensorRelease:
        """The sensor of this name as if it were released raw, each time the same object."""
        if name not in self._as_raw:
            self._as_raw[name] = SensorRelease(self.get(name), Raw())
        return self._as_raw[name]

    @cached_property
    def _close_names(self) -> CloseNames:
        return CloseNames(self._by_name)

    def get(self, name: str) -> Sensor:
        """The sensor of this name; :class:`SensorError` with the closest names when there is none."""
        try:
            return self._by_name[name]
        except KeyError:
            close = self._close_names.like(name)
            hint = f"did you mean {', '.join(map(repr, close))}?" if close else "see the sensors file"
            raise SensorError("a sensor must be one of the deployment's", repr(name), hint) from None


Where = int | tuple[int, ...] | Sensor
"""A sensor, or the location or locations that one counts."""


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class SensorRelease:
    """One sensor active in a step, and the mechanism its count is published with."""

    sensor: Sensor
    mechanism: Mechanism

    def __post_init__(self) -> None:
        """:class:`~models.exceptions.MechanismError` for a mechanism that reveals more than it says."""
        admit(self.mechanism)

    @property
    def accounted(self) -> Mechanism:
        """The mechanism for accountants: all values that the sensor may publish of the step together.

        Each value counts one person as often as the sensor can. :class:`~models.exceptions.ScheduleError` for
        a count of a window, which first has to be converted to single steps
        (:mod:`models.releases.fine_steps`).
        """
        if self.sensor.window is not None:
            raise ScheduleError(
                f"counts of {self.sensor.name!r} must be brought to single steps before they are accounted",
                "a count of a window, or of moves",
                "ask for this figure where such sensors have an account (docs/how-to/passages.md)",
            )
        return self.charged

    @property
    def charged(self) -> Mechanism:
        """The same for differential privacy, which treats a window as a whole."""
        mechanism, sensor = self.mechanism, self.sensor
        if sensor.corrections and not mechanism.is_exact:
            mechanism = all_versions([mechanism] * (1 + sensor.corrections))
        return counted_again(mechanism, sensor.most_counts)


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class RevealedMove:
    """What a step reveals about the move into it: with this noise, whether it was one of the counted moves.

    ``counted`` has pairs of sets of locations: all moves from the first to the second. No move is in two
    pairs.
    """

    counted: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    mechanism: Mechanism


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class RevealedAmount:
    """At most ``nats`` about a person who can be at one of these places, in this step and those before."""

    locations: tuple[int, ...]
    nats: float


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window whose count will be published with the step ``last``, as was decided when it began."""

    release: SensorRelease
    last: int

    @property
    def _window(self) -> CountingWindow:
        assert self.release.sensor.window is not None
        return self.release.sensor.window

    @property
    def first(self) -> int:
        """The first step it covers."""
        return self._window.first_of(self.last)

    @property
    def charged_from(self) -> int:
        """The first step it is accounted in: of moves the one before the first."""
        return self.first - int(bool(self._window.moves))


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class MoveEnd:
    """One end of moves that a sensor counts once each, in the step of this end.

    The moves leave ``locations`` after the step for those ``beyond``, or arrive from there with it.
    """

    name: str
    locations: tuple[int, ...]
    beyond: tuple[int, ...]
    leaves: bool
    is_sum: ClassVar[bool] = False
    window: ClassVar[None] = None
    most_counts: ClassVar[int] = 1


class PlacesInStep(NamedTuple):
    """A set of places in the step ``offset`` steps after a window's first."""

    offset: int
    locations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShownPlaces:
    """Presence at these places as accounts see it, with the mechanism of this part of the release.

    ``ends`` are those of the moves for which the places are shown, where the count is the sum of everybody's
    moves, so that others hide one.
    """

    places: PlacesInStep
    mechanism: Mechanism
    ends: tuple[MoveEnd, ...] = ()

    @property
    def sensor(self) -> Sensor:
        """A sensor that counts there."""
        return sensor_at(self.places.locations)


def sensor_at(locations: tuple[int, ...]) -> Sensor:
    """A sensor that counts presence there."""
    return Sensor(f"at {'+'.join(map(str, locations))}", locations)


class StepParts(NamedTuple):
    """Counts of presence in one step, what windows show in it, and of which window each of these is."""

    plain: tuple[SensorRelease, ...]
    shown: tuple[ShownPlaces, ...]
    windows: tuple[OpenWindow, ...] = ()


@checked(ScheduleError, leave=("parts",))
@dataclass(frozen=True, slots=True)
class StepSchedule:
    """All that is released in one step, in the order of announcement; empty for a step without releases.

    ``revealed`` bounds the information of counts over windows, in addition to the places that they show; None
    where the releases themselves give the information. ``windows`` are those that are accounted in this step,
    where a risk budget decides each of them when it begins; None where one mechanism holds for all windows.
    ``among`` is what counts in the step if sensors have windows, whatever is released of it: the crowd that
    counts hide among is found for these. One that still has a window counts places of which a crowd hides
    nothing. None stands for the sensors of the releases. ``published`` are the releases as they come out,
    whole windows with their last step, where ``releases`` have what windows show in the step; else None.
    ``parts`` are what ``releases`` have together, one by one, where sensors have windows.
    """

    step: int
    releases: tuple[SensorRelease, ...] = ()
    revealed: tuple[RevealedMove | RevealedAmount, ...] | None = None
    windows: tuple[OpenWindow, ...] | None = None
    among: tuple[Sensor | MoveEnd, ...] | None = None
    published: tuple[SensorRelease, ...] | None = None
    parts: StepParts | None = None

    def __post_init__(self) -> None:
        """:class:`~models.exceptions.ScheduleError` for a step before the first."""
        if self.step < 0:
            raise ScheduleError("a step must be 0 or more", self.step, "count steps from 0")

    @property
    def counting(self) -> tuple[Sensor | MoveEnd, ...]:
        """What the crowd is found for: ``among``, or the sensors of the releases."""
        return tuple(each.sensor for each in self.releases) if self.among is None else self.among


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class Schedule:
    """Consecutive steps, the first of them in slot ``first_slot`` of the priors' cycle.

    Slots only count on, unless there is a ``calendar``: ``first_slot`` is then the first step's position in
    it, the calendar's own ``first_slot`` for step 0 of the deployment.
    """

    steps: tuple[StepSchedule, ...]
    first_slot: int = 0
    calendar: Calendar | None = None

    def __post_init__(self) -> None:
        """:class:`~models.exceptions.ScheduleError` for steps that do not follow each other."""
        found = [each.step for each in self.steps]
        if self.first_slot < 0:
            raise ScheduleError("first_slot must be 0 or more", self.first_slot, "count slots from 0")
        if found and found != list(range(found[0], found[0] + len(found))):
            raise ScheduleError(
                "steps of a schedule must follow each other, none twice and none left out",
                found if len(found) <= 12 else f"{found[:12]} and more",
                "sort them, and give a step without releases as StepSchedule(step)",
            )

    @classmethod
    @checked(ScheduleError, leave=("steps",))
    def of(cls, steps: Iterable[Iterable[Where]], mechanism: Mechanism, first_slot: int = 0) -> Schedule:
        """The active sensors of each step, all with one mechanism: ``Schedule.of([[3], [], [5]], Raw())``.

        A location by its index, or several in a tuple, stand for one sensor there, named by them.
        :class:`~models.exceptions.ScheduleError` for anything else.
        """
        active = _listed(steps)
        return cls(
            tuple(
                StepSchedule(step, tuple(SensorRelease(_sensor(where), mechanism) for where in _listed(each)))
                for step, each in enumerate(active)
            ),
            first_slot,
        )

    def __repr__(self) -> str:
        """How many steps, and how many counts are released by which mechanism."""
        counts = Counter(each.mechanism.name for step in self.steps for each in step.releases)
        return f"Schedule(steps={len(self.steps)}, first_slot={self.first_slot}, releases={dict(counts)})"

    @classmethod
    @checked(ScheduleError, leave=("steps",))
    def raw(cls, steps: Iterable[Iterable[Where]], first_slot: int = 0) -> Schedule:
        """Exact counts of the active sensors of each step: ``Schedule.raw([[3], [5]])``."""
        return cls.of(steps, Raw(), first_slot)

    @classmethod
    @checked(ScheduleError, leave=("steps",))
    def gaussian(cls, steps: Iterable[Iterable[Where]], sigma: float, first_slot: int = 0) -> Schedule:
        """Counts with discrete Gaussian noise of standard deviation ``sigma``, in people."""
        return cls.of(steps, Gaussian(sigma), first_slot)


def _listed(steps: Iterable[Any]) -> Iterable[Any]:
    """The argument, if it is iterable and no text, whose letters would be taken for sensors."""
    if isinstance(steps, str | bytes) or not isinstance(steps, Iterable):
        raise ScheduleError(
            "steps must be a list of lists of active sensors",
            repr(steps)[:40],
            "write Schedule.raw([[3], [], [5]])",
        )
    return steps


def _sensor(where: Where) -> Sensor:
    """A sensor at a location or a set of them."""
    if isinstance(where, Sensor):
        return where
    locations = where if isinstance(where, tuple) else (where,)
    if not locations or any(isinstance(each, bool) or not isinstance(each, Integral) for each in locations):
        raise ScheduleError(
            "an active sensor must be a Sensor, a location's index or a tuple of such",
            repr(where),
            "write a step as a list, for example [3, (4, 5)]",
        )
    indices = tuple(sorted({int(each) for each in locations}))
    if indices[0] < 0:
        raise ScheduleError("a location's index must be at least 0", indices[0], "count locations from 0")
    return Sensor("+".join(map(str, indices)), indices)
