"""The refined bounds on a horizon with a history, for people whose fast bound is not low enough.

The refined risk is the smallest of three bounds:

- *exact success*: the frontier bound (``accounting.bounds.patterns``) as if every count were exact, which
  reveals more than noised counts. Releases before the horizon enter through the law of the horizon's first
  place: one law for each last hit in the ``HISTORY`` steps before it. (A *hit* is a step at which a sensor
  counts the person's place.) If a person's log is longer than that, the adversary is also shown the place at
  its beginning.
- *noised success*: a tree over the values of each noised count, looked at where it gains most
  (``sandwich_kernel``); where many counts may go either way for the person, before it the frontier bound with
  each noised count quantised to a few levels of evidence (``patterns.frontier_kernel``), and how well the
  noise lets patterns of counts be told apart (``apart_kernel``), where very many may that alone. All begin
  with some laws of the first place, which cover those that a few values of each of the history's counts leave
  (``sandwich_kernel.history_laws``).
- *divergence*: the root of the binary divergence at ``J_w + H(Y_w..Y_t)``. ``J_w >= I(X_w; past)`` is the
  carried information, and the entropy of exact counts is computed exactly by renewals (``renewal_kernel``).

For example T = 2 and one sensor at place 3. If it counts the person one step before the horizon, the law of
the horizon's first place is row 3 of the matrix. If it does not, the law is that of the step before without
place 3, moved by the matrix; its mass is the probability of that. The success is the sum over both laws, each
with its own best guess.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.bounds.noised.apart_kernel import SHOWN, normal_shifts, told_apart
from accounting.bounds.noised.sandwich_kernel import (
    AS_LOW_AS_MAY_BE,
    BY_SANDWICH,
    EXPANSIONS_PER_VECTOR,
    FEW_LAWS,
    LIGHT,
    Window,
    affordable_nodes,
    affordable_operations,
    counts_of,
    limits_for,
    moves_of,
    sandwich_success,
)
from accounting.bounds.noised.sandwich_kernel import history_laws as history_laws_through_noise
from accounting.bounds.patterns.frontier_bound import least_raw_success
from accounting.bounds.patterns.frontier_kernel import (
    EXPANSIONS,
    SEQUENCES,
    FrontierQuestion,
    frontier_effort,
    frontier_of,
    noised_effort,
)
from accounting.bounds.patterns.raw_success_kernel import (
    BY_BASELINE,
    BY_DIVERGENCE,
    BY_RAW_SUCCESS,
    Outside,
    history_laws,
)
from accounting.bounds.patterns.segments_kernel import own_hits
from accounting.continuous.accounts_kernel import (
    HISTORY,
    UNITS_PER_NAT,
    Accounts,
    HorizonRules,
    account_slot,
    has_initial_distribution,
)
from accounting.continuous.people import ChainPositions
from accounting.exposure.step_information.likelihood_levels import (
    WHOLE,
    OwnSignals,
    SeenSteps,
    chances,
    find_sensors,
    is_noised,
    own_channels,
    own_signals,
)
from accounting.exposure.step_information.renewal_kernel import renewal_information
from accounting.hmm.propagation import marginals, retreat
from accounting.numerics import divergence_root
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.numerics.jit import bare_jit, bare_pjit, jit, pjit, shared
from models.priors.chain import ChainView, LocalChain, PopulationArrays, chain_view, is_labelled, slot_of

_MOST_ENTRIES = 1 << 22  # of a table of the search: 32 MiB
MOST_LAWS = 8  # last hits of the history that are distinguished; more lower the bound by less than 1 %
_LEAST_VECTORS = 8  # with fewer, for a look at many people, the tree is small and has few laws
FEW_VECTORS, FIRST_PRODUCTS, _FIRST_LAWS = 4, 3e5, 2  # of a first look; twice as many with each more vector
CLOSER_VECTORS = FEW_VECTORS + 2  # of a look at all people before the rest of the work
_FORGOTTEN, _FIRST_FORGOTTEN = 0.002, 0.02  # total variation that a place may still tell of one after it
_MANY_MISTAKES, _MORE = (
    3,
    4,
)  # from so many on, a search with so many times the vectors lowers exact counts' bounds
WORTH_MORE = 0.0005  # added risk from which the bounds through noise, the most expensive ones, are computed
_MOST_NOISED_PLACES = 100  # of one person; with more, the laws of the history take over a tenth of a second


class RawHorizon(NamedTuple):
    """One person's horizon of ``T`` steps and the ``n`` steps before it, with every release taken as raw."""

    person: LocalChain  # from the first step of the horizon on
    marginal: Floats  # (T, K)
    hits: Flags  # (T, K) where a sensor sees the person
    before: LocalChain  # from the first step of the history on
    marginal_before: Floats  # (n, K)
    hits_before: Flags  # (n, K); if is_cut, all possible places of the first step
    is_cut: bool  # whether the log has steps before these n, so that the first place is shown instead
    first_row: int  # of the horizon among the rows of the releases


