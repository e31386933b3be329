"""The slow truth of a crowd: every movement of everybody, written down. Shares no code with what it tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
        law = _sum_of(law, added)
    for axis, each in enumerate(counts):
        noise = each.noise.reshape([-1 if k == axis else 1 for k in range(len(counts))])
        law = _sum_of(law, noise)
    return law


def _sum_of(one: Floats, other: Floats) -> Floats:
    found = np.zeros([a + b - 1 for a, b in zip(one.shape, other.shape, strict=True)])
    for where in product(*map(range, other.shape)):
        if other[where] > 0.0:
            found[tuple(slice(k, k + size) for k, size in zip(where, one.shape, strict=True))] += (
                other[where] * one
            )
    return found


def joint_law(target: Chain, counts: Sequence[Count], law: Floats, steps: int, group: int = 1) -> Floats:
    """``Pr[x, counts]``: trajectories of the target in rows; ``group`` people move with the target."""
    everything = all_paths(*target, steps)
    shape = [size + group for size in law.shape]
    joint = np.zeros((len(everything.paths), *shape))
    for row, path in enumerate(everything.paths):
        bits = [group * int(each.cover[path[each.step]]) for each in counts]
        where = tuple(slice(bit, bit + size) for bit, size in zip(bits, law.shape, strict=True))
        joint[(row, *where)] = everything.probability[row] * law
    return joint.reshape(len(joint), -1)


def collective_optimum(
    joint: Floats, target: Chain, steps: int, window: tuple[int, int], mistakes: int
) -> float:
    """Best success about the steps of a window of whoever knows all priors and sees all counts."""
    paths = all_paths(*target, steps).paths[:, window[0] : window[1] + 1]
    traces, which = np.unique(paths, axis=0, return_inverse=True)
    collapsed = np.zeros((len(traces), joint.shape[1]))
    np.add.at(collapsed, which.ravel(), joint)
    return float((within(traces, traces, mistakes) @ collapsed).max(0).sum())
