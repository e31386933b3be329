"""What a person's prior alone gives away over a horizon: the guess probability ``q`` and the baseline.

Constants of the person, per slot in which the horizon starts; products of moves are formed once for both.
"""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple

import numpy as np

from accounting.exposure.step_information.renewal_kernel import normalise
from accounting.hmm.eight import load, moved_on, padded, spread_out, store
from accounting.hmm.frontier.late_genie_kernel import late_genie_affordable, late_genie_bound
from accounting.hmm.frontier.one_mistake_kernel import best_but_for_one, one_mistake_affordable
from accounting.hmm.frontier.search_kernel import affordable_expansions, best_guess
from accounting.hmm.log_space import log_sum
from accounting.hmm.propagation import gap_matrices, largest_product, marginals, predict
from models.numerics.arrays import Floats, Integers
from models.numerics.jit import bare_jit, jit, shared
from models.priors.chain import ChainView, LocalChain, is_labelled, slot_of

_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)

# Exact success of a fixed guess: how often the person is where the guess says, step by step.


@jit
def _label_guess_success(person: LocalChain, guess: Integers, mistakes: int) -> float:
    places = person.start.size
    now, after = np.zeros((mistakes + 1, places)), np.zeros((mistakes + 1, places))
    now[0] = person.start
    for t in range(guess.size):
        if t > 0:
            for m in range(mistakes + 1):
                predict(person.chain, slot_of(person, t - 1), now[m], after[m])
            now, after = after, now
        label = person.chain.label[slot_of(person, t)]
        cost = label[places]
        for x in range(places if cost > 0 else 0):
            if label[x] != guess[t]:
                for m in range(mistakes, -1, -1):
                    now[m, x] = now[m - cost, x] if m >= cost else 0.0
    return min(1.0, now.sum())


@bare_jit
def _move_and_count(chain: ChainView, slot: int, right: int, end: int, now: Floats, after: Floats) -> None:
    """``after`` from ``now``, rows ``[x, m]`` of who is at ``x`` after ``m < end`` mistakes: moved, counted.

    Numbers of mistakes side by side are computed eight at a time, each sum in the order of
    :func:`~accounting.hmm.propagation.predict`. Who makes more than are allowed never comes back below.
    """
    places, width = now.shape
    for y in range(places):
        first, last = np.uint64(chain.column_start[slot, y]), np.uint64(chain.column_start[slot, y + 1])
        fewer = spread_out(0.0)
        for m in range(0, end, 8):
            a = b = c = d = spread_out(0.0)
            j = first
            if last - first == np.uint64(places):
                while j + _3 < last:
                    a = a + spread_out(chain.value[j]) * load(now, chain.row[j] * width + m)
                    b = b + spread_out(chain.value[j + _1]) * load(now, chain.row[j + _1] * width + m)
                    c = c + spread_out(chain.value[j + _2]) * load(now, chain.row[j + _2] * width + m)
                    d = d + spread_out(chain.value[j + _3]) * load(now, chain.row[j + _3] * width + m)
                    j += _4
            while j < last:
                a = a + spread_out(chain.value[j]) * load(now, chain.row[j] * width + m)
                j += _1
            moved = (a + b) + (c + d)
            store(moved if y == right else moved_on(fewer, moved), after, y * width + m)
            fewer = moved


@jit
def guess_success(person: LocalChain, guess: Integers, mistakes: int) -> float:
    """``Pr[d(X, guess) <= s]`` by the recursion over (mistakes so far, place).

    Of a chain with labels ``guess`` has labels, and ``d`` is what the wrong ones cost.
    """
    if is_labelled(person.chain):
        return _label_guess_success(person, guess, mistakes)
    steps, places, width = guess.size, person.start.size, padded(mistakes + 1)
    both = np.zeros((2, places, width))
    now, after = both[0], both[1]
    for x in range(places):
        now[x, 0 if x == guess[0] else 1] = person.start[x]
    for t in range(1, steps):
        _move_and_count(person.chain, slot_of(person, t - 1), guess[t], min(t + 2, width), now, after)
        now, after = after, now
    success = 0.0
    for m in range(mistakes + 1):
        for x in range(places):
            success += now[x, m]
    return min(1.0, success)


