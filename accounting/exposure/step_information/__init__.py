"""What one step reveals about one person: observations, step information, renewals, contraction."""

from accounting.exposure.step_information.observation import (
    StepObservation,
    nothing_seen,
    observe,
    view_of,
)
from accounting.exposure.step_information.sensor_information import SensorInformation

__all__ = ["SensorInformation", "StepObservation", "nothing_seen", "observe", "view_of"]
