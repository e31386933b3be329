"""The refined bounds on a horizon with a history, for people whose fast bound is not low enough.

The smallest of three counts:

- *exact success*: the frontier bound as if every count were exact, which reveals more than noised ones. What
  was released before the horizon enters by the laws of its first place, one for each last hit in the
  ``HISTORY`` steps before; where a person's log is longer than that, the place at the beginning of those
  steps is shown to the adversary too.
- *noised success*: the frontier bound with every noised count put in a few levels of evidence, and a few laws
  of the first place that cover what the history's levels leave (``noised_frontier_kernel``).
- *divergence*: the root of the binary divergence at ``J_w + H(Y_w..Y_t)``, ``J_w >= I(X_w; past)`` the
  carried information and the second exact by renewals, as if every count were exact.

For example T = 2 and a person who was counted at place 3 one step before the horizon and seen nowhere since:
the one law is row 3 of the matrix. Had they not been counted there, it would be the law of the step before
without place 3, moved on, with its mass; both laws together, each with its own guess, are the success.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.noised_frontier_kernel import SEQUENCES, noised_frontier
from accounting.bounds.noised.noised_history_kernel import LEAST_LAWS, noised_history_laws
from accounting.bounds.patterns.frontier_bound import EXPANSIONS, frontier_effort
from accounting.bounds.patterns.raw_success_kernel import (
    BY_BASELINE,
    BY_DIVERGENCE,
    BY_LEVELS,
    NO_PATTERNS,
    Outside,
    RawQuestion,
    RawSuccess,
    history_laws,
    seen_without_patterns,
)
from accounting.bounds.patterns.registry import least_after_history
from accounting.bounds.patterns.segments_kernel import own_hits
from accounting.continuous.accounts_kernel import (
    HISTORY,
    UNITS_PER_NAT,
    Accounts,
    HorizonRules,
    account_slot,
    has_initial_distribution,
)
from accounting.exposure.step_information.likelihood_levels import (
    WHOLE,
    SeenSteps,
    is_noised,
    own_channels,
)
from accounting.exposure.step_information.renewal_kernel import renewal_information
from accounting.hmm.propagation import marginals
from accounting.numerics import divergence_root
from models.numerics.jit import bare_jit, bare_pjit, jit, pjit
from models.priors.chain import ChainView, LocalChain, PopulationArrays, chain_view

_MOST_ENTRIES = 1 << 22  # 32 MiB a table
MOST_LAWS = 8  # hits of the history distinguished; more lower the bound by less than a hundredth of it
_WORTH_MORE = 0.01  # added, as far as is known, from which the bound through noise is worth its price
_MOST_NOISED_PLACES = 100  # of one person: covering as many laws takes a tenth of a second


class RefinedBounds(NamedTuple):
    """The refined bounds of one person's horizon, as if every count were exact."""

    success: float  # the least on raw counts: frontier bound, the exact optimum for s = 0
    by: int  # which one
    divergence: float  # binary divergence at the exact information


class RawHorizon(NamedTuple):
    """One person's horizon of ``T`` steps and the ``n`` steps before it, every release raw."""

    person: LocalChain  # from the first step of the horizon on
    marginal: NDArray[np.float64]  # (T, K)
    hits: NDArray[np.bool_]  # (T, K) where a sensor sees the person
    before: LocalChain  # from the first step of the history on
    marginal_before: NDArray[np.float64]  # (n, K)
    hits_before: NDArray[np.bool_]  # (n, K); everywhere in the first step if still earlier ones are left out
    is_cut: bool  # whether they are
    first_row: int  # of the horizon among the rows of what was released


