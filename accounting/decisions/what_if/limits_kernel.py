"""How much information releases may give about a person's horizon before a limit on the risk is broken.

The fast bound on the risk rises with the information, so a limit on the risk is a limit on the information:
the binary divergence ``d(limit || q)``, for each person and slot in which the horizon starts. These limits
follow from the priors alone. What is left of them for the next step, the *headroom*, also depends on what was
released.
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
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.numerics.jit import bare_jit, bare_pjit, inline, jit, pjit
from models.priors.chain import ChainView, LocalChain, PopulationArrays, chain_view, inlined_chain_view
from models.priors.stationary_kernel import push_forward

UNLIMITED = 1 << 62
"""A limit that nothing reaches."""

BEYOND_FAST = 1 << 61
"""A ``c`` that the fast bound never clears, so that the refined bounds are computed for every horizon."""

_ROUNDING = 1e-12  # relative: a limit must not be too large by rounding


class Limits(NamedTuple):
    """Limits in units of information; the phases are those of ``accounts_kernel.Constants``."""

    information: Integers  # (phases,) of a horizon at its end; UNLIMITED where is_natural
    is_natural: Flags  # (phases,) habits alone break the limit, with nothing released
    risk: NDArray[
        np.float64
    ]  # (phases,) the largest certified risk within the limit; of several chains the mean
    step: Integers  # (N,) the most that one step may reveal about the person's place
    ahead: Integers  # (N,) horizons to look at from the step on: a cycle
    later: Integers  # (N,) of all horizons after these, where clocks are changed in one of them
    is_changed: Flags  # by slot: clocks are changed, or there is a holiday, in the horizon
    held_from: Integers  # (N,) the first step of the horizons that the limits hold for


@jit
def information_limit(limit: float, guess: float) -> int:
    """The largest number of units with ``divergence_root(units, guess) <= limit``, or a little less.

    -1 if the guess alone is above the limit. With a guess of 0.1 and a limit of 0.2, releases may give
    ``d(0.2 || 0.1) = 0.2 ln 2 + 0.8 ln (0.8 / 0.9) = 0.0444`` nat.
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
    people: Integers,
    horizon: HorizonRules,
    is_asked: Flags,
    guesses: Floats,
) -> None:
    """Raise ``guesses`` (N,) of these people to a bound on the guess ``q`` under every law of the start.

    Each bound on ``q`` is a maximum of expectations over the law of the start, so it is largest when the
    start is known. The bound here is the largest over known starts and the slots that are asked about.
    """
    for k in range(begin, end):
        chain = chain_view(population, people[k])
        subsets, markov, frontier = 0.0, 0.0, 0.0
        for slot in range(chain.start.shape[0]):
            for x in range(chain.places.size if is_asked[slot] else 0):
                known_start = np.zeros(chain.places.size)
                known_start[x] = 1.0
                person = LocalChain(chain, known_start, slot)
                known = prior_constants(person, horizon.steps, horizon.mistakes, False)
                subsets = max(subsets, known.guess.subsets)
                markov = max(markov, known.guess.markov)
                frontier = max(frontier, known.guess.frontier)
        guesses[people[k]] = max(guesses[people[k]], min(1.0, subsets, markov, frontier))


class PersonChains(NamedTuple):
    """The chains of one person, from ``first`` on; ``guesses`` (N,) are used for initial distributions."""

    accounts: Accounts
    guesses: Floats
    first: int
    chains: int


@bare_jit
def _guess(person: PersonChains, number: int, phase: int) -> float:
    """The bound on the guess of one of the person's chains."""
    chain = person.first + number
    if has_initial_distribution(person.accounts.population, chain):
        return person.guesses[chain]
    constants = person.accounts.constants
    return constants.guess[constants.phase_start[chain] + phase]


@bare_jit
def _mean_risk(person: PersonChains, units: int, phase: int) -> float:
    """The mean bound over the chains if this many units are revealed of each; the mean guess for -1 units."""
    total = 0.0
    for number in range(person.chains):
        guess = _guess(person, number, phase)
        total += guess if units < 0 else divergence_root(units / UNITS_PER_NAT, guess)
    return total / person.chains


