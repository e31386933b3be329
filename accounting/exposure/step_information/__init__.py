"""What one step reveals about one person: observations, step information, renewals, contraction."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.exposure.step_information.likelihood_levels import (
    followed_by,
    is_whole,
    nothing_seen_for,
    seen_exactly,
    seen_release,
    seen_step,
)
from accounting.exposure.step_information.observation import StepObservation, nothing_seen, observe, view_of
from accounting.exposure.step_information.sensor_information import SensorInformation
