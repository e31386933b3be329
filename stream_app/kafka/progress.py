"""Where the release worker continues: the record it writes with every transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stream_app.kafka.exceptions import LogError
from stream_app.messages import Step, Version

KEY = b"release"


class Progress(BaseModel):
    """Everything up to here is durable.

    ``offsets`` are the next records of each input topic, ``window`` the open steps with their counts: secret.
    ``basis`` says what the log was begun with, in fingerprints.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Version = 1
    type: Literal["progress"] = "progress"
    next_step: Step = 0
    offsets: Mapping[str, int] = Field(default_factory=dict)
    window: Mapping[str, Any] = Field(default_factory=dict)
    basis: Mapping[str, Any] = Field(default_factory=dict)

    def record(self) -> bytes:
        """The value of the record."""
        return self.model_dump_json().encode()


def parse_progress(value: bytes | None, topic: str) -> Progress:
    """What a record says; a new beginning where there is none."""
    if value is None:
        return Progress()
    try:
        return Progress.model_validate_json(value)
    except ValidationError as error:
        raise LogError(
            f"the last record of {topic} must be a progress of this version",
            error.errors(include_url=False, include_input=False)[0]["msg"],
            "run the version that wrote it, or begin a deployment with another kafka.prefix",
        ) from error
