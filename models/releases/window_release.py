"""Releases of counters as they count: passages or presence, summed over a window of fine steps.

The priors move from one fine step to the next; move ``t`` goes from the place in step ``t - 1`` to the place
in step ``t``. What a person adds to a release is the person's *own count*, at most ``most_counts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from models.arguments import checked
from models.exceptions import ScheduleError, SensorError
from models.mechanisms import DrawnPerWindow, Mechanism, admit
from models.releases.schedule import SensorRelease
from models.releases.sensors import Sensor


@checked(SensorError)
@dataclass(frozen=True, slots=True)
class MoveSensor:
    """One device that counts moves: how often it counts who goes from one location to another.

    ``times_counted`` has triples (from, to, times), locations by their index; moves that are not named are
    not counted. A counter in the way of two locations in both directions is
    ``MoveSensor.of("bridge", {(0, 1): 1, (1, 0): 1})``; one that counts a single direction is a sensor of its
    own. Staying is a move too, from a location to itself.
    """

    name: str
    times_counted: tuple[tuple[int, int, int], ...]

    def __post_init__(self) -> None:
        """:class:`SensorError` for a move named twice, a negative index, or a count below one."""
        named = [(start, end) for start, end, _ in self.times_counted]
        if not named:
            raise SensorError(f"sensor {self.name!r} must count at least one move", "none", "name its moves")
        if len(set(named)) < len(named):
            raise SensorError(
                f"sensor {self.name!r} must name each move once",
                sorted(named),
                "add up how often it is counted",
            )
        for start, end, times in self.times_counted:
            if start < 0 or end < 0 or times < 1:
                raise SensorError(
                    f"moves of sensor {self.name!r} must go between locations from 0 on, once or more",
                    (start, end, times),
                    "give location indices of the priors, and leave out moves that are not counted",
                )

    @classmethod
    @checked(SensorError)
    def of(cls, name: str, times_counted: Mapping[tuple[int, int], int]) -> MoveSensor:
        """The sensor that counts each move ``(from, to)`` so many times; 0 times means not at all."""
        return cls(name, tuple((a, b, times) for (a, b), times in sorted(times_counted.items()) if times))


@checked(ScheduleError)
@dataclass(frozen=True)
class WindowRelease:
    """One published sum over the steps ``first..last`` of what a sensor counted.

    A :class:`Sensor` counts presence: the steps of the window in which the person is at one of its locations.
    A :class:`MoveSensor` counts passages: moves ``first..last``, so the first of them leaves the place of
    step ``first - 1``. ``most_counts`` is the most that one person can be counted in the window, as the
    deployment declares it: a device that counts everybody once in a window has 1. The own count is the
    smaller of it and of the sum.

    ``miscounts`` declares that the device may miss somebody or read somebody several times, never more than
    ``most_counts`` in all, for reasons that are not the person's movements: it may be down for a part of the
    window. Whoever is counted *because* of where they come from is counted by a :class:`MoveSensor`.

    :class:`ScheduleError` for a window that does not exist, or noise that several releases share.
    """

    sensor: Sensor | MoveSensor
    first: int
    last: int
    most_counts: int
    mechanism: Mechanism
    miscounts: bool = False

    def __post_init__(self) -> None:
        """Check the window, and a mechanism of one's own."""
        admit(self.mechanism)
        earliest = 1 if isinstance(self.sensor, MoveSensor) else 0
        if not earliest <= self.first <= self.last:
            raise ScheduleError(
                f"a window of {self.sensor.name!r} must begin at step {earliest} or later, not end before it",
                (self.first, self.last),
                "move t ends in step t: the first move is 1" if earliest else "give its first and last step",
            )
        if self.most_counts < 1:
            raise ScheduleError(
                f"most_counts of {self.sensor.name!r} must be at least 1",
                self.most_counts,
                "declare how often the device can count one person in the window",
            )
        if isinstance(self.mechanism, DrawnPerWindow) and not self.mechanism.is_exact:
            raise ScheduleError(
                "releases over windows must have noise of their own",
                self.mechanism.name,
                "use gaussian or raw; noise that releases share is accounted for presence in one step",
            )

    @property
    def earliest_place(self) -> int:
        """The first step whose place the own count depends on."""
        return self.first - isinstance(self.sensor, MoveSensor)

    @cached_property
    def as_step(self) -> SensorRelease | None:
        """The same release in a schedule of steps; None unless it counts presence, once, in one step."""
        is_step = isinstance(self.sensor, Sensor) and self.first == self.last
        if not is_step or (self.miscounts and self.most_counts > 1):
            return None
        assert isinstance(self.sensor, Sensor)
        return SensorRelease(self.sensor, self.mechanism)
