"""Bounds on counts over windows of steps: passages, presence summed, devices that count somebody again."""

from accounting.bounds.windows.certified_windows import WindowRisk, window_risk

__all__ = ["WindowRisk", "window_risk"]
