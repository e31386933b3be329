"""Likelihoods and most likely paths of many people at once."""

from accounting.hmm.populations.decoding import Decoded, Filtering, decode

__all__ = ["Decoded", "Filtering", "decode"]
