"""Forward and Viterbi for many people by a loop in numba or C++, by numpy over people, and by JAX.

Each takes the same arrays as the others and gives the log-likelihood, the log-probability of the best path,
and the path. None is tuned beyond what it takes to be written without a mistake.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray


class Traces(NamedTuple):
    """People on ``own`` (N, K) locations with ``exits`` moves from each, all starts equally likely.

    ``column`` and ``weight`` (N, K, exits); ``labels`` (T, M) outcome of each location, ``likelihood``
    (N, T, 2) of either outcome.
    """

    column: NDArray[np.int32]
    weight: NDArray[np.float64]
    own: NDArray[np.int32]
    labels: NDArray[np.int32]
    likelihood: NDArray[np.float64]


class Found(NamedTuple):
    """What every contestant must find: logs (N,) and the path (N, T)."""

    log_likelihood: NDArray[np.float64]
    log_path: NDArray[np.float64]
    path: NDArray[np.int32]


def empty(traces: Traces) -> Found:
    """To be filled in."""
    people, steps = traces.likelihood.shape[:2]
    return Found(np.empty(people), np.empty(people), np.empty((people, steps), np.int32))


@numba.njit(nogil=True)
def _loop(
    column: Any, weight: Any, own: Any, labels: Any, likelihood: Any, sums: Any, bests: Any, path: Any
) -> None:
    people, places, exits = column.shape
    steps = labels.shape[0]
    arrived = np.zeros((steps, places), np.int32)
    for i in range(people):
        now, best = np.full(places, 1.0 / places), np.full(places, 1.0 / places)
        sums[i] = bests[i] = 0.0
        for t in range(steps):
            if t > 0:
                after, better = np.zeros(places), np.zeros(places)
                for x in range(places):
                    for e in range(exits):
                        y, w = column[i, x, e], weight[i, x, e]
                        after[y] += now[x] * w
                        if best[x] * w > better[y]:
                            better[y] = best[x] * w
                            arrived[t, y] = x
                now, best = after, better
            for y in range(places):
                seen = likelihood[i, t, labels[t, own[i, y]]]
                now[y] *= seen
                best[y] *= seen
            total, top = now.sum(), best.max()
            now /= total
            best /= top
            sums[i] += np.log(total)
            bests[i] += np.log(top)
        at = best.argmax()
        for t in range(steps - 1, -1, -1):
            path[i, t] = at
            at = arrived[t, at]


def numba_loop(traces: Traces) -> Callable[[], Found]:
    """Twenty lines of numba."""
    found = empty(traces)

    def run() -> Found:
        _loop(*traces, *found)
        return found

    return run


def _compiled() -> ctypes.CDLL:
    """The loops in C++, compiled here and now for this very CPU."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "decoding.so"
        source = Path(__file__).with_suffix(".cpp")
        options = ["-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run(["g++", *options, "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


def _in_cpp(name: str, traces: Traces, *arrays: NDArray[Any]) -> Callable[[], Found]:
    found, decode = empty(traces), getattr(_compiled(), name)
    people, places, exits = traces.column.shape
    steps, locations = traces.labels.shape
    sizes = [ctypes.c_int64(size) for size in (people, places, exits, steps, locations)]

    def run() -> Found:
        decode(*sizes, *(ctypes.c_void_p(array.ctypes.data) for array in (*arrays, *found)))
        return found

    return run


def cpp_loop(traces: Traces) -> Callable[[], Found]:
    """The same in C++."""
    return _in_cpp("decode", traces, *traces)


def cpp_by_columns(traces: Traces) -> Callable[[], Found]:
    """In C++, what arrives at a place gathered from where it comes: a second thought."""
    people, places, exits = traces.column.shape
    column = traces.column.reshape(people, -1)
    order = np.argsort(column, axis=1, kind="stable")
    start = np.zeros((people, places + 1), np.int32)
    for place in range(places):
        start[:, place + 1] = start[:, place] + (column == place).sum(axis=1)
    row = np.ascontiguousarray(order // exits, np.int32)
    weight = np.ascontiguousarray(np.take_along_axis(traces.weight.reshape(people, -1), order, axis=1))
    return _in_cpp("decode_by_columns", traces, start, row, weight, *traces[2:])


def _dense(traces: Traces) -> NDArray[np.float64]:
    """All matrices in full, (N, K, K)."""
    people, places, _ = traces.column.shape
    matrix = np.zeros((people, places, places))
    np.put_along_axis(matrix, traces.column.astype(np.int64), traces.weight, axis=2)
    return matrix


def _emissions(traces: Traces) -> NDArray[np.float64]:
    """The likelihood of what was seen at each own place, (T, N, K)."""
    outcome = traces.labels[:, traces.own]
    likelihood = traces.likelihood.transpose(1, 0, 2)
    return np.where(outcome == 0, likelihood[:, :, :1], likelihood[:, :, 1:])


def numpy_over_people(traces: Traces) -> Callable[[], Found]:
    """One step of everybody at once, with full matrices."""
    matrix, emissions = _dense(traces), _emissions(traces)

    def run() -> Found:
        steps, people, places = emissions.shape
        now = best = np.full((people, places), 1.0 / places)
        sums, bests = np.zeros(people), np.zeros(people)
        arrived = np.zeros((steps, people, places), np.int32)
        for t in range(steps):
            if t > 0:
                now = (now[:, np.newaxis, :] @ matrix)[:, 0]
                moved = best[:, :, np.newaxis] * matrix
                arrived[t] = moved.argmax(axis=1)
                best = moved.max(axis=1)
            now, best = now * emissions[t], best * emissions[t]
            total, top = now.sum(axis=1), best.max(axis=1)
            now, best = now / total[:, np.newaxis], best / top[:, np.newaxis]
            sums += np.log(total)
            bests += np.log(top)
        return Found(sums, bests, _followed_back(best.argmax(axis=1), arrived))

    return run


def _followed_back(last: NDArray[Any], arrived: NDArray[np.int32]) -> NDArray[np.int32]:
    steps, people, _ = arrived.shape
    path, at = np.empty((people, steps), np.int32), last
    for t in range(steps - 1, -1, -1):
        path[:, t] = at
        at = arrived[t, np.arange(people), at]
    return path


HAS_JAX = find_spec("jax") is not None
"""JAX is no requirement of ours, not even for development: ``pip install jax`` to have it measured."""


def jax_vmap(traces: Traces) -> Callable[[], Found]:
    """A scan over the steps of one person, vmapped over people, in double precision."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    matrix = jnp.asarray(_dense(traces))
    emissions = jnp.asarray(_emissions(traces).transpose(1, 0, 2))

    def decode(moves: Any, seen: Any) -> Any:
        def one(carried: Any, emission: Any) -> Any:
            now, best, first = carried
            moved = best[:, jnp.newaxis] * moves
            arrived = moved.argmax(axis=0)
            now = jnp.where(first, now, now @ moves) * emission
            best = jnp.where(first, best, moved.max(axis=0)) * emission
            total, top = now.sum(), best.max()
            return (now / total, best / top, False), (jnp.log(total), jnp.log(top), arrived)

        equal = jnp.full(moves.shape[0], 1.0 / moves.shape[0])
        (_, best, _), (sums, bests, arrived) = jax.lax.scan(one, (equal, equal, True), seen)

        def back(at: Any, before: Any) -> Any:
            return before[at], at

        _, path = jax.lax.scan(back, best.argmax(), arrived, reverse=True)
        return sums.sum(), bests.sum(), path

    compiled = jax.jit(jax.vmap(decode))

    def run() -> Found:
        return Found(*map(np.asarray, compiled(matrix, emissions)))

    return run