@jit
def laws_of_horizon(
    accounts: Accounts, person: int, chain: ChainView, earliest: int, first: int
) -> tuple[Floats, Floats]:
    """The laws of the place at the first steps of the history and of the horizon, (K,) each."""
    own = accounts.population.initial_start[person]
    if not has_initial_distribution(accounts.population, person):
        before = chain.start[account_slot(accounts, person, earliest)]
        return before, chain.start[account_slot(accounts, person, first)]
    now = accounts.nonstationary.first[own : own + chain.places.size]
    if earliest < first:
        return accounts.nonstationary.earliest[own : own + chain.places.size], now
    return now, now


@jit
def raw_horizon(accounts: Accounts, person: int, first: int, labels: Integers32) -> RawHorizon:
    """The horizon that begins with step ``first``; ``labels`` (HISTORY + T, M) begin with the history.

    Steps before the person's own first step reveal nothing. With an initial distribution the horizon starts
    at that step, and nothing is released yet in its rows beyond the last one of ``labels``.
    """
    chain = chain_view(accounts.population, person)
    since, steps = accounts.since[person], labels.shape[0] - HISTORY
    counted_from = min(max(since - first, 0), steps)  # row of the first step that reveals anything
    first_row = counted_from if has_initial_distribution(accounts.population, person) else 0
    known_steps = min(max(first - since, 0), HISTORY)
    begin, earliest = first + first_row, first - known_steps
    law_before, law = laws_of_horizon(accounts, person, chain, earliest, begin)
    horizon = LocalChain(chain, law, account_slot(accounts, person, begin))
    before = LocalChain(chain, law_before, account_slot(accounts, person, earliest))
    marginal = marginals(horizon, steps)
    hits = np.zeros(marginal.shape, np.bool_)
    rows = slice(counted_from - first_row, steps - first_row)
    hits[rows] = own_hits(chain, marginal[rows], labels[HISTORY + counted_from :])
    marginal_before = marginals(before, max(known_steps, 1))[:known_steps]
    hits_before = own_hits(chain, marginal_before, labels[HISTORY - known_steps :])
    is_cut = first - since > HISTORY
    if is_cut:
        hits_before[0] = marginal_before[0] > 0.0
    row = HISTORY + first_row
    return RawHorizon(horizon, marginal, hits, before, marginal_before, hits_before, is_cut, row)


@bare_jit
def _exact_vectors(vectors: int, mistakes: int) -> int:
    """Those of the search as if every count were exact, which takes little beside the rest."""
    return _MORE * vectors if mistakes >= _MANY_MISTAKES else vectors


@jit
def least_exact_bound(raw: RawHorizon, horizon: HorizonRules) -> float:
    """The least bound as if every count were exact; 1 if the search's tables would be too large."""
    steps, places = raw.hits.shape
    laws, shown = history_laws(raw.before, raw.hits_before, raw.marginal_before, MOST_LAWS)
    outside = Outside(laws, shown, np.ones((1, places)))
    vectors = _exact_vectors(horizon.vectors, horizon.mistakes)
    if (raw.hits.sum() + vectors) * steps * (horizon.mistakes + 1) * places > _MOST_ENTRIES:
        vectors = 0
    return least_raw_success(raw.person, raw.hits, raw.marginal, outside, horizon.mistakes, vectors)


class Past(NamedTuple):
    """What a noised history leaves of a horizon's first place."""

    laws: Floats  # (R, K); none where nothing is noised, or there are too many places
    left_out: float  # probability that they leave out: to be added to a bound
    operations: float  # that they took


