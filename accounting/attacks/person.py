"""The four attacks on one person under one schedule, on trajectories from the person's own prior.

Raw counts: the law of each attack's Hamming distance is computed exactly, or sampled with looked-up guesses
where that would take longer. Noised, mixed and blurred ones: sampled. MAP, prior and constant are the
attacks of Koga, Meehan, Chaudhuri, section 3.2; posterior marginals and the exact laws go beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.guesses import blind_attacks
from accounting.attacks.releases import released_steps
from accounting.attacks.results import EITHER, MAP, MARGINAL, AttackResult
from accounting.attacks.simulation import Kernel, count_successes
from accounting.attacks.simulation.exact_law_kernel import attack_law, better_law, law_work, segment_laws
from accounting.attacks.simulation.hit_graph_kernel import walk_tables
from accounting.attacks.simulation.hit_tables_kernel import HitTables, hit_tables, likeliest_between
from accounting.attacks.simulation.noised_draws_kernel import graph_successes, stepwise_successes
from accounting.attacks.simulation.random_draws_kernel import new_walker
from accounting.attacks.simulation.raw_draws_kernel import raw_successes
from accounting.exceptions import SettingsError
from accounting.exposure import Exposure, check_mistakes
from accounting.exposure.step_information import StepObservation
from accounting.hmm.forward_viterbi import smallest_entry
from models.priors import ChainView

MOST_LAW_WORK = 1e9
"""Multiplications up to which an exact law is computed instead of sampled: about half a second."""

MOST_PATTERNS = 1 << 16
"""Hit patterns up to which they are walked one by one: a few milliseconds."""

MOST_TABLE_ENTRIES = 1 << 26
"""Entries of the tables between hits: half a gigabyte."""


def attack_person(
    chain: ChainView,
    start: NDArray[np.float64],
    observations: Sequence[StepObservation],
    first_slot: int,
    mistakes: int,
    draws: int = 10_000,
    seed: int = 0,
    *,
    confidence: float = 0.95,
) -> dict[str, AttackResult]:
    """Success of ``"map"``, ``"prior"``, ``"constant"``, ``"marginal"`` and ``"either"`` within ``mistakes``
    of ``T`` steps.

    "either" makes the guess of MAP or of marginals, whichever is likelier to succeed for what is seen; it is
    there for raw counts whose exact law is computed. Where steps share noise only the guesses that look at no
    release are tried: simulating the others needs the joint law. ``start`` (K,) is the law of the first
    step's place, in slot ``first_slot``. The same seed gives the same results on any number of threads.
    :class:`~accounting.exceptions.HorizonError` unless ``0 <= s < T``,
    :class:`~accounting.exceptions.SettingsError` for fewer than one draw or a negative seed.
    """
    exposure = Exposure(chain, start, first_slot, tuple(observations))
    check_mistakes(mistakes, exposure.steps)
    check_draws(draws, seed)
    if not exposure.has_independent_noise:
        return blind_attacks(exposure, mistakes)
    sighted = _sighted_attacks(exposure, mistakes, draws, seed, confidence)
    return sighted | blind_attacks(exposure, mistakes)


def check_draws(draws: int, seed: int) -> None:
    """:class:`SettingsError` unless there is a draw and the seed is not negative."""
    if draws < 1:
        raise SettingsError("draws must be 1 or more", draws, "use 10000, say")
    if seed < 0:
        raise SettingsError("a seed must be 0 or more", seed, "use any other number")


def exact_attacks(exposure: Exposure, mistakes: int, tables: HitTables) -> dict[str, AttackResult]:
    """MAP and marginals on raw counts that reveal the place, by the exact law of their mistakes.

    With not too many hit patterns also the attack that makes, for what it sees, whichever of the two guesses
    is likelier to succeed.
    """
    arguments = (exposure.chain, exposure.start, exposure.first_slot, exposure.hits, tables)
    likeliest_path = segment_laws(*arguments, tables.best_path, mistakes)
    likeliest_places = segment_laws(*arguments, likeliest_between(tables), mistakes)
    results = {
        MAP: AttackResult.exact(float(attack_law(likeliest_path).sum())),
        MARGINAL: AttackResult.exact(float(attack_law(likeliest_places).sum())),
    }
    if exposure.pattern_count <= MOST_PATTERNS:
        success = better_law(likeliest_path, likeliest_places, tables.nodes, exposure.steps)
        results[EITHER] = AttackResult.exact(float(success))
    return results


def sampled_raw_attacks(
    exposure: Exposure, mistakes: int, tables: HitTables, draws: int, seed: int, confidence: float
) -> dict[str, AttackResult]:
    """The same by simulation, the guesses between two hits looked up."""
    guesses = np.stack([tables.best_path, likeliest_between(tables)])
    walker = new_walker(exposure.chain, exposure.start)
    arguments = (walker, exposure.first_slot, tables, guesses, mistakes)
    return _sampled(raw_successes, arguments, draws, seed, confidence)


def sampled_on_graph(
    exposure: Exposure, mistakes: int, tables: HitTables, draws: int, seed: int, confidence: float
) -> dict[str, AttackResult]:
    """MAP and marginals on any releases by simulation, each draw decoded on the graph of hits."""
    arguments = (
        new_walker(exposure.chain, exposure.start),
        exposure.first_slot,
        released_steps(exposure.observations),
        exposure.labels,
        tables,
        walk_tables(tables),
        local(exposure.chain),
        exposure.start,
        mistakes,
    )
    return _sampled(graph_successes, arguments, draws, seed, confidence)


def sampled_stepwise(
    exposure: Exposure, mistakes: int, draws: int, seed: int, confidence: float
) -> dict[str, AttackResult]:
    """MAP and marginals on any releases by simulation, each draw decoded step by step."""
    arguments = (
        new_walker(exposure.chain, exposure.start),
        local(exposure.chain),
        exposure.start,
        exposure.first_slot,
        smallest_entry(exposure.chain.value),
        released_steps(exposure.observations),
        exposure.labels,
        mistakes,
    )
    return _sampled(stepwise_successes, arguments, draws, seed, confidence)


def _sampled(
    kernel: Kernel, arguments: tuple[object, ...], draws: int, seed: int, confidence: float
) -> dict[str, AttackResult]:
    successes = count_successes(kernel, arguments, draws, seed)
    return {
        name: AttackResult.sampled(int(count), draws, confidence)
        for name, count in zip((MAP, MARGINAL), successes, strict=True)
    }


def local(chain: ChainView) -> ChainView:
    """The chain with its own places as the locations, for labels of the shape (T, K)."""
    return chain._replace(places=np.arange(chain.places.size, dtype=np.int32))


def _sighted_attacks(
    exposure: Exposure, mistakes: int, draws: int, seed: int, confidence: float
) -> dict[str, AttackResult]:
    """MAP and marginals in the way that is exact if affordable, else fastest."""
    nodes = int(exposure.hits.sum()) + 2
    if nodes * (nodes + 2 * exposure.place_count) * exposure.steps > MOST_TABLE_ENTRIES:
        return sampled_stepwise(exposure, mistakes, draws, seed, confidence)
    reveals = exposure.is_raw and not exposure.is_refined
    if not reveals and not _graph_is_smaller(exposure, nodes):
        return sampled_stepwise(exposure, mistakes, draws, seed, confidence)
    tables = hit_tables(exposure.chain, exposure.start, exposure.first_slot, exposure.hits)
    if not reveals:
        return sampled_on_graph(exposure, mistakes, tables, draws, seed, confidence)
    entries = exposure.chain.value.size // exposure.chain.start.shape[0]
    if law_work(tables, entries, mistakes) <= MOST_LAW_WORK:
        return exact_attacks(exposure, mistakes, tables)
    return sampled_raw_attacks(exposure, mistakes, tables, draws, seed, confidence)


def _graph_is_smaller(exposure: Exposure, nodes: int) -> bool:
    """Whether a draw costs less on the graph (n^2 and T n K) than in the chain (about four visits to P)."""
    entries = exposure.chain.value.size // exposure.chain.start.shape[0]
    on_graph = nodes * nodes * 2 + exposure.steps * nodes * exposure.place_count
    return bool(on_graph <= 4 * exposure.steps * entries)