@bare_jit
def _shared_limit(person: PersonChains, limit: float, phase: int) -> int:
    """As :func:`information_limit`, for each of several chains whose mean risk must keep the limit.

    For two chains with guesses 0.1 and 0.3 and a limit of 0.3: alone they may give 0.154 nat and 0 nat, so
    the answer lies between these. 0.031 nat make their risks 0.18 and 0.42, which is 0.3 on average.
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


@bare_pjit(lambda accounts, *rest: accounts.since.size // rest[-1], least=16)
def set_limits(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    risk: float,
    habitual_risk: float,
    added: float,
    is_apart: bool,
    guesses: Floats,
    chains: int,
) -> None:
    """Set each person's limits on one horizon, and none on a step; ``chains`` chains stand for each person.

    The budget allows a risk of ``risk`` and an added risk of ``added``, 1 where it sets no such limit. Within
    a radius ``risk`` is lower than the ``habitual_risk`` that was set. With ``is_apart``, people whose habits
    alone are above ``habitual_risk`` may gain ``added`` on top of the guess. People whose habits are between
    the two are not exempt, because raised to the radius they would be above the limit.

    For an initial distribution the guess in ``guesses`` (N,) covers the laws of all later starts, and the
    baseline counts as 0. Such people are never exempt.
    """
    constants = accounts.constants
    for first in range(begin * chains, end * chains, chains):
        person = PersonChains(accounts, guesses, first, chains)
        starts_itself = has_initial_distribution(accounts.population, first)
        for phase in range(constants.phase_start[first + 1] - constants.phase_start[first]):
            guess, baseline = _mean_risk(person, -1, phase), 0.0
            if not starts_itself:
                for chain in range(first, first + chains):
                    baseline += constants.baseline[constants.phase_start[chain] + phase] / chains
            limit = min(risk, (baseline + added) * (1.0 - _ROUNDING))
            units = _shared_limit(person, limit, phase)
            habitual = min(habitual_risk, (baseline + added) * (1.0 - _ROUNDING))
            if is_apart and not starts_itself and information_limit(habitual, guess) < 0:
                limit = guess + max(added, 2.0 * NEGLIGIBLE * guess)
                units = _shared_limit(person, limit, phase)
            for chain in range(first, first + chains):
                row = constants.phase_start[chain] + phase
                limits.risk[row] = limit
                limits.is_natural[row] = units < 0
                limits.information[row] = UNLIMITED if units < 0 else units
        for chain in range(first, first + chains):
            limits.step[chain] = UNLIMITED


@jit
def reversed_moves(chain: ChainView, moves: Floats, slot: int, gap: int) -> Floats:
    """The law of the place in ``slot`` given the place ``gap`` steps later, (K, K), by Bayes' rule.

    ``moves`` (K, K) is the matrix of these steps. The row of an impossible later place is a copy of a
    possible one's, so that it does not change the contraction.
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
def reversed_contractions(chain: ChainView, slot: int) -> Floats:
    """Contraction of the reversed chain from ``GAPS`` steps after ``slot``, (len(GAPS),); never rises."""
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
def later_contraction(chain: ChainView, repeated: int) -> float:
    """``sum_{g >= 1} eta'_g``: the most that later steps reveal about a place if each reveals one unit.

    ``eta'_g`` is the contraction of the reversed chain over ``g`` moves. It never rises with ``g``, and falls
    geometrically with multiples of the longest kept gap. Infinite if the chain forgets nothing.

    Each time that a clock is put back, people stay where they are in so many ``repeated`` steps. After ``h``
    moves each of these adds ``eta'_h``, and at least the longest kept gap lies between two such times. So all
    of them add at most ``repeated (1 + far + far^2 + ..)``.

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
    if not is_forgotten:
        return np.inf
    return (near + GAPS[-1] * far / (1.0 - far) + repeated / (1.0 - far)) * (1.0 + 1e-9)


@inline
def place_entropy(accounts: Accounts, person: int, place_count: int) -> float:
    """The largest entropy of the person's place at one step, in units: no release reveals more about it."""
    if has_initial_distribution(accounts.population, person):
        largest = np.ceil(np.log(place_count) * UNITS_PER_NAT) + 2.0
    else:
        starts = accounts.constants.phase_start
        largest = float(accounts.constants.entropy_units[starts[person] : starts[person + 1]].max())
    return largest


class Reserve(NamedTuple):
    """What a limit in hindsight sets aside of each person's limits for later steps, in units, (N,) each."""

    horizon: Integers  # of the limit on a horizon at its end
    step: Integers  # the most that one step may reveal


