"""The key that snapshots of accounts are sealed with, so that nobody else can make one."""

from __future__ import annotations

import hmac
from pathlib import Path

from models.exceptions import SnapshotKeyError
from models.keys.canonical_bytes import text_bytes
from models.keys.secret_files import check_length, parse_secret, read_secret_file

_WHAT = "snapshot key"
_SEAL = text_bytes("tallyguard snapshot 1")


class SnapshotKey:
    """Seals with HMAC-SHA256 and a secret of at least 32 bytes; shown masked.

    Whoever has it can make workers go on from risks that nobody computed: it hides nothing and names nobody,
    and is another key than those that do.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        check_length(secret, _WHAT, SnapshotKeyError)
        self._secret = secret

    @classmethod
    def load(cls, path: Path) -> SnapshotKey:
        """With the key in a file; :class:`SnapshotKeyError` when it cannot be read as one."""
        return cls.parse(read_secret_file(path, _WHAT, SnapshotKeyError))

    @classmethod
    def parse(cls, text: str) -> SnapshotKey:
        """With a hexadecimal key (environment, secret store); :class:`SnapshotKeyError` when it is none."""
        return cls(parse_secret(text, _WHAT, SnapshotKeyError))

    def seal(self, message: bytes) -> str:
        """The seal of a message, 64 hexadecimal digits."""
        return hmac.digest(self._secret, _SEAL + message, "sha256").hex()

    def has_sealed(self, message: bytes, seal: str) -> bool:
        """Whether a seal is that of a message; takes equally long for every wrong one."""
        return hmac.compare_digest(self.seal(message).encode(), seal.encode())

    def __repr__(self) -> str:
        return "SnapshotKey(secret=***)"
