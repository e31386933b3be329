"""Secret keys (noise, pseudonyms, snapshots) and the random numbers derived from the noise key."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from scipy.special import ndtri

from models.exceptions import NoiseKeyError, PseudonymKeyError, SnapshotKeyError, TallyguardError
from models.numerics.arrays import Floats, Words
from models.private_files import private_draft, private_file, sync_folder

# Fields of the messages that are hashed with a key. Texts carry their length and numbers have a fixed width,
# so two different lists of fields never give the same bytes.


def text_bytes(value: str) -> bytes:
    """UTF-8 after its length in four bytes."""
    encoded = value.encode()
    return struct.pack(">I", len(encoded)) + encoded


def integer_bytes(value: int) -> bytes:
    """Sixteen bytes, big endian, two's complement."""
    return value.to_bytes(16, "big", signed=True)


def double_bytes(value: float) -> bytes:
    """Eight bytes, big endian, IEEE 754."""
    return struct.pack(">d", value)


def parameter_bytes(parameters: Mapping[str, float]) -> bytes:
    """How many there are, then names and IEEE doubles in the order of the names."""
    pairs = [text_bytes(name) + double_bytes(parameters[name]) for name in sorted(parameters)]
    return integer_bytes(len(pairs)) + b"".join(pairs)


# Secret keys in files: hexadecimal text that only the owner can read, replaced atomically.

MIN_SECRET_BYTES = 32
_LEAST_DIFFERENT = 16  # bytes: 32 random ones have 30 on average
_HEX_EXAMPLE = 'write 64 hexadecimal digits, e.g. what "openssl rand -hex 32" prints'


def parse_secret(text: str, what: str, error: type[TallyguardError]) -> bytes:
    """The bytes of a hexadecimal secret of at least 32 bytes; ``error`` otherwise, never showing the text."""
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        raise error(f"{what} must be hexadecimal", "other characters", _HEX_EXAMPLE) from None
    check_length(secret, what, error)
    # A key that a person made up has few different bytes, steps of one size, or letters only. Of 32 random
    # bytes less than one in 10^12 has 15 different values or fewer, or is all printable.
    steps = {(later - earlier) % 256 for earlier, later in pairwise(secret)}
    is_text = all(0x20 <= byte < 0x7F for byte in secret)
    if is_text or len(set(secret)) < _LEAST_DIFFERENT or len(steps) == 1:
        raise error(f"{what} must be random", "a text, or bytes that repeat", _HEX_EXAMPLE)
    return secret


def check_length(secret: bytes, what: str, error: type[TallyguardError]) -> None:
    """``error`` when a secret is shorter than the 32 bytes of the hash it keys."""
    if len(secret) < MIN_SECRET_BYTES:
        raise error(f"{what} must have at least {MIN_SECRET_BYTES} bytes", len(secret), _HEX_EXAMPLE)


def read_secret_file(path: Path, what: str, error: type[TallyguardError]) -> str:
    """The text of a secret file; ``error`` names the path when it cannot be read."""
    try:
        return path.read_text(encoding="ascii")
    except OSError as failure:
        raise error(
            f"{what} file {path} must be readable", failure.strerror, "check path and permissions"
        ) from failure
    except UnicodeDecodeError:
        raise error(f"{what} file {path} must be hexadecimal", "other characters", _HEX_EXAMPLE) from None


def create_secret_file(path: Path, text: str, what: str, error: type[TallyguardError]) -> None:
    """Write a new, durable file with mode 0600, whole or not at all.

    ``error`` if there is one already: a key is never overwritten.
    """
    try:
        with private_draft(path) as draft:
            with draft.open("r+", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)  # unlike a rename, a link never replaces an existing file
        sync_folder(path.parent)
    except FileExistsError:
        raise error(
            f"{what} file {path} must not exist yet", "a file", "keep it, or choose another path"
        ) from None
    except OSError as failure:
        raise error(f"{what} file {path} must be writable", failure.strerror, "check the folder") from failure


