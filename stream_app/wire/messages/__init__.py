"""Every message that enters or leaves, as JSON: one per line or record, with ``"v": 1`` and a ``"type"``.

Unknown fields, types and versions are refused; :mod:`stream_app.wire.parsing` reads messages.
"""

from stream_app.wire.messages.decided import (
    CROWD_SUMS,
    CrowdSums,
    DecisionReason,
    SensorDecision,
    StepDecision,
)
from stream_app.wire.messages.incoming import (
    PRIVATE_REASONS,
    Activation,
    Outcome,
    PlaceReport,
    Reading,
    Readings,
    Reason,
    Rejected,
)
from stream_app.wire.messages.message_fields import (
    MAX_COUNT,
    MAX_STEP,
    MAX_VERSION,
    BaseMessage,
    Finite,
    Name,
    Step,
    Version,
)
from stream_app.wire.messages.person_prior import Person
from stream_app.wire.messages.released import ContinuedStep, SensorValue, StepRelease, TierValue
from stream_app.wire.messages.risks import (
    Attack,
    AttackedPart,
    CrowdSummary,
    OverLimitCounts,
    PersonRisk,
    RiskSummary,
    WorstMoment,
)

__all__ = [
    "CROWD_SUMS",
    "MAX_COUNT",
    "MAX_STEP",
    "MAX_VERSION",
    "PRIVATE_REASONS",
    "Activation",
    "Attack",
    "AttackedPart",
    "BaseMessage",
    "ContinuedStep",
    "CrowdSummary",
    "CrowdSums",
    "DecisionReason",
    "Finite",
    "Name",
    "Outcome",
    "OverLimitCounts",
    "Person",
    "PersonRisk",
    "PlaceReport",
    "Reading",
    "Readings",
    "Reason",
    "Rejected",
    "RiskSummary",
    "SensorDecision",
    "SensorValue",
    "Step",
    "StepDecision",
    "StepRelease",
    "TierValue",
    "Version",
    "WorstMoment",
]