@pjit(lambda accounts, *_: accounts.since.size, least=16)
def find_reserve(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    changed: Integers,
    repeated: int,
    share: float,
    reserve: Reserve,
) -> None:
    """Set aside the ``share`` of the tightest limit for later steps, and limit each step accordingly.

    ``changed`` (N,) are the tightest limits of horizons in which clocks are changed, and ``repeated`` as for
    :func:`later_contraction`. If no step reveals more than ``m`` units, later steps reveal at most ``m sum_g
    eta'_g`` about a horizon's last place, and never more than its entropy.

    For a tightest limit of 100 units, a share of 1/2 sets aside 50. If the entropy is 40 units, later steps
    reveal at most 40: these are set aside, and steps stay unlimited. If the entropy is 800 and the sum is
    1.25, each step may reveal 50 / 1.25 = 40 units, and the horizon keeps the other 50.
    """
    constants = accounts.constants
    for person in range(begin, end):
        rows = slice(constants.phase_start[person], constants.phase_start[person + 1])
        tightest = min(limits.information[rows].min(), changed[person])
        reserve.horizon[person], reserve.step[person] = 0, UNLIMITED
        if tightest == UNLIMITED:
            continue
        chain = chain_view(accounts.population, person)
        set_aside = share * tightest
        entropy = place_entropy(accounts, person, chain.places.size)
        if entropy <= set_aside:
            set_aside = entropy
        else:
            forgotten = np.inf
            if not has_initial_distribution(accounts.population, person):
                forgotten = later_contraction(chain, repeated if chain.start.shape[0] > 1 else 0)
            reserve.step[person] = int(set_aside / forgotten) if forgotten > 0.0 else UNLIMITED
        reserve.horizon[person] = int(np.ceil(set_aside))


class ProposedTerms(NamedTuple):
    """The terms ``c`` and ``u`` that a step would have for some people, in units, (n,) each."""

    people: Integers
    conditional: Integers
    unconditioned: Integers


