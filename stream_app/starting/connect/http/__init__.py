"""Payloads that counters and context brokers send over HTTP."""

from stream_app.starting.connect.http.receiver import Receiver

__all__ = ["Receiver"]
