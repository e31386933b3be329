"""Recursions on a hidden Markov chain: forward, max-product, posterior, decoding of a trace."""
