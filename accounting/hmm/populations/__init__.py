"""Likelihoods and most likely paths of many people at once."""
