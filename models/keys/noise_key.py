"""The secret noise key: the same reading always gets the same noise, and nobody else can compute it.

Uniform bits are HMAC-SHA256 of a canonical message, so delivering a reading twice does not draw noise twice.
Keys ratchet one way: the key of an epoch is the HMAC of its predecessor's, so a stolen key opens no epoch
before its own once the older ones are erased. All guarantees hold as far as HMAC-SHA256 is a pseudo-random
function.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.exceptions import NoiseKeyError
from models.keys.canonical_bytes import double_bytes, integer_bytes, parameter_bytes, text_bytes
from models.keys.secret_files import (
    MIN_SECRET_BYTES,
    check_length,
    create_secret_file,
    parse_secret,
    read_secret_file,
    replace_secret_file,
)

_WHAT = "noise key"
_MOST_EPOCH_DIGITS = 18
_WORDS_BYTES = 16  # 128 bits a draw
# What a hash is taken for is its first field, so that no two uses of a key can meet.
_NOISE = text_bytes("tallyguard noise 1")
_EPOCH = text_bytes("tallyguard epoch 1")
_REGION = text_bytes("tallyguard region 1")
_FINGERPRINT = text_bytes("tallyguard fingerprint 1")


class NoiseKey:
    """A secret of at least 32 bytes and the number of its epoch; shown masked.

    Text form, for files and environment: hexadecimal, after the line ``epoch N`` unless ``N`` is 0.
    """

    __slots__ = ("_secret", "epoch")

    def __init__(self, secret: bytes, epoch: int = 0) -> None:
        check_length(secret, _WHAT, NoiseKeyError)
        if epoch < 0:
            raise NoiseKeyError("the noise key's epoch must be 0 or more", epoch, "number epochs from 0")
        self._secret = bytearray(secret)
        self.epoch = epoch

    @classmethod
    def generate(cls) -> NoiseKey:
        """A new random key for epoch 0."""
        return cls(secrets.token_bytes(MIN_SECRET_BYTES))

    @classmethod
    def create(cls, path: Path) -> NoiseKey:
        """Generate a key and write it to a new file with mode 0600; never overwrites one."""
        key = cls.generate()
        create_secret_file(path, key._text(), _WHAT, NoiseKeyError)
        return key

    @classmethod
    def load(cls, path: Path) -> NoiseKey:
        """The key in a file; :class:`NoiseKeyError` when it cannot be read as one."""
        return cls.parse(read_secret_file(path, _WHAT, NoiseKeyError))

    @classmethod
    def parse(cls, text: str) -> NoiseKey:
        """The key of a text (environment, secret store); :class:`NoiseKeyError` when it is none."""
        first, _, rest = text.strip().partition("\n")
        if not first.startswith("epoch "):
            return cls(parse_secret(text, _WHAT, NoiseKeyError))
        number = first.removeprefix("epoch ").strip()
        if not number.isdecimal() or len(number) > _MOST_EPOCH_DIGITS:  # the key may stand in this line
            raise NoiseKeyError(
                "the noise key's epoch must be a number in a line of its own",
                "something else",
                'write "epoch 0", and the key in the next line',
            )
        return cls(parse_secret(rest, _WHAT, NoiseKeyError), int(number))

    def at_epoch(self, epoch: int) -> NoiseKey:
        """The key of this or a later epoch; :class:`NoiseKeyError` for an earlier one, which is gone."""
        if epoch < self.epoch:
            raise NoiseKeyError(
                f"the epoch must not be before the noise key's own, {self.epoch}",
                epoch,
                "take the stored releases: history is never noised again",
            )
        secret = bytes(self._live_secret())
        for later_epoch in range(self.epoch + 1, epoch + 1):
            secret = hmac.digest(secret, _EPOCH + integer_bytes(later_epoch), "sha256")
        return NoiseKey(secret, epoch)

    def of_region(self, region: str) -> NoiseKey:
        """The key of one region in this epoch: who has it can compute neither another region's nor this."""
        return NoiseKey(hmac.digest(self._live_secret(), _REGION + text_bytes(region), "sha256"), self.epoch)

    def advance_file(self, path: Path, epoch: int) -> NoiseKey:
        """Replace the file by the key of a later epoch and erase this one, once no replay can need it."""
        later = self.at_epoch(epoch)
        replace_secret_file(path, later._text())
        self.erase()
        return later

    def erase(self) -> None:
        """Overwrite the secret in memory; any later use is a :class:`NoiseKeyError`."""
        self._secret[:] = bytes(len(self._secret))
        self._secret.clear()

    def fingerprint(self) -> str:
        """Thirty-two digits by which to recognise the key without knowing it."""
        return hmac.digest(self._live_secret(), _FINGERPRINT, "sha256").hex()[:32]

    def uniform_words(self, messages: Sequence[bytes]) -> NDArray[np.uint64]:
        """128 uniform bits a message (n, 2), high word first: the first half of HMAC-SHA256(key, message)."""
        keyed = hmac.new(self._live_secret(), digestmod=hashlib.sha256)
        digests = bytearray()
        for message in messages:
            copy = keyed.copy()  # the key's own blocks are hashed once for the whole batch
            copy.update(message)
            digests += copy.digest()[:_WORDS_BYTES]
        return np.frombuffer(digests, dtype=">u8").astype(np.uint64).reshape(len(messages), 2)

    def _live_secret(self) -> bytearray:
        if not self._secret:
            raise NoiseKeyError("the noise key must not be erased", "an erased key", "load the current key")
        return self._secret

    def _text(self) -> str:
        heading = f"epoch {self.epoch}\n" if self.epoch else ""
        return f"{heading}{self._live_secret().hex()}\n"

    def __repr__(self) -> str:
        return f"NoiseKey(epoch={self.epoch}, secret=***)"


def batch_message(
    deployment: str,
    start_seconds: int,
    end_seconds: int,
    mechanism: str,
    parameters: Mapping[str, float],
    epoch: int,
) -> bytes:
    """What makes a reading this reading and no other, as unambiguous bytes: the part that a batch shares.

    All readings of one step and one mechanism share it. ``start_seconds`` and ``end_seconds`` are the step's
    absolute interval (unix, UTC): numbering steps anew repeats no noise.
    """
    interval = integer_bytes(start_seconds) + integer_bytes(end_seconds)
    law = text_bytes(mechanism) + parameter_bytes(parameters)
    return _NOISE + integer_bytes(epoch) + text_bytes(deployment) + interval + law


def reading_message(batch: bytes, sensor_id: str, count: int) -> bytes:
    """The whole message of one reading, ``batch`` being what :func:`batch_message` gave.

    ``sensor_id`` is the sensor's permanent id: renaming a place for display repeats no noise.
    """
    return batch + text_bytes(sensor_id) + integer_bytes(count)


def continuation_message(batch: bytes, sensor_id: str, values: Mapping[float, int]) -> bytes:
    """The message of one more level of a reading whose values at other levels (epsilon, nats) are out.

    ``batch`` is what :func:`batch_message` gave for a mechanism name that no first draw has.
    """
    known = b"".join(double_bytes(level) + integer_bytes(values[level]) for level in sorted(values))
    return batch + text_bytes(sensor_id) + integer_bytes(len(values)) + known
