"""What is released: sensors, schedules of mechanisms, and counts becoming values."""

from models.releases.fine_steps import (
    MoveSensor,
    WindowRelease,
    check_window_ends,
    in_single_steps,
    parts_of,
    window_release,
    without_coins,
)
from models.releases.publish import CountToPublish, PublishedValue, StepInterval, TierValues, publish_step
from models.releases.schedule import (
    CountingWindow,
    Counts,
    RevealedAmount,
    RevealedMove,
    Schedule,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
)
from models.releases.trust import (
    Level,
    TierAssignment,
    TrustGraph,
    assign_tiers,
    exponential_level,
    reciprocal_level,
    stepwise_level,
)

__all__ = [
    "CountToPublish",
    "CountingWindow",
    "Counts",
    "Level",
    "MoveSensor",
    "PublishedValue",
    "RevealedAmount",
    "RevealedMove",
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
    "check_window_ends",
    "exponential_level",
    "in_single_steps",
    "parts_of",
    "publish_step",
    "reciprocal_level",
    "stepwise_level",
    "window_release",
    "without_coins",
]
