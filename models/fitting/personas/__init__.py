"""Personas: ways of living made from what is known of all people together, never from anybody's traces."""

from models.fitting.personas.calibration import Calibration, MissedCell, calibrate
from models.fitting.personas.day_types import HOME, WORK, Activity, DayType, lazy_moves
from models.fitting.personas.flows import Flows, MeanCounts, expected_flows
from models.fitting.personas.persona_population import (
    NO_WORK,
    PLACES_AN_ACTIVITY,
    Classes,
    HomeWork,
    Surroundings,
    Zones,
    classes_of,
    grouped,
    own_places,
    personas,
    plane_km,
)

__all__ = [
    "HOME",
    "NO_WORK",
    "PLACES_AN_ACTIVITY",
    "WORK",
    "Activity",
    "Calibration",
    "Classes",
    "DayType",
    "Flows",
    "HomeWork",
    "MeanCounts",
    "MissedCell",
    "Surroundings",
    "Zones",
    "calibrate",
    "classes_of",
    "expected_flows",
    "grouped",
    "lazy_moves",
    "own_places",
    "personas",
    "plane_km",
]
