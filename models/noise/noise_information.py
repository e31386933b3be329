"""Information that one noised count gives about one person: exact sums, and tables of upper bounds.

The channel is ``Y = B + Z`` with ``B`` one when the person is counted (probability ``p``) and ``Z`` a
symmetric integer noise; the other people's count is known. Changing the sign of the noise changes ``p`` to
``1 - p``, so tables cover ``p`` in [0, 1/2] only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.special import entr, xlog1py

from models.numerics.arrays import Floats, Integers
from models.numerics.elementwise import exp, log
from models.numerics.jit import bare_jit, jit

OCTAVES = 60
CELLS_PER_OCTAVE = 64
_NUMERIC_MARGIN = 1e-11  # relative; the float sums are good to 1e-12 for sigma up to 64
EXACT_UP_TO_SIGMA = 64.0  # beyond, p(1-p)/(2 sigma^2) is within 1/(8 sigma^2) < 4e-5 of the exact sum
_REACH = 13.0  # standard deviations: what lies beyond has mass below 1e-37
_NODES_PER_SIGMA = 16


class InformationTable(NamedTuple):
    """Knots between which linear interpolation is never below the information; see :func:`table_information`.

    ``grid`` (n,) is 0 followed by 64 equal cells in each octave of [2^-61, 1/2]; ``information_nats`` (n,).
    """

    grid: Floats
    information_nats: Floats


def binary_entropy(probability: Floats) -> Floats:
    """``h(p) = -p ln p - (1-p) ln(1-p)`` nats, any shape.

    Exactly 0 at 0 and 1, and the same bits for ``p`` and ``1 - p``.
    """
    p = np.clip(probability, 0.0, 1.0)  # a sum of probabilities may round to just above one
    p = np.minimum(p, 1.0 - p)
    return np.asarray(entr(p) - xlog1py(1.0 - p, -p), dtype=np.float64)


def noise_information_table(noise: Floats) -> InformationTable:
    """Table for a symmetric integer noise with the probabilities ``noise`` (n,)."""
    channel = _of_noise(noise)
    return likelihood_table(channel.probability, channel.ratio, 0.0, channel.unseen)


def large_sigma_information_table(sigma: float, truncated_mass: float) -> InformationTable:
    """Table of ``p (1 - p) / (2 sigma^2)``, an upper bound for discrete and continuous Gaussian noise.

    Information is the smallest expected divergence to any law, and the noise centred at ``p`` is one:
    ``E (B - p)^2 / (2 sigma^2)`` plus the log-ratio of the normalisers, which is at most 0: by Poisson's
    summation ``sum_k exp(-(k - p)^2 / (2 sigma^2))`` is a cosine series with positive terms, largest at 0.
    """
    grid = _grid()
    own = grid[1:]
    information = own * (1.0 - own) / (2.0 * sigma**2)
    slope = (1.0 - 2.0 * own) / (2.0 * sigma**2)
    return charged(_upper_table(grid, information, slope), truncated_mass)


def binary_channel_information_table(crossover: float, truncated_mass: float) -> InformationTable:
    """Table for a channel that flips its one bit with probability ``crossover`` in (0, 1/2).

    Two-sided geometric noise is one: all values on one side of the other people's count have the same
    likelihood ratio, so the value reveals only on which side it is.
    """
    probability = np.array([1.0 - crossover, crossover])
    return likelihood_table(probability, probability[::-1] / probability, truncated_mass)


def continuous_gaussian_information_table(sigma: float, truncated_mass: float) -> InformationTable:
    """Table for *continuous* Gaussian noise of ``sigma`` people, 0.05 or more.

    The integral over outputs by the trapezoidal rule, whose error for so smooth an integrand falls off as
    ``exp(-32 pi^2 sigma)``: below the margin of the tables.
    """
    if sigma > EXACT_UP_TO_SIGMA:
        return large_sigma_information_table(sigma, truncated_mass)
    places = np.arange(-_REACH, _REACH + 1.0 / sigma, 1.0 / _NODES_PER_SIGMA)
    probability = exp(-0.5 * places**2)
    ratio = exp((places - 0.5 / sigma) / sigma)
    return likelihood_table(probability / probability.sum(), ratio, truncated_mass)


def likelihood_table(
    probability: Floats, ratio: Floats, truncated_mass: float, unseen: float = 0.0
) -> InformationTable:
    """Table for a channel by its output probabilities (n,) for an absent person, and their ratios.

    ``unseen`` is the probability, when counted, of outputs that are impossible for an absent person. The
    channel must be symmetric: ``p`` has the same effect on one as ``1 - p`` on the other.
    """
    grid = _grid()
    own = grid[1:]
    absent, counted = _divergences(probability, ratio, unseen, own)
    table = _upper_table(grid, own * counted + (1.0 - own) * absent, counted - absent)
    return charged(table, truncated_mass)


def charged(table: InformationTable, truncated_mass: float) -> InformationTable:
    """The table of a sampler that is so far from its ideal law: see :func:`truncation_information_nats`."""
    more = truncation_information_nats(truncated_mass)
    return table._replace(information_nats=table.information_nats + more)


def scaled_entropy_table(share: float) -> InformationTable:
    """Table of ``share h(p)``: a channel that reveals at most this share of the entropy of being counted."""
    grid = _grid()
    own = grid[1:]
    table = _upper_table(grid, binary_entropy(own), log((1.0 - own) / own))
    return table._replace(information_nats=table.information_nats * (share * (1.0 + _NUMERIC_MARGIN)))


def least_information(one: InformationTable, other: InformationTable) -> InformationTable:
    """Table of the smaller of two bounds, on the grid that all tables here share.

    Where the smaller table changes from one knot to the next, the line between the knots could lie below both
    bounds: there the knots keep the larger.
    """
    is_less = one.information_nats <= other.information_nats
    smaller = np.minimum(one.information_nats, other.information_nats)
    changes = np.zeros(is_less.size, dtype=np.bool_)
    changes[1:] |= is_less[1:] != is_less[:-1]
    changes[:-1] |= is_less[1:] != is_less[:-1]
    larger = np.maximum(one.information_nats, other.information_nats)
    return InformationTable(one.grid, np.where(changes, larger, smaller))


def truncation_information_nats(truncated_mass: float) -> float:
    """Upper bound of what cutting and rounding a noise's table adds to the information.

    Couple table and ideal law so that they differ with probability ``tau``, whatever the count. Whether they
    differ gives at most ``h(tau)``, and where they do, the value may reveal everything:
    ``h(tau) + tau ln 2``.
    """
    tau = truncated_mass
    return 0.0 if tau <= 0.0 else float(binary_entropy(np.array(tau))) + tau * math.log(2.0)


def _grid() -> Floats:
    """0, then every octave below 1/2 in equal cells, then 1/2."""
    octave = 1.0 + np.arange(CELLS_PER_OCTAVE) / CELLS_PER_OCTAVE
    powers = 2.0 ** np.arange(-OCTAVES - 1, -1)
    return np.concatenate(([0.0], np.outer(powers, octave).ravel(), [0.5]))


def _upper_table(grid: Floats, information: Floats, slope: Floats) -> InformationTable:
    """Raise the values of a concave function at ``grid[1:]`` so that interpolation errs upwards.

    A concave function lies below its tangents; within a cell the two tangents meet at most ``sag`` above the
    chord, so both ends are raised by that much. Below ``grid[1]`` the first tangent is the bound.
    """
    left, right = slice(None, -1), slice(1, None)
    knots = grid[1:]
    width = knots[right] - knots[left]
    chord = (information[right] - information[left]) / width
    above, below = np.maximum(slope[left] - chord, 0.0), np.maximum(chord - slope[right], 0.0)
    bend = above + below
    sag = width * above * below / np.where(bend > 0.0, bend, 1.0)
    raised = information + np.maximum(np.append(sag, 0.0), np.insert(sag, 0, 0.0))
    at_zero = np.maximum(information[0] - knots[0] * slope[0], 0.0)
    values = np.insert(raised * (1.0 + _NUMERIC_MARGIN), 0, at_zero + _NUMERIC_MARGIN * information[0])
    return InformationTable(grid, values)


@bare_jit
def table_information(table: InformationTable, probability: float) -> float:
    """Upper bound (nats) of the information at one ``probability`` in [0, 1], in constant time; for kernels.

    Exactly 0 at 0 and 1. The cell is found from the number's exponent and leading bits, without a search.
    """
    p = min(probability, 1.0 - probability)
    if p <= 0.0:
        return 0.0
    mantissa, exponent = math.frexp(p)  # p = mantissa 2^exponent, 1/2 <= mantissa < 1
    cell = (exponent + OCTAVES) * CELLS_PER_OCTAVE + int((2.0 * mantissa - 1.0) * CELLS_PER_OCTAVE) + 1
    cell = min(max(cell, 0), table.grid.size - 2)
    left, right = table.grid[cell], table.grid[cell + 1]
    share = (p - left) / (right - left)
    return float(table.information_nats[cell] * (1.0 - share) + table.information_nats[cell + 1] * share)


@bare_jit
def fill_information(table: InformationTable, probability: Floats, nats: Floats) -> None:
    """:func:`table_information` of many probabilities, (n,); fills ``nats`` (n,)."""
    for i in range(probability.size):
        nats[i] = table_information(table, probability[i])


@jit
def _log_excess(own: float, other: float, ratio: float) -> float:
    """``x - ln(1 + x)`` for ``1 + x = own + other * ratio`` with ``own + other = 1``."""
    x = other * (ratio - 1.0)
    if abs(x) < 1e-4:  # the difference would cancel; the series is good to x^5
        return x * x * (0.5 - x * (1.0 / 3.0 - 0.25 * x))
    if abs(x) < 0.5:
        return x - math.log1p(x)
    return x - math.log(own + other * ratio)  # 1 + x would lose a small `own`


@jit
def _divergences(outputs: Floats, ratio: Floats, unseen: float, probability: Floats) -> tuple[Floats, Floats]:
    """Divergence (nats) of the output's law from the mixture, for an absent and for a counted person.

    Sums ``x - ln(1 + x)`` of the relative change ``x``, which is never negative, so nothing cancels; the
    changes themselves sum to minus the ``unseen`` mass.
    """
    absent, counted = np.empty_like(probability), np.empty_like(probability)
    for i in range(probability.size):
        p = probability[i]
        absent[i], counted[i] = p * unseen, (1.0 - p) * unseen
        for k in range(outputs.size):
            absent[i] += outputs[k] * _log_excess(1.0 - p, p, ratio[k])
            counted[i] += outputs[k] * _log_excess(p, 1.0 - p, ratio[k])
    return absent, counted


# What a noised count reveals about a person who can be counted more than once.
#
# The channel is ``Y = n + Z`` with a person's own count ``n`` in ``0..L`` and ``Z`` an integer noise; the
# other people's count is known.

_SHARE_ROUNDING = (
    1e-15  # relative, of a sum of probabilities by math.fsum and of the probabilities themselves
)


def shift_probability(noise: Floats, shift: int) -> float:
    """Largest probability of ``shift`` consecutive values of ``noise`` (n,), rounded up.

    For a unimodal noise it is the total variation between the noise and itself shifted by ``shift``, and all
    shifts ``0..shift`` of the noise have the rest, one minus it, in common: over a run of shifts a unimodal
    law is smallest at one of the run's two ends. For a noise with several modes, ``shift`` times the total
    variation of a shift by one, which bounds what they do not have in common.
    """
    steps = np.diff(np.concatenate(([0.0], noise, [0.0])))
    falls = np.flatnonzero(steps < 0.0)
    if falls.size and (steps[falls[0] :] > 0.0).any():
        found = shift * math.fsum(np.maximum(steps, 0.0))
    else:
        found = _largest_run(noise, shift)
    return min(1.0, found * (1.0 + _SHARE_ROUNDING))


def _largest_run(noise: Floats, length: int) -> float:
    """The largest sum of ``length`` consecutive probabilities of a unimodal law."""
    first = last = int(np.argmax(noise))
    while last - first + 1 < min(length, noise.size):  # the larger neighbour belongs to it
        if last + 1 == noise.size or (first > 0 and noise[first - 1] >= noise[last + 1]):
            first -= 1
        else:
            last += 1
    return math.fsum(noise[first : last + 1])


def own_count_information(law: Floats, noise: Floats) -> float:
    """``I(n; n + Z)`` nats for an own count of law ``law`` (L + 1,) and a noise ``noise`` (n,), exactly.

    Sums ``x - ln(1 + x)`` of the relative difference ``x`` of the mixture from each shifted noise: it is
    never negative, so nothing cancels. Of ``x`` near -1 the logarithm is that of the ratio, because ``1 + x``
    loses it: of a count that hardly ever comes, little else is seen where the noise is small.
    """
    counts = np.flatnonzero(law > 0.0)
    mixture = np.zeros(noise.size + law.size - 1)
    for count in counts:
        mixture[count : count + noise.size] += law[count] * noise
    total = 0.0
    for count in counts:
        seen = mixture[count : count + noise.size]
        possible = noise > 0.0
        excess = (seen[possible] - noise[possible]) / noise[possible]
        ratio = np.maximum(seen[possible] / noise[possible], law[count])  # where their product is no double
        surprise = np.where(excess < -0.5, np.log(ratio), np.log1p(np.maximum(excess, -0.5)))
        own = float((noise[possible] * (excess - surprise)).sum())
        mixture_outside = mixture.copy()
        mixture_outside[count : count + noise.size][possible] = 0.0
        outside = float(mixture_outside.sum())  # the changes sum to minus this mass
        total += float(law[count]) * (own + outside)
    others = np.delete(law, np.argmax(law))  # the likeliest is what they leave of 1, or it would lose them
    entropy = float(entr(others).sum() - xlog1py(1.0 - others.sum(), -others.sum()))
    return max(0.0, min(total * (1.0 + _NUMERIC_MARGIN), entropy))


# What several values of one count, each published with noise of its own, reveal about one person.
#
# The channel is ``(B + Z_1, ..., B + Z_n)`` with ``B`` one when the person is counted and the ``Z_i``
# independent integer noises; the other people's count is known. An outcome is described by its probability
# for an absent person, and the ratio of that for a counted person to it. Where there are too many outcomes,
# several are replaced by two with the same mean ratio: such a channel reveals no less (Blackwell 1951), so
# all results are upper bounds.

_MOST_OUTCOMES = 4096  # of a channel; 3 840 knots of a table times so many take a quarter of a second
_MOST_OF_ONE = 2048  # of each of two channels before their outcomes are paired
_NO_RATIO = 1e-300  # stands for 0, which has no logarithm
_ROUNDING = 1e-12  # relative, of sums of millions of products
_UNSEEN = 1e-18  # tails of so little probability share one cell


class Outcomes(NamedTuple):
    """A channel of one bit: ``probability`` (n,) for an absent person, and ``ratio`` (n,) when counted.

    ``unseen`` is the probability, when counted, of outcomes that are impossible for an absent person.
    """

    probability: Floats
    ratio: Floats
    unseen: float


def joint_outcomes(noises: Sequence[Floats]) -> Outcomes:
    """The channel of all values together; ``noises`` are the laws (n_i,) of each value's noise."""
    return reduce(_paired, map(_of_noise, noises))


