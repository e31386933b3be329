"""What was, or will be, released at each step: sensors with mechanism and parameters, never a count.

Everything the accountants read is here. A :class:`StepSchedule` is a frozen fact; what it costs is
computed from it elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from models.arguments import checked
from models.exceptions import ScheduleError
from models.mechanisms import Gaussian, Mechanism, Raw, admit, all_versions, counted_again
from models.releases.sensors import Sensor

Where = int | tuple[int, ...] | Sensor
"""A sensor, or the location or locations that one counts."""


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class SensorRelease:
    """One sensor active in a step, and the mechanism its count is published with."""

    sensor: Sensor
    mechanism: Mechanism

    def __post_init__(self) -> None:
        """:class:`~models.exceptions.MechanismError` for a mechanism that gives away more than it says."""
        admit(self.mechanism)

    @property
    def accounted(self) -> Mechanism:
        """The mechanism as accountants ask it: of all values that the sensor may publish of the step.

        And of each for as often as the sensor can count one person.
        :class:`~models.exceptions.MechanismError` for noise that several values share, where there may be
        more of either than one; :class:`~models.exceptions.ScheduleError` for a count that is not of one
        step, which has to be brought to single steps first (:mod:`models.releases.fine_steps`).
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
        """The same as differential privacy asks it, of a window as a whole."""
        mechanism, sensor = self.mechanism, self.sensor
        if sensor.corrections and not mechanism.is_exact:
            mechanism = all_versions([mechanism] * (1 + sensor.corrections))
        return counted_again(mechanism, sensor.most_counts)


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class RevealedMove:
    """What a step reveals of the move into it: with this noise, whether it was one of those counted.

    ``counted`` has pairs of sets of locations, all moves from one to the other; each move in one at most.
    """

    counted: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    mechanism: Mechanism


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class RevealedAmount:
    """At most so much (nats) about whoever can be at one of these places, of this step and those before."""

    locations: tuple[int, ...]
    nats: float


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class StepSchedule:
    """All that is released in one step, in the order of announcement; empty for a step without releases.

    ``revealed`` bounds the information of counts of windows in the form that accounts know, beside the places
    that these show; None where what the releases show says it.
    """

    step: int
    releases: tuple[SensorRelease, ...] = ()
    revealed: tuple[RevealedMove | RevealedAmount, ...] | None = None

    def __post_init__(self) -> None:
        """:class:`~models.exceptions.ScheduleError` for a step before the first."""
        if self.step < 0:
            raise ScheduleError("a step must be 0 or more", self.step, "count steps from 0")


@checked(ScheduleError)
@dataclass(frozen=True, slots=True)
class Schedule:
    """Consecutive steps, the first of them in slot ``first_slot`` of the priors' cycle."""

    steps: tuple[StepSchedule, ...]
    first_slot: int = 0

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
    """Steps, or the sensors of one; not the letters of a text."""
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
