"""Reads any message of the contract, as from an output file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from stream_app.wire import (
    Activation,
    PersonMessage,
    Reading,
    Readings,
    Rejected,
    RiskSummary,
    StepDecision,
    StepRelease,
)
from stream_app.wire.messages import PersonRisk

_Input = Activation | Reading | Readings
_Output = StepRelease | StepDecision | PersonMessage | PersonRisk | RiskSummary | Rejected
_ANY: TypeAdapter[Any] = TypeAdapter(Annotated[_Input | _Output, Field(discriminator="type")])


def parse_any(line: bytes) -> Any:
    """The message in a line; raises pydantic's ``ValidationError``."""
    return _ANY.validate_json(line)
