"""A crowd to hide in: what others, whose places an adversary does not know, hide of each count."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.exposure.crowd.others import (
    LEVELS,
    CrowdAdversary,
    Crowded,
    HidingCrowd,
    Others,
    SensorCrowd,
    StepCrowd,
    Variances,
    at_level,
    counts_of,
    crowds_by_sensor,
    hidden_count,
    in_crowd,
    revealed,
    variance_of_window,
    variances_at,
    with_strangers,
)
from accounting.exposure.crowd.strangers import Strangers
