"""Patterns of counts told apart through noise: between what is won of exact counts and of none.

Let ``A_b`` be the mass of the paths a guess wins on among those with the pattern ``b`` of which counts count
the person. It is at most ``V_b``, what is won where ``b`` is known; and for weights ``c_b >= 0`` the sum of
``c_b A_b`` is at most ``V(c)``, what is won with ``c`` as evidence. Noised counts ``y`` have the law ``P_b``;
for any law ``Q`` and ``gamma >= 0``

    sum_b A_b P_b(y) <= gamma V(c) Q(y) + sum_b V_b max(0, P_b(y) - gamma c_b Q(y)),

so the success is at most ``gamma V(c) + sum_b V_b E(b)``, ``E(b)`` the hockey-stick divergence of ``P_b``
from ``Q`` at ``gamma c_b``. Without noise that is what exact counts win (``gamma = 0``), with very much of
it what none do (``gamma = c_b = 1``). Were ``V_b`` the whole mass of ``b``, it would be the converse of
Polyanskiy, Poor and Verdu (2010). Counts that stay exact are known beside; both terms are then sums over
them. Of several laws of the first place each has its own.

A count tells no more than a normal value of variance one with mean ``mu`` where the person is counted and 0
else, if its errors of both kinds are traded for each other no better (Dong, Roth and Su, *Gaussian
Differential Privacy*, 2022); :func:`normal_shifts` finds the least ``mu``. Let ``Q`` be normal as well, with
means ``m_g mu_g``. Then ``E(b)`` depends on ``c_b`` and on ``D^2 = sum_g mu_g^2 (b_g - m_g)^2`` alone, which
is a score: a sum over what counts the person. So is the logarithm of ``c_b``, a *tilt* times the score: of
rare patterns, of which many could be taken for the true one, more is asked to stand out. The frontier bound
of exact counts tells apart what is won by score. Any ``m_g`` will do, and near the chance of being counted
``D`` is small; it is such that the score, ``mu_g^2 (1 - 2 m_g)`` a count, is in whole units.

For example one step at place 0 or 1 with probability 1/2 each, and a count at 1 with ``mu = 1``. With ``m``
1/2 both patterns have ``D = 1/2``, and ``V_0 = V_1 = V(1) = 1/2``. At ``gamma = 1`` the bound is ``1/2 +
(2 Phi(1/4) - 1) = 0.697``; the best guess wins ``Phi(1/2) = 0.691``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accounting.bounds.patterns.frontier_kernel import (
    FrontierEffort,
    FrontierQuestion,
    Scores,
    frontier_by_score,
    raw_channels,
)
from accounting.exposure.step_information.likelihood_levels import LevelTables, OwnChannels
from models.numerics.arrays import Flags, Floats, Integers
from models.numerics.jit import bare_jit, jit, shared

SHOWN = 1e-8  # probability with which a count may be shown as it is: to be added to the bound
_MOST_SCORES = 64
_UNITS = 4.0  # of what the plainest count adds to the score
_FIRST_TILT, _TILTS = 1.25, 4  # for each unit of D^2, and how many are tried
_SMALL_TILT = 0.3  # tried last, as is none: what is won with such weights is found without much search
_GAMMAS = 8  # for each tilt
_FARTHEST = 30.0  # a normal value is never farther from its mean
_ROUNDING = 1e-12
_OF_SQUARES = 1e-15  # of D^2 may be lost to rounding, with each count
_MOST_LOG = 300.0  # of weights: with larger ones products would overflow, or what they are of vanish


@bare_jit
def _normal(x: float) -> float:
    """The distribution function of a normal value."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@bare_jit
def _quantile(probability: float) -> float:
    """A value below which a normal one is with this probability, or hardly less."""
    low, high = -_FARTHEST, _FARTHEST
    for _ in range(40):
        middle = 0.5 * (low + high)
        if _normal(middle) <= probability:
            low = middle
        else:
            high = middle
    return low


