"""Noise in exact integers: laws, samplers, tiers of one count, and what a noised count reveals."""
