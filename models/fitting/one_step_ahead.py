"""How well a way of fitting predicts: each training move from those before it, and from nothing later."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.fitting.counting import Blocks, MovesMade, fading, moves_made, own_places
from models.fitting.fit import FitResult
from models.fitting.fit_options import FitOptions
from models.numerics import elementwise


class TrainingSurprise(NamedTuple):
    """Surprise of ``moves`` training moves, nats a move: with the recency chosen, and with equal weights.

    None where a move was impossible. It compares ways of fitting on these windows; that ceilings are right it
    does not say.
    """

    moves: int
    surprise: float | None
    with_equal_weights: float | None


def training_surprise(fit: FitResult) -> TrainingSurprise:
    """Predict the training moves one window ahead, everybody on the places of all their training windows."""
    places = own_places(fit.training, fit.population.location_count, fit.options)
    moves = moves_made(fit.training, places, fit.first_slot, fit.options)
    size = places.size
    chosen = _surprise(moves, size, fit.options, fit.options.recency)
    equal = chosen if fit.options.recency == 1.0 else _surprise(moves, size, fit.options, 1.0)
    return TrainingSurprise(moves.person.size, chosen, equal)


class _Fading:
    """Counts that fade by a factor a window, brought up to date when they are looked at."""

    def __init__(self, size: int, factors: NDArray[np.float64]) -> None:
        self._factors = factors
        self._counts = np.zeros(size)
        self._since = np.zeros(size, dtype=np.int64)

    def look(self, at: NDArray[np.int64], window: int) -> NDArray[np.float64]:
        """The counts ``at`` different positions as of a window."""
        self._counts[at] *= self._factors[window - self._since[at]]
        self._since[at] = window
        return self._counts[at]

    def add_one(self, at: NDArray[np.int64]) -> None:
        """Count a move at different positions that were looked at in this window."""
        self._counts[at] += 1.0


def _surprise(moves: MovesMade, size: NDArray[np.int64], options: FitOptions, recency: float) -> float | None:
    """Mean of ``-ln P(move)`` over all moves; 0 without any."""
    factors = fading(int(moves.window.max(initial=0)), recency)
    levels = [(Blocks(size), moves.person)]
    if options.slots > 1:
        levels.append((Blocks(np.repeat(size, options.slots)), moves.block(options.slots)))
    entries = [moves.entry(blocks, block) for blocks, block in levels]
    rows = [blocks.row_start[block] + moves.origin for blocks, block in levels]
    counted = [_Fading(int(blocks.start[-1]), factors) for blocks, _ in levels]
    left = [_Fading(int(blocks.row_start[-1]), factors) for blocks, _ in levels]
    order = np.argsort(moves.window, kind="stable")  # at most one move a person in each window
    ends = np.flatnonzero(np.diff(moves.window[order], append=-1)) + 1
    probability = np.zeros(order.size)
    for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        at = order[begin:end]
        window = int(moves.window[at[0]])
        for level in range(len(levels)):
            hits = counted[level].look(entries[level][at], window)
            total = left[level].look(rows[level][at], window)
            if level == 0:
                probability[at] = _smoothed(hits, total, moves, at, size, options)
            else:
                probability[at] = _drawn(hits, total, probability[at], options)
            counted[level].add_one(entries[level][at])
            left[level].add_one(rows[level][at])
    if (probability <= 0.0).any():
        return None
    return -float(elementwise.log(probability).sum()) / max(order.size, 1)


def _smoothed(
    hits: NDArray[np.float64],
    total: NDArray[np.float64],
    moves: MovesMade,
    at: NDArray[np.int64],
    size: NDArray[np.int64],
    options: FitOptions,
) -> NDArray[np.float64]:
    """The moves' entries in the rows as fitted so far."""
    places = size[moves.person[at]]
    weight = options.pseudo_count
    rows = total + weight * places
    fitted = np.divide(hits + weight, rows, out=np.zeros(at.size), where=rows > 0.0)
    if options.never_left == "smoothed":
        return fitted
    stays = (moves.origin[at] == moves.target[at]).astype(np.float64)
    return np.where(total > 0.0, fitted, stays if options.never_left == "stay" else 1.0 / places)


def _drawn(
    hits: NDArray[np.float64], total: NDArray[np.float64], free: NDArray[np.float64], options: FitOptions
) -> NDArray[np.float64]:
    """The same in rows of a slot, drawn towards the cycle-free ones."""
    weight = np.where((total == 0.0) & (options.shrinkage_weight == 0), 1.0, options.shrinkage_weight)
    return np.asarray((hits + weight * free) / (total + weight), dtype=np.float64)
