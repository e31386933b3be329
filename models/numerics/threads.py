"""Runs kernels over independent people on several threads.

The threads are Python's and not numba's (``parallel=True``), which would compile each such kernel several
times.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Concatenate, ParamSpec, cast

import numba
from numba.np.ufunc import parallel

P = ParamSpec("P")

_PIECES = 4  # for each thread, so that the others do not wait for one whose people take long


def in_threads(
    count: Callable[..., int], least: int, kernel: Callable[Concatenate[int, int, P], None]
) -> Callable[P, None]:
    """A function that calls ``kernel(begin, end, *arguments)`` for ranges that together are ``0..n - 1``.

    ``n`` is ``count(*arguments)``; a range has at least ``least`` people. ``numba.set_num_threads`` limits
    the threads. What the kernel writes for one person must not depend on the others: then neither threads nor
    ranges change a bit.
    """

    work = cast(Callable[..., None], kernel)

    def over_all(*arguments: Any) -> None:
        people, threads = count(*arguments), thread_count()
        size = max(least, -(-people // (threads * _PIECES)))
        if threads == 1 or people <= size:
            work(0, people, *arguments)
            return
        jobs = [
            _pool().submit(work, begin, min(begin + size, people), *arguments)
            for begin in range(0, people, size)
        ]
        for job in jobs:
            job.result()

    over_all.__name__, over_all.__doc__ = kernel.__name__, kernel.__doc__
    return cast(Callable[P, None], over_all)


def thread_count() -> int:
    """How many threads to use. ``numba.get_num_threads`` is called only where numba's threads run already: it
    would start them."""
    if parallel._is_initialized:
        return int(numba.get_num_threads())
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


@cache
def _pool() -> ThreadPoolExecutor:
    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return ThreadPoolExecutor(most, thread_name_prefix="people")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has no threads of its parent
