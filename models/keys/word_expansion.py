"""Several draws from one: 128 keyed uniform bits stretched into as many as a mechanism needs."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from models.keys.canonical_bytes import text_bytes

_WORDS_BYTES = 16
_EXPANSION = text_bytes("tallyguard expansion 1")


def expand_words(words: NDArray[np.uint64], draws: int) -> NDArray[np.uint64]:
    """``draws`` times 128 bits (n, draws, 2) for each of ``words`` (n, 2), by SHAKE-256 (FIPS 202).

    The first draws do not depend on how many are asked for. Uniform and independent as far as SHAKE-256 with
    a secret beginning is a pseudo-random function.
    """
    count = words.shape[0]
    seeds = words.astype(">u8").tobytes()
    stretched = bytearray()
    for start in range(0, count * _WORDS_BYTES, _WORDS_BYTES):
        seed = seeds[start : start + _WORDS_BYTES]
        stretched += hashlib.shake_256(_EXPANSION + seed).digest(draws * _WORDS_BYTES)
    return np.frombuffer(stretched, dtype=">u8").astype(np.uint64).reshape(count, draws, 2)
