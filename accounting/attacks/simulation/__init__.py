"""Kernels that draw trajectories and noise and try the attacks on them."""

from accounting.attacks.simulation.threads import Kernel, count_successes

__all__ = ["Kernel", "count_successes"]
