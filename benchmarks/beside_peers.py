"""Claim: what an engineer would write instead of us, measured in the same run: work, peer, ours, ratio.

One thread each, processor time, medians of turns. Losses are in the table. Forward and Viterbi with the path
beside a loop in numba, the same in C++ (compiled in the run), numpy over people and JAX if it is there; the
engine beside a loop in plain Python and bytewax if it is there; an archive beside polars. ``python -m
benchmarks.beside_peers [--results FOLDER]`` writes ``peers.md``.
"""

from __future__ import annotations

import os

os.environ |= {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accounting.hmm.decoding import decode_people, smallest_entries
from accounting.hmm.trace_decoding import Observations, People
from benchmarks.archive import SENSORS, read_by_polars, write_archive, write_by_polars, write_ours
from benchmarks.engine_run import SEED, draw_population, write_messages
from benchmarks.forward_viterbi import LOCATIONS, STEPS, empty_decoded, on_own_places
from benchmarks.harness import each_apart, rate, show, taken, times
from benchmarks.peers.decoding import (
    HAS_JAX,
    Found,
    Traces,
    cpp_by_columns,
    cpp_loop,
    jax_vmap,
    numba_loop,
    numpy_over_people,
)
from benchmarks.peers.streaming import HAS_BYTEWAX, bytewax_flow, plain_loop
from experiments.measure import markdown
from models.priors import Population
from stream_app.embedded import RunOptions, run
from stream_app.setup.sections import FilesMap
from stream_app.setup.settings import Settings
from stream_app.starting.connect import read_archive, resolved_map

TURNS = 7


class Row(NamedTuple):
    """Units of work a second of processor time, of one peer and of us."""

    work: str
    peer: str
    theirs: float
    ours: float

    @property
    def cells(self) -> list[str]:
        """As the table has them."""
        return [self.work, self.peer, rate(self.theirs), rate(self.ours), times(self.ours, self.theirs)]


def in_turns(makers: Mapping[str, Callable[[], Callable[[], object]]], work: float) -> dict[str, float]:
    """Median units of work a second of processor time, each in a process of its own."""
    with each_apart(makers) as contestants:
        return {name: work / seconds for name, seconds in taken(contestants, TURNS).items()}


def made(run: Callable[[], object]) -> Callable[[], Callable[[], object]]:
    """For a contestant that needs nothing to be made first, and whose result nobody looks at."""

    def discard() -> None:
        run()

    return lambda: discard


def random_traces(people: int, places: int, exits: int, seed: int = 0) -> Traces:
    """Everybody on own places of 100, each with so many exits; one sensor a step."""
    rng = np.random.default_rng(seed)
    own = np.sort(rng.random((people, LOCATIONS)).argsort(axis=1)[:, :places], axis=1)
    column = np.sort(rng.random((people, places, places)).argsort(axis=2)[:, :, :exits], axis=2)
    weight = rng.dirichlet(np.ones(exits), size=(people, places))
    labels = np.zeros((STEPS, LOCATIONS), np.int32)
    labels[np.arange(STEPS), rng.integers(LOCATIONS, size=STEPS)] = 1
    likelihood = np.where(rng.random((people, STEPS, 1)) < 0.3, [0.3, 0.7], [0.7, 0.3])
    return Traces(column.astype(np.int32), weight, own.astype(np.int32), labels, likelihood)


def ours(traces: Traces) -> Callable[[], Found]:
    """Our own decoding of the same people."""
    population = on_own_places(traces.own, traces.column, traces.weight)
    decoded = empty_decoded(len(population))
    packed = People(population.arrays, smallest_entries(population.arrays), 0)
    observations = Observations(traces.labels, traces.likelihood)

    def run() -> Found:
        decode_people(packed, observations, decoded)
        return Found(decoded.log_likelihood, decoded.log_path, decoded.path)

    return run


def decoding_rows() -> Iterator[Row]:
    """Forward and Viterbi with the path; every contestant must find the same."""
    for people, places, exits in ((20_000, 10, 3), (10_000, 10, 10), (4_000, 40, 5), (300, 100, 100)):
        traces = random_traces(people, places, exits)
        makers = {
            "ours": ours,
            "numba, a loop": numba_loop,
            "C++, a loop": cpp_loop,
            "C++, by columns": cpp_by_columns,
            "numpy over people": numpy_over_people,
        }
        if HAS_JAX:
            makers["JAX, vmap"] = jax_vmap
        with each_apart({name: partial(make, traces) for name, make in makers.items()}) as contestants:
            mine = contestants["ours"].found
            for name, contestant in contestants.items():
                for got, wanted in zip(contestant.found[:2], mine[:2], strict=True):
                    np.testing.assert_allclose(got, wanted, rtol=1e-9, err_msg=name)
            seconds = taken(contestants, TURNS)
        rates = {name: people * STEPS / each for name, each in seconds.items()}
        work = f"forward + Viterbi + path, {places} places, {exits} exits, person-steps"
        yield from (Row(work, name, rates[name], rates["ours"]) for name in list(makers)[1:])


def archive_rows() -> Iterator[Row]:
    """A year of an archive: read by step and checked, and written as messages."""
    mapping = resolved_map(FilesMap(preset="melbourne"))
    with tempfile.TemporaryDirectory() as folder:
        path, messages = Path(folder) / "archive.csv", Path(folder) / "messages.jsonl"
        rows = write_archive(path, SENSORS, days=365)

        runs: dict[str, Callable[[], object]] = {
            "read": lambda: read_archive([path], mapping),
            "write": partial(write_ours, path, messages),
        }
        theirs: dict[str, Callable[[], object]] = {
            "polars read": partial(read_by_polars, path),
            "polars write": partial(write_by_polars, path, messages),
        }
        rates = in_turns({name: made(run) for name, run in {**runs, **theirs}.items()}, rows)
    yield Row(
        "archive, rows to counts by step", "polars, cells and times", rates["polars read"], rates["read"]
    )
    yield Row("archive, rows to messages", "polars, ndjson", rates["polars write"], rates["write"])


def engine_rows() -> Iterator[Row]:
    """A file of readings to durable noised releases, 100 people accounted, beside a loop without accounts."""
    people = draw_population(np.random.default_rng(SEED), 100, 10)
    for sensors, steps in ((20, 100), (500, 10)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source = folder / "readings.jsonl"
            write_messages(np.random.default_rng(SEED), source, steps, sensors)
            runs = {
                kind: partial(_run_engine, people, source, folder, settings)
                for kind, settings in _PROFILES.items()
            }
            peers = {"plain Python, no accounts": partial(plain_loop, source, folder / "plain")}
            if HAS_BYTEWAX:
                peers["bytewax, no accounts"] = partial(bytewax_flow, source, folder / "flow")
            both = {name: made(run) for name, run in {**runs, **peers}.items()}
            rates = in_turns(both, sensors * steps)
        for kind in runs:
            work = f"readings to releases, {sensors} sensors, {kind}"
            yield from (Row(work, peer, rates[peer], rates[kind]) for peer in peers)


_PROFILES: Mapping[str, dict[str, object]] = {
    "as settings are": {},
    "without attack and refinement": {"attack_draws": 0, "sharpen": False},
}


def _run_engine(people: Population, source: Path, folder: Path, settings: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as output:
        keys = {name: Path(output) / f"{name}.key" for name in ("noise_key", "pseudonym_key")}
        chosen = Settings.model_validate({**settings, **keys, "release": {"sigma": 2.0}})
        run(chosen, RunOptions(Path(output) / "run", source, create_keys=True), people)


COLUMNS = ["work", "peer", "peer's", "ours", "ours beside the peer's"]
HEAD = """# What an engineer would write or take instead

`python -m benchmarks.beside_peers`: units of work a second of processor time, one thread each, each
contestant in a process of its own, medians of turns in one run; below 1 ours is the slower one. C++ and numba
are compiled in the run, C++ for this very CPU (AVX-512), which ours is not, so that it gives the same bits
everywhere. JAX computes in 64 bits. The engine keeps accounts of a hundred people, their ceilings and a
durable log; its peers publish noised counts and account nobody.

"""


def main() -> None:
    """Measure and print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    rows = [row.cells for part in (decoding_rows, archive_rows, engine_rows) for row in part()]
    show("Beside peers", COLUMNS, rows)
    if given.results:
        (given.results / "peers.md").write_text(f"{HEAD}{markdown(COLUMNS, rows, words=2)}\n")


if __name__ == "__main__":
    main()
