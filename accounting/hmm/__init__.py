"""Forward, Viterbi and posterior recursions of hidden Markov chains, for one person or a population."""

from accounting.hmm.decoding import Decoded, Filtering, decode

__all__ = ["Decoded", "Filtering", "decode"]
