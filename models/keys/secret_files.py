"""Secret keys in files: hexadecimal text that only its owner may read, replaced in one atomic step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from models.exceptions import TallyguardError
from models.private_files import private_draft, sync_folder

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
    if _is_guessed(secret):
        raise error(f"{what} must be random", "a text, or bytes that repeat", _HEX_EXAMPLE)
    return secret


def _is_guessed(secret: bytes) -> bool:
    """Whether somebody thought of these bytes: few different ones, steps of one size, or letters.

    32 random bytes have 15 different values or fewer, or are all printable, in less than one case of 10^12.
    """
    steps = {(later - earlier) % 256 for earlier, later in pairwise(secret)}
    is_text = all(0x20 <= byte < 0x7F for byte in secret)
    return is_text or len(set(secret)) < _LEAST_DIFFERENT or len(steps) == 1


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
        with _draft(path, text) as draft:
            os.link(draft, path)  # unlike a rename, never in the place of another
        sync_folder(path.parent)
    except FileExistsError:
        raise error(
            f"{what} file {path} must not exist yet", "a file", "keep it, or choose another path"
        ) from None
    except OSError as failure:
        raise error(f"{what} file {path} must be writable", failure.strerror, "check the folder") from failure


def replace_secret_file(path: Path, text: str) -> None:
    """Put new text in the place of an old secret: readers see all of the old or all of the new."""
    with _draft(path, text) as draft:
        draft.replace(path)
    sync_folder(path.parent)


@contextmanager
def _draft(path: Path, text: str) -> Iterator[Path]:
    """A durable draft that only its owner may read."""
    with private_draft(path) as draft:
        with draft.open("r+", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
