"""One unambiguous byte string for a list of named facts: what a keyed hash is taken of.

Texts carry their length, numbers have a fixed width, so two different lists never give the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping


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
