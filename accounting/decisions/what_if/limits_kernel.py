"""How much information a person's horizon may give away before a limit on the risk is broken.

The bound on the risk rises with the information, so a limit on the risk is a limit on the information: the
binary divergence ``d(limit || q)``, per person and slot in which the horizon starts. Everything here follows
from the priors alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import (
    MEMORY,
    NEGLIGIBLE,
    UNITS_PER_NAT,
    Accounts,
    Constants,
    HorizonRules,
    HorizonState,
    has_initial_distribution,
    is_in_reach,
    to_units,
)
from accounting.continuous.horizon_kernel import Transition, beliefs
from accounting.exposure.prior_constants_kernel import prior_constants
from accounting.exposure.step_information.contraction_kernel import (
    GAPS,
    MAX_PLACES,
    contraction,
    dense_matrix,
    product,
)
from accounting.exposure.step_information.observation import TermsScratch, new_terms_scratch, step_terms
from accounting.numerics import divergence_root
from models.numerics.jit import bare_jit, bare_pjit, inline, jit, pjit
from models.priors.chain import ChainView, LocalChain, PopulationArrays, chain_view, inlined_chain_view
from models.priors.stationary_kernel import push_forward

UNLIMITED = 1 << 62
"""A limit that nothing reaches."""

BEYOND_FAST = 1 << 61
"""A ``c`` that the fast bound never clears, so that every horizon is looked at with the slower ones."""

_ROUNDING = 1e-12


class Limits(NamedTuple):
    """Limits in units of information, laid out like ``accounts_kernel.Constants``."""

    information: NDArray[np.int64]  # (phases,) of one horizon at its own end; UNLIMITED where it is natural
    is_natural: NDArray[np.bool_]  # (phases,) habits alone break the limit, with nothing released
    risk: NDArray[np.float64]  # (phases,) largest certified risk within the limit, of several chains the mean
    step: NDArray[np.int64]  # (N,) most that one step may say of where the person is


class BudgetLevels(NamedTuple):
    """The levels of a risk budget; 1 where there is no such limit.

    Within a radius the ``risk`` of releases is held to less than the ``habitual_risk`` that was set. People
    whose habits alone put them between the two would be above the limit if raised: ``is_apart`` does not
    spare them.
    """

    risk: float
    habitual_risk: float
    added: float
    is_apart: bool  # who is above by habit alone may gain ``added`` on top of the guess


@jit
def information_limit(limit: float, guess: float) -> int:
    """The largest number of units with ``divergence_root(units, guess) <= limit``, short by next to nothing.

    -1 where the guess alone is above the limit. Guess 0.1, limit 0.2: ``d(0.2 || 0.1) = 0.2 ln 2 + 0.8 ln
    (0.8 / 0.9) = 0.0444`` nat may be given away.
    """
    if limit >= 1.0:
        return UNLIMITED
    if guess * (1.0 + NEGLIGIBLE) >= limit:
        return -1
    aimed = limit * (1.0 - 1e-8)  # the root is taken 1e-9 above its exact value
    if aimed <= guess:
        return 0
    nats = aimed * np.log(aimed / guess) + (1.0 - aimed) * (np.log1p(-aimed) - np.log1p(-guess))
    units = int(nats * UNITS_PER_NAT * (1.0 - 1e-9))
    for _ in range(8):
        if divergence_root(units / UNITS_PER_NAT, guess) <= limit:
            return units
        units -= units // 1024 + 1
    return 0


@pjit(lambda population, people, *_: people.size)
def find_largest_guesses(
    begin: int,
    end: int,
    population: PopulationArrays,
    people: NDArray[np.int64],
    horizon: HorizonRules,
    guesses: NDArray[np.float64],
) -> None:
    """A bound on the guess ``q`` of every law of each one's start, at its largest over starts and slots.

    Each bound on ``q`` is a maximum of expectations over that law, so one who knows the start does better.
    Fills ``guesses`` (N,) for these people.
    """
    for k in range(begin, end):
        chain = chain_view(population, people[k])
        koga, subsets, markov = 0.0, 0.0, 0.0
        for slot in range(chain.start.shape[0]):
            for x in range(chain.places.size):
                known_start = np.zeros(chain.places.size)
                known_start[x] = 1.0
                person = LocalChain(chain, known_start, slot)
                known = prior_constants(person, horizon.steps, horizon.mistakes, False)
                koga = max(koga, known.guess.koga)
                subsets = max(subsets, known.guess.subsets)
                markov = max(markov, known.guess.markov)
        guesses[people[k]] = min(1.0, koga, subsets, markov)


class Person(NamedTuple):
    """Whose limits are set: so many chains from ``first`` on; ``guesses`` (N,) of initial distributions."""

    accounts: Accounts
    guesses: NDArray[np.float64]
    first: int
    chains: int


@bare_jit
def _guess(person: Person, number: int, phase: int) -> float:
    """The bound on the guess of one of the person's chains."""
    chain = person.first + number
    if has_initial_distribution(person.accounts.population, chain):
        return person.guesses[chain]
    constants = person.accounts.constants
    return constants.guess[constants.phase_start[chain] + phase]


