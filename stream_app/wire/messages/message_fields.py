"""What fields of messages may hold, and what all messages share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_COUNT = 2**40
"""The largest count a reading may carry: far above any crowd, far below what 64-bit noise can overflow."""

MAX_STEP = 2**53
"""The largest step number that every JSON reader keeps exact."""

MAX_INDEX = 2**31 - 1
"""The largest index of a location."""


def _a_share(text: str) -> str:
    """A threshold or a quantile as JSON names it, "0.05"."""
    if not 0.0 <= float(text) <= 1.0:
        raise ValueError("must be a number from 0 to 1")
    return text


MAX_VERSION = 1000  # of one sensor's count of one step
ReadingVersion = Annotated[int, Field(ge=1, le=MAX_VERSION)]
Version = Annotated[int, Field(ge=1, le=1)]
Step = Annotated[int, Field(ge=0, le=MAX_STEP)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
FIRST_FAULT = Field(fail_fast=True)  # of a long list: a million faults would take a gigabyte to report
Finite = Annotated[float, Field(allow_inf_nan=False)]
Level = Annotated[str, Field(pattern=r"^[0-9][0-9.e-]{0,30}$"), AfterValidator(_a_share)]
Index = Annotated[int, Field(ge=0, le=MAX_INDEX)]
Names = Annotated[tuple[Name, ...], FIRST_FAULT]
Numbers = Annotated[tuple[Finite, ...], FIRST_FAULT]
Indices = Annotated[tuple[Index, ...], FIRST_FAULT]


class BaseMessage(BaseModel):
    """What all messages share, and records between workers too: frozen, strict, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Version = 1

    def line(self) -> bytes:
        """The message as one line of ASCII JSON (no separator a reader could take for a line end)."""
        return self.model_dump_json(exclude_none=True, ensure_ascii=True).encode() + b"\n"
