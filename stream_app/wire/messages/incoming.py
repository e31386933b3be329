"""What comes in: activations, readings, volunteers' true places; and dead letters, what was refused of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from stream_app.wire.messages.message_fields import (
    MAX_COUNT,
    BaseMessage,
    Name,
    Names,
    ReadingVersion,
    Step,
    Version,
)


class Reason(StrEnum):
    """Why a message went to the dead letters; a fixed list, so that it can be a metrics label.

    Those in :data:`PRIVATE_REASONS` are none.
    """

    NOT_JSON = "not_json"
    NOT_CSV = "not_csv"
    TOO_LONG = "too_long"
    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_FIELD = "unknown_field"
    MISSING_FIELD = "missing_field"
    INVALID_FIELD = "invalid_field"
    UNKNOWN_SENSOR = "unknown_sensor"
    NEGATIVE_COUNT = "negative_count"
    COUNT_NOT_INTEGER = "count_not_integer"
    COUNT_TOO_LARGE = "count_too_large"
    NO_ACTIVATION = "no_activation"
    CONTRADICTING_READING = "contradicting_reading"
    LATE_READING = "late_reading"
    NOT_OVER = "not_over"
    UNEXPECTED_VERSION = "unexpected_version"
    TOO_FAR_AHEAD = "too_far_ahead"
    TOO_MANY_WAITING = "too_many_waiting"
    REPEATED_SENSOR = "repeated_sensor"
    NO_WINDOW_ENDS = "no_window_ends"
    CONTRADICTING_ACTIVATION = "contradicting_activation"
    LATE_ACTIVATION = "late_activation"
    RECORDS_LOST = "records_lost"


PRIVATE_REASONS = frozenset({Reason.CONTRADICTING_READING})
"""Reasons that depend on counts: they stand in the dead letters, and in nothing that others see.

Who may send readings and see which of them were repeated and which contradicted would read the count that was
sent before, guess by guess. So metrics, page, sums of a run and what follows of them know a reading that was
sent again, whatever it says.
"""


class Outcome(StrEnum):
    """What became of one reading; a duplicate is one that was sent before, with this count or another."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"


class Activation(BaseMessage):
    """The schedule of one step: which sensors will count, announced before any count."""

    v: Version
    type: Literal["activation"] = "activation"
    step: Step
    sensors: Names


class Reading(BaseMessage):
    """One sensor's count of one step; ``version`` 2 and above for a corrected one, of a closed step."""

    v: Version
    type: Literal["reading"] = "reading"
    step: Step
    sensor: Name
    count: Annotated[int, Field(ge=0, le=MAX_COUNT)]
    version: ReadingVersion | None = None

    @property
    def which(self) -> int:
        """The version's number; the first is 1."""
        return self.version or 1


class Readings(BaseMessage):
    """Counts of one step by sensor; each is taken or refused as a reading of its own would be.

    So the counts themselves are checked by the intake, one by one: a wrong one does not cost the others.
    ``version`` holds for all of them.
    """

    v: Version
    type: Literal["readings"] = "readings"
    step: Step
    counts: Mapping[str, Any]
    version: ReadingVersion | None = None

    @property
    def which(self) -> int:
        """The version's number; the first is 1."""
        return self.version or 1

    def single(self, sensor: str) -> dict[str, object]:
        """The fields of one sensor's reading."""
        version = {} if self.version is None else {"version": self.version}
        fields = {"step": self.step, "sensor": sensor, "count": self.counts[sensor]}
        return {"v": 1, "type": "reading", **fields, **version}


class PlaceReport(BaseMessage):
    """Where a volunteer truly was at a step: for the operator's own file, never published."""

    v: Version
    type: Literal["place"] = "place"
    step: Step
    person: Name
    location: Name


class Rejected(BaseMessage):
    """A dead letter: nothing is dropped silently."""

    type: Literal["rejected"] = "rejected"
    source: str
    payload: str
    reason: Annotated[Reason, Field(strict=False)]
    hint: str
