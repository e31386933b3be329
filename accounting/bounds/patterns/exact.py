"""The exact optimum of raw releases: at ``s = 0`` by renewals, on short horizons by enumeration."""

from __future__ import annotations

from math import comb, exp
from typing import NamedTuple

import numpy as np

from accounting.bounds.patterns.raw_success_kernel import Outside
from accounting.bounds.protocol import Bound, Question, Scope
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from accounting.exposure.step_information.renewal_kernel import renewal_optimum
from models.numerics.arrays import Flags, Floats, Integers
from models.numerics.jit import jit
from models.priors.chain import LocalChain

# The true optimum of a short horizon: every trajectory and every guess near it.


@jit
def guesses_near(steps: int, places: int, mistakes: int, count: int) -> Integers:
    """All ways to differ in at most ``s`` steps, as shifts modulo ``places``, shape (count, T)."""
    shifts = np.zeros((count, steps), np.int64)
    shift = np.zeros(steps, np.int64)
    changed = 0
    for row in range(1, count):
        # Count up in base ``places``, jumping over numbers with more than ``s`` digits set.
        t = 0
        while True:
            if shift[t] == 0 and changed == mistakes:
                t += 1
            elif shift[t] == 0:
                shift[t] = 1
                changed += 1
                break
            elif shift[t] + 1 < places:
                shift[t] += 1
                break
            else:
                shift[t] = 0
                changed -= 1
                t += 1
        shifts[row] = shift
    return shifts


@jit
def enumerated_optimum(
    paths: Integers, probability: Floats, seen: Integers, places: int, shifts: Integers
) -> float:
    """``sum_y max_xhat Pr[d(X, xhat) <= s, y]``.

    ``paths`` (N, T) in an order in which equal observations ``seen`` (N,) are neighbours. Every path adds its
    probability to each guess near it; what a guess has gathered for an observation only grows, so the largest
    value met on the way is the maximum.
    """
    steps = paths.shape[1]
    gathered = np.zeros(places**steps)
    stamp = np.full(places**steps, -1)
    total = 0.0
    best = 0.0
    for n in range(paths.shape[0]):
        if n > 0 and seen[n] != seen[n - 1]:
            total += best
            best = 0.0
        for row in range(shifts.shape[0]):
            guess = 0
            for t in range(steps):
                place = paths[n, t] + shifts[row, t]
                guess = guess * places + (place - places if place >= places else place)
            if stamp[guess] != seen[n]:
                stamp[guess] = seen[n]
                gathered[guess] = 0.0
            gathered[guess] += probability[n]
            best = max(best, gathered[guess])
    return total + best


MOST_GUESSES = 1 << 20
MOST_OPERATIONS = 1e8  # a fifth of a second

_ROUNDING = 1e-12  # sums of up to 2^20 probabilities, each rounded


class Trajectories(NamedTuple):
    """Every trajectory of a short horizon that is possible, (N, T), with its probability (N,).

    ``guessed`` (N, T) is what must not be guessed of each, one of ``labels``: the places, as a rule.
    """

    labels: int
    paths: Integers
    guessed: Integers
    probability: Floats
    shifts: Integers

    @property
    def operations(self) -> float:
        """Work of one optimum."""
        return float(self.paths.size) * len(self.shifts)


@jit
def shown_optimum(everything: Trajectories, labels: Integers) -> float:
    """Best success of an adversary who sees the label (T, K) of the place in each step."""
    paths, seen = everything.paths, np.zeros(len(everything.paths), dtype=np.int64)
    for t in range(labels.shape[0]):
        labels_there = labels[t].max() + 1
        for n in range(seen.size):
            seen[n] = seen[n] * labels_there + labels[t, paths[n, t]]
    order = np.argsort(seen, kind="mergesort")
    guessed, probability = everything.guessed[order], everything.probability[order]
    success = enumerated_optimum(guessed, probability, seen[order], everything.labels, everything.shifts)
    return min(1.0, success * (1.0 + _ROUNDING))


def trajectories(question: Question) -> Trajectories | None:
    """All trajectories, None where they or the guesses near them are too many, or without effort."""
    exposure, mistakes = question.exposure, question.mistakes
    if question.effort.patterns == 0:
        return None
    places, steps, guessed = exposure.place_count, exposure.steps, exposure.guessed
    labels = int(guessed.max()) + 1
    near = sum(comb(steps, wrong) * (labels - 1) ** wrong for wrong in range(mistakes + 1))
    if places**steps > MOST_GUESSES or exposure.cost.max() > 1:  # a dearer mistake is no single shift
        return None
    paths = np.flatnonzero(exposure.start > 0.0)[:, None]
    probability = exposure.start[paths[:, 0]]
    for t in range(steps - 1):
        reached = probability[:, None] * dense_matrix(exposure.chain, exposure.slot(t))[paths[:, -1]]
        before, place = np.nonzero(reached)
        paths = np.column_stack([paths[before], place])
        probability = reached[before, place]
    if float(paths.size) * near > MOST_OPERATIONS:
        return None
    chosen = paths
    if exposure.is_labelled:
        chosen = np.ascontiguousarray(np.take_along_axis(guessed, paths.T, axis=1).T.astype(np.int64))
    return Trajectories(labels, paths, chosen, probability, guesses_near(steps, labels, mistakes, near))


def exact_bound(question: Question) -> float | None:
    """``sum_y max_xhat Pr[d(X, xhat) <= s, y]``, the best any adversary of the raw schedule can do.

    By renewals at ``s = 0``; by enumeration on short horizons, also for ``s > 0`` and where a count covers
    several of the person's places; None otherwise. An upper bound for the noised schedule. Beyond the paper.
    """
    exposure, mistakes = question.exposure, question.mistakes
    everything = question.once(trajectories)
    if everything is not None and (mistakes > 0 or exposure.is_refined or exposure.is_labelled):
        return shown_optimum(everything, exposure.labels.astype(np.int64))
    if mistakes > 0 or exposure.is_labelled:
        return None
    log_success = renewal_optimum(exposure.person, exposure.start[np.newaxis], exposure.hits)
    return min(1.0, exp(log_success))


@jit
def renewal_success(person: LocalChain, hits: Flags, outside: Outside) -> float:
    """The optimum by renewals, where no guess may be wrong, and it is the place that is guessed."""
    laws, shown = outside.laws, outside.shown
    if shown.any():
        laws = np.concatenate((laws, np.diag(shown)))
    log_success = renewal_optimum(person, laws, hits)
    return min(1.0, np.exp(log_success) * (1.0 + _ROUNDING))


EXACT = Bound(
    "exact",
    idea="the true optimum: by renewals at `s = 0`, by enumeration on short horizons",
    scope=Scope.RAW,
    cost="O(hits T nnz); trajectories times guesses near each",
    compute=exact_bound,
)
