"""Bayesian leakage when the tuples are the places of one person's chain: correlated from step to step.

One output's likelihood ratio follows from the forward recursion. The supremum over outputs is exact where
they can be enumerated; beyond that the sum of the steps' own log-ratios is an upper bound, whatever the
correlation (an output's probability is an average over trajectories, each step's factor within its ratio).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import LedgerError
from accounting.ledgers.bayesian.databases import Adversary, Leakage

_MOST_ENUMERATED = 2**20


@dataclass(frozen=True, eq=False)
class ChainRelease:
    """A person's chain and what is released of it: ``initial`` (M,), ``transition`` (M, M).

    ``channels[t][m, y]`` is the probability of output ``y`` at step ``t`` when the person is at ``m``; coins
    are independent from step to step.
    """

    initial: NDArray[np.float64]
    transition: NDArray[np.float64]
    channels: tuple[NDArray[np.float64], ...]

    @property
    def steps(self) -> int:
        """Length of the trajectory."""
        return len(self.channels)


def output_likelihoods(
    release: ChainRelease, outputs: Sequence[int], target: int, known: Mapping[int, int]
) -> NDArray[np.float64]:
    """``Pr[outputs | X_target = m, known]`` for each place ``m`` (M,).

    -1 where ``m`` is impossible. ``known`` maps steps to places. Forward recursion with and without the
    outputs' factors, once per ``m``.
    """
    found = np.full(release.initial.size, -1.0)
    for place in range(release.initial.size):
        fixed = {**known, target: place}
        prior = _forward(release, fixed, None)
        if prior > 0.0:
            found[place] = _forward(release, fixed, outputs) / prior
    return found


def log_ratio(likelihoods: NDArray[np.float64]) -> float:
    """The largest log-ratio between two possible places of the target (nats); inf if one is excluded."""
    possible = likelihoods[likelihoods >= 0.0]
    if possible.size == 0 or possible.max() == 0.0:
        return 0.0
    return math.inf if possible.min() == 0.0 else math.log(float(possible.max() / possible.min()))


def chain_leakage(release: ChainRelease) -> Leakage:
    """Epsilon over all steps, known sets, places and outputs; :class:`LedgerError` if there are too many."""
    work = math.prod(channel.shape[1] for channel in release.channels)
    work *= release.steps * (release.initial.size + 1) ** release.steps
    if work > _MOST_ENUMERATED:
        raise LedgerError(
            f"an exact leakage must have at most {_MOST_ENUMERATED} cases",
            work,
            "use accounting.ledgers.bayesian.chain_leakage.leakage_bound",
        )
    worst = Leakage(0.0, Adversary(0, ()))
    for target in range(release.steps):
        others = [t for t in range(release.steps) if t != target]
        for size in range(len(others) + 1):
            for known in combinations(others, size):
                epsilon = _worst_output(release, target, known)
                if epsilon > worst.epsilon:
                    worst = Leakage(epsilon, Adversary(target, known))
    return worst


def leakage_bound(release: ChainRelease) -> float:
    """Upper bound on epsilon (nats): the sum over steps of the largest log-ratio between two places."""
    return float(sum(_channel_ratio(channel) for channel in release.channels))


def _worst_output(release: ChainRelease, target: int, known: tuple[int, ...]) -> float:
    places = range(release.initial.size)
    outputs = [range(channel.shape[1]) for channel in release.channels]
    return max(
        log_ratio(output_likelihoods(release, released, target, dict(zip(known, values, strict=True))))
        for values in product(places, repeat=len(known))
        for released in product(*outputs)
    )


def _forward(release: ChainRelease, fixed: Mapping[int, int], outputs: Sequence[int] | None) -> float:
    """Probability of being where ``fixed`` says, and of the outputs if given."""
    weight = release.initial
    for t, channel in enumerate(release.channels):
        if t:
            weight = (weight[:, np.newaxis] * release.transition).sum(axis=0)
        if t in fixed:
            weight = np.where(np.arange(weight.size) == fixed[t], weight, 0.0)
        if outputs is not None:
            weight = weight * channel[:, outputs[t]]
    return float(weight.sum())


def _channel_ratio(channel: NDArray[np.float64]) -> float:
    high, low = channel.max(axis=0), channel.min(axis=0)
    seen = high > 0.0
    return math.inf if np.any(low[seen] == 0.0) else math.log(float((high[seen] / low[seen]).max()))