@bare_jit
def _mean_risk(person: Person, units: int, phase: int) -> float:
    """The mean bound over the chains, were so much revealed of each; with -1 units, the mean guess."""
    total = 0.0
    for number in range(person.chains):
        guess = _guess(person, number, phase)
        total += guess if units < 0 else divergence_root(units / UNITS_PER_NAT, guess)
    return total / person.chains


@bare_jit
def _shared_limit(person: Person, limit: float, phase: int) -> int:
    """As :func:`information_limit`, for what may be revealed of each chain: their mean risk keeps the limit.

    Two chains with guesses 0.1 and 0.3, limit 0.3: alone they may give away 0.154 nat and nothing, so the
    answer lies between; 0.031 nat make them 0.18 and 0.42, just 0.3 on average.
    """
    mean = _mean_risk(person, -1, phase)
    if person.chains == 1 or limit >= 1.0 or mean * (1.0 + NEGLIGIBLE) >= limit:
        return information_limit(limit, mean)
    low, high = UNLIMITED, 0
    for number in range(person.chains):
        chain_limit = information_limit(limit, _guess(person, number, phase))
        low, high = min(low, max(chain_limit, 0)), max(high, chain_limit)
    while high - low > 1 + (low >> 10):
        middle = low + ((high - low) >> 1)
        if _mean_risk(person, middle, phase) <= limit:
            low = middle
        else:
            high = middle
    return low if _mean_risk(person, low, phase) <= limit else -1


