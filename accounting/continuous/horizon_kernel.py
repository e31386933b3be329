"""The sliding horizon of every person: one step in, the certified fast bound out, in O(1) a person.

The fast bound is the root of the binary divergence (``accounting.numerics.divergence_root``) at a bound on
the information that everything released so far gives about the horizon ``w..t``:

    I(X_w..X_t; Y_1..Y_t) <= min(H(X_w), J_w + u_w) + sum_{k=w+1..t} c_k

The terms of step ``k`` are ``u_k >= I(X_k; Y_k)`` (unconditioned) and ``c_k >= I(X; Y_k | Y_w..Y_{k-1})``
(conditional; see ``step_information.observation``). The carried information ``J_w >= I(X_w; Y_1..Y_{w-1})``
is what earlier releases reveal about the horizon's first place. The formula is the chain rule of mutual
information on a Markov chain.

The left side is also at most its value for the horizon that ended a step earlier, plus ``c_t``: given the
trace until ``t - 1``, the place at ``t`` is independent of everything released before. So the bound never
rises without releases.

What step ``w - g`` released reaches ``X_w`` only through ``g`` moves. By the strong data-processing
inequality it shrinks by the contraction ``eta_g`` of these moves, given all that was released before it:

    J_w = min( H(X_w), min_k [ eta_k (J_{w-k} + u_{w-k}) + sum_{g<k} eta_g u_{w-g} ] ).

A horizon of T = 2 steps, one release of 0.4 nat in step 1 (u = c = 0.4), eta_1 = 1/2, eta_2 = 1/4, H = 0.7:

    step 1: w = 0, J_0 = 0:                               bound 0 + 0   + c_1 = 0.4
    step 2: w = 1, J_1 = 0:                               bound 0 + 0.4 + c_2 = 0.4
    step 3: w = 2, J_2 = eta_1 (J_1 + u_1) = 0.2:         bound 0.2 + 0 + c_3 = 0.2
    step 4: w = 3, J_3 = min over k = 1: eta_1 J_2 = 0.1,
                              k = 2: eta_2 (J_1 + u_1) = 0.1:  bound 0.1
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.bounds.patterns.raw_success_kernel import BY_BASELINE, BY_DIVERGENCE
from accounting.continuous.accounts_kernel import (
    MEMORY,
    UNITS_PER_NAT,
    Accounts,
    Constants,
    HorizonState,
    Nonstationary,
    has_initial_distribution,
    is_in_reach,
    to_units,
)
from accounting.exposure.step_information.contraction_kernel import GAPS
from accounting.exposure.step_information.observation import (
    StepView,
    TermsScratch,
    new_terms_scratch,
    step_terms,
)
from accounting.numerics import divergence_root
from models.numerics.arrays import Floats, Integers
from models.numerics.jit import bare_jit, inline, jit, pjit
from models.priors.chain import PopulationArrays, inlined_chain_view


class Transition(NamedTuple):
    """The step that is accounted and the one before it."""

    number: int  # of the step
    before: StepView
    step: StepView


class KnownTerms(NamedTuple):
    """The terms of one step for each person, in units; -1 where not known yet, empty if nothing is kept."""

    unconditioned: Integers  # (N,)
    conditional: Integers  # (N,)


class RingRows(NamedTuple):
    """The rows of the rings that one step needs."""

    now: int  # of unconditioned: the step itself
    enters: int  # of conditional: the step itself
    leaves: int  # of conditional: the horizon's new first step, which now counts with its unconditioned term
    unconditioned: Integers  # (MEMORY + 1,) g steps before the horizon's first
    carried: Integers  # (MEMORY + 1,) likewise


@jit
def ring_rows(step: int, horizon: int) -> RingRows:
    """The rows for the horizon that ends with ``step``; the same for all people."""
    first = step - horizon + 1
    unconditioned = np.empty(MEMORY + 1, dtype=np.int64)
    carried = np.empty(MEMORY + 1, dtype=np.int64)
    for gap in range(MEMORY + 1):
        unconditioned[gap] = (first - gap) % (horizon + MEMORY)
        carried[gap] = (first - gap) % (MEMORY + 1)
    return RingRows(step % (horizon + MEMORY), step % horizon, first % horizon, unconditioned, carried)


@inline
def carried_units(state: HorizonState, constants: Constants, rows: RingRows, person: int, phase: int) -> int:
    """``J`` of the horizon by the module's last formula, in units, without the limit ``H(X_w)``.

    At most the value of the horizon before plus that step's term, so that rounding up cannot make it rise
    from step to step without releases.
    """
    contraction, terms = constants.contraction, state.unconditioned
    best = np.inf
    between = 0.0  # sum of eta_g u_{w-g} over the steps after the one whose J is used
    gap = 1
    for j in range(len(GAPS)):
        while gap < GAPS[j]:
            # Only eta of the gaps in GAPS is known; eta never rises, so a gap between two uses the smaller
            # one's.
            between += contraction[phase, j - 1] * terms[rows.unconditioned[gap], person]
            gap += 1
        older = state.carried[rows.carried[gap], person] + terms[rows.unconditioned[gap], person]
        best = min(best, contraction[phase, j] * older + between)
        if best == 0.0:
            return 0
    before = state.carried[rows.carried[1], person] + terms[rows.unconditioned[1], person]
    return min(int(np.ceil(best)) + 1, before)


@inline
def beliefs(
    population: PopulationArrays, own: Nonstationary, person: int, slot_before: int, slot: int
) -> tuple[Floats, Floats]:
    """The person's marginals at the step before and at this one; views of shape (K,)."""
    first = population.initial_start[person]
    last = population.initial_start[person + 1]
    if first < last:
        return own.before[first:last], own.now[first:last]
    chain = inlined_chain_view(population, person)
    return chain.start[slot_before], chain.start[slot]


