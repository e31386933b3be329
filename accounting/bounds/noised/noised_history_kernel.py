"""What a history of noised counts says of the place where a horizon begins: a few laws that cover them all.

Every sequence of levels of evidence (``likelihood_levels``) leaves a law ``f`` of the place, with its mass; a
person who is shown begins anew at a known place. What can be won behind a law, ``V(f)``, is a maximum of sums
that are linear in ``f`` with coefficients of at least 0. So a law nowhere below ``f`` bounds what ``f`` wins,
and for any ``r > 0``

    V(f) + V(g) <= V(h),   h(x) = max((1 + 1/r) f(x), (1 + r) g(x)),

as ``f <= h / (1 + 1/r)`` and ``g <= h / (1 + r)``, whose shares add up to 1. That is how laws are covered
together whenever there are more than a few, the pair first whose mass grows least. What lies some steps back
has been mixed by the moves since, so its laws are nearly proportional, and cover each other at next to no
price. Beyond Koga et al.

For example f = (0.3, 0.1) and g = (0.3, 0.3): with r = 0.4 / 0.6, the ratio of their masses,
h = (max(0.75, 0.5), max(0.25, 0.5)) = (0.75, 0.5), mass 1.25 for 1. With r = 1, the largest f(x) / g(x),
h = (0.6, 0.6), mass 1.2: f is hidden behind g.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.likelihood_levels import OwnChannels
from accounting.hmm.propagation import predict
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import LocalChain, slot_of

LEAST_LAWS = 8  # that cover a noised history, however few vectors the search has
_AT_ONCE = 4  # laws before they are covered together, for each that stays
_LEAST_RATIO = 1e-100
_FREE = 3e-4  # growth of mass for which two laws are covered together even where there is room


class Laws(NamedTuple):
    """The laws so far, in the first rows; what it costs to cover two of them together."""

    law: NDArray[np.float64]  # (C, K)
    mass: NDArray[np.float64]  # (C,)
    shape: NDArray[np.float64]  # (C, K), the law over its mass
    growth: NDArray[np.float64]  # (C, C), of mass if i > j are covered with r the ratio of their masses
    least: NDArray[np.float64]  # (C,), of a row of growth; infinite in the first
    nearest: NDArray[np.int64]  # (C,), which that is, among those before it


@jit
def _new_laws(count: int, places: int) -> Laws:
    """Space for ``count`` laws."""
    return Laws(
        np.zeros((count, places)),
        np.zeros(count),
        np.zeros((count, places)),
        np.zeros((count, count)),
        np.full(count, np.inf),
        np.zeros(count, np.int64),
    )


@inline
def _covered_mass(law: NDArray[np.float64], i: int, j: int, ratio: float) -> float:
    """Mass of ``h`` of the laws ``i`` and ``j``."""
    first, second, total = 1.0 + 1.0 / ratio, 1.0 + ratio, 0.0
    for x in range(law.shape[1]):
        total += max(law[i, x] * first, law[j, x] * second)
    return total


@inline
def _best_ratio(laws: Laws, i: int, j: int) -> float:
    """The ``r`` of three with the least mass: that of the masses, and two where one law hides the other.

    Any ``r`` covers both laws; one that a float can no longer be divided by is moved to the nearest that can.
    """
    law = laws.law
    most, least = 0.0, np.inf  # of f / g
    for x in range(law.shape[1]):
        if law[j, x] > 0.0:
            quotient = law[i, x] / law[j, x]
            most, least = max(most, quotient), min(least, quotient)
        elif law[i, x] > 0.0:
            most = np.inf
    ratio = min(max(laws.mass[i] / laws.mass[j], _LEAST_RATIO), 1.0 / _LEAST_RATIO)
    total = _covered_mass(law, i, j, ratio)
    for other in (most, least):
        if _LEAST_RATIO < other < 1.0 / _LEAST_RATIO:
            covered = _covered_mass(law, i, j, other)
            if covered < total:
                total, ratio = covered, other
    return ratio


@inline
def _weigh(laws: Laws, i: int) -> None:
    """Fill mass and shape of one law."""
    law, mass, shape = laws.law, laws.mass, laws.shape
    mass[i] = 0.0
    for x in range(law.shape[1]):
        mass[i] += law[i, x]
    for x in range(law.shape[1]):
        shape[i, x] = law[i, x] / mass[i]


@inline
def _compare(laws: Laws, i: int, j: int) -> None:
    """Fill the growth of one pair, ``i > j``."""
    shape, total = laws.shape, -1.0
    for x in range(shape.shape[1]):
        total += max(shape[i, x], shape[j, x])
    laws.growth[i, j] = total * (laws.mass[i] + laws.mass[j])


@inline
def _find_nearest(laws: Laws, i: int) -> None:
    """The cheapest before ``i`` to be covered with."""
    growth, least, nearest = laws.growth, laws.least, laws.nearest
    least[i], nearest[i] = np.inf, -1
    for j in range(i):
        if growth[i, j] < least[i]:
            least[i], nearest[i] = growth[i, j], j


@inline
def _cover(laws: Laws, count: int, i: int, j: int) -> None:
    """Put ``h`` of the laws ``i > j`` in the place of ``j``, and the last of ``count`` laws in ``i``'s."""
    law, mass, shape, growth = laws.law, laws.mass, laws.shape, laws.growth
    least, nearest, last = laws.least, laws.nearest, count - 1
    ratio = _best_ratio(laws, i, j)
    first, second = 1.0 + 1.0 / ratio, 1.0 + ratio
    for x in range(law.shape[1]):
        law[j, x] = max(law[i, x] * first, law[j, x] * second)
        law[i, x], shape[i, x] = law[last, x], shape[last, x]
    mass[i] = mass[last]
    _weigh(laws, j)
    for k in range(last):
        if k < i:
            growth[i, k] = growth[last, k]
        elif k > i:
            growth[k, i] = growth[last, k]
    for k in range(last):
        if k != j:
            _compare(laws, max(j, k), min(j, k))
    for k in range(last):
        if k in (i, j) or nearest[k] in (i, j):
            _find_nearest(laws, k)
            continue
        for changed in (i, j):
            if k > changed and growth[k, changed] < least[k]:
                least[k], nearest[k] = growth[k, changed], changed


