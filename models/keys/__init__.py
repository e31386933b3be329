"""Secrets: the noise key, pseudonyms, and the random words drawn from them."""

from models.keys.noise_key import NoiseKey, batch_message, continuation_message, reading_message
from models.keys.pseudonym import Pseudonymiser
from models.keys.snapshot_key import SnapshotKey
from models.keys.uniform_stream import UniformStream
from models.keys.word_expansion import expand_words

__all__ = [
    "NoiseKey",
    "Pseudonymiser",
    "SnapshotKey",
    "UniformStream",
    "batch_message",
    "continuation_message",
    "expand_words",
    "reading_message",
]
