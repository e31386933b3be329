"""The person who is attacked, and the result of an attack: what all attacks are made of."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.exact_law_kernel import law_work, segment_laws
from accounting.attacks.hit_graph_kernel import walk_tables
from accounting.attacks.hit_tables_kernel import HitTables, hit_tables, likeliest_between
from accounting.attacks.noised_draws_kernel import (
    IMPOSSIBLE,
    Simulation,
    graph_successes,
    raw_successes,
    replay_successes,
    stepwise_successes,
    window_successes,
)
from accounting.attacks.window_simulation import window_simulation
from accounting.exceptions import HorizonError, SettingsError
from accounting.exposure import Exposure, check_mistakes
from accounting.exposure.drawing import Draws, new_walker, released_steps
from accounting.exposure.prior_constants_kernel import guess_success, most_likely_path
from accounting.hmm.forward_viterbi import smallest_entry
from accounting.numerics import PROVED, Interval, clopper_pearson
from models.mechanisms import shares_noise
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.threads import thread_count
from models.priors import ChainView
from models.priors.chain import LocalChain

DRAWS_PER_BLOCK = 4096
"""Draws that share one stream. Part of what a seed means: another number gives other draws."""


def count_successes(
    kernel: Callable[..., Integers], arguments: tuple[object, ...], draws: int, seed: int
) -> Integers:
    """Successes per attack in ``draws`` draws; the same for any number of threads.

    ``kernel(*arguments, Draws)`` counts those of one block, compiled without the interpreter lock.
    """
    blocks = range((draws + DRAWS_PER_BLOCK - 1) // DRAWS_PER_BLOCK)
    sizes = [min(DRAWS_PER_BLOCK, draws - block * DRAWS_PER_BLOCK) for block in blocks]
    if len(blocks) == 1:
        return kernel(*arguments, Draws(seed, 0, draws))
    with ThreadPoolExecutor(thread_count()) as threads:
        counts = threads.map(lambda block: kernel(*arguments, Draws(seed, block, sizes[block])), blocks)
        total: Integers = np.sum(list(counts), axis=0)
    return total


# What trying an attack gives.


@dataclass(frozen=True, slots=True)
class AttackResult:
    """``success`` is ``Pr[at most s steps guessed wrong]``; ``low = high = success`` where it is exact.

    Otherwise ``[low, high]`` holds the true success with the confidence that was asked for, and ``proved`` is
    a lower end that fails once in a thousand million times.
    """

    success: float
    low: float
    high: float
    proved: float

    @classmethod
    def exact(cls, success: float) -> AttackResult:
        """A success computed, not sampled; rounding above 1 is taken off."""
        value = min(1.0, max(0.0, success))
        return cls(value, value, value, value)

    @classmethod
    def sampled(cls, successes: int, draws: int, confidence: float) -> AttackResult:
        """A share of draws, with its Clopper-Pearson interval."""
        interval, surely = (clopper_pearson(successes, draws, each) for each in (confidence, PROVED))
        return cls(successes / draws, interval.low, interval.high, surely.low)

    @classmethod
    def relative_to_blind(cls, blind: float, found: Integers, draws: int, confidence: float) -> AttackResult:
        """An attack whose blind guess is right with the known probability ``blind``, from its draws.

        ``found`` (3,) as the kernels count it: won, gained, lost. Estimated by the share of draws won or by
        ``blind + gained - lost``, whichever varies less. Each interval may miss in half of the failures, so
        that the choice between them costs nothing.

        With 1000 draws, 601 won, 3 gained and 2 lost against a blind guess that is right in 0.6, the estimate
        is 0.601, and [0.591, 0.611] at 95 % where the draws alone would say [0.570, 0.632].
        """
        won, gained, lost = (int(each) for each in found)
        spread_of_difference = gained + lost - (gained - lost) ** 2 / draws
        if spread_of_difference > won * (draws - won) / draws:
            # The same confidence as below: which of the two is shown has been decided by looking.
            half, surely = (clopper_pearson(won, draws, 0.5 * (1.0 + each)) for each in (confidence, PROVED))
            return cls(won / draws, half.low, half.high, surely.low)
        around = _around_blind(blind, gained, lost, draws, confidence)
        success = min(1.0, max(0.0, blind + (gained - lost) / draws))
        return cls(success, around.low, around.high, _around_blind(blind, gained, lost, draws, PROVED).low)


def _around_blind(blind: float, gained: int, lost: int, draws: int, confidence: float) -> Interval:
    """``blind`` and an interval for the difference to it, which misses in half of ``1 - confidence``."""
    each = 1.0 - (1.0 - confidence) / 4.0
    more, less = clopper_pearson(gained, draws, each), clopper_pearson(lost, draws, each)
    return Interval(max(0.0, blind + more.low - less.high), min(1.0, blind + more.high - less.low))


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """One attack on one recorded trace: ``success`` is the share of noise draws it succeeded in.

    For raw releases there is one draw, so it is 0 or 1. ``impossible`` counts the draws whose observations
    the prior excludes; the attack then makes its guess from the prior alone.
    """

    success: float
    draws: int
    impossible: int


# A person as attacks are tried on them: what several attacks need, computed once.
#
# Raw counts: the law of an attack's Hamming distance is computed exactly, or sampled with looked-up guesses
# where that would take longer. Noised, mixed and blurred ones: sampled. Trajectories come from the person's
# own prior.

MOST_LAW_WORK = 1e9
"""Multiplications up to which an exact law is computed instead of sampled: about half a second."""

MOST_TABLE_ENTRIES = 1 << 26
"""Entries of the tables between hits: half a gigabyte."""


@dataclass(frozen=True, eq=False)
class Target:
    """An exposure, the mistakes allowed, and how simulated attacks are drawn."""

    exposure: Exposure
    mistakes: int
    draws: int = 10_000
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """:class:`~accounting.exceptions.HorizonError` unless ``0 <= s < T``; see :func:`check_draws`."""
        check_mistakes(self.mistakes, self.exposure.steps)
        check_draws(self.draws, self.seed)

    @cached_property
    def person(self) -> LocalChain:
        """The chain with its own places as the locations, for labels of the shape (T, K), and its start."""
        chain = self.exposure.chain
        own = chain._replace(places=np.arange(chain.places.size, dtype=np.int32))
        return LocalChain(own, self.exposure.start, self.exposure.first_slot)

    @cached_property
    def smallest(self) -> float:
        """The smallest positive probability of the person's matrices."""
        return float(smallest_entry(self.exposure.chain.value))

    @cached_property
    def prior_path(self) -> Integers:
        """The most likely path (T,) before anything is released."""
        return most_likely_path(self.person, self.exposure.steps)

    @cached_property
    def prior_guess(self) -> Integers:
        """What is to be guessed on the most likely path, (T,)."""
        return np.asarray(self.exposure.guessed[np.arange(self.exposure.steps), self.prior_path])

    @cached_property
    def blind_guesses(self) -> Integers32:
        """What MAP and marginals guess (2, T) before anything is released."""
        return np.stack([self.prior_path, self.exposure.marginal.argmax(axis=1)]).astype(np.int32)

    @cached_property
    def tables(self) -> HitTables:
        """What lies between possible hits."""
        return hit_tables(self.person, self.exposure.hits)

    @cached_property
    def path_laws(self) -> Floats:
        """Laws of the mistakes of the most likely path between hits."""
        return segment_laws(self.person, self.tables, self.tables.best_path, self.mistakes)

    @cached_property
    def place_laws(self) -> Floats:
        """Laws of the mistakes of the most likely places between hits."""
        return segment_laws(self.person, self.tables, likeliest_between(self.tables), self.mistakes)

    @cached_property
    def successes(self) -> Integers:
        """In how many draws MAP and marginals succeed (3, 2), each decoded in the fastest way."""
        if self.exposure.windows is not None:
            return draw_windows(self)
        if self._shows_places and self._has_room_for_tables:
            return draw_raw(self)
        return draw_on_graph(self) if self._graph_is_smaller else draw_stepwise(self)

    @property
    def can_be_drawn(self) -> bool:
        """Whether what is published can be drawn, windows as they are published."""
        windows = self.exposure.windows
        if windows is None:
            return self.exposure.can_be_drawn
        is_shared = any(shares_noise(each.mechanism) for each in windows.releases)
        return not is_shared and all(each.can_be_drawn for each in windows.others)

    @cached_property
    def has_exact_laws(self) -> bool:
        """Whether counts are raw, reveal the place, and leave an exact law affordable."""
        if not (self._shows_places and self._has_room_for_tables):
            return False
        return bool(law_work(self.tables, self.entries, self.mistakes) <= MOST_LAW_WORK)

    def sampled(self, attack: int) -> AttackResult:
        """The simulated success of MAP or marginals, as the kernels number them."""
        blind = guess_success(self.person, self.blind_guesses[attack].astype(np.int64), self.mistakes)
        return AttackResult.relative_to_blind(blind, self.successes[:, attack], self.draws, self.confidence)

    @property
    def simulation(self) -> Simulation:
        """The simulation as kernels take it."""
        exposure = self.exposure
        steps = released_steps(exposure.observations)
        walker, labels = new_walker(self.person), exposure.labels
        return Simulation(walker, steps, labels, self.person, self.smallest, self.blind_guesses)

    @property
    def _shows_places(self) -> bool:
        exposure = self.exposure
        return exposure.windows is None and exposure.is_raw and not exposure.is_refined

    @property
    def _nodes(self) -> int:
        return int(self.exposure.hits.sum()) + 2

    @property
    def entries(self) -> int:
        """Stored entries of one slot's matrix."""
        return self.exposure.chain.value.size // self.exposure.chain.start.shape[0]

    @property
    def _has_room_for_tables(self) -> bool:
        wide = self._nodes + 2 * self.exposure.place_count
        return self._nodes * wide * self.exposure.steps <= MOST_TABLE_ENTRIES

    @property
    def _graph_is_smaller(self) -> bool:
        """Whether a draw costs less on the graph (n^2 and T n K) than in the chain (four visits to P)."""
        nodes, steps = self._nodes, self.exposure.steps
        on_graph = nodes * nodes * 2 + steps * nodes * self.exposure.place_count
        return self._has_room_for_tables and bool(on_graph <= 4 * steps * self.entries)