@jit
def noised_past(raw: RawHorizon, seen: SeenSteps, vectors: int) -> Past:
    """The laws that few values of each count before the horizon leave.

    The adversary is shown the place from which on it is forgotten until the horizon: what is seen before that
    step then hardly matters, and following it takes most of the work.
    """
    steps, places = raw.hits_before.shape
    chain, told = raw.person.chain, _FORGOTTEN if vectors >= _LEAST_VECTORS else _FIRST_FORGOTTEN
    cut = _forgotten(raw, told)
    begin, hits_before, marginal = (
        HISTORY - steps + cut,
        raw.hits_before[cut:].copy(),
        raw.marginal_before[cut:],
    )
    earliest = np.zeros((1, places))
    if raw.is_cut or cut > 0:
        hits_before[0] = False
        earliest = np.diag(marginal[0])
    else:
        earliest[0] = raw.before.start
    is_any = is_noised(chain, raw.hits, seen, raw.first_row) or is_noised(chain, hits_before, seen, begin)
    is_any = is_any or (is_labelled(chain) and bool(raw.hits.any()))  # counts of several states are carried
    if not is_any or places > _MOST_NOISED_PLACES:
        return Past(np.empty((0, places)), 0.0, 0.0)
    before, left_out = own_signals(chain, hits_before, marginal, seen, begin, True)
    moves = LocalChain(chain, raw.before.start, slot_of(raw.before, cut))  # whose start nobody asks for
    most = _most_laws(vectors)
    laws = history_laws_through_noise(moves, before, earliest, steps - cut, marginal, most)
    return Past(laws, left_out, before.time.size * places * (_PER_COUNT + _PER_LAW * most))


@jit
def _forgotten(raw: RawHorizon, most: float) -> int:
    """The last step of the history whose place hardly tells the horizon's first; 0 if there is none.

    By the mean total variation of the first place with and without knowledge of that step's, ``most``.
    """
    steps, places = raw.hits_before.shape
    follows, before = np.eye(places), np.empty(places)  # (K, K), probability of the first place after each
    for t in range(steps - 1, 0, -1):
        told = 0.0
        for y in range(places):
            retreat(raw.before.chain, slot_of(raw.before, t), follows[y], before)
            follows[y] = before
        for x in range(places):
            for y in range(places):
                told += raw.marginal_before[t, x] * abs(follows[y, x] - raw.marginal[0, y]) / 2.0
        if told <= most:
            return t
    return 0


@bare_jit
def _most_laws(vectors: int) -> int:
    return FEW_LAWS if vectors >= _LEAST_VECTORS else _FIRST_LAWS


@bare_jit
def _most_products(vectors: int, mistakes: int) -> float:
    if vectors >= _LEAST_VECTORS:
        return affordable_operations(vectors, mistakes)
    return FIRST_PRODUCTS * 2.0 ** max(0, vectors - FEW_VECTORS)


class NoisedSuccess(NamedTuple):
    """The bound through noise, and the products that its tree took."""

    value: float
    products: float


