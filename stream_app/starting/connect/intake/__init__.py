"""Payloads of brokers and services, which are taken or become dead letters."""

from stream_app.starting.connect.intake.payload_intake import (
    Payload,
    PayloadIntake,
    open_dead_letters,
    open_intake,
)

__all__ = ["Payload", "PayloadIntake", "open_dead_letters", "open_intake"]
