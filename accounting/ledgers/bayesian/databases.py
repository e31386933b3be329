"""Bayesian differential privacy of small finite databases, exactly.

Zhao, "Composition Properties of Bayesian Differential Privacy": an adversary knows the tuples ``K`` of a
database and wants tuple ``i``; what is unknown is averaged over the database's own law. The leakage is the
largest log-ratio of an output's probability for two values of tuple ``i``, epsilon the largest over all
``(i, K)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import LedgerError

_MOST_WORK = 2**26  # database entries times adversaries times outputs


@dataclass(frozen=True, slots=True)
class Adversary:
    """Knows the tuples ``known`` and wants tuple ``target``."""

    target: int
    known: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leakage:
    """``epsilon`` (nats, inf where an output excludes a value) and the adversary who gets it."""

    epsilon: float
    adversary: Adversary


@dataclass(frozen=True, eq=False)
class FiniteDatabase:
    """``law[x_1, ..., x_n]``: joint probability of the values of n tuples, correlated as they may be."""

    law: NDArray[np.float64]

    def __post_init__(self) -> None:
        """:class:`LedgerError` unless the law is one."""
        if self.law.ndim < 1 or np.any(self.law < 0.0) or not math.isclose(float(self.law.sum()), 1.0):
            raise LedgerError(
                "a database's law must be probabilities that sum to 1",
                float(self.law.sum()),
                "renormalise it",
            )

    @property
    def tuples(self) -> int:
        """How many tuples the database has."""
        return self.law.ndim

    def adversaries(self) -> Iterator[Adversary]:
        """Every target with every set of other tuples."""
        for target in range(self.tuples):
            others = [j for j in range(self.tuples) if j != target]
            for size in range(len(others) + 1):
                yield from (Adversary(target, known) for known in combinations(others, size))

    def has_independent_tuples(self) -> bool:
        """Whether the law is the product of its margins."""
        product = np.ones(())
        for axis in range(self.tuples):
            margin = self.law.sum(axis=tuple(j for j in range(self.tuples) if j != axis))
            product = np.multiply.outer(product, margin)
        return bool(np.allclose(product, self.law, rtol=0.0, atol=1e-12))


def compose(*channels: NDArray[np.float64]) -> NDArray[np.float64]:
    """The joint channel of several with independent coins: ``channel[x_1, ..., x_n, output]`` each.

    Outputs of the result are all combinations, in the order of the channels.
    """
    joint = channels[0]
    for channel in channels[1:]:
        pair = joint[..., :, None] * channel[..., None, :]
        joint = pair.reshape(*pair.shape[:-2], -1)
    return joint


def leakage_to(database: FiniteDatabase, channel: NDArray[np.float64], adversary: Adversary) -> Leakage:
    """What one adversary learns at most: ``sup ln Pr[y | x_i, x_K] / Pr[y | x_i', x_K]`` (Zhao, section III).

    ``channel[x_1, ..., x_n, y]``: probability of each output for each database. Values that cannot occur
    together with what is known are left out; of a set of outputs the likeliest single one is at least as bad.
    """
    kept = (adversary.target, *adversary.known)
    hidden = tuple(j for j in range(database.tuples) if j not in kept)
    order = [sorted(kept).index(j) for j in kept]
    outputs = channel.shape[-1]
    mass = database.law.sum(axis=hidden).transpose(order).reshape(database.law.shape[adversary.target], -1)
    joint = (database.law[..., None] * channel).sum(axis=hidden)
    joint = joint.transpose([*order, len(kept)]).reshape(*mass.shape, outputs)
    worst = 0.0
    for known in range(mass.shape[1]):
        possible = mass[:, known] > 0.0
        if possible.any():
            given = joint[possible, known] / mass[possible, known][:, None]
            worst = max(worst, _largest_log_ratio(given))
    return Leakage(worst, adversary)


def leakage(database: FiniteDatabase, channel: NDArray[np.float64]) -> Leakage:
    """Epsilon: the supremum over all adversaries, exact; :class:`LedgerError` when there are too many."""
    if channel.shape[:-1] != database.law.shape:
        raise LedgerError(
            f"a channel must have a law of outputs for each of the databases {database.law.shape}",
            channel.shape,
            "give channel[x_1, ..., x_n, output]",
        )
    if not np.allclose(channel.sum(axis=-1), 1.0) or np.any(channel < 0.0):
        raise LedgerError(
            "each row of a channel must be probabilities that sum to 1", "another", "renormalise"
        )
    work = channel.size * database.tuples * 2 ** (database.tuples - 1)
    if work > _MOST_WORK:
        raise LedgerError(
            f"an exact leakage must take at most {_MOST_WORK:.0e} operations",
            f"{work:.0e}",
            "use fewer tuples, values or outputs, or a bound for a chain (chain_leakage.py)",
        )
    found = [leakage_to(database, channel, adversary) for adversary in database.adversaries()]
    return max(found, key=lambda each: each.epsilon)


def _largest_log_ratio(given: NDArray[np.float64]) -> float:
    """The largest ``ln given[a, y] / given[b, y]`` over outputs that are possible at all."""
    high, low = given.max(axis=0), given.min(axis=0)
    seen = high > 0.0
    if np.any(low[seen] == 0.0):
        return math.inf
    return math.log(float((high[seen] / low[seen]).max(initial=1.0)))
