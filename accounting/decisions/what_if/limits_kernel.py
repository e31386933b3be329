"""How much information a person's horizon may give away before a limit on the risk is broken.

The bound on the risk rises with the information, so a limit on the risk is a limit on the information: the
binary divergence ``d(limit || q)``, per person and slot in which the horizon starts. Everything here follows
from the priors alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.horizon_kernel import UNITS_PER_NAT, Constants
from accounting.exposure.prior_constants_kernel import prior_constants
from accounting.exposure.step_information.contraction_kernel import (
    GAPS,
    MAX_PLACES,
    contraction,
    dense_matrix,
    product,
)
from accounting.numerics.divergence_root_kernel import divergence_root
from models.numerics.jit import jit, pjit
from models.priors.chain import ChainView, PopulationArrays, chain_view

UNLIMITED = 1 << 62
"""A cap that nothing reaches."""

NEGLIGIBLE = 1e-6  # relative excess of the bound over the guess below which the accountant looks no closer
_ROUNDING = 1e-12


class Caps(NamedTuple):
    """Limits in units of information, laid out like ``horizon_kernel.Constants``."""

    information: NDArray[np.int64]  # (phases,) of one horizon at its own end; UNLIMITED where it is natural
    is_natural: NDArray[np.bool_]  # (phases,) habits alone break the limit, with nothing released
    risk: NDArray[np.float64]  # (phases,) largest certified risk within the limit
    step: NDArray[np.int64]  # (N,) most that one step may say of where the person is


@jit
def information_cap(limit: float, guess: float) -> int:
    """The largest number of units with ``divergence_root(units, guess) <= limit``, short by next to nothing.

    -1 where the guess alone is above the limit.
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


@jit
def told_guess(chain: ChainView, horizon: int, mistakes: int) -> float:
    """A bound on the guess ``q`` of every law of the start, so at its largest over starts and slots.

    Each bound on ``q`` is a maximum of expectations over that law, so one who is told the start does better.
    """
    slots, place_count = chain.start.shape
    koga, subsets, markov = 0.0, 0.0, 0.0
    for slot in range(slots):
        for x in range(place_count):
            told = np.zeros(place_count)
            told[x] = 1.0
            bounds = prior_constants(chain, told, slot, horizon, mistakes, False).guess
            koga = max(koga, bounds.koga)
            subsets = max(subsets, bounds.subsets)
            markov = max(markov, bounds.markov)
    return min(1.0, koga, subsets, markov)


@jit
def fill_caps(
    population: PopulationArrays,
    constants: Constants,
    caps: Caps,
    horizon: int,
    mistakes: int,
    risk: float,
    added: float,
    is_apart: bool,
    person: int,
) -> None:
    """Caps of one person's horizon; ``risk`` and ``added`` are 1 where there is no such limit.

    For one whose start is its own the laws of all later starts are covered, and no baseline is counted on.
    It counts whatever ``is_apart`` says: others who are over by habit alone may then gain ``added`` on top of
    the guess.
    """
    has_own_start = population.initial_start[person] < population.initial_start[person + 1]
    told = told_guess(chain_view(population, person), horizon, mistakes) if has_own_start else 0.0
    for row in range(constants.phase_start[person], constants.phase_start[person + 1]):
        guess = told if has_own_start else constants.guess[row]
        baseline = 0.0 if has_own_start else constants.baseline[row]
        limit = min(risk, (baseline + added) * (1.0 - _ROUNDING))
        cap = information_cap(limit, guess)
        if cap < 0 and is_apart and not has_own_start:
            limit = guess + max(added, 2.0 * NEGLIGIBLE * guess)
            cap = information_cap(limit, guess)
        caps.risk[row] = limit
        caps.is_natural[row] = cap < 0
        caps.information[row] = UNLIMITED if cap < 0 else cap


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


@jit
def reversed_contractions(chain: ChainView, slot: int) -> NDArray[np.float64]:
    """Contraction of the reversed chain from ``GAPS`` steps later to ``slot``, (len(GAPS),); never rises."""
    slots = chain.start.shape[0]
    moves = np.eye(chain.places.size)
    coefficients = np.ones(len(GAPS))
    moved = 0
    for j in range(len(GAPS)):
        while moved < GAPS[j]:
            moves = product(moves, dense_matrix(chain, (slot + moved) % slots))
            moved += 1
        coefficients[j] = contraction(reversed_moves(chain, moves, slot, GAPS[j]))
        if j > 0:
            coefficients[j] = min(coefficients[j], coefficients[j - 1])
    return coefficients


