"""A service of OGC SensorThings 1.1: counts from its datastreams, and releases to datastreams of our own."""

from stream_app.starting.connect.sensorthings.exchanging import Way, exchange
from stream_app.starting.connect.sensorthings.observations_in import (
    ObservationReader,
    Observed,
    observation_map,
)
from stream_app.starting.connect.sensorthings.observations_out import ObservationWriter, observation
from stream_app.starting.connect.sensorthings.phenomenon_time import Interval
from stream_app.starting.connect.sensorthings.service import SensorThings, UnknownOutcomeError, entity

__all__ = [
    "Interval",
    "ObservationReader",
    "ObservationWriter",
    "Observed",
    "SensorThings",
    "UnknownOutcomeError",
    "Way",
    "entity",
    "exchange",
    "observation",
    "observation_map",
]