def check_draws(draws: int, seed: int) -> None:
    """:class:`SettingsError` unless there is a draw and the seed is not negative."""
    if draws < 1:
        raise SettingsError("draws must be 1 or more", draws, "use 10000, say")
    if seed < 0:
        raise SettingsError("a seed must be 0 or more", seed, "use any other number")


def draw_raw(target: Target) -> Integers:
    """Successes (3, 2) on raw counts, the guesses between two hits looked up."""
    guesses = np.stack([target.tables.best_path, likeliest_between(target.tables)])
    arguments = (new_walker(target.person), target.tables, guesses, target.blind_guesses, target.mistakes)
    return count_successes(raw_successes, arguments, target.draws, target.seed)


def draw_on_graph(target: Target) -> Integers:
    """Successes (3, 2) on any releases, each draw decoded on the graph of hits."""
    arguments = (target.simulation, target.tables, walk_tables(target.tables), target.mistakes)
    return count_successes(graph_successes, arguments, target.draws, target.seed)


def draw_stepwise(target: Target) -> Integers:
    """Successes (3, 2) on any releases, each draw decoded step by step."""
    arguments = (target.simulation, target.mistakes)
    return count_successes(stepwise_successes, arguments, target.draws, target.seed)


def draw_windows(target: Target) -> Integers:
    """Successes (3, 2) on counts over windows, each draw decoded with the counts so far."""
    simulation = window_simulation(target.exposure, target.draws, target.blind_guesses)
    return count_successes(window_successes, (simulation, target.mistakes), target.draws, target.seed)