@shared
@jit
def noised_success(
    raw: RawHorizon,
    seen: SeenSteps,
    horizon: HorizonRules,
    past: Past,
    known: float,
    shift: Floats,
    enough: float,
) -> NoisedSuccess:
    """The bound through the noise of what was ``seen``; 1 if nothing is noised, or too much.

    ``known`` holds already: the tree ends where it cannot get below that. Where many counts may go either way
    their patterns are told apart before the tree; where very many may, that is all. A few levels are looked
    at after it if it came about as near to what is attained as that, and all levels if the few were near the
    lowest. Not so where nothing is known, as of a crowd, and where labels are guessed, as exact counts count
    there, too, and leave the state open: there a few levels are looked at first.
    ``shift`` (C,) is :func:`normal_shifts` of the channels. ``enough`` is what
    the bound is compared with, or ``AS_LOW_AS_MAY_BE``.
    """
    if past.laws.shape[0] == 0:
        return NoisedSuccess(1.0, 0.0)
    steps, places = raw.hits.shape
    chain, most = raw.person.chain, _most_products(horizon.vectors, horizon.mistakes)
    inside, left_out = own_signals(chain, raw.hits, raw.marginal, seen, raw.first_row, False)
    lowest, by_few, products = 1.0, 1.0, 0.0
    uncertain, few = _uncertain(raw, inside), min(FEW_VECTORS, horizon.vectors)
    is_open, can_be_told = uncertain > _MANY_UNCERTAIN, shift.size > 0 and not is_labelled(chain)
    if is_open and can_be_told:
        lowest = _by_telling_apart(raw, seen, horizon, past, shift)
        if uncertain > _TREE_IS_TOO_LARGE:
            return NoisedSuccess(lowest, 0.0)
    elif is_open:
        lowest = by_few = _by_levels(raw, seen, horizon, past, few)
    if lowest <= enough:
        return NoisedSuccess(lowest, 0.0)
    moves, at_first = moves_of(raw.person, steps), 4.0 * most  # a few nodes lower many bounds
    counts = counts_of(inside)
    nodes = affordable_nodes(counts, inside.cover.sum(), steps, places, horizon.mistakes, moves, at_first)
    at_least, won, apart, found = left_out + past.left_out, 0.0, lowest, lowest
    if nodes > 0:
        expansions = EXPANSIONS_PER_VECTOR * horizon.vectors * steps
        window = Window(raw.person, steps, np.ones(places), horizon.mistakes, expansions, most, moves, LIGHT)
        tree_enough = enough if enough < 0.0 else enough - at_least
        is_told_apart = lowest < 1.0 and _is_counted_always(raw)  # else few steps have many counts each
        limits = limits_for(window, nodes, min(known, lowest), is_told_apart, tree_enough)
        found, won, products = sandwich_success(window, counts, past.laws, limits)
        found += at_least
        lowest = min(lowest, found)
        if 0.0 <= tree_enough < won:  # more is attained than is allowed
            return NoisedSuccess(lowest, products)
    is_comparable = _LEVELS_BEGIN * (apart - won) <= found - won <= _LEVELS_END * (apart - won)
    if is_open and can_be_told and is_comparable and lowest > enough:
        by_few = _by_levels(raw, seen, horizon, past, few)
        lowest = min(lowest, by_few)
    is_near = by_few < 1.0 and by_few - won <= _LEVELS_FALL * (lowest - won)
    if horizon.vectors > FEW_VECTORS and lowest > enough and is_near:
        lowest = min(lowest, _by_levels(raw, seen, horizon, past, horizon.vectors))
    return NoisedSuccess(lowest, products)


@jit
def _uncertain(raw: RawHorizon, inside: OwnSignals) -> int:
    """How many of these counts may go either way for the person."""
    found = 0
    for counted in chances(inside.time, inside.cover, raw.marginal):
        found += counted * (1.0 - counted) > _EITHER_WAY
    return found


@bare_jit
def _is_counted_always(raw: RawHorizon) -> bool:
    """Whether somebody's place may be counted in each step of the horizon."""
    for t in range(raw.hits.shape[0]):
        is_counted = False
        for x in range(raw.hits.shape[1]):
            is_counted |= raw.hits[t, x]
        if not is_counted:
            return False
    return True


@jit
def _by_telling_apart(
    raw: RawHorizon, seen: SeenSteps, horizon: HorizonRules, past: Past, shift: Floats
) -> float:
    """The bound by how well the noise lets patterns of counts be told apart."""
    time, channel, cover = find_sensors(raw.person.chain, raw.hits, seen, raw.first_row)
    left_out = past.left_out
    for g in range(time.size):
        left_out += seen.tables.left_out[channel[g]] + SHOWN
    outside = Outside(past.laws, np.zeros(cover.shape[1]), np.ones((1, cover.shape[1])))
    effort = frontier_effort(horizon.vectors)
    asked = FrontierQuestion(raw.person, raw.marginal, horizon.mistakes, outside, effort)
    found = told_apart(asked, raw.hits, time, cover, shift[channel])
    return min(1.0, found + left_out)


@jit
def _by_levels(raw: RawHorizon, seen: SeenSteps, horizon: HorizonRules, past: Past, vectors: int) -> float:
    """The frontier bound with counts in levels; 1 where it is too large."""
    steps, places = raw.hits.shape
    if vectors * steps * steps * (horizon.mistakes + 1) * places > _MOST_ENTRIES:
        return 1.0
    most, effort = SEQUENCES * vectors, noised_effort(vectors)
    channels = own_channels(raw.person.chain, raw.hits, raw.marginal, seen, raw.first_row, most)
    outside = Outside(past.laws, np.zeros(places), np.ones((1, places)))
    asked = FrontierQuestion(raw.person, raw.marginal, horizon.mistakes, outside, effort)
    found = frontier_of(asked, channels)
    return min(1.0, found + past.left_out)


