"""The slow truth: every trajectory of a small chain, written down. Shares no code with what it tests.

A chain is ``start`` (K,) with ``matrices`` (C, K, K); step ``t`` is in slot ``(first_slot + t) % C`` and
matrix ``k`` moves from slot ``k`` to the next. What a step shows is a channel (K, outcomes), row-stochastic;
a raw step's is the indicator of ``labels[step, place]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]


@dataclass(frozen=True)
class Paths:
    """All K^T trajectories (N, T), the first step's place changing slowest, with their probabilities (N,)."""

    places: int
    paths: NDArray[np.int64]
    probability: Floats


def all_paths(start: Floats, matrices: Floats, steps: int, first_slot: int = 0) -> Paths:
    """Every trajectory of ``steps`` steps, impossible ones included."""
    cycle, places, _ = matrices.shape
    paths = _traces(places, steps)
    probability = start[paths[:, 0]].astype(float)
    for t in range(steps - 1):
        probability = probability * matrices[(first_slot + t) % cycle][paths[:, t], paths[:, t + 1]]
    return Paths(places, paths, probability)


@cache
def _traces(places: int, steps: int) -> NDArray[np.int64]:
    """All of them, (K^T, T); not to be written to."""
    found = np.array(list(product(range(places), repeat=steps)), dtype=np.int64)
    found.flags.writeable = False
    return found


def entropy_of(probabilities: Floats) -> float:
    """Shannon entropy, nats."""
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())


def raw_channels(labels: Labels) -> list[Floats]:
    """One indicator channel a step from labels (T, K)."""
    return [np.eye(row.max() + 1)[row] for row in labels]


def joint_law(all_of_them: Paths, channels: Sequence[Floats]) -> Floats:
    """``Pr[x, y]`` for each trajectory (rows) and each sequence of outcomes (columns)."""
    joint = all_of_them.probability[:, None]
    for t, channel in enumerate(channels):
        seen = channel[all_of_them.paths[:, t]]
        joint = (joint[:, :, None] * seen[:, None, :]).reshape(len(joint), -1)
        joint = joint.compress(joint.any(axis=0), axis=1)
    return joint


def information(all_of_them: Paths, channels: Sequence[Floats]) -> float:
    """``I(X; Y_1..Y_T)``, nats."""
    joint = joint_law(all_of_them, channels)
    return entropy_of(joint.sum(1)) + entropy_of(joint.sum(0)) - entropy_of(joint.ravel())


def within(guesses: NDArray[np.int64], paths: NDArray[np.int64], mistakes: int) -> Floats:
    """1 where guess (row) and path (column) differ in at most ``mistakes`` steps."""
    wrong = np.zeros((len(guesses), len(paths)), dtype=np.int8)
    for guessed, taken in zip(guesses.T, paths.T, strict=True):
        wrong += np.not_equal.outer(guessed, taken)
    return (wrong <= mistakes).astype(float)


def optimum(all_of_them: Paths, channels: Sequence[Floats], mistakes: int) -> float:
    """``E_y max_xhat Pr[d(X, xhat) <= s | y]``: the best any adversary can do."""
    close = within(all_of_them.paths, all_of_them.paths, mistakes)
    return float((close @ joint_law(all_of_them, channels)).max(0).sum())


def prior_optimum(all_of_them: Paths, mistakes: int) -> float:
    """The best guess that has seen nothing."""
    close = within(all_of_them.paths, all_of_them.paths, mistakes)
    return float((close @ all_of_them.probability).max())


def guess_success(all_of_them: Paths, guess: Sequence[int], mistakes: int) -> float:
    """``Pr[d(X, guess) <= s]``."""
    return float((within(np.array([guess]), all_of_them.paths, mistakes) @ all_of_them.probability)[0])


def subset_maximum(all_of_them: Paths, size: int) -> float:
    """``A_k``: the largest probability of any ``size`` places at any ``size`` times."""
    steps, places = all_of_them.paths.shape[1], all_of_them.places
    best = 0.0
    for times in combinations(range(steps), size):
        codes = all_of_them.paths[:, list(times)] @ (places ** np.arange(size))
        best = max(best, np.bincount(codes, weights=all_of_them.probability).max())
    return float(best)


def optimum_success(
    start: Floats,
    matrices: Floats,
    labels: Labels,
    window: tuple[int, int],
    mistakes: int,
    first_slot: int = 0,
) -> float:
    """Best success about steps ``w..u`` (inclusive) of an adversary who saw the raw outcomes of *all* steps.

    ``labels`` (steps, K) covers history, window and, for the risk in hindsight, what came after.
    """
    everything = all_paths(start, matrices, len(labels), first_slot)
    return window_optimum(everything, raw_channels(labels), window, mistakes)


def window_optimum(
    everything: Paths, channels: Sequence[Floats], window: tuple[int, int], mistakes: int
) -> float:
    """The same of whoever saw the outputs of any channels."""
    return window_optima(everything, channels, window, [mistakes])[0]


def window_optima(
    everything: Paths, channels: Sequence[Floats], window: tuple[int, int], mistakes: Sequence[int]
) -> list[float]:
    """The same for several numbers of mistakes."""
    traces, law = window_law(everything, joint_law(everything, channels), window)
    return [float((within(traces, traces, s) @ law).max(0).sum()) for s in mistakes]


def window_law(everything: Paths, joint: Floats, window: tuple[int, int]) -> tuple[NDArray[np.int64], Floats]:
    """Every trace of some steps (inclusive), and ``Pr[trace, y]`` summed over what is before and after."""
    first, last = window
    places, steps = everything.places, everything.paths.shape[1]
    before, inside, after = places**first, places ** (last + 1 - first), places ** (steps - 1 - last)
    traces = everything.paths[: inside * after : after, first : last + 1]
    return traces, joint.reshape(before, inside, after, -1).sum(axis=(0, 2))


def information_about_window(
    start: Floats, matrices: Floats, labels: Labels, window: tuple[int, int], first_slot: int = 0
) -> float:
    """``I(X_w..X_u; Y of all steps)``, nats, raw outcomes."""
    everything = all_paths(start, matrices, len(labels), first_slot)
    _, law = window_law(everything, joint_law(everything, raw_channels(labels)), window)
    return entropy_of(law.sum(1)) + entropy_of(law.sum(0)) - entropy_of(law.ravel())
