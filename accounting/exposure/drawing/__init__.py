"""Drawn trajectories and what is published of them, for simulated adversaries and bounds by sampling."""

from accounting.exposure.drawing.release_tables import released_steps

__all__ = ["released_steps"]