@jit
def exact_divergence(accounts: Accounts, person: int, raw: RawHorizon, carried: float) -> float:
    """The divergence bound as if every count were exact; ``carried`` is ``J_w`` in nats."""
    guess = accounts.constants.guess[accounts.constants.phase_start[person] + raw.person.first_slot]
    information = renewal_information(raw.person, raw.hits, raw.marginal).sum() + carried
    return divergence_root(information * (1.0 + 1e-12), guess)  # the sum must not be too small


@jit
def _is_clear(raw: RawHorizon, seen: SeenSteps) -> bool:
    """Whether all counts of the person in the horizon are noised, and few may go either way."""
    is_any, either_way, places = False, 0, raw.person.chain.places
    for t in range(raw.hits.shape[0]):
        for x in range(places.size):
            if raw.hits[t, x]:
                is_any, channel = True, seen.channel[raw.first_row + t, places[x]]
                if seen.tables.present[channel, WHOLE, 0] == 0.0:
                    return False
                either_way += raw.marginal[t, x] * (1.0 - raw.marginal[t, x]) > _EITHER_WAY
    return is_any and either_way <= _MANY_UNCERTAIN and places.size <= _MOST_NOISED_PLACES


KEPT = 4
"""Figures kept of a window: exact success, noised success, its ``known``, its products."""


@pjit(lambda accounts, people, *_: people.size)
def refine(
    begin: int,
    end: int,
    accounts: Accounts,
    people: Integers,
    step_number: int,
    seen: SeenSteps,
    is_first_look: bool,
    kept: Floats,
    products: Floats,
) -> None:
    """Lower each person's risk to the smallest bound, never below the baseline, and note which bound it is.

    The horizon ends with ``step_number``; ``seen`` (HISTORY + T rows) are its steps and those before it.
    ``kept`` (N, KEPT) has what was found before in an equal window that falls in the same slot, not a number
    where nothing was; it is filled in. Without rows nothing is kept, nor for whom more than the window
    matters. A first look is through the noise alone where that is clear enough (:func:`_is_clear`), and for
    others as if all counts were exact. ``products`` (n,) are filled in: what the bound through noise took of
    each, laws of the history included, kept or not; -1 if it was not wanted, or is too large in a first look.
    """
    state, horizon = accounts.state, accounts.horizon
    first, fresh, shift = step_number - horizon.steps + 1, np.empty(KEPT), normal_shifts(seen.tables)
    for k in range(begin, end):
        person = people[k]
        is_cut = first - accounts.since[person] > HISTORY
        is_kept = kept.shape[0] > 0 and is_cut and not has_initial_distribution(accounts.population, person)
        fresh[:] = np.nan
        found = kept[person] if is_kept else fresh
        carried = state.carried[first % state.carried.shape[0], person] / UNITS_PER_NAT
        raw = raw_horizon(accounts, person, first, seen.labels)
        lowest, by, baseline = state.risk[person], int(state.decided_by[person]), state.baseline[person]
        # A tree is not told what follows from the information: that differs from window to window, so that
        # nothing would be found again, and decisions know no more than a bound on it.
        known = 1.0
        is_clear = is_first_look and _is_clear(raw, seen)
        if not is_clear:
            if np.isnan(found[0]):
                found[0] = least_exact_bound(raw, horizon)
            divergence = exact_divergence(accounts, person, raw, carried)
            known, lowest = found[0], min(found[0], divergence)
            by = BY_RAW_SUCCESS if found[0] <= divergence else BY_DIVERGENCE
        least_worth = max(baseline + WORTH_MORE, horizon.refined_from)
        products[k] = -1.0
        if (is_clear or not is_first_look) and min(lowest, state.risk[person]) > least_worth:
            if found[2] != known:
                past = noised_past(raw, seen, horizon.vectors)
                noised = noised_success(raw, seen, horizon, past, known, shift, AS_LOW_AS_MAY_BE)
                found[1], found[2] = noised.value, known
                found[3] = noised.products + past.operations / PER_LOOK
            products[k] = -1.0 if is_first_look and found[1] >= 1.0 else found[3]
            if found[1] < lowest:
                lowest, by = found[1], BY_SANDWICH
        if lowest < state.risk[person]:
            state.decided_by[person] = by if lowest > baseline else BY_BASELINE
            state.risk[person] = max(lowest, baseline)


