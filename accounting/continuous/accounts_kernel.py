"""What an accountant keeps of each person, in the form that kernels read and write.

A row here is a chain; "person" means the person, or the drawn chain, whose row it is. Amounts of information
are 64-bit integers in units of 2^-40 nat, rounded up. Their sums are exact, so replaying the release log
gives the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.prior_constants_kernel import prior_constants
from accounting.exposure.step_information.contraction_kernel import GAPS, gap_contractions
from accounting.exposure.step_information.renewal_kernel import surprise
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.numerics.jit import inline, jit, pjit
from models.priors.chain import ChainView, LocalChain, PopulationArrays, chain_view
from models.priors.stationary_kernel import push_forward

UNITS_PER_NAT = float(2**40)
_SLACK_UNITS = 2  # more than the rounding of a term's sums, which is below 1e-12 nat (2^-40 nat = 9e-13)

MEMORY = GAPS[-1]
"""Steps before the horizon of which each term is kept: the largest gap whose contraction is known."""

HISTORY = 48
"""Steps before the horizon that the refined bounds follow; the adversary is shown the place before."""

NEGLIGIBLE = 1e-6
"""Relative excess of the fast bound over the guess from the prior below which nothing is refined."""


NOT_ALIKE = -(1 << 62)
"""For the position of a horizon whose slots do not just count on."""


class HorizonRules(NamedTuple):
    """What the adversary tries: to guess the last ``steps``, at most ``mistakes`` of them wrong."""

    steps: int  # T
    mistakes: int  # s
    vectors: int  # of the frontier bound among the refined bounds
    refined_from: float  # risk by the fast bound from which a person is refined
    first_slot: int  # of step 0 in the cycle of the priors


class Constants(NamedTuple):
    """What does not depend on the releases, for each person and slot in which the horizon starts (a *phase*).

    Person ``i`` owns ``[phase_start[i], phase_start[i + 1])`` of the flat arrays, one entry a slot.
    """

    phase_start: Integers  # (N + 1,)
    guess: Floats  # q, an upper bound on any guess from the prior alone
    baseline: Floats  # exact success of the best known guess from the prior alone
    entropy_units: Integers  # H(X_w) of the horizon's first place, rounded up
    contraction: Floats  # (phases, len(GAPS)), of the moves that end in the slot


class Nonstationary(NamedTuple):
    """Marginals of people with an initial distribution, packed like ``PopulationArrays.initial``."""

    earliest: Floats  # at the first step of the history, at most HISTORY before the horizon
    first: Floats  # at the first step of the horizon
    before: Floats  # at the step before the last
    now: Floats  # at the last step


class HorizonState(NamedTuple):
    """All that is carried from step to step. The first three are rings: row ``k mod rows`` is step ``k``."""

    unconditioned: Integers  # (T + MEMORY, N) units
    conditional: Integers  # (T, N) units
    carried: Integers  # (MEMORY + 1, N) J in units, by the horizon's first step
    running: Integers  # (N,) sum of conditional over the horizon except its first step
    information: Integers  # (N,) bound of the last step, units
    guess: Floats  # (N,) the q that `bound` was computed with
    bound: Floats  # (N,) root of the binary divergence at `information`
    baseline: Floats  # (N,) of the horizon of the last step
    risk: Floats  # (N,) certified bound of the last step: the larger of bound and baseline
    decided_by: NDArray[np.int8]  # (N,) BY_ codes


def empty_state(people: int, horizon: int) -> HorizonState:
    """The state before the first step, when nothing was revealed."""
    return HorizonState(
        unconditioned=np.zeros((horizon + MEMORY, people), dtype=np.int64),
        conditional=np.zeros((horizon, people), dtype=np.int64),
        carried=np.zeros((MEMORY + 1, people), dtype=np.int64),
        running=np.zeros(people, dtype=np.int64),
        information=np.zeros(people, dtype=np.int64),
        guess=np.full(people, -1.0),
        bound=np.zeros(people),
        baseline=np.zeros(people),
        risk=np.zeros(people),
        decided_by=np.zeros(people, dtype=np.int8),
    )


class Accounts(NamedTuple):
    """Priors, constants and state of all people, and the horizon that the adversary guesses."""

    population: PopulationArrays
    constants: Constants
    nonstationary: Nonstationary
    state: HorizonState
    since: Integers  # (N,) step from which each person's releases count
    horizon: HorizonRules


@jit
def to_units(nats: float) -> int:
    """A non-negative amount in units, rounded up; exactly zero stays zero."""
    return int(np.ceil(nats * UNITS_PER_NAT)) + _SLACK_UNITS if nats > 0.0 else 0


@inline
def has_initial_distribution(population: PopulationArrays, person: int) -> bool:
    """Whether the person's chain starts from an initial distribution, not its (cyclo-)stationary one."""
    return population.initial_start[person] < population.initial_start[person + 1]


