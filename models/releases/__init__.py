"""What is released: sensors, schedules of mechanisms, and counts becoming values."""

# mypy: implicit-reexport
# ruff: noqa: F401

from models.releases.fine_steps import (
    MoveSensor,
    PartOfCount,
    WindowRelease,
    check_window_ends,
    counting_in,
    counts_in,
    in_single_steps,
    most_counting,
    parts_of,
    published_window,
    revealed_of_window,
    schedule_in_single_steps,
    shown_places,
    together,
    window_release,
    without_coins,
    without_count,
)
from models.releases.publish import CountToPublish, PublishedValue, StepInterval, TierValues, publish_step
from models.releases.schedule import (
    CountingWindow,
    Counts,
    MoveEnd,
    OpenWindow,
    PerDay,
    RevealedAmount,
    RevealedMove,
    Schedule,
    Sensor,
    SensorRegistry,
    SensorRelease,
    ShownPlaces,
    StepParts,
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
