"""Sensors and small release logs for tests of the ledgers."""

from __future__ import annotations

from accounting.ledgers import ReleaseLog
from models.mechanisms import Mechanism
from models.releases import Sensor, SensorRelease, StepSchedule

A, B, C = Sensor("a", (0,)), Sensor("b", (1,), "north"), Sensor("district", (0, 1, 2))


def log_of(*steps: dict[Sensor, Mechanism]) -> ReleaseLog:
    return ReleaseLog.of(
        StepSchedule(number, tuple(SensorRelease(*pair) for pair in step.items()))
        for number, step in enumerate(steps)
    )