@jit
def normal_shifts(tables: LevelTables) -> Floats:
    """The shift of a normal value that tells as much as each channel's outputs, (C,); infinite if exact.

    But with probability ``SHOWN`` the count is shown as it is. The errors of all tests lie above the chords
    between those of thresholds, and the normal law's are convex: so thresholds are all there is to look at.
    """
    shift = np.zeros(tables.outputs.size)
    for c in range(shift.size):
        missed = 0.0
        for threshold in range(tables.outputs[c] + 1):
            false = 0.0
            for o in range(threshold, tables.outputs[c]):
                false += 2.0 * tables.weight[c, o] * (1.0 - tables.theta[c, o])
            reject, miss = false / (1.0 - SHOWN), missed / (1.0 - SHOWN)
            if reject < 1.0 and miss < 1.0:
                is_sure = min(reject, miss) <= _normal(-_FARTHEST)
                shift[c] = np.inf if is_sure else max(shift[c], -_quantile(reject) - _quantile(miss))
            if threshold < tables.outputs[c]:
                missed += 2.0 * tables.weight[c, threshold] * tables.theta[c, threshold]
    return shift


class _Line(NamedTuple):
    """What is won by score, and how far each score's counts are from the middle; scores that nobody has left
    out.
    """

    won: Floats  # (R, N)
    together: Floats  # (N,), of all laws
    score: Floats  # (N,), in D^2
    distance: Floats  # (N,), D


@jit
def _scores(marginal: Floats, time: Integers, cover: Flags, shift: Floats) -> tuple[Scores, float, float]:
    """The scores of what noised counts show, ``D^2`` where nothing is shown, and the unit of the scores."""
    steps, places = marginal.shape
    unit, count, nought, nothing = 0.0, _MOST_SCORES + 1, 0, 0.0
    for g in range(time.size):
        if shift[g] < np.inf:
            unit = max(unit, shift[g] ** 2 / (2.0 * _UNITS))
    lift = np.zeros((steps, places), np.int64)
    while count > _MOST_SCORES:
        unit, nothing = 2.0 * unit, 0.0
        for g in range(time.size):
            chance, square = 0.0, shift[g] ** 2
            if not 0.0 < square < np.inf:
                continue
            for x in range(places):
                if cover[g, x]:
                    chance += marginal[time[g], x]
            units = int(np.round((1.0 - 2.0 * chance) * square / unit))
            nothing += square * (0.5 - 0.5 * units * unit / square) ** 2
            for x in range(places):
                if cover[g, x]:
                    lift[time[g], x] = units
        count, nought = 1, 0
        for t in range(steps):
            nought -= min(0, lift[t].min())
            count += max(0, lift[t].max()) - min(0, lift[t].min())
    return Scores(lift, count, nought), nothing, unit


@jit
def _weighed(
    time: Integers, cover: Flags, shift: Floats, lift: Integers, tilt: float
) -> tuple[OwnChannels, float]:
    """Exact counts as they are, others as weights of paths, at most 1 a step; logarithm of what they lack."""
    count, lacking = time.size, 0.0
    absent, present, shown = np.ones((count, 1)), np.zeros((count, 1)), np.ones(count)
    begin, most = 0, 1.0
    for g in range(count):
        if time[g] > time[begin]:
            begin, most = g, 1.0
        if shift[g] < np.inf:
            shown[g] = 0.0
            for x in range(cover.shape[1]):
                if cover[g, x]:
                    present[g, 0] = math.exp(tilt * lift[time[g], x])
            most = max(most, present[g, 0])
        if g + 1 == count or time[g + 1] > time[g]:
            absent[g, 0] /= most
            present[g, 0] /= most
            lacking += math.log(most)
    return OwnChannels(time, cover, np.ones(count, np.int64), absent, present, shown), lacking


@jit
def _lower(line: _Line, tilt: float, log_gamma: float, least: Floats, lowest: Floats) -> tuple[float, float]:
    """Lower the bound of each law, ``lowest`` (R,), with one ``gamma``; their sum with it, and its slope.

    The slope is that in ``log_gamma``; the sum is convex in ``gamma``, so there is one valley.
    """
    apart, total, slope = np.empty(line.score.size), 0.0, math.exp(log_gamma) * least.sum()
    for n in range(apart.size):
        d, threshold = line.distance[n], log_gamma + tilt * line.score[n]
        beyond = 0.0  # is taken off, so nought is safe
        if threshold <= _MOST_LOG:
            beyond = math.exp(threshold) * _normal(-d / 2.0 - threshold / d)
        apart[n] = min(1.0, max(0.0, _normal(d / 2.0 - threshold / d) - beyond) + _ROUNDING)
        slope -= line.together[n] * beyond
    for r in range(least.size):
        found = least[r]  # nought times infinity would be no number
        if found < np.inf:
            found *= math.exp(log_gamma)
        for n in range(apart.size):
            found += line.won[r, n] * apart[n]
        lowest[r] = min(lowest[r], found)
        total += found
    return total, slope


