"""Where the release worker continues: the records it writes with every transaction.

One says the position, one for each open step what is known of it, so that no record grows with the number of
open steps. The topic is compacted: the last record of each key counts, and none of a step that was forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from accounting.ledgers import PrivacyAccount
from stream_app.exceptions import restoring
from stream_app.kafka.broker.kafka_exceptions import LogError
from stream_app.steps import StepWindow
from stream_app.wire import MAX_COUNT, Name, Step, Version

KEY = b"release"
_STEP_KEY = b"step-"
_Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class OpenStepRecord(BaseModel):
    """What is known of one open step, as :meth:`stream_app.steps.window.StepWindow.save` gives it: secret."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    step: Step
    sensors: tuple[Name, ...] | None
    counts: Mapping[Name, _Count]
    waiting: Mapping[Name, tuple[_Count, str]]
    corrected: Mapping[Name, tuple[_Count, ...]] = Field(default_factory=dict)


class Progress(BaseModel):
    """Everything up to here is durable.

    ``offsets`` are the next records of each input topic, ``window`` says where the open steps begin,
    ``basis`` what the log was begun with, in fingerprints. ``account`` is the privacy spent by all steps
    before ``next_step``, ``decided`` the fingerprint of the last of them: with it the record is held against
    the log without reading it. Logs of earlier versions have neither.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Version = 1
    type: Literal["progress"] = "progress"
    next_step: Step = 0
    offsets: Mapping[str, int] = Field(default_factory=dict)
    window: Mapping[str, Any] = Field(default_factory=dict)
    basis: Mapping[str, Any] = Field(default_factory=dict)
    account: Mapping[str, Any] = Field(default_factory=dict)
    decided: str | None = None

    @field_validator("account")
    @classmethod
    def _is_account(cls, account: Mapping[str, Any]) -> Mapping[str, Any]:
        if account:
            PrivacyAccount.load(account)
        return account

    @field_validator("window")
    @classmethod
    def _is_window(cls, window: Mapping[str, Any]) -> Mapping[str, Any]:
        if window:
            StepWindow(grace=0).load({"steps": (), **window})
        return window

    def record(self) -> bytes:
        """The value of the record."""
        return self.model_dump_json().encode()


class Restored(BaseModel):
    """The position and the open steps, as the last transaction left them."""

    model_config = ConfigDict(frozen=True)

    progress: Progress = Progress()
    steps: tuple[OpenStepRecord, ...] = ()

    def window(self) -> dict[str, Any]:
        """What :meth:`stream_app.steps.window.StepWindow.load` continues from; empty at a new beginning."""
        window = dict(self.progress.window)
        if window:
            known = window.get("steps", ())  # versions before this one kept all steps in one record
            window["steps"] = [*known, *(step.model_dump() for step in self.steps)]
        return window


def step_records(changed: Mapping[int, Mapping[str, Any] | None]) -> dict[bytes, bytes | None]:
    """Key and value of each step that has changed; no value where a step was forgotten."""
    return {
        _STEP_KEY + str(step).encode(): None if saved is None else _json(saved)
        for step, saved in changed.items()
    }


def restore(
    latest: Mapping[bytes | None, bytes | None], topic: str, kind: type[Progress] = Progress
) -> Restored:
    """What the last record of each key says; a new beginning where there is none."""
    try:
        progress = latest.get(KEY)
        return Restored(
            progress=kind() if progress is None else kind.model_validate_json(progress),
            steps=tuple(
                OpenStepRecord.model_validate_json(value)
                for key, value in latest.items()
                if value is not None and key is not None and key.startswith(_STEP_KEY)
            ),
        )
    except ValidationError as error:
        raise LogError(
            f"the last records of {topic} must be a progress of this version",
            error.errors(include_url=False, include_input=False)[0]["msg"],
            f"run the version that wrote it, or {restoring(topic)}",
        ) from error


def _json(saved: Mapping[str, Any]) -> bytes:
    return json.dumps(saved, separators=(",", ":")).encode()
