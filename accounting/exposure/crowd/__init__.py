"""A crowd to hide in: what others, whose places an adversary does not know, hide of each count."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.exposure.crowd.others import (
    LEVELS,
    CrowdAdversary,
    Crowded,
    Others,
    SensorCrowd,
    StepCrowd,
    at_level,
    equivalent_sigma,
    in_crowd,
    revealed,
    with_strangers,
)
from accounting.exposure.crowd.strangers import Strangers
