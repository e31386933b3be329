"""Bounds on success under the prior, raised for many people at once, and limits lowered to match."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius.raised_kernel import raise_each
from accounting.settings import RiskBudget

_HALVINGS = 60


def ceilings_within(nats: float, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each bound (N,), raised to everybody within so many nats; as :class:`Radius` raises a single one."""
    if nats == 0.0:
        return bounds
    raised = np.empty(bounds.size)
    raise_each(nats, np.ascontiguousarray(bounds), raised)
    return raised


def ceiling_within(nats: float, bound: float) -> float:
    """The same of one bound."""
    return float(ceilings_within(nats, np.array([bound]))[0])


def bound_for(nats: float, level: float) -> float:
    """The largest bound under the prior that is raised to no more than a level; 0 where none is."""
    if nats == 0.0 or level <= 0.0 or level >= 1.0:
        return level
    low, high = 0.0, level
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if ceiling_within(nats, middle) <= level:
            low = middle
        else:
            high = middle
    return low


def budget_within(nats: float, limit: RiskBudget) -> RiskBudget:
    """The budget on bounds under the prior that keeps this one within so many nats.

    What releases may add is limited under the prior: raised ceilings have no *added*. Who is over by habit
    alone is another question, asked of the guess under the prior and the limit as it was set.
    """
    return limit if limit.risk is None else replace(limit, risk=bound_for(nats, limit.risk))