@bare_pjit(lambda accounts, limits, levels, guesses, chains: accounts.since.size // chains, least=16)
def set_limits(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    levels: BudgetLevels,
    guesses: NDArray[np.float64],
    chains: int,
) -> None:
    """Everybody's limits on one horizon, none on a step; so many ``chains`` stand for each person.

    With an initial distribution the guess in ``guesses`` (N,) covers the laws of all later starts, and the
    baseline counts as 0. Such people are never spared; others who are over by habit alone may gain ``added``
    on top of the guess if ``is_apart``.
    """
    constants = accounts.constants
    for first in range(begin * chains, end * chains, chains):
        person = Person(accounts, guesses, first, chains)
        starts_itself = has_initial_distribution(accounts.population, first)
        for phase in range(constants.phase_start[first + 1] - constants.phase_start[first]):
            guess, baseline = _mean_risk(person, -1, phase), 0.0
            if not starts_itself:
                for chain in range(first, first + chains):
                    baseline += constants.baseline[constants.phase_start[chain] + phase] / chains
            limit = min(levels.risk, (baseline + levels.added) * (1.0 - _ROUNDING))
            units = _shared_limit(person, limit, phase)
            habitual = min(levels.habitual_risk, (baseline + levels.added) * (1.0 - _ROUNDING))
            if levels.is_apart and not starts_itself and information_limit(habitual, guess) < 0:
                limit = guess + max(levels.added, 2.0 * NEGLIGIBLE * guess)
                units = _shared_limit(person, limit, phase)
            for chain in range(first, first + chains):
                row = constants.phase_start[chain] + phase
                limits.risk[row] = limit
                limits.is_natural[row] = units < 0
                limits.information[row] = UNLIMITED if units < 0 else units
        for chain in range(first, first + chains):
            limits.step[chain] = UNLIMITED


@jit
def reversed_moves(chain: ChainView, moves: NDArray[np.float64], slot: int, gap: int) -> NDArray[np.float64]:
    """The law of the place in ``slot`` given the one ``gap`` steps later, (K, K); ``moves`` lead there.

    A row whose place cannot occur repeats that of a place that can.
    """
    slots, place_count = chain.start.shape
    backwards = np.zeros((place_count, place_count))
    then = chain.start[(slot + gap) % slots]
    likeliest = int(np.argmax(then))
    for k in range(place_count):
        y = k if then[k] > 0.0 else likeliest
        total = 0.0
        for x in range(place_count):
            backwards[k, x] = chain.start[slot, x] * moves[x, y]
            total += backwards[k, x]
        backwards[k] /= total
    return backwards


@inline
def reversed_contractions(chain: ChainView, slot: int) -> NDArray[np.float64]:
    """Contraction of the reversed chain from ``GAPS`` steps later to ``slot``, (len(GAPS),); never rises."""
    moves = np.eye(chain.places.size)
    coefficients = np.ones(len(GAPS))
    moved = 0
    for j in range(len(GAPS)):
        while moved < GAPS[j]:
            moves = product(moves, dense_matrix(chain, (slot + moved) % chain.start.shape[0]))
            moved += 1
        coefficients[j] = contraction(reversed_moves(chain, moves, slot, GAPS[j]))
        if j > 0:
            coefficients[j] = min(coefficients[j], coefficients[j - 1])
    return coefficients


@inline
def later_contraction(chain: ChainView) -> float:
    """``sum_{g >= 1} eta'_g``: what steps that say one unit each say at most of any place before them.

    ``eta'_g`` is the contraction of the reversed chain over ``g`` moves. It never rises with the gap, and
    over the longest kept gap it falls by a factor, again and again. Infinite where nothing is forgotten.

    Two places, swapped with probability 1/4: a gap of g contracts by 4^-g. Of the kept gaps 1, 2, 4, 8 the
    first stands for 1, the second for 2 and 3, the third for 4..7, the last for 8..15, its square for 16..:
        near = 1/4 + 2/16 + 4/256 = 0.3906,    far = 4^-8
        sum <= near + 8 far / (1 - far) = 0.3907    (exactly: 1/3)
    """
    near, far = 0.0, 0.0
    is_small = chain.places.size <= MAX_PLACES
    if is_small:
        for slot in range(chain.start.shape[0]):
            coefficients = reversed_contractions(chain, slot)
            total = 0.0
            for j in range(len(GAPS) - 1):
                total += (GAPS[j + 1] - GAPS[j]) * coefficients[j]
            near = max(near, total)
            far = max(far, coefficients[-1])
    is_forgotten = is_small and far < 1.0
    return (near + GAPS[-1] * far / (1.0 - far)) * (1.0 + 1e-9) if is_forgotten else np.inf


@inline
def tightest_limit(constants: Constants, limits: Limits, person: int) -> int:
    """The smallest limit over the slots of a person's cycle."""
    tightest = UNLIMITED
    for row in range(constants.phase_start[person], constants.phase_start[person + 1]):
        tightest = min(tightest, limits.information[row])
    return tightest


@inline
def place_entropy(accounts: Accounts, person: int, place_count: int) -> float:
    """Units that reveal where the person is in any one step: the largest entropy of a place."""
    if has_initial_distribution(accounts.population, person):
        largest = np.ceil(np.log(place_count) * UNITS_PER_NAT) + 2.0
    else:
        starts = accounts.constants.phase_start
        largest = float(accounts.constants.entropy_units[starts[person] : starts[person + 1]].max())
    return largest


@pjit(lambda accounts, *_: accounts.since.size, least=16)
def reserve_for_hindsight(begin: int, end: int, accounts: Accounts, limits: Limits, reserve: float) -> None:
    """Set aside what later steps may say: a share ``reserve`` of the tightest limit, and so much a step.

    With at most ``m`` units a step, later steps say ``m sum_g eta'_g`` of a horizon's last place, and never
    more than its entropy.

    A tightest limit of 100 units and a reserve of 1/2 set aside 50. With an entropy of 40 units later steps
    say 40 at most: that is set aside, and steps stay unlimited. With an entropy of 800 and a sum of 1.25, a
    step may say 50 / 1.25 = 40 units; the horizon keeps the other 50.
    """
    constants = accounts.constants
    for person in range(begin, end):
        tightest = tightest_limit(constants, limits, person)
        if tightest == UNLIMITED:
            continue
        chain = chain_view(accounts.population, person)
        set_aside = reserve * tightest
        entropy = place_entropy(accounts, person, chain.places.size)
        if entropy <= set_aside:
            set_aside = entropy
        else:
            forgotten = np.inf
            if not has_initial_distribution(accounts.population, person):
                forgotten = later_contraction(chain)
            limits.step[person] = int(set_aside / forgotten) if forgotten > 0.0 else UNLIMITED
        for row in range(constants.phase_start[person], constants.phase_start[person + 1]):
            if limits.information[row] < UNLIMITED:
                limits.information[row] -= int(np.ceil(set_aside))


# What if a step were released like this: who would be over a limit, without accounting it.


class Terms(NamedTuple):
    """What a step would say of some people, units, (n,) each."""

    people: NDArray[np.int64]
    conditional: NDArray[np.int64]
    unconditioned: NDArray[np.int64]


@bare_jit
def _find_some(
    begin: int,
    end: int,
    accounts: Accounts,
    transition: Transition,
    terms: Terms,
    scratch: TermsScratch,
    moved: NDArray[np.float64],
) -> None:
    """:func:`find_terms` of the people ``begin..end - 1`` of ``terms``."""
    population, _, nonstationary, _, all_since, horizon = accounts
    number = transition.number
    for k in range(begin, end):
        person = terms.people[k]
        since = all_since[person]
        if number < since or not is_in_reach(population, person, transition.step.labels):
            continue
        chain = inlined_chain_view(population, person)
        slots = chain.start.shape[0]
        slot = (horizon.first_slot + number) % slots
        slot_before = (slot - 1) % slots
        before, now = beliefs(population, nonstationary, person, slot_before, slot)
        if has_initial_distribution(population, person):
            before = now  # the last marginal that is known is the one before this step
            if number > since:
                now = moved[: before.size]
                push_forward(before, chain.column_start[slot_before], chain.row, chain.value, now)
        found = step_terms(chain, slot_before, before, now, transition.before, transition.step, scratch)
        terms.unconditioned[k] = to_units(found.unconditioned)
        terms.conditional[k] = to_units(found.conditional) if number > since else terms.unconditioned[k]


@pjit(lambda accounts, transition, terms, *_: terms.people.size, least=64)
def find_terms(
    begin: int, end: int, accounts: Accounts, transition: Transition, terms: Terms, most_places: int
) -> None:
    """The terms that accounting the step next would give ``terms.people``; fills the others, zeros before.

    The marginals of people with an initial distribution are not moved on.
    """
    scratch = new_terms_scratch(transition.before, transition.step, most_places)
    _find_some(begin, end, accounts, transition, terms, scratch, np.empty(most_places))


@bare_pjit(lambda population, *_: population.slots.size, least=1024)
def count_reaches(
    begin: int, end: int, population: PopulationArrays, labels: NDArray[np.int32], reaches: NDArray[np.int64]
) -> None:
    """Add to each person's ``reaches`` (N,) the number of rows of ``labels`` (steps, M) that count them."""
    for person in range(begin, end):
        for row in range(labels.shape[0]):
            if is_in_reach(population, person, labels[row]):
                reaches[person] += 1


# What the next step may still say of each person before a limit is broken, now or in the silence after it.
#
# If nothing were released after the next step, the horizon would slide on and what was revealed would fade.
# A step is admissible for a person when every horizon from now on keeps its limit then. So silence is
# always admissible afterwards, and a budget that was kept can be kept for ever.
#
# With the step's terms ``u`` and ``c`` (:mod:`accounting.exposure.step_information.observation`) a horizon
# that starts before the step gives away ``c`` more than in silence. One that starts with it or later gives
# away a concave function of ``u``, the least of many lines, each of which bounds it from above:
#
#     c <= min_k [limit_k - quiet_k],      u <= min_k [(limit_k - line_k(0)) / slope_k].
#
# The limits repeat with the person's cycle and no bound rises in silence, so one cycle beyond the horizon
# is all that has to be looked at.
#
# Horizon T = 2, limit 100 units everywhere, nothing revealed yet but 60 in the last step, eta_1 = 1/2:
#     horizon {last, next}:      60 in silence, so c <= 100 - 60 = 40
#     horizon {next, next + 1}:  it carries J = 60 / 2 = 30 and adds u in full, so u <= (100 - 30) / 1 = 70
#     horizon {next + 1, ..}:    at most J = (30 + u) / 2: looser, and a cycle of one slot ends before it
#     the headroom is c <= 40 and u <= 70

_SLACK_UNITS = 16.0  # rounding of one carried amount, and more


class Headroom(NamedTuple):
    """What the next step may say of each person, units; -1 where it may say nothing."""

    conditional: NDArray[np.int64]  # (N,) limit of ``c``
    unconditioned: NDArray[np.int64]  # (N,) limit of ``u``
    is_quiet_over: NDArray[np.bool_]  # (N,) a limit is broken although nothing more is released


class Outlook(NamedTuple):
    """One person's coming horizons; position ``j`` is step ``first - MEMORY + j`` of the next horizon."""

    unconditioned: NDArray[np.float64]  # terms, zero from the next step on
    carried: NDArray[np.float64]  # J in silence
    line: NDArray[np.float64]  # J is at most line + slope u ..
    slope: NDArray[np.float64]  # .. with the next step's u
    now: int  # position of the next step


@jit
def new_outlook(horizon: int, cycle: int) -> Outlook:
    """Working memory of one thread, for people whose cycles are no longer than ``cycle``."""
    size = MEMORY + horizon + cycle
    return Outlook(np.empty(size), np.empty(size), np.empty(size), np.empty(size), MEMORY + horizon - 1)


@bare_jit
def look_back(state: HorizonState, outlook: Outlook, next_step: int, person: int) -> None:
    """Fill in what is known before the next step."""
    horizon = state.conditional.shape[0]
    first = next_step - horizon + 1
    outlook.unconditioned[outlook.now :] = 0.0
    for j in range(outlook.now):
        outlook.unconditioned[j] = state.unconditioned[(first - MEMORY + j) % (horizon + MEMORY), person]
    for j in range(MEMORY):
        amount = state.carried[(first - MEMORY + j) % (MEMORY + 1), person]
        outlook.carried[j], outlook.line[j], outlook.slope[j] = amount, amount, 0.0


@bare_jit
def look_ahead(
    outlook: Outlook, constants: Constants, phase: int, position: int, entropy: float, likely: float
) -> None:
    """``J`` at a position, as ``horizon_kernel.carried_units`` has it, and the line above it.

    The line is the least one at ``u = likely``.
    """
    quiet, line, slope = np.inf, np.inf, 0.0
    between, between_slope = 0.0, 0.0
    gap = 1
    for j in range(len(GAPS)):
        while gap < GAPS[j]:
            eta = constants.contraction[phase, j - 1]
            between += eta * outlook.unconditioned[position - gap]
            between_slope += eta if position - gap == outlook.now else 0.0
            gap += 1
        eta = constants.contraction[phase, j]
        back = position - gap
        quiet = min(quiet, eta * (outlook.carried[back] + outlook.unconditioned[back]) + between)
        new_line = eta * (outlook.line[back] + outlook.unconditioned[back]) + between
        new_slope = eta * (outlook.slope[back] + (1.0 if back == outlook.now else 0.0)) + between_slope
        if new_line + new_slope * likely < line + slope * likely:
            line, slope = new_line, new_slope
    before = outlook.carried[position - 1] + outlook.unconditioned[position - 1]
    quiet = min(np.ceil(quiet) + 1.0, before) if quiet > 0.0 else 0.0
    outlook.carried[position] = min(quiet, entropy)
    outlook.line[position] = min(line + _SLACK_UNITS, entropy)
    outlook.slope[position] = slope if line < entropy else 0.0


@inline
def largest_term(free: float, slope: float) -> int:
    """The largest ``u`` with ``slope u <= free``; -1 if there is none."""
    largest = UNLIMITED
    if free < 0.0:
        largest = -1
    elif slope * float(UNLIMITED) > free:
        largest = int(free / slope * (1.0 - 1e-12))
    return largest


@bare_jit
def longest_cycle(population: PopulationArrays, begin: int, end: int) -> int:
    """The most slots that any of the people ``begin..end - 1`` has."""
    longest = 1
    for person in range(begin, end):
        longest = max(longest, int(population.slots[person]))
    return longest


@bare_jit
def _find_some_headroom(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    headroom: Headroom,
    next_step: int,
    outlook: Outlook,
) -> None:
    """:func:`find_headroom` of the people ``begin..end - 1``."""
    population, constants, _, state, _, (horizon, _, _, _, first_slot) = accounts
    first = next_step - horizon + 1
    for person in range(begin, end):
        slots = int(population.slots[person])
        starts_itself = has_initial_distribution(population, person)
        look_back(state, outlook, next_step, person)
        running, known = state.running[person], state.information[person]
        conditional, unconditioned, is_over = UNLIMITED, limits.step[person], False
        for k in range(horizon - 1 + slots):
            position = MEMORY + k
            phase = constants.phase_start[person] + (first_slot + first + k) % slots
            # The law of an initial distribution moves on, and its entropy with it.
            entropy = np.inf if starts_itself else float(constants.entropy_units[phase])
            likely = min(UNITS_PER_NAT, max(1.0, float(min(conditional, unconditioned))))
            look_ahead(outlook, constants, phase, position, entropy, likely)
            if k < horizon - 1:
                running -= state.conditional[(first + k) % horizon, person]
            quiet = min(outlook.carried[position] + outlook.unconditioned[position], entropy)
            known = min(known, int(quiet) + (running if k < horizon - 1 else 0))
            limit = limits.information[phase]
            is_over = is_over or known > limit
            if k < horizon - 1:
                conditional = min(conditional, limit - known)
            elif entropy > limit:
                free = float(limit) - outlook.line[position] - _SLACK_UNITS
                slope = outlook.slope[position] + (1.0 if position == outlook.now else 0.0)
                unconditioned = min(unconditioned, largest_term(free, slope))
        headroom.conditional[person] = max(conditional, -1)
        headroom.unconditioned[person] = max(unconditioned, -1)
        headroom.is_quiet_over[person] = is_over


@pjit(lambda accounts, *_: accounts.since.size, least=256)
def find_headroom(
    begin: int, end: int, accounts: Accounts, limits: Limits, headroom: Headroom, next_step: int
) -> None:
    """What the next step may say of everybody; fills ``headroom``, changes nothing else.

    Each one's horizon slides through silence, a cycle beyond the next step; the tightest limit counts.
    """
    outlook = new_outlook(accounts.horizon.steps, longest_cycle(accounts.population, begin, end))
    _find_some_headroom(begin, end, accounts, limits, headroom, next_step, outlook)
