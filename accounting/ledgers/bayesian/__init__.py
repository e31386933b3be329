"""Bayesian differential privacy: what correlated people or steps cost together."""
