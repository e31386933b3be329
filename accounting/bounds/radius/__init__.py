"""Ceilings for people whose habits are not quite the prior's: within a radius of it."""

from accounting.bounds.radius.horizon_within import HorizonWithin, horizon_within
from accounting.bounds.radius.radius import Radius, RadiusCeiling

__all__ = ["HorizonWithin", "Radius", "RadiusCeiling", "horizon_within"]
