"""Ceilings for people whose habits are not quite the prior's: within a radius of it."""

from accounting.bounds.radius.radius import (
    HorizonWithin,
    Radius,
    RadiusCeiling,
    bound_for,
    budget_within,
    ceiling_within,
    ceilings_within,
    horizon_within,
)

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