@inline
def account_slot(accounts: Accounts, person: int, step: int) -> int:
    """The slot of the person's cycle that a step falls in."""
    return (accounts.horizon.first_slot + step) % int(accounts.population.slots[person])


@inline
def is_in_reach(population: PopulationArrays, person: int, labels: Integers32) -> bool:
    """Whether any sensor of a step counts at one of the person's places."""
    for k in range(population.places_start[person], population.places_start[person + 1]):
        if labels[population.places[k]] > 0:
            return True
    return False


@inline
def fill_phase(
    constants: Constants, row: int, chain: ChainView, start: Floats, slot: int, horizon: HorizonRules
) -> None:
    """``q``, baseline and ``H(X_w)`` of a horizon that starts in ``slot`` with the law ``start``."""
    # Each of the four bounds on the guess is valid (accounting.exposure), so their least is.
    person = LocalChain(chain, start, slot)
    known = prior_constants(person, horizon.steps, horizon.mistakes, False)
    guess = known.guess
    constants.guess[row] = min(1.0, guess.koga, guess.subsets, guess.markov, guess.frontier)
    constants.baseline[row] = known.baseline.success
    entropy = 0.0
    for x in range(start.size):
        entropy += surprise(start[x])
    constants.entropy_units[row] = to_units(entropy)


@pjit(lambda accounts, people, *_: people.size)
def fill_constants(
    begin: int, end: int, accounts: Accounts, people: Integers, step_number: int, is_stationary: bool
) -> None:
    """Fill in the constants of these people: of all slots for (cyclo-)stationary starts, else of one horizon.

    That one is the horizon that ends with ``step_number``, for people with an initial distribution. It starts
    with the law in ``accounts.nonstationary.first``.
    """
    population, constants = accounts.population, accounts.constants
    for k in range(begin, end):
        person = people[k]
        chain = chain_view(population, person)
        row = constants.phase_start[person]
        if is_stationary:
            slot, last = 0, int(population.slots[person])
            constants.contraction[row : row + last] = gap_contractions(chain)
        else:
            first_step = max(step_number - accounts.horizon.steps + 1, accounts.since[person])
            slot = account_slot(accounts, person, first_step)
            last = slot + 1
        for phase in range(slot, last):
            start = chain.start[phase]
            if not is_stationary:
                own = population.initial_start[person]
                start = accounts.nonstationary.first[own : own + start.size]
            fill_phase(constants, row + phase, chain, start, phase, accounts.horizon)


@pjit(lambda accounts, *_: accounts.since.size)
def fill_stretch(
    begin: int, end: int, accounts: Accounts, settled: Constants, first: int, like: Integers
) -> None:
    """Fill in the constants of horizons that start in slot ``first + k`` of a stretch of time.

    Those of people who start (cyclo-)stationary, and the contractions of everybody. Where slots just count on
    during the horizon, constants are the ``settled`` ones of position ``like[k]`` of the cycle; it is
    ``NOT_ALIKE`` elsewhere.
    Of other slots of the stretch the constants stay those that promise nothing.
    """
    population, constants = accounts.population, accounts.constants
    for person in range(begin, end):
        chain = chain_view(population, person)
        row, source = constants.phase_start[person], settled.phase_start[person]
        constants.contraction[row : row + chain.start.shape[0]] = gap_contractions(chain)
        if has_initial_distribution(population, person):
            continue
        cycle = settled.phase_start[person + 1] - source
        for k in range(like.size):
            phase = first + k
            if like[k] != NOT_ALIKE or cycle == 1:
                known = source + like[k] % cycle
                constants.guess[row + phase] = settled.guess[known]
                constants.baseline[row + phase] = settled.baseline[known]
                constants.entropy_units[row + phase] = settled.entropy_units[known]
            else:
                fill_phase(constants, row + phase, chain, chain.start[phase], phase, accounts.horizon)


