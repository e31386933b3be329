"""Ceilings for people whose habits are not quite the prior's: within a radius of it."""

from accounting.bounds.radius.for_everybody import (
    bound_for,
    budget_within,
    ceiling_within,
    ceilings_within,
)
from accounting.bounds.radius.horizon_within import HorizonWithin, horizon_within
from accounting.bounds.radius.radius import Radius, RadiusCeiling

__all__ = [
    "HorizonWithin",
    "Radius",
    "RadiusCeiling",
    "bound_for",
    "budget_within",
    "ceiling_within",
    "ceilings_within",
    "horizon_within",
]
