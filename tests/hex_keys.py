"""Secret keys for tests: the same for a label in every run, and as good as random, as loaders demand."""

from __future__ import annotations

from hashlib import sha256


def hex_key(label: str) -> str:
    """64 hexadecimal digits."""
    return sha256(label.encode()).hexdigest()
