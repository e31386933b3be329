"""Inputs made from seeds by small changes, the same for the same random generator."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

MOST_BYTES = 8192
_NUMBER = re.compile(rb"[0-9][0-9.eE+-]*")

TOKENS: tuple[bytes, ...] = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"\n", b"\r\n", b"\x00", b"\xff", b"\xc3\x28",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"1e999",
    b"-1", b"-0.0", b"0.5", b"1e-320", b"9223372036854775807", b"9223372036854775808",
    b"-9223372036854775809", b"2147483648", b"1" * 400, b"3" * 5000, b"[" * 3000, b'{"a":' * 3000,
    b'"' + b"x" * 3000 + b'"', b'"\\ud800"', b'"\\u0000"', b"../", b"%00", b"%F0%9F", b"[]", b"{}",
    b'""', b"''", b"=", b"#", b"\t", b";", b"step", b"sensor", b"count", b"-", b".", b"inf", b"nan",
)  # fmt: skip


def mutated(seeds: Sequence[bytes], random: Random) -> bytes:
    """A seed after one to six changes."""
    data = random.choice(seeds)
    for _ in range(random.randint(1, 6)):
        data = random.choice(_CHANGES)(data, seeds, random)
    return data[:MOST_BYTES]


def _place(data: bytes, random: Random) -> int:
    return random.randint(0, len(data))


def _slice(data: bytes, random: Random) -> tuple[int, int]:
    start = _place(data, random)
    return start, min(len(data), start + random.choice((1, 1, 2, 4, 16, 64, 512)))


def _flip(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _insert(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    at = _place(data, random)
    return data[:at] + random.choice(TOKENS) + data[at:]


def _remove(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    start, end = _slice(data, random)
    return data[:start] + data[end:]


def _repeat(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    start, end = _slice(data, random)
    return data[:end] + data[start:end] * random.choice((1, 2, 50)) + data[end:]


def _splice(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(seeds)
    return data[: _place(data, random)] + other[_place(other, random) :]


def _cut(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    return data[: _place(data, random)]


def _digit(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    """Another number, or another kind of value, in the place of one."""
    number = _NUMBER.search(data, _place(data, random)) or _NUMBER.search(data)
    if number is None:
        return data
    return data[: number.start()] + random.choice(TOKENS) + data[number.end() :]


_CHANGES: tuple[Callable[[bytes, Sequence[bytes], Random], bytes], ...] = (
    _flip,
    _insert,
    _insert,
    _remove,
    _repeat,
    _splice,
    _cut,
    _digit,
    _digit,
)