# A recorded trace as attacks are replayed on it.
#
# Recorded traces go where no model goes: to places never seen before. An observation that the prior
# excludes is counted, and the attack then makes the guess it would have made without any observation.


@dataclass(frozen=True, eq=False)
class RecordedTarget:
    """A target and where the person really was, ``trace`` (T,): the location index of each step."""

    target: Target
    trace: NDArray[np.integer]

    def __post_init__(self) -> None:
        """:class:`HorizonError` for a trace of another length than the schedule, or to unknown locations."""
        if self.target.exposure.windows is not None:
            raise HorizonError(
                "a recorded trace must be attacked with counts of single steps",
                "counts over windows",
                "attack them on drawn traces: attack_person",
            )
        steps, locations = self.target.exposure.steps, self.target.exposure.observations[0].labels.size
        if self.trace.shape != (steps,):
            raise HorizonError(
                f"a recorded trace must have {steps} steps like the schedule",
                self.trace.shape,
                "cut the trace or the schedule",
            )
        if self.trace.min() < 0 or self.trace.max() >= locations:
            raise HorizonError(
                f"locations of a recorded trace must lie in 0..{locations - 1}",
                f"{self.trace.min()}..{self.trace.max()}",
                "use the location indices of the priors file",
            )

    def seen(self, attack: int) -> RecordedResult | None:
        """MAP or marginals, as the kernels number them, over all draws of the noise; None of labels."""
        if self.target.exposure.is_labelled:
            return None
        draws = self._draws
        return RecordedResult(int(self._counts[attack]) / draws, draws, int(self._counts[IMPOSSIBLE]))

    def blind(self, guess: Integers) -> RecordedResult:
        """A guess that does not look at the observations: right or wrong, never impossible."""
        exposure, own = self.target.exposure, self._own
        truth = np.where(own >= 0, exposure.guessed[np.arange(own.size), own], -1)
        wrong = int(exposure.cost[guess != truth].sum())
        return RecordedResult(float(wrong <= self.target.mistakes), 1, 0)

    @property
    def _draws(self) -> int:
        return 1 if self.target.exposure.is_raw else self.target.draws

    @cached_property
    def _own(self) -> Integers32:
        return own_places(self.target.exposure.chain, self.trace)

    @cached_property
    def _counts(self) -> Integers:
        """Successes of MAP and marginals, and draws the prior excludes (3,)."""
        target, exposure = self.target, self.target.exposure
        pairs = zip(exposure.observations, self.trace, strict=True)
        arguments = (
            target.person,
            target.smallest,
            released_steps(exposure.observations),
            exposure.labels,
            self._own,
            np.array([observation.labels[at] for observation, at in pairs], np.int32),
            target.blind_guesses,
            target.mistakes,
        )
        return count_successes(replay_successes, arguments, self._draws, target.seed)


def own_places(chain: ChainView, trace: NDArray[np.integer]) -> Integers32:
    """Positions of the trace's locations among the chain's places, -1 for a place never seen before."""
    position = np.searchsorted(chain.places, trace)
    known = chain.places[np.minimum(position, chain.places.size - 1)] == trace
    return np.where(known, position, -1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Attack:
    """A named way to guess where a person was.

    ``success`` is ``Pr[at most s steps guessed wrong]``, None where the attack is not computed for a target;
    ``replay`` the same on one recorded trace, None for an attack that is not replayed. What several attacks
    need of a person (tables, laws, simulated draws) they find in the target, which computes it once. One that
    ``is_blind`` looks at no release; others are not tried where steps share noise.
    """

    name: str
    success: Callable[[Target], AttackResult | None]
    replay: Callable[[RecordedTarget], RecordedResult | None]
    is_blind: bool = False
