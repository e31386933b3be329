"""What was decided of each step before any count was looked at: mechanisms, and why these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from accounting.decisions import BudgetReason
from stream_app.wire.messages.message_fields import BaseMessage, Finite, Name, Step

CROWD_SUMS = 15
CrowdSums = Annotated[
    tuple[Annotated[int, Field(ge=-(2**63), lt=2**63)], ...],
    Field(min_length=CROWD_SUMS, max_length=CROWD_SUMS),
]
"""What a count hides among, in units of 1 / 2^32: see ``accounting.exposure.crowd.SensorCrowd``."""


class SensorDecision(BaseModel):
    """The mechanism decided for one sensor of a step: what is accounted; ``crowd`` where others hide it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    sensor: Name
    mechanism: Name
    parameters: Mapping[str, Finite] = Field(default_factory=dict)
    crowd: CrowdSums | None = None


class DecisionReason(BaseModel):
    """Why a step is released as it is, under a risk budget.

    Counts of people: ``over`` the limit because of releases, now or in the silence after them, ``natural``
    by habit alone in this step's horizon, ``allowed`` to be over. ``cleared`` people are within the limit by
    the refined bound only. ``adversary`` is ``crowd`` where the limit is on ceilings against that one.
    Logs and workers of earlier versions know ``reason`` as ``because`` and ``cleared`` as ``dear``.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_by_name=True, serialize_by_alias=True
    )

    reason: Annotated[BudgetReason, Field(alias="because", strict=False)]
    people: int
    allowed: int
    natural: int
    over: int
    cleared: Annotated[int, Field(alias="dear")]
    rounds: int
    adversary: Literal["crowd"] | None = None


class StepDecision(BaseMessage):
    """The internal twin of a release: what was decided from the schedule, before any count was looked at.

    ``why`` stands where a risk budget decided, ``deployment`` on Kafka: the digest of what accounts it.
    """

    type: Literal["decision"] = "decision"
    step: Step
    decisions: tuple[SensorDecision, ...]
    why: DecisionReason | None = None
    deployment: Name | None = None
