"""How people are split into partitions, and ordered within them, by pseudonym alone.

One process that accounts all people splits its work in the same way, so that it does what many workers do.
The attack on the accounts draws from the same people wherever they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.shadow import Shadow, drawn_parts
from stream_app.setup.settings import Settings

LEAST_SHARES = 64
"""Shares of the work at least, so that up to so many partitions refine the same people."""

_SEED, _MIX, _WORD = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def partition_of(key: str, partitions: int) -> int:
    """The partition a broker's clients put a key in: Austin Appleby's MurmurHash2 of its bytes, modulo."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """MurmurHash2, 32 bits, with the seed that Kafka's clients use."""
    value = (_SEED ^ len(data)) & _WORD
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MIX & _WORD
        word = (word ^ (word >> 24)) * _MIX & _WORD
        value = (value * _MIX & _WORD) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MIX & _WORD
    value = (value ^ (value >> 13)) * _MIX & _WORD
    return value ^ (value >> 15)


def people_shares(pseudonyms: Sequence[str], partitions: int) -> PeopleShares:
    """How the work of a step is split: into so many shares that each is of one partition."""
    count = partitions * -(-LEAST_SHARES // partitions)
    return PeopleShares(
        count,
        np.array([partition_of(name, count) for name in pseudonyms], dtype=np.int64),
        np.array([_rank(name) for name in pseudonyms], dtype=np.int64),
    )


def new_shadow(settings: Settings, accountant: ContinuousAccountant) -> Shadow | None:
    """The attack that is reported with the ceiling, if settings ask for it; on the same people everywhere."""
    if settings.attack_draws == 0:
        return None
    drawn = drawn_parts(accountant.people_shares, settings.attack_draws, accountant.holders.stands_for)
    return Shadow(accountant, drawn, settings.confidence)


def _rank(pseudonym: str) -> int:
    """A place in an order that does not depend on where or when a person was read."""
    return int.from_bytes(blake2b(pseudonym.encode(), digest_size=7).digest(), "big")