@jit
def _go_down(line: _Line, tilt: float, log_gamma: float, least: Floats, lowest: Floats) -> None:
    """Lower the bounds with values of ``gamma`` down the slope, by steps doubled until it turns, then halved.

    ``gamma`` stays so small that nothing matters which was too small for a number in ``least``.
    """
    step, first_slope, has_turned = 1.0, 0.0, False
    for number in range(_GAMMAS):
        log_gamma = min(log_gamma, _MOST_LOG)
        _, slope = _lower(line, tilt, log_gamma, least, lowest)
        if number == 0:
            first_slope = slope
        elif (slope > 0.0) != (first_slope > 0.0):
            has_turned = True
        elif not has_turned:
            step *= 2.0
        if has_turned:
            step *= 0.5
        log_gamma += -step if slope > 0.0 else step


@shared
@jit
def told_apart(asked: FrontierQuestion, hits: Flags, time: Integers, cover: Flags, shift: Floats) -> float:
    """Bound on the success of who sees the sensor-steps behind ``hits`` (T, K), and the laws outside.

    ``time``, ``cover`` (G, K) and ``shift`` (G,) are those of the sensor-steps; nobody is shown from outside.
    ``SHOWN`` and what outputs leave out is to be added.
    """
    person, marginal, mistakes, outside, effort = asked
    one = Scores(np.zeros(hits.shape, np.int64), 1, 0)
    scores, nothing, unit = _scores(marginal, time, cover, shift)
    won = frontier_by_score(asked, raw_channels(hits), scores)
    score = unit * (np.arange(scores.size).astype(np.float64) - scores.nought)
    rounded = _OF_SQUARES * (2 + time.size) * (nothing + np.abs(score))
    distance, together = np.sqrt(np.maximum(nothing + score + rounded, _ROUNDING)), won.sum(axis=0)
    some = np.flatnonzero(together)
    line = _Line(won[:, some], together[some], score[some], distance[some])
    lowest = np.empty(won.shape[0])
    for r in range(lowest.size):
        lowest[r] = won[r].sum()
    # Both are looked for with steps that are halved and turned round where they led to nothing lower. Scores
    # may all lie far from nought: so gamma is looked for where their weights are usually one, too.
    usual = (won * score).sum() / max(won.sum(), _ROUNDING)
    tilt, tilt_step, log_gamma, best = _FIRST_TILT, -_FIRST_TILT / 2.0, 0.0, np.inf
    for number in range(_TILTS + 2):
        if number >= _TILTS:
            tilt = _SMALL_TILT * (_TILTS + 1 - number)
        channels, lacking = _weighed(time, cover, shift, scores.lift, tilt * unit)
        tolerance = effort.tolerance * math.exp(-lacking)
        finer = FrontierEffort(effort.vectors, tolerance, effort.expansions, -1)
        again = FrontierQuestion(person, marginal, mistakes, outside, finer)
        least = frontier_by_score(again, channels, one)[:, 0]
        least *= math.exp(lacking) if lacking <= _MOST_LOG else np.inf
        least[np.isnan(least)] = np.inf
        _go_down(line, tilt, -tilt * usual, least, lowest)
        if number >= _TILTS:
            continue
        gamma_step, best_here = 1.0, np.inf
        for _ in range(_GAMMAS):
            found, _ = _lower(line, tilt, log_gamma, least, lowest)
            if found >= best_here:
                log_gamma -= gamma_step
                gamma_step *= -0.5
            best_here = min(best_here, found)
            log_gamma += gamma_step
        if best_here >= best:
            tilt -= tilt_step
            tilt_step *= -0.5
        best = min(best, best_here)
        tilt = max(0.0, tilt + tilt_step)
    return min(1.0, lowest.sum())