@jit
def later_contraction(chain: ChainView) -> float:
    """``sum_{g >= 1} eta'_g``: what steps that tell one unit each tell at most of any place before them.

    ``eta'_g`` is the contraction of the reversed chain over ``g`` moves. It never rises with the gap, and
    over the longest kept gap it falls by a factor, again and again. Infinite where nothing is forgotten.
    """
    slots, place_count = chain.start.shape
    if place_count > MAX_PLACES:
        return np.inf
    near, far = 0.0, 0.0
    for slot in range(slots):
        coefficients = reversed_contractions(chain, slot)
        total = 0.0
        for j in range(len(GAPS) - 1):
            total += (GAPS[j + 1] - GAPS[j]) * coefficients[j]
        near = max(near, total)
        far = max(far, coefficients[-1])
    return (near + GAPS[-1] * far / (1.0 - far)) * (1.0 + 1e-9) if far < 1.0 else np.inf


@jit
def tightest_cap(constants: Constants, caps: Caps, person: int) -> int:
    """The smallest cap over the slots of a person's cycle."""
    tightest = UNLIMITED
    for row in range(constants.phase_start[person], constants.phase_start[person + 1]):
        tightest = min(tightest, caps.information[row])
    return tightest


@jit
def reserve_for_hindsight(
    population: PopulationArrays, constants: Constants, caps: Caps, reserve: float, person: int
) -> None:
    """Set aside what later steps may tell: a share ``reserve`` of the tightest cap, and so much a step.

    With at most ``m`` units a step, later steps tell ``m sum_g eta'_g`` of a horizon's last place, and never
    more than its entropy.
    """
    tightest = tightest_cap(constants, caps, person)
    if tightest == UNLIMITED:
        return
    chain = chain_view(population, person)
    has_own_start = population.initial_start[person] < population.initial_start[person + 1]
    set_aside = reserve * tightest
    entropy = place_entropy(constants, person, chain.places.size, has_own_start)
    if entropy <= set_aside:
        set_aside = entropy
    else:
        forgotten = np.inf if has_own_start else later_contraction(chain)
        caps.step[person] = int(set_aside / forgotten) if forgotten > 0.0 else UNLIMITED
    for row in range(constants.phase_start[person], constants.phase_start[person + 1]):
        if caps.information[row] < UNLIMITED:
            caps.information[row] -= int(np.ceil(set_aside))


@jit
def place_entropy(constants: Constants, person: int, place_count: int, has_own_start: bool) -> float:
    """Units that tell where the person is in any one step: the largest entropy of a place."""
    if has_own_start:
        return np.ceil(np.log(place_count) * UNITS_PER_NAT) + 2.0
    begin, end = constants.phase_start[person], constants.phase_start[person + 1]
    return float(constants.entropy_units[begin:end].max())


@jit
def cap_person(
    population: PopulationArrays,
    constants: Constants,
    caps: Caps,
    horizon: int,
    mistakes: int,
    risk: float,
    added: float,
    is_apart: bool,
    reserve: float,
    person: int,
) -> None:
    """All caps of one person; ``reserve`` is 0 where hindsight is not asked for."""
    fill_caps(population, constants, caps, horizon, mistakes, risk, added, is_apart, person)
    caps.step[person] = UNLIMITED
    if reserve > 0.0:
        reserve_for_hindsight(population, constants, caps, reserve, person)


@pjit(lambda population, *_: population.slots.size, least=16)
def cap_everybody(
    begin: int,
    end: int,
    population: PopulationArrays,
    constants: Constants,
    caps: Caps,
    horizon: int,
    mistakes: int,
    risk: float,
    added: float,
    is_apart: bool,
    reserve: float,
) -> None:
    """All caps of a population."""
    for person in range(begin, end):
        cap_person(population, constants, caps, horizon, mistakes, risk, added, is_apart, reserve, person)
