"""The sliding horizon of every person: one step in, the certified cheap bound out, O(1) each.

Amounts of information are kept as 64-bit integers in units of 2^-40 nat, rounded up: their running sum is
exact, so a rebuild from the release log gives the same bits.

For the horizon ``w..t`` and everything released so far,

    I(X_w..X_t; Y_1..Y_t) <= min(H(X_w), J_w + u_w) + sum_{k=w+1..t} c_k

with the step terms ``u`` (unconditioned) and ``c`` (given the step before) and
``J_w >= I(X_w; Y_1..Y_{w-1})``, what the adversary remembers from before the horizon. It is never more than
what was known of the horizon that ended a step earlier and ``c_t``: given that trace, one more place of it is
independent of all that was released before. So without releases the bound never rises.

What step ``w - g`` told reaches ``X_w`` only through ``g`` moves, so it shrinks by the contraction
``eta_g`` of those moves, given all that was released before it:

    J_w = min( H(X_w), min_k [ eta_k (J_{w-k} + u_{w-k}) + sum_{g<k} eta_g u_{w-g} ] ).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.contraction_kernel import GAPS
from accounting.exposure.step_information.step_terms_kernel import Scratch, StepView, new_scratch, step_terms
from accounting.numerics.divergence_root_kernel import divergence_root
from models.numerics.jit import inline, jit, pjit
from models.priors.chain import PopulationArrays, chain_view

UNITS_PER_NAT = float(2**40)
_SLACK_UNITS = 2  # covers the rounding of a term's sums, which stay below 1e-12 nat
MEMORY = GAPS[-1]
"""Steps before the horizon whose terms are kept one by one."""


BY_BASELINE, BY_DIVERGENCE, BY_SUCCESS = range(3)
"""Which bound gave a person's risk: the last is the moment bound, or the exact optimum where s = 0."""


class Constants(NamedTuple):
    """What does not change with the releases, per person and slot in which the horizon starts.

    Person ``i`` owns ``[phase_start[i], phase_start[i + 1])`` of the flat arrays, one entry a slot.
    """

    phase_start: NDArray[np.int64]  # (N + 1,)
    guess: NDArray[np.float64]  # q, an upper bound on any guess from the prior alone
    baseline: NDArray[np.float64]  # exact success of the best known guess from the prior alone
    entropy_units: NDArray[np.int64]  # H(X_w), rounded up
    contraction: NDArray[np.float64]  # (phases, len(GAPS)), of the moves that end in the slot


class HorizonState(NamedTuple):
    """All that is carried from step to step. Row ``k mod rows`` of a ring belongs to step ``k``."""

    unconditioned: NDArray[np.int64]  # (T + MEMORY, N) units
    conditional: NDArray[np.int64]  # (T, N) units
    remembered: NDArray[np.int64]  # (MEMORY + 1, N) J in units, by first step of the horizon
    running: NDArray[np.int64]  # (N,) sum of conditional over the horizon but its first step
    information: NDArray[np.int64]  # (N,) bound of the last step, units
    guess: NDArray[np.float64]  # (N,) the q that `bound` was computed with
    bound: NDArray[np.float64]  # (N,) root of the binary divergence at `information`
    baseline: NDArray[np.float64]  # (N,) of the horizon of the last step
    risk: NDArray[np.float64]  # (N,) certified bound of the last step: the larger of bound and baseline
    decided_by: NDArray[np.int8]  # (N,) BY_ codes


class OwnStarts(NamedTuple):
    """Marginals of the people with a start of their own, packed like ``PopulationArrays.initial``."""

    first: NDArray[np.float64]  # at the first step of the horizon
    before: NDArray[np.float64]  # at the step before the last
    now: NDArray[np.float64]  # at the last step


class KnownTerms(NamedTuple):
    """What one step tells about each person, units; -1 where it is not known, empty where nothing is kept."""

    unconditioned: NDArray[np.int64]  # (N,)
    conditional: NDArray[np.int64]  # (N,)


class Rows(NamedTuple):
    """Rows of the rings, for one step."""

    now: int  # of unconditioned: the step itself
    enters: int  # of conditional: the step itself
    leaves: int  # of conditional: the horizon's first step, whose term is the unconditioned one
    told: NDArray[np.int64]  # (MEMORY + 1,) of unconditioned: g steps before the horizon's first
    remembered: NDArray[np.int64]  # (MEMORY + 1,) of remembered: likewise


@jit
def to_units(nats: float) -> int:
    """A non-negative amount in units, rounded up; exact zero stays zero."""
    return int(np.ceil(nats * UNITS_PER_NAT)) + _SLACK_UNITS if nats > 0.0 else 0


@jit
def ring_rows(step: int, horizon: int) -> Rows:
    """Where the rings keep what the horizon that ends with ``step`` needs; the same for everybody."""
    first = step - horizon + 1
    unconditioned = np.empty(MEMORY + 1, dtype=np.int64)
    remembered = np.empty(MEMORY + 1, dtype=np.int64)
    for gap in range(MEMORY + 1):
        unconditioned[gap] = (first - gap) % (horizon + MEMORY)
        remembered[gap] = (first - gap) % (MEMORY + 1)
    return Rows(step % (horizon + MEMORY), step % horizon, first % horizon, unconditioned, remembered)


