"""Experiments: each one command that writes figures or tables from real or simulated input."""