# 128 keyed uniform bits expanded into as many draws as a mechanism needs.

_WORD_BYTES = 16
_EXPANSION = text_bytes("tallyguard expansion 1")


def expand_words(words: Words, draws: int) -> Words:
    """``draws`` times 128 bits (n, draws, 2) for each of ``words`` (n, 2), by SHAKE-256 (FIPS 202).

    The first draws do not depend on how many are requested. They are uniform and independent as far as
    SHAKE-256 with a secret prefix is a pseudo-random function.
    """
    count = words.shape[0]
    seeds = words.astype(">u8").tobytes()
    stretched = bytearray()
    for start in range(0, count * _WORD_BYTES, _WORD_BYTES):
        seed = seeds[start : start + _WORD_BYTES]
        stretched += hashlib.shake_256(_EXPANSION + seed).digest(draws * _WORD_BYTES)
    return np.frombuffer(stretched, dtype=">u8").astype(np.uint64).reshape(count, draws, 2)


# Any number of keyed random numbers from one secret seed.

_STREAM = text_bytes("tallyguard stream 1")
_BLOCK_BYTES = 512
_MIN_SEED_BYTES = 16


class UniformStream:
    """Independent uniform numbers, a function of ``seed`` alone, by SHAKE-256 (FIPS 202) in counter mode.

    ``seed`` is secret: at least 128 bits from :meth:`NoiseKey.uniform_words`, for a message that names the
    value they protect. :class:`NoiseKeyError` for a shorter one.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) < _MIN_SEED_BYTES:
            raise NoiseKeyError(
                f"the seed of a noise stream must have {_MIN_SEED_BYTES} bytes or more",
                len(seed),
                "take it from the noise key",
            )
        self._prefix = _STREAM + integer_bytes(len(seed)) + seed
        self._blocks = 0
        self._buffer = b""

    def uniforms(self, count: int) -> Floats:
        """Numbers (count,) strictly between 0 and 1: multiples of 2^-53 plus 2^-54."""
        while len(self._buffer) < 8 * count:
            block = hashlib.shake_256(self._prefix + integer_bytes(self._blocks))
            self._buffer += block.digest(_BLOCK_BYTES)
            self._blocks += 1
        taken, self._buffer = self._buffer[: 8 * count], self._buffer[8 * count :]
        words = np.frombuffer(taken, dtype=">u8").astype(np.uint64)
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def exponential(self) -> float:
        """Exponential with mean 1."""
        return -math.log(float(self.uniforms(1)[0]))

    def normals(self, count: int) -> Floats:
        """Independent standard normal numbers (count,)."""
        return np.asarray(ndtri(self.uniforms(count)), dtype=np.float64)


class _SecretKey:
    """A secret of at least 32 bytes, read from a file or a text and never shown."""

    __slots__ = ("_secret",)
    _what: ClassVar[str]  # what errors call it
    _error: ClassVar[type[TallyguardError]]

    def __init__(self, secret: bytes) -> None:
        check_length(secret, self._what, self._error)
        self._secret = bytearray(secret)

    @classmethod
    def generate(cls) -> Self:
        """A new random key."""
        return cls(secrets.token_bytes(MIN_SECRET_BYTES))

    @classmethod
    def create(cls, path: Path) -> Self:
        """Generate a key and write it to a new file with mode 0600; never overwrites one."""
        key = cls.generate()
        create_secret_file(path, key._text(), cls._what, cls._error)
        return key

    @classmethod
    def load(cls, path: Path) -> Self:
        """The key in a file; its error class when it cannot be read as one."""
        return cls.parse(read_secret_file(path, cls._what, cls._error))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key of a hexadecimal text (environment, secret store); its error class when it is none."""
        return cls(parse_secret(text, cls._what, cls._error))

    def _text(self) -> str:
        return f"{self._secret.hex()}\n"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret=***)"


