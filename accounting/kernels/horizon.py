"""The sliding horizon of every person: one step in, the certified cheap bound out, O(1) each.

Amounts of information are kept as 64-bit integers in units of 2^-40 nat, rounded up: their running sum is
exact, so a rebuild from the release log gives the same bits.

For the horizon ``w..t`` and everything released so far,

    I(X_w..X_t; Y_1..Y_t) <= min(H(X_w), J_w + u_w) + sum_{k=w+1..t} c_k

with the step terms ``u`` (unconditioned) and ``c`` (given the step before) and
``J_w >= I(X_w; Y_1..Y_{w-1})``, what the adversary remembers from before the horizon.
What step ``w - g`` told reaches ``X_w`` only through ``g`` moves, so it shrinks by the contraction
``eta_g`` of those moves, given all that was released before it:

    J_w = min( H(X_w), min_k [ eta_k (J_{w-k} + u_{w-k}) + sum_{g<k} eta_g u_{w-g} ] ).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.kernels.contraction import GAPS
from accounting.kernels.step_terms import Scratch, StepView, step_terms
from models.chain import PopulationArrays, chain_view
from models.jit import jit, pjit, prange

UNITS_PER_NAT = float(2**40)
_SLACK_UNITS = 2  # covers the rounding of a term's sums, which stay below 1e-12 nat
MEMORY = GAPS[-1]
"""Steps before the horizon whose terms are kept one by one."""

PEOPLE_PER_TASK = 512


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


class OwnStarts(NamedTuple):
    """Marginals of the people with a start of their own, packed like ``PopulationArrays.initial``."""

    first: NDArray[np.float64]  # at the first step of the horizon
    before: NDArray[np.float64]  # at the step before the last
    now: NDArray[np.float64]  # at the last step


@jit
def to_units(nats: float) -> int:
    """A non-negative amount in units, rounded up; exact zero stays zero."""
    return int(np.ceil(nats * UNITS_PER_NAT)) + _SLACK_UNITS if nats > 0.0 else 0


@jit
def binary_divergence(p: float, q: float) -> float:
    """``d(p||q)`` in nats for ``0 < q < 1``."""
    value = 0.0
    if p > 0.0:
        value += p * np.log(p / q)
    if p < 1.0:
        value += (1.0 - p) * (np.log1p(-p) - np.log1p(-q))
    return value


@jit
def divergence_root(information: float, guess: float) -> float:
    """The largest ``p >= q`` with ``d(p||q) <= I``, approached from above so that it never falls short.

    ``d`` is convex in ``p``, hence Newton's iterates from the right stay right of the root. The start is the
    smallest of three closed upper bounds (``d >= p ln(1/q) - ln 2``; Pinsker; ``d >= (p - q)^2 / (2 p)``).
    """
    if guess >= 1.0 or information >= -np.log(guess):
        return 1.0
    if information <= 0.0:
        return guess
    p = min(
        (information + np.log(2.0)) / -np.log(guess),
        guess + np.sqrt(0.5 * information),
        guess + information + np.sqrt(information * (information + 2.0 * guess)),
    )
    p = min(p, 1.0 - 1e-16)
    for _ in range(60):
        slope = np.log(p / guess) - (np.log1p(-p) - np.log1p(-guess))
        excess = binary_divergence(p, guess) - information
        if slope <= 0.0 or excess <= 1e-13 * information:
            break
        p -= excess / slope
    return min(1.0, p * (1.0 + 1e-9) + 1e-300)


@jit
def remember(
    state: HorizonState, constants: Constants, person: int, phase: int, first: int, entropy_units: int
) -> int:
    """``J`` of the horizon that starts with step ``first``, in units; see the module's formula."""
    rows = state.unconditioned.shape[0]
    carried = state.remembered.shape[0]
    best = entropy_units
    between = 0.0  # sum of eta_g u_{w-g} over the steps after the one that is carried
    gap = 1
    for j in range(len(GAPS)):
        while gap < GAPS[j]:
            # The coefficient of a gap between two kept ones is at most that of the smaller.
            between += constants.contraction[phase, j - 1] * state.unconditioned[(first - gap) % rows, person]
            gap += 1
        older = (
            state.remembered[(first - gap) % carried, person]
            + state.unconditioned[(first - gap) % rows, person]
        )
        total = constants.contraction[phase, j] * older + between
        best = min(best, int(np.ceil(total)) + (1 if total > 0.0 else 0))
    return best


