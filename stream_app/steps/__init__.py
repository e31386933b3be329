"""The walk of a reading: intake, open steps, the engine, publication."""

from stream_app.steps.accounts import Accounts
from stream_app.steps.engine import (
    Accountant,
    Adversary,
    Beside,
    ClosedStep,
    Crowd,
    Publisher,
    RiskRecords,
    StepEngine,
    StoredStep,
    release_of,
    risk_records,
)
from stream_app.steps.intake import Intake, refuse_waiting
from stream_app.steps.plan import (
    Plan,
    first_slot_of,
    follow_schedule,
    is_activations,
    make_plan,
    new_accounts,
    policy_of_schedule,
    refuse_late_tiers,
    tiers_of,
)
from stream_app.steps.publisher import KeyedPublisher
from stream_app.steps.risk_output import (
    JsonlRisks,
    ParquetRisks,
    RiskFormat,
    RiskWriter,
    crowd_message,
    summary_message,
    with_worst,
)
from stream_app.steps.saved_basis import snapshot_basis
from stream_app.steps.ticks import Backlog, StepClock
from stream_app.steps.tier_continuation import TierContinuation, with_continued
from stream_app.steps.tier_views import public_release, release_for_tier, tier_file
from stream_app.steps.window import ClosedCounts, OpenStep, Origin, StepWindow

__all__ = [
    "Accountant",
    "Accounts",
    "Adversary",
    "Backlog",
    "Beside",
    "ClosedCounts",
    "ClosedStep",
    "Crowd",
    "Intake",
    "JsonlRisks",
    "KeyedPublisher",
    "OpenStep",
    "Origin",
    "ParquetRisks",
    "Plan",
    "Publisher",
    "RiskFormat",
    "RiskRecords",
    "RiskWriter",
    "StepClock",
    "StepEngine",
    "StepWindow",
    "StoredStep",
    "TierContinuation",
    "crowd_message",
    "first_slot_of",
    "follow_schedule",
    "is_activations",
    "make_plan",
    "new_accounts",
    "policy_of_schedule",
    "public_release",
    "refuse_late_tiers",
    "refuse_waiting",
    "release_for_tier",
    "release_of",
    "risk_records",
    "snapshot_basis",
    "summary_message",
    "tier_file",
    "tiers_of",
    "with_continued",
    "with_worst",
]
