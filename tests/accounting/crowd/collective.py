"""The slow truth of a crowd: every movement of everybody, written down. Shares no code with what it tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tests.accounting.enumeration import Floats, all_paths, within


@dataclass(frozen=True)
class Count:
    """A sensor at one step: which places it counts at (K,), and the masses of its noise at -n..n."""

    step: int
    cover: NDArray[np.bool_]
    noise: Floats


Chain = tuple[Floats, Floats]
"""``start`` (K,) at step 0 and ``matrices`` (C, K, K), as the enumeration takes them."""


def others_law(others: Sequence[Chain], counts: Sequence[Count], steps: int) -> Floats:
    """Law of what the others and the noise add to the counts; an axis a count, the first value ``-n``."""
    law = np.ones((1,) * len(counts))
    for start, matrices in others:
        everything = all_paths(start, matrices, steps)
        added = np.zeros((2,) * len(counts))
        bits = tuple(each.cover[everything.paths[:, each.step]].astype(int) for each in counts)
        np.add.at(added, bits, everything.probability)
        law = sum_of(law, added)
    for axis, each in enumerate(counts):
        noise = each.noise.reshape([-1 if k == axis else 1 for k in range(len(counts))])
        law = sum_of(law, noise)
    return law


def sum_of(one: Floats, other: Floats) -> Floats:
    """The law of the sum of two independent counts."""
    found = np.zeros([a + b - 1 for a, b in zip(one.shape, other.shape, strict=True)])
    for where in product(*map(range, other.shape)):
        if other[where] > 0.0:
            found[tuple(slice(k, k + size) for k, size in zip(where, one.shape, strict=True))] += (
                other[where] * one
            )
    return found


@dataclass(frozen=True)
class Joint:
    """Of the traces (R, n) of some steps and the counts: ``likely @ outcomes`` is ``Pr[trace, counts]``.

    Trajectories with the same trace that add the same to every count stand in one cell of ``likely`` (R, P);
    ``outcomes`` (P, ..) is the law of the counts with what they add.
    """

    traces: NDArray[np.int64]
    likely: Floats
    outcomes: Floats

    @cached_property
    def law(self) -> Floats:
        """``Pr[trace, counts]`` (R, ..)."""
        return self.likely @ self.outcomes


def joint_law(
    target: Chain, counts: Sequence[Count], law: Floats, window: tuple[int, int], group: int = 1
) -> Joint:
    """Of the target's trace in the ``window``'s steps; ``group`` people move with the target."""
    everything = all_paths(*target, max(window[1], *(each.step for each in counts)) + 1)
    traces, trace_of = np.unique(everything.paths[:, window[0] : window[1] + 1], axis=0, return_inverse=True)
    bits = np.stack([each.cover[everything.paths[:, each.step]] for each in counts], axis=1)
    added, added_of = np.unique(bits, axis=0, return_inverse=True)
    likely = np.zeros((len(traces), len(added)))
    np.add.at(likely, (trace_of.ravel(), added_of.ravel()), everything.probability)
    outcomes = np.zeros((len(added), *(size + group for size in law.shape)))
    for row, pattern in zip(outcomes, added, strict=True):
        row[
            tuple(
                slice(group * bit, group * bit + size) for bit, size in zip(pattern, law.shape, strict=True)
            )
        ] = law
    return Joint(traces, likely, outcomes.reshape(len(added), -1))


def collective_optimum(joint: Joint, mistakes: int) -> float:
    """Best success of whoever knows all priors and sees all counts.

    A guess that another one beats whatever the target adds to the counts need not be looked at.
    """
    right = within(joint.traces, joint.traces, mistakes) @ joint.likely
    right = np.unique(right, axis=0)
    beaten = (right[:, None] <= right).all(axis=2) & ~np.eye(len(right), dtype=bool)
    return float((right[~beaten.any(axis=1)] @ joint.outcomes).max(0).sum())
