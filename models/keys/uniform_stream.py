"""As many keyed random numbers as a process needs, from one secret beginning."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from models.exceptions import NoiseKeyError
from models.keys.canonical_bytes import integer_bytes, text_bytes

_STREAM = text_bytes("tallyguard stream 1")
_BLOCK_BYTES = 512
_MIN_SEED_BYTES = 16


class UniformStream:
    """Independent uniform numbers, a function of ``seed`` alone, by SHAKE-256 (FIPS 202) in counter mode.

    ``seed`` is secret: 128 bits of :meth:`models.keys.noise_key.NoiseKey.uniform_words` or more, of a message
    that names the value they protect. :class:`NoiseKeyError` for less.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) < _MIN_SEED_BYTES:
            raise NoiseKeyError(
                f"the beginning of a noise stream must have {_MIN_SEED_BYTES} bytes or more",
                len(seed),
                "take it from the noise key",
            )
        self._beginning = _STREAM + integer_bytes(len(seed)) + seed
        self._blocks = 0
        self._buffer = b""

    def uniforms(self, count: int) -> NDArray[np.float64]:
        """Numbers (count,) strictly between 0 and 1, multiples of 2^-53 moved by half of one."""
        while len(self._buffer) < 8 * count:
            block = hashlib.shake_256(self._beginning + integer_bytes(self._blocks))
            self._buffer += block.digest(_BLOCK_BYTES)
            self._blocks += 1
        taken, self._buffer = self._buffer[: 8 * count], self._buffer[8 * count :]
        words = np.frombuffer(taken, dtype=">u8").astype(np.uint64)
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def exponential(self) -> float:
        """Exponential with mean 1."""
        return -math.log(float(self.uniforms(1)[0]))

    def normals(self, count: int) -> NDArray[np.float64]:
        """Independent standard normal numbers (count,)."""
        return np.asarray(ndtri(self.uniforms(count)), dtype=np.float64)
