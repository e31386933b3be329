"""A crowd to hide in: what others, whose places an adversary does not know, hide of each count."""

from accounting.exposure.crowd.others import (
    LEVELS,
    CrowdAdversary,
    Crowded,
    Others,
    SensorCrowd,
    StepCrowd,
    at_level,
    check_is_crowd,
    equivalent_sigma,
    in_crowd,
    revealed,
)

__all__ = [
    "LEVELS",
    "CrowdAdversary",
    "Crowded",
    "Others",
    "SensorCrowd",
    "StepCrowd",
    "at_level",
    "check_is_crowd",
    "equivalent_sigma",
    "in_crowd",
    "revealed",
]