@jit
def slide(
    state: HorizonState,
    constants: Constants,
    person: int,
    phase: int,
    step: int,
    unconditioned: int,
    conditional: int,
) -> int:
    """Move one person's horizon on to ``step``; the information bound in units."""
    rows = state.unconditioned.shape[0]
    horizon = state.conditional.shape[0]
    first = step - horizon + 1
    state.running[person] += conditional - state.conditional[first % horizon, person]
    if horizon == 1:
        state.running[person] = 0
    state.conditional[step % horizon, person] = conditional
    state.unconditioned[step % rows, person] = unconditioned
    entropy_units = constants.entropy_units[phase]
    carried = remember(state, constants, person, phase, first, entropy_units)
    state.remembered[first % state.remembered.shape[0], person] = carried
    at_start = min(entropy_units, carried + state.unconditioned[first % rows, person])
    return at_start + state.running[person]


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


@jit
def new_scratch(step_before: StepView, step: StepView) -> Scratch:
    """Working memory for one task."""
    outcomes_before = step_before.overlap.shape[0]
    outcomes = step.overlap.shape[0]
    return Scratch(
        np.zeros(outcomes),
        np.zeros(outcomes_before),
        np.zeros((outcomes_before, outcomes)),
        np.zeros(outcomes, dtype=np.int64),
        np.zeros(outcomes_before, dtype=np.int64),
    )


@jit
def advance_person(
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    state: HorizonState,
    since: int,
    first_slot: int,
    step_number: int,
    step_before: StepView,
    step: StepView,
    scratch: Scratch,
    person: int,
) -> None:
    """Account one step for one person: terms, horizon, bound."""
    slots = population.slots[person]
    slot = (first_slot + step_number) % slots
    slot_before = (slot - 1) % slots
    unconditioned = 0
    conditional = 0
    if step_number >= since and step.overlap.shape[0] > 1:
        chain = chain_view(population, person)
        before, now = beliefs(population, own, person, slot_before, slot)
        terms = step_terms(chain, slot_before, before, now, step_before, step, scratch)
        unconditioned = to_units(terms.unconditioned)
        conditional = to_units(terms.conditional) if step_number > since else unconditioned
    first = step_number - state.conditional.shape[0] + 1
    has_own_start = population.initial_start[person] < population.initial_start[person + 1]
    start = max(first, since) if has_own_start else first
    phase = constants.phase_start[person] + (first_slot + start) % slots
    information = slide(state, constants, person, phase, step_number, unconditioned, conditional)
    guess = constants.guess[phase]
    if information != state.information[person] or guess != state.guess[person]:
        state.information[person] = information
        state.guess[person] = guess
        state.bound[person] = divergence_root(information / UNITS_PER_NAT, guess)
    state.baseline[person] = constants.baseline[phase]
    state.risk[person] = max(state.bound[person], constants.baseline[phase])


@pjit
def advance(
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    state: HorizonState,
    since: NDArray[np.int64],
    first_slot: int,
    step_number: int,
    step_before: StepView,
    step: StepView,
) -> None:
    """Account one step for everybody; people are independent, so threads do not change a bit."""
    people = since.size
    for task in prange((people + PEOPLE_PER_TASK - 1) // PEOPLE_PER_TASK):
        scratch = new_scratch(step_before, step)
        for person in range(task * PEOPLE_PER_TASK, min(people, (task + 1) * PEOPLE_PER_TASK)):
            advance_person(
                population,
                constants,
                own,
                state,
                since[person],
                first_slot,
                step_number,
                step_before,
                step,
                scratch,
                person,
            )
