"""The slow truth about labels: every trajectory of states, and every guess of labels, written down."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from tests.accounting.enumeration import Floats, Paths, joint_law, window_law


def labelled_optimum(
    everything: Paths,
    channels: list[Floats],
    window: tuple[int, int],
    labels: NDArray[np.int64],
    cost: NDArray[np.int64],
    mistakes: int,
) -> float:
    """Best success of whoever saw ``channels`` (K, outputs) a step and guesses the labels of the window.

    ``labels`` (T, K) and ``cost`` (T,) are of all steps of ``everything``.
    """
    first, last = window
    traces, law = window_law(everything, joint_law(everything, channels), window)
    steps = np.arange(first, last + 1)
    taken = labels[steps[None, :], traces]
    guesses = np.array(list(product(*(np.unique(labels[t]) if cost[t] else [0] for t in steps))))
    wrong = (guesses[:, None, :] != taken[None, :, :]) @ cost[steps]
    return float(((wrong <= mistakes).astype(float) @ law).max(0).sum())