@jit
def most_likely_path(person: LocalChain, steps: int) -> Integers:
    """The most likely trajectory of the prior (Viterbi), shape (T,); ties go to the lowest index."""
    chain, place_count = person.chain, person.start.size
    best = person.start.copy()
    after = np.empty(place_count)
    origin = np.zeros((steps, place_count), np.int32)
    for t in range(1, steps):
        slot = slot_of(person, t - 1)
        for y in range(place_count):
            largest = 0.0
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                candidate = best[chain.row[j]] * chain.value[j]
                if candidate > largest:
                    largest = candidate
                    origin[t, y] = chain.row[j]
            after[y] = largest
        best, after = after, best
        normalise(best)
    path = np.empty(steps, np.int64)
    path[steps - 1] = best.argmax()
    for t in range(steps - 1, 0, -1):
        path[t - 1] = origin[t, path[t]]
    return path


# The most likely places at the best ``k`` of ``T`` times, for a guess that may be wrong in the others.
#
# ``A_k = max over k times t_1 < .. < t_k and places of Pr[X_{t_1} = x_1, .., X_{t_k} = x_k]`` of Koga et al.
# eq. (5), by another recursion than theirs, which takes O(T^3) steps. Between two
# chosen times the chain is summed over, so only the products of ``g`` consecutive moves matter, ``g <= s +
# 1``. The recursion runs backwards and does not know the start: one table serves every start and, without a
# cycle, every time at which a horizon starts.


class SubsetTable(NamedTuple):
    """Best probability of what is still to be chosen, given the place at a chosen time.

    ``value[n, o, x] * exp(log_scale[n, o])`` with ``n`` times still to choose and ``o`` still to omit after
    it. Each row is scaled to maximum 1, so a thousand steps do not underflow.
    """

    value: Floats  # (N, s + 1, K)
    log_scale: Floats  # (N, s + 1)


@bare_jit
def raise_to(target: Floats, matrix: Floats, weight: Floats, scale: float) -> None:
    """``target[x] = max(target[x], scale * max_y matrix[y, x] weight[y])``."""
    for y in range(weight.size):
        factor = scale * weight[y]
        if factor > 0.0:
            for x in range(target.size):
                candidate = matrix[y, x] * factor
                target[x] = candidate if candidate > target[x] else target[x]


@jit
def subset_table(gaps: Floats, steps: int, omitted: int, chosen: int) -> SubsetTable:
    """The table for up to ``chosen`` chosen times and ``omitted`` omitted ones of ``steps``.

    ``gaps`` as from :func:`accounting.hmm.propagation.gap_matrices`, from the slot the horizon starts in.
    Cost ``chosen * omitted^2 / 2`` matrix-vector maxima.
    """
    starts, _, place_count, _ = gaps.shape
    value = np.zeros((chosen, omitted + 1, place_count))
    log_scale = np.full((chosen, omitted + 1), -np.inf)
    value[0] = 1.0
    log_scale[0] = 0.0
    for n in range(1, chosen):
        for o in range(min(omitted, steps - 1 - n) + 1):
            start = (steps - 1 - n - o) % starts
            reference = log_scale[n - 1, : o + 1].max()
            if reference == -np.inf:
                continue
            for g in range(1, o + 2):
                scale = np.exp(log_scale[n - 1, o - g + 1] - reference)
                raise_to(value[n, o], gaps[start, g - 1], value[n - 1, o - g + 1], scale)
            log_scale[n, o] = reference + normalise(value[n, o])
    return SubsetTable(value, log_scale)


@jit
def log_subset_maximum(table: SubsetTable, marginal: Floats, steps: int, omitted: int) -> float:
    """``ln A_{T - omitted}`` for the start whose marginals ``p_f``, ``f = 0..omitted``, are given."""
    best = -np.inf
    n = steps - omitted - 1
    for f in range(omitted + 1):
        largest = largest_product(marginal[f], table.value[n, omitted - f])
        if largest > 0.0:
            best = max(best, np.log(largest) + table.log_scale[n, omitted - f])
    return best


MOST_GAP_ENTRIES = 1 << 24  # 128 MiB of gap matrices
MOST_PRODUCTS = 4e9  # a few seconds of one core
_FEW_CONSTANTS = 8  # guesses tried where products of moves would take longer, or are not needed

