"""Claim: forward + Viterbi for everybody is limited by memory where matrices are full, and hundreds of times
hmmlearn's rate where people visit few places.

A person-step is one forward and one Viterbi update of one person; paths are decoded where the whole trace is
visited at once. ``python -m benchmarks.forward_viterbi``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.hmm import Filtering
from accounting.hmm.decoding import decode_people, smallest_entries
from accounting.hmm.forward_viterbi import sum_and_max_of_products
from accounting.hmm.shared_matrix import SharedChain, decode_shared
from accounting.hmm.trace_decoding import DecodedArrays, Observations, People
from benchmarks.engine_run import sparse_population
from benchmarks.harness import Contestant, measure, rate, show, times
from benchmarks.peers.hmmlearn_peer import PROCESSES, Problem, hmmlearn_run, start_pool
from models.numerics.jit import pjit
from models.priors import Population

# How fast this machine reads memory: the limit of everything that looks at a matrix once.

CHUNK = 1 << 16


@pjit(lambda values, ones, found: found.size)
def read_all(
    begin: int,
    end: int,
    values: NDArray[np.float64],
    ones: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    """Read every value once, in all threads; ``ones`` (CHUNK,) stays in the cache."""
    for chunk in range(begin, end):
        part = values[chunk * CHUNK : (chunk + 1) * CHUNK]
        found[chunk], _ = sum_and_max_of_products(part, ones, ones)


LOCATIONS = 100
STEPS = 10


def random_population(people: int, places: int, exits: int, seed: int = 0) -> Population:
    """Everybody on own places of 100, each row with ``exits`` entries (all of them if there are no more)."""
    rng = np.random.default_rng(seed)
    own = rng.random((people, LOCATIONS)).argsort(axis=1)[:, :places]
    own.sort(axis=1)
    columns = rng.random((people, places, places)).argsort(axis=2)[:, :, :exits]
    weight = rng.dirichlet(np.ones(exits), size=(people, places))
    return on_own_places(own, columns, weight)


def on_own_places(own: NDArray[Any], columns: NDArray[Any], weight: NDArray[np.float64]) -> Population:
    """People on ``own`` (N, K) locations, who start anywhere; ``columns`` and ``weight`` (N, K, exits)."""
    names, locations = (list(map(str, range(count))) for count in (len(own), LOCATIONS))
    return sparse_population(names, own, columns[:, None], weight[:, None], locations, starts_anywhere=True)


def observed(people: int) -> tuple[np.ndarray, np.ndarray]:
    """One sensor a step and a likelihood of every outcome for everybody."""
    rng = np.random.default_rng(1)
    labels = np.zeros((STEPS, LOCATIONS), np.int32)
    labels[np.arange(STEPS), rng.integers(LOCATIONS, size=STEPS)] = 1
    return labels, np.where(rng.random((people, STEPS, 1)) < 0.3, [0.3, 0.7], [0.7, 0.3])


def empty_decoded(people: int) -> DecodedArrays:
    return DecodedArrays(
        np.empty(people, np.int32), np.empty(people), np.empty(people), np.empty((people, STEPS), np.int32)
    )


def one_visit_per_trace(population: Population) -> Callable[[], None]:
    people = People(population.arrays, smallest_entries(population.arrays), 0)
    decoded, observations = empty_decoded(len(population)), Observations(*observed(len(population)))
    return lambda: decode_people(people, observations, decoded)


def one_visit_per_step(population: Population) -> Callable[[], None]:
    labels, likelihood = observed(len(population))
    now = np.ascontiguousarray(likelihood[:, 0])
    filtering = Filtering(population)
    filtering.observe(labels[0], now)
    return lambda: filtering.observe(labels[0], now)


def shared_matrix(people: int, places: int) -> Callable[[], None]:
    rng = np.random.default_rng(2)
    columns = np.ascontiguousarray(rng.dirichlet(np.ones(places), size=places).T)
    labels, likelihood = observed(people)
    decoded, exact = empty_decoded(people), np.empty(people, bool)
    shared = SharedChain(columns, np.full(places, 1 / places))
    observations = Observations(np.ascontiguousarray(labels[:, :places]), likelihood)
    return lambda: decode_shared(shared, observations, decoded, exact)


def read_memory(megabytes: int) -> tuple[Callable[[], None], float]:
    """Reading far more than the cache holds, and how many bytes that is."""
    chunks = megabytes * (1 << 20) // (8 * CHUNK)
    values, ones, found = np.ones(chunks * CHUNK), np.ones(CHUNK), np.empty(chunks)
    return lambda: read_all(values, ones, found), float(values.nbytes)


def main() -> None:
    sparse, small, medium, full = (
        random_population(40_000, 10, 3),
        random_population(40_000, 10, 10),
        random_population(10_000, 40, 5),
        random_population(6_000, 100, 100),
    )
    read, read_bytes = read_memory(480)
    with start_pool() as pool:
        peers = {
            f"hmmlearn, {kind}, {places} places": Contestant(
                hmmlearn_run(pool, Problem(places, STEPS, count, is_shared)), PROCESSES * count * STEPS
            )
            for kind, is_shared, counts in (
                ("own matrices", False, {100: 150, 10: 150}),
                ("one matrix", True, {100: 1_000, 10: 5_000}),
            )
            for places, count in counts.items()
        }
        ours = {
            "own sparse, 10 places, 3 exits": Contestant(one_visit_per_trace(sparse), 40_000 * STEPS),
            "  one visit per step": Contestant(one_visit_per_step(sparse), 40_000),
            "own sparse, 40 places, 5 exits": Contestant(one_visit_per_trace(medium), 10_000 * STEPS),
            "own full, 10 places": Contestant(one_visit_per_trace(small), 40_000 * STEPS),
            "own full, 100 places": Contestant(one_visit_per_trace(full), 6_000 * STEPS),
            "  one visit per step ": Contestant(one_visit_per_step(full), 6_000),
            "one full matrix for all, 100 places": Contestant(shared_matrix(12_800, 100), 12_800 * STEPS),
            "one full matrix for all, 10 places": Contestant(shared_matrix(64_000, 10), 64_000 * STEPS),
        }
        found = measure(peers | ours | {"read": Contestant(read, read_bytes)}, repeats=7)
    rows = [
        [name, rate(found[name]), *(times(found[name], found[peer]) for peer in peers)]
        for name in (*ours, *peers)
    ]
    share = found["  one visit per step "] * 8e4 / found["read"]
    note = (
        f"person-steps/s, traces of {STEPS} steps; memory is read at {found['read'] / 1e9:.1f} GB/s, "
        f"full matrices once a step at {share:.0%} of that"
    )
    show(
        "Forward + Viterbi",
        ["", "person-steps/s", *(peer.removeprefix("hmmlearn, ") for peer in peers)],
        rows,
        note,
    )


if __name__ == "__main__":
    main()