_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))  # of an HMAC


def _keyed_hash(secret: bytes | bytearray, begin: bytes = b"") -> Callable[[bytes], bytes]:
    """HMAC-SHA256 of messages that all ``begin`` alike, by its definition (RFC 2104).

    Its two hashes take in the key and the beginning once, and not for each message.
    """
    block = hashlib.sha256().block_size
    padded = (secret if len(secret) <= block else hashlib.sha256(secret).digest()).ljust(block, b"\0")
    inner = hashlib.sha256(padded.translate(_INNER) + begin)
    outer = hashlib.sha256(padded.translate(_OUTER))

    def of(message: bytes) -> bytes:
        within, sealed = inner.copy(), outer.copy()
        within.update(message)
        sealed.update(within.digest())
        return sealed.digest()

    return of


# The secret noise key: the same reading always gets the same noise, and nobody else can compute it.
#
# Uniform bits are HMAC-SHA256 of a canonical message, so delivering a reading twice does not draw noise
# twice. Keys ratchet one way: the key of an epoch is the HMAC of its predecessor's, so a stolen key opens
# no epoch before its own once the older ones are erased. All guarantees hold as far as HMAC-SHA256 is a
# pseudo-random function.

_MOST_EPOCH_DIGITS = 18
_WORDS_BYTES = 16  # 128 bits a draw
# The purpose of a hash is its first field, so hashes for different purposes never coincide.
_NOISE = text_bytes("tallyguard noise 1")
_EPOCH = text_bytes("tallyguard epoch 1")
_REGION = text_bytes("tallyguard region 1")
_NOISE_FINGERPRINT = text_bytes("tallyguard fingerprint 1")


class NoiseKey(_SecretKey):
    """A secret of at least 32 bytes and the number of its epoch; shown masked.

    Text form, for files and environment: hexadecimal, after the line ``epoch N`` unless ``N`` is 0.
    """

    __slots__ = ("epoch",)
    _what = "noise key"
    _error = NoiseKeyError

    def __init__(self, secret: bytes, epoch: int = 0) -> None:
        super().__init__(secret)
        if epoch < 0:
            raise NoiseKeyError("the noise key's epoch must be 0 or more", epoch, "number epochs from 0")
        self.epoch = epoch

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key of a text (environment, secret store); :class:`NoiseKeyError` when it is none."""
        first, _, rest = text.strip().partition("\n")
        if not first.startswith("epoch "):
            return super().parse(text)
        number = first.removeprefix("epoch ").strip()
        # the error must not show the line: without its line break it holds the key
        if not number.isdecimal() or len(number) > _MOST_EPOCH_DIGITS:
            raise NoiseKeyError(
                "the noise key's epoch must be a number in a line of its own",
                "something else",
                'write "epoch 0", and the key in the next line',
            )
        return cls(parse_secret(rest, cls._what, NoiseKeyError), int(number))

    def at_epoch(self, epoch: int) -> NoiseKey:
        """The key of this or a later epoch; :class:`NoiseKeyError` for an earlier one, which was erased."""
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
        """The key of one region in this epoch; neither this key nor another region's follows from it."""
        return NoiseKey(hmac.digest(self._live_secret(), _REGION + text_bytes(region), "sha256"), self.epoch)

    def advance_file(self, path: Path, epoch: int) -> NoiseKey:
        """Replace the file by the key of a later epoch and erase this one; no replay may need it any more."""
        later = self.at_epoch(epoch)
        with private_file(path) as file:
            file.write(later._text().encode("ascii"))
        self.erase()
        return later

    def erase(self) -> None:
        """Overwrite the secret in memory; any later use is a :class:`NoiseKeyError`."""
        self._secret[:] = bytes(len(self._secret))
        self._secret.clear()

    def fingerprint(self) -> str:
        """Thirty-two digits by which to recognise the key without knowing it."""
        return hmac.digest(self._live_secret(), _NOISE_FINGERPRINT, "sha256").hex()[:32]

    def uniform_words(self, messages: Sequence[bytes]) -> Words:
        """128 uniform bits a message (n, 2), high word first: the first half of HMAC-SHA256(key, message)."""
        keyed, digests = _keyed_hash(self._live_secret()), bytearray()
        for message in messages:
            digests += keyed(message)[:_WORDS_BYTES]
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
    """The part of a reading's message that all readings of one step and one mechanism share.

    ``start_seconds`` and ``end_seconds`` are the step's absolute interval (unix, UTC), so that renumbering
    the steps repeats no noise.
    """
    interval = integer_bytes(start_seconds) + integer_bytes(end_seconds)
    law = text_bytes(mechanism) + parameter_bytes(parameters)
    return _NOISE + integer_bytes(epoch) + text_bytes(deployment) + interval + law


