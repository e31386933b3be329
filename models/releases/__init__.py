"""What is released: sensors, schedules of mechanisms, and counts becoming values."""

from models.releases.publish import CountToPublish, PublishedValue, StepInterval, TierValues, publish_step
from models.releases.schedule import Schedule, SensorRelease, StepSchedule
from models.releases.sensors import Counts, Sensor, SensorRegistry
from models.releases.trust import (
    Level,
    TierAssignment,
    TrustGraph,
    assign_tiers,
    exponential_level,
    reciprocal_level,
    stepwise_level,
)
from models.releases.window_release import MoveSensor, WindowRelease

__all__ = [
    "CountToPublish",
    "Counts",
    "Level",
    "MoveSensor",
    "PublishedValue",
    "Schedule",
    "Sensor",
    "SensorRegistry",
    "SensorRelease",
    "StepInterval",
    "StepSchedule",
    "TierAssignment",
    "TierValues",
    "TrustGraph",
    "WindowRelease",
    "assign_tiers",
    "exponential_level",
    "publish_step",
    "reciprocal_level",
    "stepwise_level",
]