MAP_GUESS = 0
MARGINAL_GUESS = 1
CONSTANT_GUESS = 2
FRONTIER_GUESS = 3

_VECTORS = 16  # expansions a step of the frontier search, at least
_LEAST_EXPANSIONS = 640  # of all steps: the optimum, nearly always, of ten steps and a dozen places
_WORTH_SEARCHING = 200  # steps times mistakes, beyond which expansions leave the bound where it is
_MANY, _SHORT = 4, 7  # mistakes from which on, steps and places above which it is seen early whether they do
_FEW = 4  # expansions a step, by which that is seen
_ROUNDING = 1e-12  # sums of thousands of products, each rounded

_ROUNDED = 1e-9  # more than rounding can take from a sum over the steps
_SMALLEST = 1e-300  # q is never below: ln q must stay finite, and a larger q is the safe side


class GuessBounds(NamedTuple):
    """Upper bounds on ``max_xhat Pr[d(X, xhat) <= s]``; infinite where computing them takes too long."""

    koga: float  # sum_l C(T, l) A_{T-l}, Koga et al. eq. (5), not cut at 1
    subsets: float  # C(T, s) A_{T-s}: a success agrees with the guess on one subset of that size
    markov: float  # sum_t max_x Pr[X_t = x] / (T - s)
    frontier: float  # of the frontier search; often the maximum itself

    # Of a chain with labels only the last two are known, and about labels.


class Baseline(NamedTuple):
    """The best guess known from the prior: most likely path, marginals' maxima, constant or the frontier's.

    It is the best there is where ``GuessBounds.frontier`` is no more than its success.
    """

    success: float  # Pr[d(X, guess) <= s], exact
    kind: int  # a ``_GUESS`` code
    guess: Integers  # (T,) own places


class PriorConstants(NamedTuple):
    """Everything the prior alone says about a horizon of ``T`` steps with ``s`` mistakes."""

    guess: GuessBounds
    baseline: Baseline


@jit
def log_binomial(n: int, k: int) -> float:
    """``ln C(n, k)``."""
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)


@jit
def shared_powers(chain: ChainView, longest: int) -> Floats:
    """Powers ``[g - 1, y, x]`` of one full matrix, ``g <= longest``; empty for sparse chains and cycles.

    They do not depend on what is seen, so one set serves every schedule of a person.
    """
    slots, place_count = chain.start.shape
    if slots > 1 or 2 * chain.value.size <= place_count * place_count or longest < 1:
        return np.empty((0, place_count, place_count))
    return gap_matrices(chain, 0, 1, longest)[0]


@jit
def gaps_affordable(place_count: int, slots: int, steps: int, mistakes: int) -> bool:
    """Whether the products of up to ``s + 1`` moves fit in memory and in a few seconds."""
    entries = min(slots, steps) * (mistakes + 1) * place_count * place_count
    forming = entries * place_count
    searching = 0.5 * (steps - mistakes) * (mistakes + 1) * (mistakes + 2) * place_count * place_count
    return entries <= MOST_GAP_ENTRIES and forming + searching <= MOST_PRODUCTS


@jit
def markov_guess(marginal: Floats, mistakes: int) -> float:
    """Markov's inequality on the number of right steps; exact for ``T - s = 1`` and one step."""
    total = 0.0
    for t in range(marginal.shape[0]):
        total += marginal[t].max()
    return total / (marginal.shape[0] - mistakes)


@jit
def guess_bounds(gaps: Floats, marginal: Floats, mistakes: int, with_koga: bool) -> GuessBounds:
    """All bounds on a guess from the prior; without Koga's sum the table is shorter by ``s`` rows."""
    steps = marginal.shape[0]
    table = subset_table(gaps, steps, mistakes, steps if with_koga else steps - mistakes)
    largest = log_binomial(steps, mistakes) + log_subset_maximum(table, marginal, steps, mistakes)
    log_koga = np.inf
    if with_koga:
        log_koga = largest
        for missed in range(mistakes):
            subset = log_subset_maximum(table, marginal, steps, missed)
            log_koga = log_sum(log_koga, log_binomial(steps, missed) + subset)
    return GuessBounds(
        # e^700 stays finite: these sums of many subsets may be far above 1.
        max(_SMALLEST, np.exp(min(log_koga, 700.0))) if with_koga else np.inf,
        max(_SMALLEST, np.exp(min(largest, 700.0))),
        markov_guess(marginal, mistakes),
        np.inf,
    )


