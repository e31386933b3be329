"""Memory of a frontier search, and which of its prefixes have children still open.

See :mod:`accounting.hmm.frontier.search_kernel`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.eight import first_equal, larger_of, largest, load, padded, replaced, spread_out
from models.numerics.jit import inline, jit
from models.priors.chain import ChainView, Rows, rows_of

_0, _1 = np.uint64(0), np.uint64(1)
_FEW = 16  # places of a person whose matrices are laid out in full: no more than two eights a row


class SearchMemory(NamedTuple):
    """Memory of one search: the prefixes expanded, and a heap of those with children still open.

    ``W`` is K in whole eights; what is beyond the places is zero.
    """

    rows: Rows  # of the person's matrices
    full: NDArray[np.float64]  # (C, K, W), the same laid out in full; C = 0 where places are many
    is_full: NDArray[np.bool_]  # (C,) whether a slot's matrix is there yet
    evidence: NDArray[np.float64]  # (expansions, W), of each step searched
    prefix: NDArray[np.float64]  # (expansions, s + 1, W), C of those expanded
    ahead: NDArray[np.float64]  # (expansions, s + 1, W), w of the same
    moved: NDArray[np.float64]  # (expansions, s, W), w P e: what all children of one have in common
    is_moved: NDArray[np.bool_]  # (expansions,) whether that is there
    length: NDArray[np.int64]  # (expansions,) guesses made
    origin: NDArray[np.int64]  # (expansions, 2), the prefix that was lengthened, and by which guess
    alike: NDArray[np.int64]  # (expansions,) the one before of the same length and last guess; -1: none
    newest: NDArray[np.int64]  # (expansions + 1, K) the last one of each length and last guess; -1: none
    child: NDArray[np.float64]  # (expansions, W), completions of each one's children, 0 once taken
    best: NDArray[np.int64]  # (expansions,) the child with the largest one
    completion: NDArray[np.float64]  # (expansions,) the largest of each parent's; a heap
    parent: NDArray[np.int64]  # (expansions,) by number of expansion
    spent: NDArray[np.int64]  # (1,), expansions of all searches so far


@jit
def new_memory(chain: ChainView, expansions: int, mistakes: int) -> SearchMemory:
    """Memory for searches of up to so many expansions, of guesses at this chain's places."""
    slots, places = chain.start.shape
    width = padded(places)
    if places > _FEW:
        slots = 0
    return SearchMemory(
        rows_of(chain),
        np.empty((slots, places, width)),
        np.zeros(slots, np.bool_),
        np.empty((expansions, width)),
        np.empty((expansions, mistakes + 1, width)),
        np.empty((expansions, mistakes + 1, width)),
        np.empty((expansions, mistakes, width)),
        np.empty(expansions, np.bool_),
        np.empty(expansions, np.int64),
        np.empty((expansions, 2), np.int64),
        np.empty(expansions, np.int64),
        np.empty((expansions + 1, places), np.int64),
        np.empty((expansions, width)),
        np.empty(expansions, np.int64),
        np.empty(expansions),
        np.empty(expansions, np.int64),
        np.zeros(1, np.int64),
    )


@inline
def find_best_child(memory: SearchMemory, parent: int, taken: int) -> float:
    """Note which child may win most, ties at the lowest place, and give its completion; -1: none is taken."""
    child, width, nothing = memory.child, memory.child.shape[1], spread_out(0.0)
    row, top = parent * width, nothing
    for x in range(0, width, 8):
        top = larger_of(top, replaced(load(child, row + x), taken - x, nothing))
    most, best, x = largest(top), 8, 0
    while best == 8 and x < width:
        best = first_equal(replaced(load(child, row + x), taken - x, nothing), most)
        x += 8
    if taken >= 0:  # after that: what was stored in part is slow to be loaded as a whole
        child[parent, taken] = 0.0
    memory.best[parent] = x - 8 + best if best < 8 else 0
    return most


@inline
def open_one(memory: SearchMemory, open_count: int, completion: float, parent: int) -> None:
    """Put one more on the heap of ``open_count``."""
    heap, parents = memory.completion, memory.parent
    i = np.uint64(open_count)
    while i > _0:
        above = (i - _1) >> _1
        if heap[above] >= completion:
            break
        heap[i], parents[i] = heap[above], parents[above]
        i = above
    heap[i], parents[i] = completion, parent


@inline
def _replace_largest(memory: SearchMemory, open_count: int, completion: float, parent: int) -> None:
    """Put another one in the place of the largest of ``open_count``."""
    heap, parents = memory.completion, memory.parent
    i, size = _0, np.uint64(open_count)
    while True:
        below = i + i + _1
        if below >= size:
            break
        if below + _1 < size and heap[below + _1] > heap[below]:
            below += _1
        if heap[below] <= completion:
            break
        heap[i], parents[i] = heap[below], parents[below]
        i = below
    heap[i], parents[i] = completion, parent


@inline
def open_passed(memory: SearchMemory, expanded: int, attained: float) -> int:
    """After the dive to number ``expanded``, open what it passed and may win more; how many that are."""
    open_count = 0
    for above in range(expanded):
        completion = find_best_child(memory, above, memory.best[above])  # but for the one where the dive went
        if completion > attained:
            open_one(memory, open_count, completion, above)
            open_count += 1
    return open_count


@inline
def take_child(memory: SearchMemory, open_count: int, attained: float) -> tuple[int, int]:
    """Take the largest open child, a guess behind ``memory.parent[0]``; the guess, and how many stay open.

    Its parent stays on the heap for its next child, unless that cannot win more than what is attained.
    """
    parent = memory.parent[0]
    guess = memory.best[parent]
    next_completion = find_best_child(memory, parent, guess)
    if next_completion <= attained:
        open_count -= 1
        next_completion, parent = memory.completion[open_count], memory.parent[open_count]
    if open_count > 0:
        _replace_largest(memory, open_count, next_completion, parent)
    return guess, open_count
