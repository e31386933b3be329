"""Which mechanism for which sensor: decided from schedule, priors and settings, never from a count.

So a decision says nothing about anybody and needs no accounting of its own.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from stream_app.steps.policy.policies import (
    MOST_SUMS_AHEAD,
    BudgetPolicy,
    Decided,
    FixedPolicy,
    Policy,
    ScheduledPolicy,
    announced_sensors,
    designs_of,
    policy_from,
    settled,
    steps_asked,
    undecided_step,
)