class ConstantGuess(NamedTuple):
    """One place guessed for every step; -1 where there is none."""

    place: int
    success: float


@jit
def promising_constants(
    person: LocalChain, marginal: Floats, mistakes: int, most: int, above: float
) -> ConstantGuess:
    """The best constant guess among the ``most`` places visited most, or of all labels, if it is ``above``.

    By Markov's inequality a place expected to be visited ``v`` times succeeds with at most ``v / (T - s)``:
    the search ends when that is less than what was found by more than rounding.
    """
    steps = marginal.shape[0]
    best, success = -1, above
    if is_labelled(person.chain):
        for label in range(person.start.size):
            reached = guess_success(person, np.full(steps, label), mistakes)
            if reached > success:
                best, success = label, reached
        return ConstantGuess(best, success)
    visits = marginal.sum(axis=0)
    for _ in range(min(most, person.start.size)):
        place = visits.argmax()
        if visits[place] < (1.0 - _ROUNDED) * success * (steps - mistakes):
            break
        visits[place] = -1.0
        reached = guess_success(person, np.full(steps, place), mistakes)
        if reached > success:
            best, success = place, reached
    return ConstantGuess(best, success)


@jit
def guesses_by_step(person: LocalChain, marginal: Floats, mistakes: int) -> Baseline:
    """The better of the most likely path and each step's likeliest place."""
    steps = marginal.shape[0]
    guess = most_likely_path(person, steps)
    success = guess_success(person, guess, mistakes)
    kind = MAP_GUESS
    likeliest = np.empty(steps, np.int64)
    for t in range(steps):
        likeliest[t] = marginal[t].argmax()
    reached = guess_success(person, likeliest, mistakes)
    if reached > success:
        guess, success, kind = likeliest, reached, MARGINAL_GUESS
    return Baseline(success, kind, guess)


@jit
def _or_constant(known: Baseline, person: LocalChain, marginal: Floats, mistakes: int, most: int) -> Baseline:
    """The better of a known guess and so many constant ones."""
    constant = promising_constants(person, marginal, mistakes, most, known.success)
    if constant.place < 0:
        return known
    return Baseline(constant.success, CONSTANT_GUESS, np.full(marginal.shape[0], constant.place))


class _Searched(NamedTuple):
    """The best guess of the frontier search and its bound on any guess; 0 and infinite without a search."""

    success: float
    bound: float
    guess: Integers