@inline
def phase_of_horizon(
    population: PopulationArrays, constants: Constants, first_slot: int, since: int, person: int, first: int
) -> int:
    """The row of the person's constants for the horizon that starts with step ``first``."""
    phase = constants.phase_start[person]
    slots = population.slots[person]
    if slots > 1:
        start = first
        if has_initial_distribution(population, person):
            start = max(start, since)
        phase += (first_slot + start) % slots
    return phase


@inline
def slide(
    state: HorizonState,
    constants: Constants,
    rows: RingRows,
    person: int,
    phase: int,
    unconditioned: int,
    conditional: int,
) -> None:
    """Advance one person's horizon by a step with these terms, and compute its information and risk."""
    running = state.running[person] + conditional - state.conditional[rows.leaves, person]
    state.conditional[rows.enters, person] = conditional
    state.unconditioned[rows.now, person] = unconditioned
    if state.conditional.shape[0] == 1:
        running = 0  # the horizon is its own first step
    state.running[person] = running
    entropy_units = constants.entropy_units[phase]
    carried = min(entropy_units, carried_units(state, constants, rows, person, phase))
    state.carried[rows.carried[0], person] = carried
    first = min(entropy_units, carried + state.unconditioned[rows.unconditioned[0], person])
    known = state.information[person] + conditional  # the bound of the horizon before, plus c_t
    information = min(known, first + running)
    guess = constants.guess[phase]
    if information != state.information[person] or guess != state.guess[person]:  # the root is costly
        state.information[person] = information
        state.guess[person] = guess
        state.bound[person] = divergence_root(information / UNITS_PER_NAT, guess)
    baseline = constants.baseline[phase]
    state.baseline[person] = baseline
    state.risk[person] = max(state.bound[person], baseline)
    state.decided_by[person] = BY_DIVERGENCE if state.bound[person] > baseline else BY_BASELINE


@bare_jit
def _advance_some(
    begin: int,
    end: int,
    accounts: Accounts,
    transition: Transition,
    known_terms: KnownTerms,
    rows: RingRows,
    scratch: TermsScratch,
) -> None:
    """:func:`advance` of the people ``begin..end - 1``."""
    population, constants, nonstationary, state, all_since, horizon = accounts
    number = transition.number
    first = number - horizon.steps + 1
    for person in range(begin, end):
        since = all_since[person]
        unconditioned = 0
        conditional = 0
        starts_itself = has_initial_distribution(population, person)
        is_kept = known_terms.unconditioned.size > 0 and number > since and not starts_itself
        if is_kept and known_terms.unconditioned[person] >= 0:
            unconditioned = known_terms.unconditioned[person]
            conditional = known_terms.conditional[person]
        elif number >= since and is_in_reach(population, person, transition.step.labels):
            slots = population.slots[person]
            slot = (horizon.first_slot + number) % slots
            slot_before = (slot - 1) % slots
            chain = inlined_chain_view(population, person)
            before, now = beliefs(population, nonstationary, person, slot_before, slot)
            terms = step_terms(chain, slot_before, before, now, transition.before, transition.step, scratch)
            unconditioned = to_units(terms.unconditioned)
            conditional = to_units(terms.conditional) if number > since else unconditioned
        if is_kept:
            known_terms.unconditioned[person] = unconditioned
            known_terms.conditional[person] = conditional
        phase = phase_of_horizon(population, constants, horizon.first_slot, since, person, first)
        slide(state, constants, rows, person, phase, unconditioned, conditional)


@pjit(lambda accounts, *_: accounts.since.size, least=256)
def advance(
    begin: int,
    end: int,
    accounts: Accounts,
    transition: Transition,
    known_terms: KnownTerms,
    most_places: int,
) -> None:
    """Account one step for all people. They are independent, so the number of threads changes no bit.

    The terms of a repeated step are looked up in ``known_terms``. The loop is a ``bare_jit`` function,
    because counting references to the dozens of arrays in ``accounts`` took twice as long as the arithmetic.
    """
    scratch = new_terms_scratch(transition.before, transition.step, most_places)
    rows = ring_rows(transition.number, accounts.horizon.steps)
    _advance_some(begin, end, accounts, transition, known_terms, rows, scratch)