# The cost of the refined bounds for each person, in operations of about a nanosecond.
#
# It is a rough formula in the person's places, moves and hits, ``T``, ``s``, vectors and laws, and never a
# measured time, so that all processes choose the same people. In how many steps a place is counted is the
# same for all people, so it is counted once (:func:`count_hits`) and looked up for the places of each person.

_MOST_OPERATIONS = 1 << 40  # of one person, so that sums over all people stay exact

# Fitted to the time of chains of 4 to 20 places, T = 4 to 20, s = 0 to 2: most of them within a factor of 2.
LEAST_OPERATIONS, _PER_HIT, _PER_TARGET, _PER_EXPANSION = 35_000, 4.4, 32.0, 0.14
_PER_COUNT, _PER_LAW, PER_LOOK = 1000.0, 400.0, 1.5  # of noised counts, by the sandwich bound
_PER_BRANCH, _BRANCHES = 190.0, 4.0  # of its tree, for each count that may go either way
_EITHER_WAY = 0.01  # variance of being counted, from which on a count may
_LEVELS_FALL = 1.4  # times as much as all levels a few of them leave above what is attained, or less
_LEVELS_BEGIN, _LEVELS_END = 0.5, 3.0  # times what telling apart leaves above it: beyond, levels hardly win
_MANY_UNCERTAIN = 8  # such counts, above which patterns are told apart, and levels looked at before the tree;
_TREE_IS_TOO_LARGE = 18  # above which that is enough: the rest takes ten times as long, and is hardly lower
_AS_SEQUENCES = 16.0  # the work of telling apart, in sequences of levels
_PER_MOVE, _PER_SOURCE, _PER_SEARCH = 2.1, 90.0, 2.2  # of levels


class CountedHits(NamedTuple):
    """How many of a person's places are counted, summed over steps."""

    exact: float  # in the horizon, under noise or not
    exact_before: float  # in the history
    noised: float  # in the horizon, under noise
    noised_before: float  # in the history, under noise
    either_way: float  # in the horizon, under noise, by the share of slots in which the person may be there


@jit
def count_hits(seen: SeenSteps) -> Floats:
    """The first four :class:`CountedHits` of each location, (M, 4): in how many steps it is counted.

    The first ``HISTORY`` rows of ``seen`` are the history, the others the horizon.
    """
    locations = seen.labels.shape[1]
    hits = np.zeros((locations, 4))
    for row in range(seen.labels.shape[0]):
        part = 0 if row >= HISTORY else 1
        for location in range(locations):
            channel = seen.channel[row, location]
            if channel >= 0:
                hits[location, part] += 1.0
                if seen.tables.present[channel, WHOLE, 0] > 0.0:
                    hits[location, part + 2] += 1.0
    return hits


@bare_jit
def _own_hits(population: PopulationArrays, person: int, hits: Floats) -> CountedHits:
    """The sum over the places of a person; exact, because the summands are whole numbers but for shares."""
    exact, exact_before, noised, noised_before, either_way = 0.0, 0.0, 0.0, 0.0, 0.0
    first, slots = population.places_start[person], population.slots[person]
    places = population.places_start[person + 1] - first
    law = population.distribution_start[person]
    for x in range(places):
        place = population.places[first + x]
        exact += hits[place, 0]
        exact_before += hits[place, 1]
        noised += hits[place, 2]
        noised_before += hits[place, 3]
        if hits[place, 2] > 0.0:
            uncertain = 0
            for slot in range(slots):
                probability = population.distribution[law + slot * places + x]
                uncertain += probability * (1.0 - probability) > _EITHER_WAY
            either_way += hits[place, 2] * (uncertain / slots)
    return CountedHits(exact, exact_before, noised, noised_before, either_way)


@bare_jit
def _expanded(searched: float, vectors: int, mistakes: int, products: float) -> float:
    """Products of all searches, which end after a number of expansions (``FrontierEffort``)."""
    return min(searched, float(EXPANSIONS * vectors)) * (mistakes + 1.0) * products