@jit
def _first_laws(
    accounts: Accounts, person: int, chain: ChainView, earliest: int, first: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Laws of the place in the steps ``earliest`` and ``first``, (K,) each."""
    own = accounts.population.initial_start[person]
    if not has_initial_distribution(accounts.population, person):
        before = chain.start[account_slot(accounts, person, earliest)]
        return before, chain.start[account_slot(accounts, person, first)]
    now = accounts.nonstationary.first[own : own + chain.places.size]
    if earliest < first:
        return accounts.nonstationary.earliest[own : own + chain.places.size], now
    return now, now


@jit
def raw_horizon(accounts: Accounts, person: int, first: int, labels: NDArray[np.int32]) -> RawHorizon:
    """The horizon of the steps ``first..``; ``labels`` (HISTORY + T, M) are those of the steps before, too.

    Steps before the person's own first reveal nothing; with an initial distribution the horizon starts there,
    and beyond the last row nothing is released yet.
    """
    chain = chain_view(accounts.population, person)
    since, steps = accounts.since[person], labels.shape[0] - HISTORY
    counted_from = min(max(since - first, 0), steps)  # row of the first step that reveals anything
    first_row = counted_from if has_initial_distribution(accounts.population, person) else 0
    known_steps = min(max(first - since, 0), HISTORY)
    begin, earliest = first + first_row, first - known_steps
    law_before, law = _first_laws(accounts, person, chain, earliest, begin)
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


@jit
def least_exact_bound(raw: RawHorizon, horizon: HorizonRules) -> RawSuccess:
    """The least bound as if every count were exact; 1 where the search's tables would be too large."""
    steps, places = raw.hits.shape
    laws, shown = history_laws(raw.before, raw.hits_before, raw.marginal_before, MOST_LAWS)
    outside = Outside(laws, shown, np.ones((1, places)))
    rows = (raw.hits.sum() + horizon.vectors) * steps * (horizon.mistakes + 1)
    vectors = horizon.vectors if rows * places <= _MOST_ENTRIES else 0
    question = RawQuestion(horizon.mistakes, 0, NO_PATTERNS, vectors, False)
    seen = seen_without_patterns(raw.person, raw.hits, raw.marginal, outside)
    return least_after_history(seen, question)


@jit
def exact_success(raw: RawHorizon, horizon: HorizonRules) -> float:
    """Its value."""
    return least_exact_bound(raw, horizon).value


@jit
def noised_success(raw: RawHorizon, seen: SeenSteps, horizon: HorizonRules) -> float:
    """The frontier bound with the noise of what was ``seen``; 1 where nothing is noised, or too much is."""
    steps, places = raw.hits.shape
    chain, known = raw.person.chain, raw.hits_before.copy()
    begin = HISTORY - known.shape[0]
    shown = np.zeros(places)
    if raw.is_cut:
        known[0] = False
        shown[:] = raw.marginal_before[0]
    is_any = is_noised(chain, raw.hits, seen, raw.first_row) or is_noised(chain, known, seen, begin)
    is_large = horizon.vectors * steps * steps * (horizon.mistakes + 1) * places > _MOST_ENTRIES
    if not is_any or is_large or places > _MOST_NOISED_PLACES:
        return 1.0
    before = own_channels(chain, known, raw.marginal_before, seen, begin, 0)
    most = max(horizon.vectors, LEAST_LAWS)
    laws = noised_history_laws(raw.before, before, known.shape[0], shown, most)
    channels = own_channels(chain, raw.hits, raw.marginal, seen, raw.first_row, SEQUENCES * horizon.vectors)
    effort = frontier_effort(horizon.vectors)
    ends = np.ones((1, places))
    return noised_frontier(raw.person, channels, raw.marginal, laws, ends, horizon.mistakes, effort)


@jit
def _exact_bounds(accounts: Accounts, person: int, raw: RawHorizon, carried: float) -> RefinedBounds:
    """Both, as if every count were exact."""
    slot = raw.person.first_slot
    guess = accounts.constants.guess[accounts.constants.phase_start[person] + slot]
    information = renewal_information(raw.person, raw.hits, raw.marginal).sum() + carried
    divergence = divergence_root(information * (1.0 + 1e-12), guess)
    success = least_exact_bound(raw, accounts.horizon)
    return RefinedBounds(success.value, success.by, divergence)


@jit
def refined_bounds(
    accounts: Accounts, person: int, first: int, labels: NDArray[np.int32], carried: float
) -> RefinedBounds:
    """Both on the steps ``first..``; ``labels`` as for :func:`raw_horizon`, ``carried`` is ``J_w`` in nat."""
    return _exact_bounds(accounts, person, raw_horizon(accounts, person, first, labels), carried)


@pjit(lambda accounts, people, *_: people.size)
def refine(
    begin: int,
    end: int,
    accounts: Accounts,
    people: NDArray[np.int64],
    step_number: int,
    seen: SeenSteps,
) -> None:
    """Lower each one's risk to the smallest bound, never below the baseline, and note which it was.

    The horizon ends with ``step_number``; ``seen`` (HISTORY + T rows) are its steps and those before it.
    """
    state = accounts.state
    first = step_number - accounts.horizon.steps + 1
    for k in range(begin, end):
        person = people[k]
        carried = state.carried[first % state.carried.shape[0], person] / UNITS_PER_NAT
        raw = raw_horizon(accounts, person, first, seen.labels)
        exact = _exact_bounds(accounts, person, raw, carried)
        lowest, baseline = min(exact.success, exact.divergence), state.baseline[person]
        by = exact.by if exact.success <= exact.divergence else BY_DIVERGENCE
        least_worth = max(baseline + _WORTH_MORE, accounts.horizon.refined_from)
        if min(lowest, state.risk[person]) > least_worth:
            noised = noised_success(raw, seen, accounts.horizon)
            if noised < lowest:
                lowest, by = noised, BY_LEVELS
        if lowest < state.risk[person]:
            state.decided_by[person] = by if lowest > baseline else BY_BASELINE
            state.risk[person] = max(lowest, baseline)


# What the refined bounds take of each person, in operations: some nanoseconds each, by structure alone.
#
# A person's places, moves and hits say it, with ``T``, ``s``, vectors and laws: a rough mean over chains.
# How often a place is counted, over all steps that the bounds follow, is the same for everybody, so it is
# counted once (:func:`count_hits`) and looked up for each person's places.

_MOST_OPERATIONS = 1 << 40  # of one person: sums over everybody stay exact

# Fitted to the time of chains of 4 to 20 places, T = 4 to 20, s = 0 to 2: most of them within a factor of 2.
LEAST_OPERATIONS, _PER_HIT, _PER_TARGET, _PER_EXPANSION = 35_000, 4.4, 32.0, 0.14
_PER_PAIR, _PER_MOVE, _PER_SOURCE, _PER_SEARCH = 1.0, 2.8, 120.0, 3.0  # of noised counts


class CountedHits(NamedTuple):
    """How many of a person's places are counted, over all steps."""

    exact: float  # in the horizon, as if every count were exact
    exact_before: float
    noised: float  # of those in the horizon, how many under noise
    noised_before: float


@jit
def count_hits(seen: SeenSteps) -> NDArray[np.float64]:
    """The :class:`CountedHits` of each location, (M, 4): in how many steps it is counted.

    The horizon are the rows of ``seen`` behind the first ``HISTORY``.
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
def _own_hits(population: PopulationArrays, person: int, hits: NDArray[np.float64]) -> CountedHits:
    """Those of all places of a person; whole numbers, so that their sums are exact."""
    exact, exact_before, noised, noised_before = 0.0, 0.0, 0.0, 0.0
    for k in range(population.places_start[person], population.places_start[person + 1]):
        place = population.places[k]
        exact += hits[place, 0]
        exact_before += hits[place, 1]
        noised += hits[place, 2]
        noised_before += hits[place, 3]
    return CountedHits(exact, exact_before, noised, noised_before)


@bare_jit
def _expanded(searched: float, vectors: int, mistakes: int, products: float) -> float:
    """Products of all searches, of which there is an end (``FrontierEffort``)."""
    return min(searched, float(EXPANSIONS * vectors)) * (mistakes + 1.0) * products


@bare_jit
def _noised_operations(
    counted: CountedHits, horizon: HorizonRules, vectors: int, places: float, moves: float
) -> float:
    """What the bound through noise takes: the history's pairs of laws, then all sequences of levels."""
    if counted.noised + counted.noised_before == 0.0:
        return 0.0
    steps, mistakes = float(horizon.steps), float(horizon.mistakes)
    laws = float(max(vectors, LEAST_LAWS))
    sequences = min(float(SEQUENCES * vectors), 2.0 ** min(counted.noised, 20.0))
    searched = (laws / 2.0 + counted.noised) * sequences * mistakes**2
    total = _PER_PAIR * counted.noised_before * laws**2 * (places + 5.0)
    total += _PER_MOVE * sequences * steps * (moves + places * laws / 4.0)
    total += _PER_SOURCE * sequences * places * counted.noised**2 / steps
    return total + _PER_SEARCH * _expanded(searched, vectors, horizon.mistakes, moves + 2.0 * places)


@bare_jit
def _operations(accounts: Accounts, person: int, vectors: int, hits: NDArray[np.float64]) -> int:
    """What refining takes for one person; ``hits`` (M, 4) as in :func:`count_hits`.

    Between two hits lie ``L`` steps; from each source so many are searched to each target.
    """
    population, horizon = accounts.population, accounts.horizon
    places = float(population.places_start[person + 1] - population.places_start[person])
    steps, mistakes = float(horizon.steps), float(horizon.mistakes)
    entries = population.entry_start[person + 1] - population.entry_start[person]
    moves = entries / population.slots[person]
    counted = _own_hits(population, person, hits)
    total = LEAST_OPERATIONS + _PER_HIT * (counted.exact + counted.exact_before) * steps * moves
    if mistakes > 0.0:
        sources = counted.exact + places + min(counted.exact_before + 1.0, MOST_LAWS)
        length = steps * (places + 1.0) / (counted.exact + places + 1.0)
        searched = sources * min(counted.exact + 1.0, 2.0 * places) * length * mistakes / 4.0
        searched *= min(float(vectors), 5.0**mistakes)
        total += _PER_TARGET * (counted.exact + 1.0) * steps * mistakes * moves
        total += _PER_EXPANSION * _expanded(searched, vectors, horizon.mistakes, moves + 2.0 * places)
    total += _noised_operations(counted, horizon, vectors, places, moves)
    return int(min(total, _MOST_OPERATIONS))


@bare_pjit(lambda accounts, people, *_: people.size, least=4096)
def _fill_operations(
    begin: int,
    end: int,
    accounts: Accounts,
    people: NDArray[np.int64],
    vectors: int,
    hits: NDArray[np.float64],
    operations: NDArray[np.int64],
) -> None:
    """What each of these people takes; fills ``operations`` (n,)."""
    for k in range(begin, end):
        operations[k] = _operations(accounts, people[k], vectors, hits)


def find_operations(
    accounts: Accounts, people: NDArray[np.int64], vectors: int, seen: SeenSteps
) -> NDArray[np.int64]:
    """What refining the horizon at the end of ``seen`` takes for each of these people, (n,)."""
    operations = np.empty(people.size, dtype=np.int64)
    _fill_operations(accounts, people, vectors, count_hits(seen), operations)
    return operations
