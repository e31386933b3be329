"""Bounds on raw and noised counts that follow which steps the person was counted in."""
