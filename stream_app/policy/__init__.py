"""Which mechanism for which sensor: decided from schedule, priors and settings, never from a count.

So a decision says nothing about anybody and needs no accounting of its own.
"""

from stream_app.policy.base import Decided, Policy, ScheduledPolicy, announced_sensors
from stream_app.policy.budget import BudgetPolicy
from stream_app.policy.fixed import FixedPolicy
from stream_app.policy.from_settings import limit_of, policy_from

__all__ = [
    "BudgetPolicy",
    "Decided",
    "FixedPolicy",
    "Policy",
    "ScheduledPolicy",
    "announced_sensors",
    "limit_of",
    "policy_from",
]
