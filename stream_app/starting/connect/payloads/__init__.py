"""Payloads in JSON, as counters and brokers send them, understood by a declared mapping."""

from stream_app.starting.connect.payloads.payload_map import MOST_RECORDS, PayloadMap, SensorCount
from stream_app.starting.connect.payloads.payload_times import iso_duration

__all__ = ["MOST_RECORDS", "PayloadMap", "SensorCount", "iso_duration"]