def joint_shift_probability(outcomes: Outcomes) -> float:
    """Total variation between being counted and not, rounded up: the erasure bound's ``delta``.

    A person who is counted in some of the values shifts only those, which reveals no more.
    """
    less = np.maximum(1.0 - outcomes.ratio, 0.0)
    return min(1.0, math.fsum(outcomes.probability * less) * (1.0 + _ROUNDING))


def joint_information_table(outcomes: Outcomes) -> InformationTable:
    """Table of the information (nats) between being counted and all values together."""
    channel = _symmetric(outcomes)
    last = int(np.argmax(channel.ratio))  # gets the unseen mass, which the table charges
    channel.ratio[last] += channel.unseen / channel.probability[last]
    return likelihood_table(channel.probability, channel.ratio, channel.unseen)


def _of_noise(noise: Floats) -> Outcomes:
    """One value: the ratio at ``k`` is ``noise[k - 1] / noise[k]``."""
    possible = noise > 0.0
    before = np.concatenate(([0.0], noise[:-1]))
    unseen = float(before[~possible].sum() + noise[-1])
    return Outcomes(noise[possible], before[possible] / noise[possible], unseen)


def _symmetric(outcomes: Outcomes) -> Outcomes:
    """The channel or its mirror image, by the toss of a visible coin: tables need a symmetric channel.

    Symmetric noise makes one; only the cells of :func:`_fewer` break the symmetry.
    """
    possible = outcomes.ratio > 0.0
    probability, ratio = outcomes.probability[possible], outcomes.ratio[possible]
    impossible = float(outcomes.probability[~possible].sum())
    unseen = 0.5 * (outcomes.unseen + impossible)
    return Outcomes(
        np.concatenate((0.5 * probability, 0.5 * probability * ratio, [max(unseen, 1e-300)])),
        np.concatenate((ratio, 1.0 / ratio, [0.0])),
        unseen,
    )


