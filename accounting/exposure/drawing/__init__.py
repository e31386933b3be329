"""Drawn trajectories and what is published of them, for simulated adversaries and bounds by sampling."""

from accounting.exposure.drawing.release_tables import noise_values, released_steps

__all__ = ["noise_values", "released_steps"]
