"""Kernels that draw trajectories and noise and try the attacks on them."""
