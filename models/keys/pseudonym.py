"""Pseudonyms: the only form in which a person leaves the process that loaded the priors."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from pathlib import Path

from models.exceptions import PseudonymKeyError
from models.keys.canonical_bytes import text_bytes
from models.keys.secret_files import (
    MIN_SECRET_BYTES,
    check_length,
    create_secret_file,
    parse_secret,
    read_secret_file,
)

_WHAT = "pseudonym key"
_PSEUDONYM = text_bytes("tallyguard pseudonym 1")
_FINGERPRINT = text_bytes("tallyguard pseudonym fingerprint 1")
PSEUDONYM_BYTES = 16  # no two of 10^9 people share one, but for a chance of 10^-21


class Pseudonymiser:
    """Names people by HMAC-SHA256 of their id with a secret of at least 32 bytes; shown masked.

    Without the key nobody can test whether a known id is behind a pseudonym. It is another key than the noise
    key: who may link people need not be able to remove noise.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        check_length(secret, _WHAT, PseudonymKeyError)
        self._secret = secret

    @classmethod
    def create(cls, path: Path) -> Pseudonymiser:
        """Write a new random key to a new file with mode 0600; never overwrites one."""
        secret = secrets.token_bytes(MIN_SECRET_BYTES)
        create_secret_file(path, f"{secret.hex()}\n", _WHAT, PseudonymKeyError)
        return cls(secret)

    @classmethod
    def load(cls, path: Path) -> Pseudonymiser:
        """With the key in a file; :class:`PseudonymKeyError` when it cannot be read as one."""
        return cls.parse(read_secret_file(path, _WHAT, PseudonymKeyError))

    @classmethod
    def parse(cls, text: str) -> Pseudonymiser:
        """With a hexadecimal key (environment, secret store); :class:`PseudonymKeyError` when it is none."""
        return cls(parse_secret(text, _WHAT, PseudonymKeyError))

    def pseudonym(self, person: str) -> str:
        """Thirty-two hexadecimal digits, always the same for the same person and key."""
        message = _PSEUDONYM + text_bytes(person)
        return hmac.digest(self._secret, message, "sha256")[:PSEUDONYM_BYTES].hex()

    def pseudonyms(self, people: Iterable[str]) -> tuple[str, ...]:
        """The pseudonym of each person, in order."""
        return tuple(self.pseudonym(person) for person in people)

    def fingerprint(self) -> str:
        """Thirty-two digits by which to recognise the key without knowing it."""
        return hmac.digest(self._secret, _FINGERPRINT, "sha256").hex()[:32]

    def __repr__(self) -> str:
        return "Pseudonymiser(secret=***)"
