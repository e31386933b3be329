"""Running simulating kernels on all threads, with results that do not depend on how many there are."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.drawing import Draws
from models.numerics.threads import thread_count

DRAWS_PER_BLOCK = 4096
"""Draws that share one stream. Part of what a seed means: another number gives other draws."""

Kernel = Callable[..., NDArray[np.int64]]
"""``kernel(*arguments, draws)``: successes per attack; compiled without the interpreter lock."""


def count_successes(
    kernel: Kernel, arguments: tuple[object, ...], draws: int, seed: int
) -> NDArray[np.int64]:
    """Successes per attack in ``draws`` draws; the same for any number of threads."""
    blocks = range((draws + DRAWS_PER_BLOCK - 1) // DRAWS_PER_BLOCK)
    sizes = [min(DRAWS_PER_BLOCK, draws - block * DRAWS_PER_BLOCK) for block in blocks]
    if len(blocks) == 1:
        return kernel(*arguments, Draws(seed, 0, draws))
    with ThreadPoolExecutor(thread_count()) as threads:
        counts = threads.map(lambda block: kernel(*arguments, Draws(seed, block, sizes[block])), blocks)
        total: NDArray[np.int64] = np.sum(list(counts), axis=0)
    return total
