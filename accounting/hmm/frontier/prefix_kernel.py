"""One prefix of a frontier search: made of a shorter one, compared, moved on, its children completed.

``C``, ``w`` and completions as in :mod:`accounting.hmm.frontier.search_kernel`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.eight import is_any_above, load, replaced, spread_out, store, where_positive
from accounting.hmm.frontier.memory_kernel import SearchMemory, find_best_child
from models.numerics.jit import inline


@inline
def begin_search(weight: NDArray[np.float64], steps: tuple[int, int], memory: SearchMemory) -> None:
    """Lay out the evidence of each step searched; no prefix is known."""
    first, last = steps
    for length in range(last - first + 1):
        for x in range(weight.shape[1]):
            memory.newest[length, x] = -1
            memory.evidence[length, x] = weight[first + length, x]
        for x in range(weight.shape[1], memory.evidence.shape[1]):
            memory.evidence[length, x] = 0.0


@inline
def lengthen(memory: SearchMemory, expanded: int, parent: int, guess: int, mistakes: int) -> None:
    """``C`` of the parent's guesses and this one more, as number ``expanded``."""
    prefix, ahead, nothing = memory.prefix, memory.ahead, spread_out(0.0)
    _, rows, width = prefix.shape
    here, before = expanded * rows * width, parent * rows * width
    for x in range(0, width, 8):
        less = nothing
        for m in range(mistakes + 1):
            more = load(ahead, before + m * width + x)
            store(replaced(less, guess - x, more), prefix, here + m * width + x)
            less = more
    memory.length[expanded] = memory.length[parent] + 1
    memory.origin[expanded, 0] = parent
    memory.origin[expanded, 1] = guess


@inline
def is_dominated(memory: SearchMemory, expanded: int, mistakes: int) -> bool:
    """Whether the last one is nowhere above another of its length and last guess.

    If not, it is known as one of these. Behind another last guess somebody who makes no mistake is nowhere.
    """
    prefix, alike, newest = memory.prefix, memory.alike, memory.newest
    _, rows, width = prefix.shape
    here, guess, length = expanded * rows * width, memory.origin[expanded, 1], memory.length[expanded]
    other, is_dominated = newest[length, guess], False
    while other >= 0 and not is_dominated:
        there, is_dominated = other * rows * width, True
        for x in range(0, (mistakes + 1) * width, 8):
            if is_any_above(load(prefix, here + x), load(prefix, there + x)):
                is_dominated = False
                break
        other = alike[other]
    if not is_dominated:
        alike[expanded] = newest[length, guess]
        newest[length, guess] = expanded
        memory.is_moved[expanded] = False
    return is_dominated


@inline
def _lay_out(memory: SearchMemory, slot: int) -> None:
    """One slot's matrix in full."""
    full, rows = memory.full, memory.rows
    for x in range(full.shape[1]):
        for y in range(full.shape[2]):
            full[slot, x, y] = 0.0
        for j in range(rows.start[slot, x], rows.start[slot, x + 1]):
            full[slot, x, rows.column[j]] = rows.value[j]
    memory.is_full[slot] = True


