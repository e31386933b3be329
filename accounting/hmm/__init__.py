"""Forward, Viterbi and posterior recursions of hidden Markov chains, for one person or a population."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.hmm.decoding import Decoded, Filtering, decode
