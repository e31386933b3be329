"""How people are split into partitions, and ordered within them, by pseudonym alone.

One process that accounts all people splits its work in the same way, so that it does what many workers do.
The attack on the accounts draws from the same people wherever they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.shadow import Shadow, drawn_parts
from stream_app.setup.settings import Settings

LEAST_SHARES = 64
"""Shares of the work at least, so that up to so many partitions refine the same people."""

_SEED, _MIX = 0x9747B28C, np.uint32(0x5BD1E995)


def partitions_of(keys: Sequence[str], partitions: int) -> NDArray[np.int64]:
    """Where a broker's clients put keys, (N,): Austin Appleby's MurmurHash2 of their bytes, modulo."""
    encoded = [key.encode() for key in keys]
    hashed = np.empty(len(encoded), dtype=np.uint32)
    sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
    for size in np.unique(sizes).tolist():
        own = np.flatnonzero(sizes == size)
        together = encoded if own.size == len(encoded) else [encoded[k] for k in own]
        hashed[own] = murmur2(np.frombuffer(b"".join(together), np.uint8).reshape(own.size, size))
    return (hashed & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def murmur2(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """MurmurHash2, 32 bits, of each row of bytes, with the seed that Kafka's clients use."""
    rows, size = data.shape
    value: NDArray[np.uint32] = np.full(rows, _SEED ^ size, dtype=np.uint32)
    whole = size - size % 4
    for word in np.ascontiguousarray(data[:, :whole]).view("<u4").astype(np.uint32).T:
        mixed = word * _MIX
        value = (value * _MIX) ^ ((mixed ^ (mixed >> 24)) * _MIX)
    if whole < size:
        last = np.zeros((rows, 4), dtype=np.uint8)
        last[:, : size - whole] = data[:, whole:]
        value = (value ^ last.view("<u4").astype(np.uint32)[:, 0]) * _MIX
    value = np.asarray((value ^ (value >> 13)) * _MIX, dtype=np.uint32)
    return np.asarray(value ^ (value >> 15), dtype=np.uint32)


def people_shares(pseudonyms: Sequence[str], partitions: int) -> PeopleShares:
    """How the work of a step is split: into so many shares that each is of one partition."""
    count = partitions * -(-LEAST_SHARES // partitions)
    return PeopleShares(count, partitions_of(pseudonyms, count), _ranks(pseudonyms))


def new_shadow(settings: Settings, accountant: ContinuousAccountant) -> Shadow | None:
    """What is sampled beside the ceiling, if settings ask for it; on the same people everywhere."""
    if settings.attack_draws == 0 and settings.sampled_above is None:
        return None
    shares, stands_for = accountant.people_shares, accountant.holders.stands_for
    drawn = drawn_parts(shares, settings.attack_draws, stands_for) if settings.attack_draws else []
    return Shadow(accountant, drawn, settings.confidence)


def _ranks(pseudonyms: Sequence[str]) -> NDArray[np.int64]:
    """Places in an order that does not depend on where or when a person was read."""
    digests = b"".join([blake2b(each.encode(), digest_size=7).digest() for each in pseudonyms])
    whole = np.zeros((len(pseudonyms), 8), dtype=np.uint8)
    whole[:, 1:] = np.frombuffer(digests, np.uint8).reshape(-1, 7)
    return whole.view(">i8")[:, 0].astype(np.int64)
