"""What was, or will be, released at each step: sensors with mechanism and parameters, never a count.

Everything the accountants read is here. A :class:`StepSchedule` is a frozen fact; what it costs is an
opinion computed from it elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.mechanisms import Mechanism
from models.sensors import Sensor


@dataclass(frozen=True, slots=True)
class SensorRelease:
    """One sensor active in a step, and the mechanism its count is published with."""

    sensor: Sensor
    mechanism: Mechanism


@dataclass(frozen=True, slots=True)
class StepSchedule:
    """All that is released in one step, in the order of announcement; empty for a step without releases."""

    step: int
    releases: tuple[SensorRelease, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """Consecutive steps, the first of them in slot ``first_slot`` of the priors' cycle."""

    steps: tuple[StepSchedule, ...]
    first_slot: int = 0
