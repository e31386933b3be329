"""A person as attacks are tried on them: what several attacks need, computed once.

Raw counts: the law of an attack's Hamming distance is computed exactly, or sampled with looked-up guesses
where that would take longer. Noised, mixed and blurred ones: sampled. Trajectories come from the person's own
prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.simulation import count_successes
from accounting.attacks.simulation.exact_law_kernel import law_work, segment_laws
from accounting.attacks.simulation.hit_graph_kernel import walk_tables
from accounting.attacks.simulation.hit_tables_kernel import HitTables, hit_tables, likeliest_between
from accounting.attacks.simulation.noised_draws_kernel import Simulation, graph_successes, stepwise_successes
from accounting.attacks.simulation.raw_draws_kernel import raw_successes
from accounting.attacks.targets.results import AttackResult
from accounting.exceptions import SettingsError
from accounting.exposure import Exposure, check_mistakes
from accounting.exposure.drawing import released_steps
from accounting.exposure.drawing.random_draws_kernel import new_walker
from accounting.exposure.guess_success_kernel import guess_success, most_likely_path
from accounting.hmm.forward_viterbi import smallest_entry
from accounting.hmm.local_chain_kernel import LocalChain

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
    def chain(self) -> LocalChain:
        """The chain with its own places as the locations, for labels of the shape (T, K)."""
        chain = self.exposure.chain
        own = chain._replace(places=np.arange(chain.places.size, dtype=np.int32))
        return LocalChain(own, self.exposure.start, self.exposure.first_slot)

    @cached_property
    def smallest(self) -> float:
        """The smallest positive probability of the person's matrices."""
        return float(smallest_entry(self.exposure.chain.value))

    @cached_property
    def prior_path(self) -> NDArray[np.int64]:
        """The most likely path (T,) before anything is released."""
        return most_likely_path(*self.chain, self.exposure.steps)

    @cached_property
    def blind_guesses(self) -> NDArray[np.int32]:
        """What MAP and marginals guess (2, T) before anything is released."""
        return np.stack([self.prior_path, self.exposure.marginal.argmax(axis=1)]).astype(np.int32)

    @cached_property
    def tables(self) -> HitTables:
        """What lies between possible hits."""
        return hit_tables(self.chain, self.exposure.hits)

    @cached_property
    def path_laws(self) -> NDArray[np.float64]:
        """Laws of the mistakes of the most likely path between hits."""
        return segment_laws(self.chain, self.tables, self.tables.best_path, self.mistakes)

    @cached_property
    def place_laws(self) -> NDArray[np.float64]:
        """Laws of the mistakes of the most likely places between hits."""
        return segment_laws(self.chain, self.tables, likeliest_between(self.tables), self.mistakes)

    @cached_property
    def successes(self) -> NDArray[np.int64]:
        """In how many draws MAP and marginals succeed (3, 2), each decoded in the fastest way."""
        if self._shows_places and self._has_room_for_tables:
            return draw_raw(self)
        return draw_on_graph(self) if self._graph_is_smaller else draw_stepwise(self)

    @cached_property
    def has_exact_laws(self) -> bool:
        """Whether counts are raw, reveal the place, and leave an exact law affordable."""
        if not (self._shows_places and self._has_room_for_tables):
            return False
        return bool(law_work(self.tables, self.entries, self.mistakes) <= MOST_LAW_WORK)

    def sampled(self, attack: int) -> AttackResult:
        """The simulated success of MAP or marginals, as the kernels number them."""
        blind = guess_success(*self.chain, self.blind_guesses[attack].astype(np.int64), self.mistakes)
        return AttackResult.beside_blind(blind, self.successes[:, attack], self.draws, self.confidence)

    @property
    def simulation(self) -> Simulation:
        """What is simulated, for kernels."""
        exposure = self.exposure
        steps = released_steps(exposure.observations)
        walker, labels = new_walker(self.chain), exposure.labels
        return Simulation(walker, steps, labels, self.chain, self.smallest, self.blind_guesses)

    @property
    def _shows_places(self) -> bool:
        return self.exposure.is_raw and not self.exposure.is_refined

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


def draw_raw(target: Target) -> NDArray[np.int64]:
    """Successes (3, 2) on raw counts, the guesses between two hits looked up."""
    guesses = np.stack([target.tables.best_path, likeliest_between(target.tables)])
    arguments = (new_walker(target.chain), target.tables, guesses, target.blind_guesses, target.mistakes)
    return count_successes(raw_successes, arguments, target.draws, target.seed)


def draw_on_graph(target: Target) -> NDArray[np.int64]:
    """Successes (3, 2) on any releases, each draw decoded on the graph of hits."""
    arguments = (target.simulation, target.tables, walk_tables(target.tables), target.mistakes)
    return count_successes(graph_successes, arguments, target.draws, target.seed)


def draw_stepwise(target: Target) -> NDArray[np.int64]:
    """Successes (3, 2) on any releases, each draw decoded step by step."""
    arguments = (target.simulation, target.mistakes)
    return count_successes(stepwise_successes, arguments, target.draws, target.seed)
