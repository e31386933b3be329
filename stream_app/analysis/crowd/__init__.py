"""Counts in a crowd: ceilings if nobody knows where the others are, and where raw counts are safe."""

from stream_app.analysis.crowd.planned_crowd import CrowdSoFar, HiddenCount, PlannedCrowd, plan_in_crowd

__all__ = ["CrowdSoFar", "HiddenCount", "PlannedCrowd", "plan_in_crowd"]