@jit
def _search_guess(person: LocalChain, steps: int, mistakes: int) -> _Searched:
    guess = np.empty(steps, np.int64)
    if mistakes == 1 and not is_labelled(person.chain) and one_mistake_affordable(person.chain, steps):
        found = best_but_for_one(person, guess)
        return _Searched(guess_success(person, guess, 1), found.bound * (1.0 + _ROUNDING), guess)
    bound, wanted = np.inf, max(_VECTORS, _LEAST_EXPANSIONS // steps)
    if (
        mistakes > 0
        and not is_labelled(person.chain)
        and late_genie_affordable(person.chain, steps, mistakes)
    ):
        bound = late_genie_bound(person, steps, mistakes)
        wanted = wanted if steps * mistakes <= _WORTH_SEARCHING else 1
    vectors = affordable_expansions(person.chain, steps, mistakes, wanted)
    if vectors == 0:
        return _Searched(0.0, bound * (1.0 + _ROUNDING), guess)
    weight, is_worth = np.ones((steps, person.start.size)), True
    if vectors > _FEW and mistakes >= _MANY and steps > _SHORT and person.start.size > _SHORT:
        # The bound falls about as a power of the expansions. Where it will not get below the genie's by all
        # of them, the rest would take most of the time of an opening and change nothing.
        first = best_guess(person, weight, mistakes, 1, guess)
        found = best_guess(person, weight, mistakes, _FEW, guess)
        fall = (found.bound / first.bound) ** (np.log(vectors / _FEW) / np.log(_FEW))
        is_worth = found.bound * fall <= bound
    if is_worth:
        found = best_guess(person, weight, mistakes, vectors, guess)
    bound = min(bound, found.bound) * (1.0 + _ROUNDING)
    return _Searched(guess_success(person, guess, mistakes), bound, guess)


@jit
def _or_searched(known: Baseline, searched: _Searched) -> Baseline:
    """The better of a known guess and the one searched for, by more than rounding."""
    if searched.success > known.success * (1.0 + _ROUNDING):
        return Baseline(searched.success, FRONTIER_GUESS, searched.guess)
    return known


@jit
def _bound_of(searched: _Searched, best: Baseline) -> float:
    """What the search says of any guess, never below the best that is known; infinite without a search."""
    return np.inf if searched.bound == np.inf else max(_SMALLEST, best.success, searched.bound)


@jit
def _label_chances(person: LocalChain, marginal: Floats, t: int, chance: Floats) -> int:
    """Fill ``chance`` (K,) with that of each label in step ``t``; what a wrong guess costs there."""
    label, places = person.chain.label[slot_of(person, t)], chance.size
    chance[:] = 0.0
    for x in range(places):
        chance[label[x]] += marginal[t, x]
    return int(label[places])


@jit
def _labelled_constants(person: LocalChain, steps: int, mistakes: int) -> PriorConstants:
    """:func:`prior_constants` of a chain with labels, of which no maxima over subsets of steps are known.

    The guesses are the labels of the most likely path, the likeliest labels, one label for every step, and
    what the frontier search finds.
    """
    marginal, places = marginals(person, steps), person.start.size
    path, chance = most_likely_path(person, steps), np.empty(places)
    everything, right, likeliest = 0, 0.0, np.zeros(steps, np.int64)
    for t in range(steps):
        path[t] = person.chain.label[slot_of(person, t), path[t]]
        cost = _label_chances(person, marginal, t, chance)
        likeliest[t] = chance.argmax()
        everything, right = everything + cost, right + cost * chance.max()
    # Markov's inequality on what the right guesses would have cost.
    markov = right / (everything - mistakes) if everything > mistakes else 1.0
    best = Baseline(guess_success(person, path, mistakes), MAP_GUESS, path)
    success = guess_success(person, likeliest, mistakes)
    if success > best.success:
        best = Baseline(success, MARGINAL_GUESS, likeliest)
    best = _or_constant(best, person, marginal, mistakes, places)
    searched = _search_guess(person, steps, mistakes)
    best = _or_searched(best, searched)
    return PriorConstants(GuessBounds(np.inf, np.inf, markov, _bound_of(searched, best)), best)


@shared
@jit
def prior_constants(person: LocalChain, steps: int, mistakes: int, with_koga: bool) -> PriorConstants:
    """``q`` and the baseline of one person over a horizon of ``steps``.

    Where the frontier search proves that no guess is better than the one it found, nothing else is looked at,
    unless Koga's sum is asked for: it would take most of the time, and nothing could come of it but rounding.
    Products of moves and bounds over subsets are formed for that sum, or where there is no bound by a genie.
    """
    if is_labelled(person.chain):
        return _labelled_constants(person, steps, mistakes)
    searched = _search_guess(person, steps, mistakes)
    if not with_koga and searched.bound <= searched.success * (1.0 + 2.0 * _ROUNDING):
        best = Baseline(searched.success, FRONTIER_GUESS, searched.guess)
        return PriorConstants(GuessBounds(np.inf, np.inf, np.inf, _bound_of(searched, best)), best)
    marginal = marginals(person, steps)
    known = guesses_by_step(person, marginal, mistakes)
    bounds = GuessBounds(np.inf, np.inf, markov_guess(marginal, mistakes), np.inf)
    best_success = max(known.success, searched.success)
    if with_koga or searched.bound > best_success * (1.0 + 2.0 * _ROUNDING):
        slots, place_count = person.chain.start.shape
        constants = _FEW_CONSTANTS
        is_needed = with_koga or searched.bound == np.inf
        if is_needed and gaps_affordable(place_count, slots, steps, mistakes):
            gaps = gap_matrices(person.chain, person.first_slot, min(slots, steps), mistakes + 1)
            bounds, constants = guess_bounds(gaps, marginal, mistakes, with_koga), place_count
        known = _or_constant(known, person, marginal, mistakes, constants)
    known = _or_searched(known, searched)
    frontier = _bound_of(searched, known)
    return PriorConstants(GuessBounds(bounds.koga, bounds.subsets, bounds.markov, frontier), known)