def _paired(one: Outcomes, other: Outcomes) -> Outcomes:
    """Two independent channels of the same bit."""
    one, other = _fewer(one, _MOST_OF_ONE), _fewer(other, _MOST_OF_ONE)
    probability = np.multiply.outer(one.probability, other.probability).ravel()
    ratio = np.multiply.outer(one.ratio, other.ratio).ravel()
    seen = probability > 0.0  # what is rounded to nothing was at most 1e-308
    unseen = one.unseen + other.unseen  # and not their product, which is less
    return _fewer(Outcomes(probability[seen], ratio[seen], unseen), _MOST_OUTCOMES)


def _fewer(outcomes: Outcomes, most: int) -> Outcomes:
    """About ``most`` outcomes at most, which reveal no less: each cell of ratios becomes its two ends."""
    order = np.argsort(outcomes.ratio, kind="stable")
    probability, ratio = outcomes.probability[order], outcomes.ratio[order]
    cells = _cells(probability, ratio, most)
    first = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
    mass = np.add.reduceat(probability, first)
    counted = np.add.reduceat(probability * ratio, first)
    low, high = ratio[first], ratio[np.append(first[1:], ratio.size) - 1]
    width = high - low
    share = np.where(width > 0.0, (counted - mass * low) / np.where(width > 0.0, width, 1.0), 0.0)
    above = np.clip(share, 0.0, mass)
    ends = np.stack([mass - above, above], axis=1).ravel()
    where = np.stack([low, high], axis=1).ravel()
    kept = ends > 0.0
    return Outcomes(ends[kept], where[kept], outcomes.unseen)


def _cells(probability: Floats, ratio: Floats, most: int) -> Integers:
    """A cell (n,) for each outcome, in increasing order of ratio.

    Ratios that differ by rounding share a cell; where there are too many, cells are equal parts of the
    logarithm.
    """
    level = np.log(np.maximum(ratio, _NO_RATIO))
    cells = np.cumsum(np.diff(level, prepend=level[0]) > _ROUNDING, dtype=np.int64)
    if cells[-1] < most:
        return cells
    below, above = np.cumsum(probability), np.cumsum((probability * ratio)[::-1])[::-1]
    inner = np.flatnonzero((below > _UNSEEN) & (above > _UNSEEN) & (ratio > 0.0))
    low, high = level[inner[0]], level[inner[-1]]
    place = (np.clip(level, low, high) - low) * ((most // 2 - 2) / (high - low))
    even: Integers = np.ceil(place).astype(np.int64)
    even[level > high] = most // 2
    even[level < low] = -1
    return even