@bare_jit
def _find_some(
    begin: int,
    end: int,
    accounts: Accounts,
    transition: Transition,
    terms: ProposedTerms,
    scratch: TermsScratch,
    moved: Floats,
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
            before = now  # the accounts are still at the step before this one
            if number > since:
                now = moved[: before.size]
                push_forward(before, chain.column_start[slot_before], chain.row, chain.value, now)
        found = step_terms(chain, slot_before, before, now, transition.before, transition.step, scratch)
        terms.unconditioned[k] = to_units(found.unconditioned)
        terms.conditional[k] = to_units(found.conditional) if number > since else terms.unconditioned[k]


@pjit(lambda accounts, transition, terms, *_: terms.people.size, least=64)
def find_terms(
    begin: int, end: int, accounts: Accounts, transition: Transition, terms: ProposedTerms, most_places: int
) -> None:
    """Fill in the terms, which are zero before, that accounting this step next would give ``terms.people``.

    The accounts do not change.
    """
    scratch = new_terms_scratch(transition.before, transition.step, most_places)
    _find_some(begin, end, accounts, transition, terms, scratch, np.empty(most_places))


@bare_pjit(lambda population, *_: population.slots.size, least=1024)
def count_reaches(
    begin: int, end: int, population: PopulationArrays, labels: Integers32, reaches: Integers
) -> None:
    """Add to each person's ``reaches`` (N,) the number of rows of ``labels`` (steps, M) that count them."""
    for person in range(begin, end):
        for row in range(labels.shape[0]):
            if is_in_reach(population, person, labels[row]):
                reaches[person] += 1


# The headroom: what the next step may reveal about each person so that no limit is broken, now or later.
#
# Suppose nothing is released after the next step ("silence"). The horizon slides on, and the information
# about it fades. A step is admissible for a person if then every horizon from now on keeps its limit. So
# silence is always admissible afterwards, and a budget that was kept can be kept for ever.
#
# Let the step have the terms ``u`` and ``c`` (:mod:`accounting.exposure.step_information.observation`). The
# information about a horizon that starts before the step is ``c`` more than in silence. About a horizon that
# starts at the step or later it is a concave function of ``u``: the least of several lines, each of which
# bounds it from above. Hence
#
#     c <= min_k [limit_k - quiet_k],      u <= min_k [(limit_k - line_k(0)) / slope_k].
#
# The limits repeat with the person's cycle, and no bound rises in silence. So horizons need to be looked at
# only up to one cycle beyond the step. If clocks are changed in one of them, others of the cycle are missing:
# what is left at the end of the cycle must then keep the tightest limit of all.
#
# The place of a person whose habits changed was told at a step. Horizons that begin before it have the
# ceiling 1, and the one that begins with it shows a place; for some steps more, what is left of that place
# alone breaks the limit. No decision changes that, so limits hold for the horizons after these
# (:func:`find_held_from`), with all that is known of them.
#
# For example, horizon T = 2, limit 100 units everywhere, nothing revealed yet but 60 in the last step, eta_1
# = 1/2:
#     horizon {last, next}:      60 in silence, so c <= 100 - 60 = 40
#     horizon {next, next + 1}:  it carries J = 60 / 2 = 30 and adds u in full, so u <= (100 - 30) / 1 = 70
#     horizon {next + 1, ..}:    at most J = (30 + u) / 2: looser, and a cycle of one slot ends before it
#     the headroom is c <= 40 and u <= 70

_SLACK_UNITS = 16.0  # more than the rounding of a carried amount, so that the headroom is not too large


class Headroom(NamedTuple):
    """The most that the next step may reveal about each person, in units; -1 if even nothing is too much."""

    conditional: Integers  # (N,) limit of ``c``
    unconditioned: Integers  # (N,) limit of ``u``
    is_quiet_over: Flags  # (N,) a limit is broken even if nothing more is released
    room: Integers  # (N,) of what this and all later steps reveal together; negative where too much


# The room for what this and all later steps may reveal *together*, whenever they do, is the least of
# ``limit_k - quiet_k`` over the same horizons: carried on, an amount never grows. Counts of windows need
# that, whose parts come out in steps to come.


class Outlook(NamedTuple):
    """One person's coming horizons; position ``MEMORY + j`` is step ``j`` of the next horizon."""

    unconditioned: Floats  # terms, zero from the next step on
    carried: Floats  # J in silence
    line: Floats  # J is at most line + slope * u ..
    slope: Floats  # .. with the next step's u
    now: int  # position of the next step


@jit
def new_outlook(horizon: int, cycle: int) -> Outlook:
    """The working memory of one thread, for cycles of at most ``cycle`` slots."""
    size = MEMORY + horizon + cycle
    return Outlook(np.empty(size), np.empty(size), np.empty(size), np.empty(size), MEMORY + horizon - 1)


@bare_jit
def look_back(state: HorizonState, outlook: Outlook, next_step: int, person: int) -> None:
    """Fill in the terms and the carried information before the next step."""
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
    """``J`` at a position, as in ``carried_units``, and the line above it that is least at ``likely``."""
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
        conditional, unconditioned, room = UNLIMITED, limits.step[person], UNLIMITED
        is_changed, last = False, horizon - 2 + limits.ahead[person]
        for k in range(last + 1):
            position = MEMORY + k
            slot = (first_slot + first + k) % slots
            phase = constants.phase_start[person] + slot
            is_changed |= limits.is_changed[slot]
            # The law of an initial distribution moves on, and its entropy with it.
            entropy = np.inf if starts_itself else float(constants.entropy_units[phase])
            likely = min(UNITS_PER_NAT, max(1.0, float(min(conditional, unconditioned))))
            look_ahead(outlook, constants, phase, position, entropy, likely)
            if k < horizon - 1:
                running -= state.conditional[(first + k) % horizon, person]
            quiet = min(outlook.carried[position] + outlook.unconditioned[position], entropy)
            known = min(known, int(quiet) + (running if k < horizon - 1 else 0))
            if first + k < limits.held_from[person]:
                continue
            limit = limits.information[phase]
            if k == last and is_changed:
                limit = min(limit, limits.later[person])
            room = min(room, limit - known)
            if k < horizon - 1:
                conditional = min(conditional, limit - known)
            elif entropy > limit:
                free = float(limit) - outlook.line[position] - _SLACK_UNITS
                slope = outlook.slope[position] + (1.0 if position == outlook.now else 0.0)
                unconditioned = min(unconditioned, largest_term(free, slope))
        headroom.conditional[person] = max(conditional, -1)
        headroom.unconditioned[person] = max(unconditioned, -1)
        headroom.is_quiet_over[person] = room < 0
        headroom.room[person] = room


@jit
def find_held_from(accounts: Accounts, limits: Limits, people: Integers, told: Floats, most: int) -> None:
    """Set from which horizons on limits hold, of people whose place was told at their first step.

    It lies at most so many steps after. ``told`` (n,) are the units that the place has.
    """
    outlook = new_outlook(1, most)
    _, constants, _, _, _, (_, _, _, _, first_slot) = accounts
    for i in range(people.size):
        person, since = people[i], accounts.since[people[i]]
        for each in (outlook.unconditioned, outlook.carried, outlook.line, outlook.slope):
            each[:] = 0.0
        outlook.unconditioned[MEMORY] = told[i]
        limits.held_from[person] = since + 1
        for k in range(1, most):
            slots = constants.phase_start[person + 1] - constants.phase_start[person]
            phase = constants.phase_start[person] + (first_slot + since + k) % slots
            look_ahead(outlook, constants, phase, MEMORY + k, np.inf, 1.0)
            if outlook.carried[MEMORY + k] > limits.information[phase]:
                limits.held_from[person] = since + k + 1


@pjit(lambda accounts, *_: accounts.since.size, least=256)
def find_headroom(
    begin: int, end: int, accounts: Accounts, limits: Limits, headroom: Headroom, next_step: int
) -> None:
    """Fill in the ``headroom`` of all people; nothing else changes.

    Each person's horizon slides through silence, up to a cycle beyond the next step; the tightest limit
    counts.
    """
    longest_cycle = 1  # not max(): the range may be empty
    for person in range(begin, end):
        longest_cycle = max(longest_cycle, int(limits.ahead[person]))
    outlook = new_outlook(accounts.horizon.steps, longest_cycle)
    _find_some_headroom(begin, end, accounts, limits, headroom, next_step, outlook)
