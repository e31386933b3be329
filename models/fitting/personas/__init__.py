"""Personas: ways of living made from what is known of all people together, never from anybody's traces."""

from models.fitting.personas.calibration import Calibration, MissedCell, calibrate
from models.fitting.personas.flows import Flows, MeanCounts, expected_flows

__all__ = ["Calibration", "Flows", "MeanCounts", "MissedCell", "calibrate", "expected_flows"]