@bare_jit
def _noised_operations(
    counted: CountedHits, horizon: HorizonRules, vectors: int, places: float, moves: float, products: float
) -> float:
    """The cost of the bounds through noise: laws of the history, the tree, levels.

    ``products`` of the tree, if they are known.
    """
    if counted.noised + counted.noised_before == 0.0:
        return 0.0
    steps, mistakes = float(horizon.steps), float(horizon.mistakes)
    laws, is_open = float(_most_laws(vectors)), counted.either_way > _MANY_UNCERTAIN
    total = PER_LOOK * products
    if np.isnan(products):
        total = counted.noised_before * places * (_PER_COUNT + _PER_LAW * laws)
        if counted.either_way <= _TREE_IS_TOO_LARGE:
            grown = (mistakes + 1.0) * steps * places * _BRANCHES**counted.either_way
            total += min(PER_LOOK * _most_products(vectors, horizon.mistakes), _PER_BRANCH * grown)
    if not is_open:
        return total
    laws += places
    sequences = _AS_SEQUENCES
    if counted.either_way <= _TREE_IS_TOO_LARGE:
        sequences = min(float(SEQUENCES * vectors), 2.0 ** min(counted.noised, 20.0))
    searched = (laws / 2.0 + counted.noised) * sequences * mistakes**2
    total += _PER_MOVE * sequences * steps * (moves + places * laws / 4.0)
    total += _PER_SOURCE * sequences * places * counted.noised**2 / steps
    return total + _PER_SEARCH * _expanded(searched, vectors, horizon.mistakes, moves + 2.0 * places)


@bare_jit
def _operations(
    accounts: Accounts, person: int, vectors: int, hits: Floats, is_first_look: bool, products: float
) -> int:
    """The cost of refining one person; ``hits`` (M, 4) as in :func:`count_hits`.

    The search goes from each source (a hit, or a law of the start) to each target, over ``length`` steps on
    average.
    """
    population, horizon = accounts.population, accounts.horizon
    places = float(population.places_start[person + 1] - population.places_start[person])
    steps, mistakes = float(horizon.steps), float(horizon.mistakes)
    entries = population.entry_start[person + 1] - population.entry_start[person]
    moves = entries / population.slots[person]
    counted, total = _own_hits(population, person, hits), float(LEAST_OPERATIONS)
    is_clear = 0.0 < counted.noised == counted.exact and counted.either_way <= _MANY_UNCERTAIN
    is_clear = is_first_look and (is_clear if np.isnan(products) else products >= 0.0)
    if not is_clear:
        total += _PER_HIT * (counted.exact + counted.exact_before) * steps * moves
    if not is_clear and mistakes > 0.0:
        sources = counted.exact + places + min(counted.exact_before + 1.0, MOST_LAWS)
        length = steps * (places + 1.0) / (counted.exact + places + 1.0)
        searched = sources * min(counted.exact + 1.0, 2.0 * places) * length * mistakes / 4.0
        searched *= min(float(vectors), 5.0**mistakes)
        exact = _exact_vectors(vectors, horizon.mistakes)
        total += _PER_TARGET * (counted.exact + 1.0) * steps * mistakes * moves
        total += _PER_EXPANSION * _expanded(searched, exact, horizon.mistakes, moves + 2.0 * places)
    if (is_clear or not is_first_look) and not products < 0.0:
        total += _noised_operations(counted, horizon, vectors, places, moves, products)
    return int(min(total, _MOST_OPERATIONS))


@bare_pjit(lambda accounts, people, *_: people.size, least=4096)
def _fill_operations(
    begin: int,
    end: int,
    accounts: Accounts,
    people: Integers,
    vectors: int,
    hits: Floats,
    is_first_look: bool,
    products: Floats,
    operations: Integers,
) -> None:
    """Fill ``operations`` (n,) with the cost of each of these people."""
    for k in range(begin, end):
        operations[k] = _operations(accounts, people[k], vectors, hits, is_first_look, products[k])


def find_operations(
    accounts: Accounts,
    chains: ChainPositions,
    vectors: int,
    hits: Floats,
    is_first_look: bool = False,
    products: Floats | None = None,
) -> Integers:
    """The cost of refining each of these chains, (n,), with the ``hits`` (M, 4) of :func:`count_hits`.

    With the ``products`` (n,) of :func:`refine` what it was, without them what it may be.
    """
    operations = np.empty(chains.size, dtype=np.int64)
    known = np.full(chains.size, np.nan) if products is None else products
    _fill_operations(accounts, chains, vectors, hits, is_first_look, known, operations)
    return operations
