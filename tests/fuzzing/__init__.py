"""Bytes from outside, mutated: whatever they are, they become a value or a sentence."""