@bare_jit
def _thin_out(laws: Laws, count: int, most: int) -> int:
    """Cover laws together until ``most`` are left, and those that cost nothing; how many there are then."""
    law, least = laws.law, laws.least
    kept = 0
    for i in range(count):
        mass = 0.0
        for x in range(law.shape[1]):
            law[kept, x] = law[i, x]
            mass += law[i, x]
        if mass > 0.0:
            _weigh(laws, kept)
            for j in range(kept):
                _compare(laws, kept, j)
            _find_nearest(laws, kept)
            kept += 1
    count = kept
    while count > 1:
        first = 1
        for i in range(2, count):
            if least[i] < least[first]:
                first = i
        if count <= most and least[first] > _FREE:
            break
        _cover(laws, count, first, laws.nearest[first])
        count -= 1
    return count


@bare_jit
def _split(laws: Laws, count: int, channels: OwnChannels, g: int) -> int:
    """The laws behind each level of one sensor; how many there are then."""
    law = laws.law
    for level in range(channels.size[g] - 1, -1, -1):
        for i in range(count):
            for x in range(law.shape[1]):
                factor = channels.present[g, level] if channels.cover[g, x] else channels.absent[g, level]
                law[level * count + i, x] = law[i, x] * factor
    return count * channels.size[g]


@jit
def noised_history_laws(
    person: LocalChain, channels: OwnChannels, steps: int, first: NDArray[np.float64], most: int
) -> NDArray[np.float64]:
    """At most ``most`` laws (R, K) of the place after ``steps`` steps, which begin with ``person.start``.

    What can be won behind all outcomes of the steps is at most the sum of what can be won behind each law.
    ``first`` (K,) is the mass at each place of being shown there in the first step; zeros if nothing is
    shown.
    """
    places = person.start.size
    capacity = _AT_ONCE * most + places
    laws = _new_laws(capacity, places)
    laws.law[0], count, g = person.start - first, 1, 0
    shown, moved = np.empty(places), np.empty(places)
    for t in range(steps):
        for x in range(places):
            shown[x] = first[x] if t == 0 else 0.0
        while g < channels.time.size and channels.time[g] == t:
            for x in range(places):
                if channels.cover[g, x]:
                    shown[x] += laws.law[:count, x].sum() * channels.shown[g]
            g += 1
        for each in range(g):
            if channels.time[each] == t:
                if count * channels.size[each] > _AT_ONCE * most:
                    count = _thin_out(laws, count, most)
                count = _split(laws, count, channels, each)
        for x in range(places):
            if shown[x] > 0.0:
                laws.law[count] = 0.0
                laws.law[count, x] = shown[x]
                count += 1
        for i in range(count):
            predict(person.chain, slot_of(person, t), laws.law[i], moved)
            laws.law[i] = moved
        if count > most or t == steps - 1:
            count = _thin_out(laws, count, most)
    return laws.law[:count].copy()
