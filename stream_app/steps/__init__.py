"""The walk of a reading: intake, open steps, the engine, publication."""

# mypy: implicit-reexport
# ruff: noqa: F401

from stream_app.steps.accounts import Accounts, PeopleAccounts
from stream_app.steps.devices import DeviceWatch
from stream_app.steps.engine import (
    ClosedStep,
    Publisher,
    StepEngine,
    release_of,
    revised_releases,
)
from stream_app.steps.intake import Intake, refuse_waiting
from stream_app.steps.intervals import Intervals
from stream_app.steps.log import Log, Results, carried, charge_rest, resume
from stream_app.steps.plan import (
    KeyedPublisher,
    Plan,
    TierContinuation,
    first_slot_of,
    follow_schedule,
    is_activations,
    make_plan,
    plan_of,
    public_release,
    release_for_tier,
    tier_file,
    with_continued,
    with_windows,
)
from stream_app.steps.position import Position, Spent
from stream_app.steps.risk_output import (
    Comparison,
    JsonlRisks,
    ParquetRisks,
    RiskRecords,
    RiskWriter,
    condition_of,
    crowd_message,
    sampled_together,
    snapshot_basis,
    summary_message,
    together,
)
from stream_app.steps.ticks import Backlog, StepClock
from stream_app.steps.totals import (
    Total,
    Totals,
    TotalsFile,
    TotalsWithReleases,
    complete_totals,
    declared_totals,
    require_sensors,
)
from stream_app.steps.window import ClosedCounts, OpenStep, Origin, RevisedCount, StepWindow, first_free_step