@inline
def look_ahead(memory: SearchMemory, slot: int, step: int, expanded: int, mistakes: int) -> None:
    """``w`` of the last one, ``C P e``, of a person with few places.

    But for the place of its guess, ``C[m]`` is the parent's ``w[m - 1]``, whose move all children share; a
    row of ``P`` adds the rest.
    """
    ahead, moved, full, evidence = memory.ahead, memory.moved, memory.full, memory.evidence
    _, rows, width = ahead.shape
    parent, guess = memory.origin[expanded, 0], memory.origin[expanded, 1]
    if not memory.is_full[slot]:
        _lay_out(memory, slot)
    matrix = slot * full.shape[1] * width
    if not memory.is_moved[parent]:
        memory.is_moved[parent] = True
        for m in range(mistakes):
            for y in range(0, width, 8):
                mass = spread_out(0.0)
                for x in range(full.shape[1]):
                    mass = mass + spread_out(ahead[parent, m, x]) * load(full, matrix + x * width + y)
                seen = load(evidence, step * width + y)
                store(mass * seen, moved, (parent * (rows - 1) + m) * width + y)
    for y in range(0, width, 8):
        row = load(full, matrix + guess * width + y)
        seen = load(evidence, step * width + y)
        less = ahead[parent, 0, guess]
        store(spread_out(less) * row * seen, ahead, expanded * rows * width + y)
        for m in range(1, mistakes + 1):
            more = ahead[parent, m, guess]
            mass = load(moved, (parent * (rows - 1) + m - 1) * width + y)
            store(mass + spread_out(more - less) * row * seen, ahead, (expanded * rows + m) * width + y)
            less = more


@inline
def look_far_ahead(memory: SearchMemory, slot: int, step: int, expanded: int, mistakes: int) -> None:
    """:func:`look_ahead` of a person with many places, along the entries of each row."""
    ahead, moved, rows, evidence = memory.ahead, memory.moved, memory.rows, memory.evidence
    parent, guess, width = memory.origin[expanded, 0], memory.origin[expanded, 1], ahead.shape[2]
    if not memory.is_moved[parent]:
        memory.is_moved[parent] = True
        for m in range(mistakes):
            for y in range(width):
                moved[parent, m, y] = 0.0
            for x in range(rows.start.shape[1] - 1):
                mass = ahead[parent, m, x]
                if mass > 0.0:
                    for j in range(np.uint64(rows.start[slot, x]), np.uint64(rows.start[slot, x + 1])):
                        moved[parent, m, np.uint64(rows.column[j])] += mass * rows.value[j]
            for y in range(width):
                moved[parent, m, y] *= evidence[step, y]
    less = 0.0
    for m in range(mistakes + 1):
        more = ahead[parent, m, guess] - less
        less = ahead[parent, m, guess]
        for y in range(width):
            ahead[expanded, m, y] = moved[parent, m - 1, y] if m > 0 else 0.0
        for j in range(np.uint64(rows.start[slot, guess]), np.uint64(rows.start[slot, guess + 1])):
            z = np.uint64(rows.column[j])
            ahead[expanded, m, z] += more * rows.value[j] * evidence[step, z]


@inline
def look_at_first(law: NDArray[np.float64], memory: SearchMemory, mistakes: int) -> None:
    """``w`` of no guess: nobody has moved."""
    for m in range(mistakes + 1):
        for x in range(law.size):
            memory.ahead[0, m, x] = law[x] * memory.evidence[0, x]
        for x in range(law.size, memory.ahead.shape[2]):
            memory.ahead[0, m, x] = 0.0
    memory.length[0] = 0
    memory.is_moved[0] = False


@inline
def complete(
    memory: SearchMemory, expanded: int, gains: NDArray[np.float64], step: int, mistakes: int
) -> float:
    """The completion of each child of the last one, 0 for a guess that is never right; the largest."""
    ahead, child = memory.ahead, memory.child
    _, rows, width = ahead.shape
    here, there = expanded * rows * width, step * gains.shape[1] * width
    missed = 0.0  # what is left if the guess is wrong wherever the person is
    for m in range(mistakes):
        for x in range(gains.shape[2]):
            missed += ahead[expanded, m, x] * gains[step, mistakes - m - 1, x]
    for x in range(0, width, 8):
        less = load(ahead, here + x)
        value = spread_out(missed) + less * load(gains, there + mistakes * width + x)
        for m in range(1, mistakes + 1):
            more = load(ahead, here + m * width + x)
            value = value + (more - less) * load(gains, there + (mistakes - m) * width + x)
            less = more
        store(where_positive(value, less), child, expanded * width + x)
    return find_best_child(memory, expanded, -1)