@pjit(lambda accounts, people, *_: people.size)
def fill_horizons(
    begin: int, end: int, accounts: Accounts, people: Integers, first: int, last: int, step: int
) -> None:
    """Fill in the constants of horizons that start in the slots ``first..last - 1`` of unrolled chains.

    They start with the law of the slot. Slot 0 is ``step``. Horizons do not start before the person's own
    first step: then they are those from that step on.
    """
    for k in range(begin, end):
        person = people[k]
        chain, row = chain_view(accounts.population, person), accounts.constants.phase_start[person]
        own = min(max(first, accounts.since[person] - step), last - 1)
        for phase in range(own, last):
            fill_phase(accounts.constants, row + phase, chain, chain.start[phase], phase, accounts.horizon)
        for phase in range(first, own):
            accounts.constants.guess[row + phase] = accounts.constants.guess[row + own]
            accounts.constants.baseline[row + phase] = accounts.constants.baseline[row + own]
            accounts.constants.entropy_units[row + phase] = accounts.constants.entropy_units[row + own]


def empty_constants(population: PopulationArrays) -> Constants:
    """Arrays of the right sizes, still to be filled in."""
    phase_start = np.concatenate(([0], np.cumsum(population.slots, dtype=np.int64)))
    phases = int(phase_start[-1])
    return Constants(
        phase_start=phase_start,
        guess=np.ones(phases),
        baseline=np.zeros(phases),
        entropy_units=np.zeros(phases, dtype=np.int64),
        contraction=np.ones((phases, len(GAPS))),
    )


@pjit(lambda accounts, people, *_: people.size, least=64)
def advance_marginals(
    begin: int, end: int, accounts: Accounts, people: Integers, step_number: int, is_changed: Flags
) -> None:
    """Advance the marginals of these people, who have an initial distribution, to ``step_number``.

    ``is_changed`` (n,) tells whose constants must be computed again, because the law at the horizon's first
    step changed or falls in another slot. A horizon never starts before the person's own first step.

    Two places, swapped half of the time, start (1, 0) in step 0, horizon T = 2:
        step 0: now (1, 0),     first (1, 0)      the horizon is step 0
        step 1: now (1/2, 1/2), first (1, 0)      steps 0 and 1: the law of its first step stays
        step 2: now (1/2, 1/2), first (1/2, 1/2)  steps 1 and 2: changed
        step 3: now (1/2, 1/2), first (1/2, 1/2)  steps 2 and 3: the same law, not changed
    """
    marginals = accounts.nonstationary
    for k in range(begin, end):
        person, since = people[k], accounts.since[people[k]]
        own = slice(accounts.population.initial_start[person], accounts.population.initial_start[person + 1])
        before, now, first = marginals.before[own], marginals.now[own], marginals.first[own]
        earliest = marginals.earliest[own]
        chain = chain_view(accounts.population, person)
        if step_number > since:
            before[:] = now
            slot = account_slot(accounts, person, step_number - 1)
            push_forward(before, chain.column_start[slot], chain.row, chain.value, now)
        first_step = step_number - accounts.horizon.steps + 1
        if first_step - HISTORY > since:
            moved = np.empty(first.size)
            slot = account_slot(accounts, person, first_step - HISTORY - 1)
            push_forward(earliest, chain.column_start[slot], chain.row, chain.value, moved)
            earliest[:] = moved
        is_changed[k] = False
        if first_step > since:
            moved = np.empty(first.size)
            slot = account_slot(accounts, person, first_step - 1)
            push_forward(first, chain.column_start[slot], chain.row, chain.value, moved)
            is_changed[k] = accounts.population.slots[person] > 1
            for x in range(moved.size):
                is_changed[k] |= moved[x] != first[x]
                first[x] = moved[x]