def reading_message(batch: bytes, sensor_id: str, count: int) -> bytes:
    """The whole message of one reading; ``batch`` comes from :func:`batch_message`.

    ``sensor_id`` is the sensor's permanent id, so that renaming a place for display repeats no noise.
    """
    return batch + text_bytes(sensor_id) + integer_bytes(count)


def continuation_message(batch: bytes, sensor_id: str, values: Mapping[float, int]) -> bytes:
    """The message of one more level of a reading whose values at other levels (epsilon, nats) are published.

    ``batch`` comes from :func:`batch_message`, for a mechanism name that no first draw has.
    """
    known = b"".join(double_bytes(level) + integer_bytes(values[level]) for level in sorted(values))
    return batch + text_bytes(sensor_id) + integer_bytes(len(values)) + known


# Pseudonyms: the only form in which a person leaves the process that loaded the priors.

_PSEUDONYM = text_bytes("tallyguard pseudonym 1")
_FINGERPRINT = text_bytes("tallyguard pseudonym fingerprint 1")
PSEUDONYM_BYTES = 16  # no two of 10^9 people share one, but for a chance of 10^-21


class Pseudonymiser(_SecretKey):
    """Names people by HMAC-SHA256 of their id with a secret of at least 32 bytes; shown masked.

    Without the key nobody can test whether a known id is behind a pseudonym. It is not the noise key: those
    who may link people need not be able to remove noise.
    """

    __slots__ = ()
    _what = "pseudonym key"
    _error = PseudonymKeyError

    def pseudonym(self, person: str) -> str:
        """Thirty-two hexadecimal digits, always the same for the same person and key."""
        return self.pseudonyms((person,))[0]

    def pseudonyms(self, people: Iterable[str]) -> tuple[str, ...]:
        """The pseudonym of each person, in order."""
        keyed = _keyed_hash(self._secret, _PSEUDONYM)
        return tuple(keyed(text_bytes(person))[:PSEUDONYM_BYTES].hex() for person in people)

    def fingerprint(self) -> str:
        """Thirty-two digits by which to recognise the key without knowing it."""
        return hmac.digest(self._secret, _FINGERPRINT, "sha256").hex()[:32]


_SEAL = text_bytes("tallyguard snapshot 1")


class SnapshotKey(_SecretKey):
    """Seals snapshots of accounts with HMAC-SHA256 and a secret of at least 32 bytes; shown masked.

    Its holder can make workers continue from risks that nobody computed. It hides nothing and names
    nobody, so it is not one of the keys that do.
    """

    __slots__ = ()
    _what = "snapshot key"
    _error = SnapshotKeyError

    def seal(self, message: bytes) -> str:
        """The seal of a message, 64 hexadecimal digits."""
        return hmac.digest(self._secret, _SEAL + message, "sha256").hex()

    def has_sealed(self, message: bytes, seal: str) -> bool:
        """Whether a seal is that of a message; takes equally long for every wrong one."""
        return hmac.compare_digest(self.seal(message).encode(), seal.encode())
