"""Payloads in JSON, as counters and brokers send them, understood by a declared mapping."""

from stream_app.starting.connect.payloads.payload_map import MOST_RECORDS, PayloadMap, SensorCount

__all__ = ["MOST_RECORDS", "PayloadMap", "SensorCount"]