@inline
def remember(state: HorizonState, constants: Constants, rows: Rows, person: int, phase: int) -> int:
    """``J`` of the horizon, in units and not yet capped by ``H(X_w)``; see the module's formula.

    Never more than a step earlier and what that step told: rounding must not let it rise in silence.
    """
    best = np.inf
    between = 0.0  # sum of eta_g u_{w-g} over the steps after the one that is carried
    gap = 1
    for j in range(len(GAPS)):
        while gap < GAPS[j]:
            # The coefficient of a gap between two kept ones is at most that of the smaller.
            between += constants.contraction[phase, j - 1] * state.unconditioned[rows.told[gap], person]
            gap += 1
        older = state.remembered[rows.remembered[gap], person] + state.unconditioned[rows.told[gap], person]
        best = min(best, constants.contraction[phase, j] * older + between)
        if best == 0.0:
            return 0
    before = state.remembered[rows.remembered[1], person] + state.unconditioned[rows.told[1], person]
    return min(int(np.ceil(best)) + 1, before)


@inline
def slide(
    state: HorizonState,
    constants: Constants,
    rows: Rows,
    person: int,
    phase: int,
    unconditioned: int,
    conditional: int,
) -> int:
    """Move one person's horizon on by a step; the information bound in units."""
    running = state.running[person] + conditional - state.conditional[rows.leaves, person]
    state.conditional[rows.enters, person] = conditional
    state.unconditioned[rows.now, person] = unconditioned
    if state.conditional.shape[0] == 1:
        running = 0  # the horizon is its own first step
    state.running[person] = running
    entropy_units = constants.entropy_units[phase]
    carried = min(entropy_units, remember(state, constants, rows, person, phase))
    state.remembered[rows.remembered[0], person] = carried
    return min(entropy_units, carried + state.unconditioned[rows.told[0], person]) + running


@jit
def beliefs(
    population: PopulationArrays, own: OwnStarts, person: int, slot_before: int, slot: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The person's marginals at the step before and at this one; views, shape (K,) each."""
    first = population.initial_start[person]
    last = population.initial_start[person + 1]
    if first < last:
        return own.before[first:last], own.now[first:last]
    chain = chain_view(population, person)
    return chain.start[slot_before], chain.start[slot]


@inline
def is_in_reach(population: PopulationArrays, person: int, labels: NDArray[np.int32]) -> bool:
    """Whether any sensor of a step counts at one of the person's places."""
    for k in range(population.places_start[person], population.places_start[person + 1]):
        if labels[population.places[k]] > 0:
            return True
    return False


@inline
def advance_person(
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    state: HorizonState,
    rows: Rows,
    since: int,
    first_slot: int,
    step_number: int,
    step_before: StepView,
    step: StepView,
    known_terms: KnownTerms,
    scratch: Scratch,
    person: int,
) -> None:
    """Account one step for one person: terms, horizon, bound."""
    slots = population.slots[person]
    unconditioned = 0
    conditional = 0
    starts_itself = population.initial_start[person] < population.initial_start[person + 1]
    is_kept = known_terms.unconditioned.size > 0 and step_number > since and not starts_itself
    if is_kept and known_terms.unconditioned[person] >= 0:
        unconditioned = known_terms.unconditioned[person]
        conditional = known_terms.conditional[person]
    elif step_number >= since and is_in_reach(population, person, step.labels):
        slot = (first_slot + step_number) % slots
        slot_before = (slot - 1) % slots
        chain = chain_view(population, person)
        before, now = beliefs(population, own, person, slot_before, slot)
        terms = step_terms(chain, slot_before, before, now, step_before, step, scratch)
        unconditioned = to_units(terms.unconditioned)
        conditional = to_units(terms.conditional) if step_number > since else unconditioned
    if is_kept:
        known_terms.unconditioned[person] = unconditioned
        known_terms.conditional[person] = conditional
    phase = constants.phase_start[person]
    if slots > 1:
        start = step_number - state.conditional.shape[0] + 1
        if starts_itself:
            start = max(start, since)
        phase += (first_slot + start) % slots
    known = state.information[person] + conditional  # of the horizon before, and what this step says of it
    information = min(known, slide(state, constants, rows, person, phase, unconditioned, conditional))
    guess = constants.guess[phase]
    if information != state.information[person] or guess != state.guess[person]:
        state.information[person] = information
        state.guess[person] = guess
        state.bound[person] = divergence_root(information / UNITS_PER_NAT, guess)
    baseline = constants.baseline[phase]
    state.baseline[person] = baseline
    state.risk[person] = max(state.bound[person], baseline)
    state.decided_by[person] = BY_DIVERGENCE if state.bound[person] > baseline else BY_BASELINE


@pjit(lambda population, *_: population.slots.size, least=256)
def advance(
    begin: int,
    end: int,
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    state: HorizonState,
    since: NDArray[np.int64],
    first_slot: int,
    step_number: int,
    step_before: StepView,
    step: StepView,
    known_terms: KnownTerms,
    most_places: int,
) -> None:
    """Account one step for everybody; people are independent, so threads do not change a bit."""
    scratch = new_scratch(step_before, step, most_places)
    rows = ring_rows(step_number, state.conditional.shape[0])
    for person in range(begin, end):
        advance_person(
            population,
            constants,
            own,
            state,
            rows,
            since[person],
            first_slot,
            step_number,
            step_before,
            step,
            known_terms,
            scratch,
            person,
        )
