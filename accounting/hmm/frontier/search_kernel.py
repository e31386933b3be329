"""The frontier search: the best guess of places that may be wrong in ``s`` steps, by branch and bound.

For a prefix of guesses ``g_1..g_t`` let ``C_t[m, x]`` be the mass of the paths with ``X_t = x`` that at most
``m`` of them miss. With ``w[m] = (C_t[m] P) e``, ``e`` the evidence of the next step, the guess ``g`` makes

    C_(t+1)[m, x] = w[m, x] if x = g else w[m - 1, x]        (0 for m = 0),

and a whole guess succeeds with ``sum_x C_n[s, x]``. The *completion* of a prefix is what could still be won
behind it with a genie who shows the truth after every further guess (``completion_kernel``): never less than
any guess wins that begins so. The open prefix with the largest completion is expanded first, and each of its
children becomes open with its own completion. Whenever the search ends, the largest open completion, or the
best whole guess if that is more, bounds every guess; once no open one is above the best whole guess, that
is the optimum. A prefix whose ``C`` is nowhere above that of an expanded one of the same length and last
guess is never worth more, and is dropped. Best-first search (Hart, Nilsson and Raphael 1968) with that
completion is beyond Koga et al.

For example two steps, each spent at place 0 with probability 2/3 and else at 1, no mistake allowed. Guess 0
leaves 2/3 * 2/3 = 4/9 to be won, guess 1 leaves 1/3 * 2/3 = 2/9. Behind 0, guess 0 wins 4/9: a whole guess,
and what is open, 2/9 behind 1, is less. It is the optimum after two expansions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.eight import (
    first_equal,
    is_any_above,
    larger_of,
    largest,
    load,
    padded,
    replaced,
    spread_out,
    store,
    where_positive,
)
from accounting.hmm.frontier.completion_kernel import completion_gains, new_gains, new_recursion
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView, Rows, rows_of

_0, _1 = np.uint64(0), np.uint64(1)
_FEW = 16  # places of a person whose matrices are laid out in full: no more than two eights a row
_MOST_ENTRIES = 1 << 22  # 32 MiB a table
_MOST_PRODUCTS = 1 << 22  # some milliseconds of one core, where more than one expansion a step is asked for
_MOST_FOR_ONE = 1 << 28


class Found(NamedTuple):
    """``attained <= max over guesses <= bound``, of masses: at most that of the law searched."""

    bound: float
    attained: float  # by the guess of :func:`found_guess`
    parent: int  # that guess but for its last step, as a number of expansion; -1: nothing can be won
    guess: int  # its last step


class Asked(NamedTuple):
    """What is searched for, and how hard."""

    mistakes: int  # allowed
    expansions: int  # at most, and at least one a step
    slack: float  # the search ends once nothing open is above the best whole guess by more


class Room(NamedTuple):
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
def new_room(chain: ChainView, expansions: int, mistakes: int) -> Room:
    """Memory for searches of up to so many expansions, of guesses at this chain's places."""
    slots, places = chain.start.shape
    width = padded(places)
    if places > _FEW:
        slots = 0
    return Room(
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
def _find_best_child(room: Room, parent: int, taken: int) -> float:
    """Note which child may win most, ties at the lowest place, and give its completion; -1: none is taken."""
    child, width, nothing = room.child, room.child.shape[1], spread_out(0.0)
    row, top = parent * width, nothing
    for x in range(0, width, 8):
        top = larger_of(top, replaced(load(child, row + x), taken - x, nothing))
    most, best, x = largest(top), 8, 0
    while best == 8 and x < width:
        best = first_equal(replaced(load(child, row + x), taken - x, nothing), most)
        x += 8
    if taken >= 0:  # after that: what was stored in part is slow to be loaded as a whole
        child[parent, taken] = 0.0
    room.best[parent] = x - 8 + best if best < 8 else 0
    return most


@inline
def _open(room: Room, open_count: int, completion: float, parent: int) -> None:
    """Put one more on the heap of ``open_count``."""
    heap, parents = room.completion, room.parent
    i = np.uint64(open_count)
    while i > _0:
        above = (i - _1) >> _1
        if heap[above] >= completion:
            break
        heap[i], parents[i] = heap[above], parents[above]
        i = above
    heap[i], parents[i] = completion, parent


@inline
def _replace_largest(room: Room, open_count: int, completion: float, parent: int) -> None:
    """Put another one in the place of the largest of ``open_count``."""
    heap, parents = room.completion, room.parent
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
def _open_passed(room: Room, expanded: int, attained: float) -> int:
    """After the dive to number ``expanded``, open what it passed and may win more; how many that are."""
    open_count = 0
    for above in range(expanded):
        completion = _find_best_child(room, above, room.best[above])  # but for the one where the dive went
        if completion > attained:
            _open(room, open_count, completion, above)
            open_count += 1
    return open_count


@inline
def _take_child(room: Room, open_count: int, attained: float) -> tuple[int, int]:
    """Take the largest open child, a guess behind ``room.parent[0]``; the guess, and how many stay open.

    Its parent stays on the heap for its next child, unless that cannot win more than what is attained.
    """
    parent = room.parent[0]
    guess = room.best[parent]
    following = _find_best_child(room, parent, guess)
    if following <= attained:
        open_count -= 1
        following, parent = room.completion[open_count], room.parent[open_count]
    if open_count > 0:
        _replace_largest(room, open_count, following, parent)
    return guess, open_count


@inline
def _begin(weight: NDArray[np.float64], steps: tuple[int, int], room: Room) -> None:
    """Lay out the evidence of each step searched; no prefix is known."""
    first, last = steps
    for length in range(last - first + 1):
        for x in range(weight.shape[1]):
            room.newest[length, x] = -1
            room.evidence[length, x] = weight[first + length, x]
        for x in range(weight.shape[1], room.evidence.shape[1]):
            room.evidence[length, x] = 0.0


@inline
def _lengthen(room: Room, expanded: int, parent: int, guess: int, mistakes: int) -> None:
    """``C`` of the parent's guesses and this one more, as number ``expanded``."""
    prefix, ahead, nothing = room.prefix, room.ahead, spread_out(0.0)
    _, rows, width = prefix.shape
    here, before = expanded * rows * width, parent * rows * width
    for x in range(0, width, 8):
        less = nothing
        for m in range(mistakes + 1):
            more = load(ahead, before + m * width + x)
            store(replaced(less, guess - x, more), prefix, here + m * width + x)
            less = more
    room.length[expanded] = room.length[parent] + 1
    room.origin[expanded, 0] = parent
    room.origin[expanded, 1] = guess


@inline
def _is_dominated(room: Room, expanded: int, mistakes: int) -> bool:
    """Whether the last one is nowhere above another of its length and last guess.

    If not, it is known as one of these. Behind another last guess somebody who makes no mistake is nowhere.
    """
    prefix, alike, newest = room.prefix, room.alike, room.newest
    _, rows, width = prefix.shape
    here, guess, length = expanded * rows * width, room.origin[expanded, 1], room.length[expanded]
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
        room.is_moved[expanded] = False
    return is_dominated


@inline
def _lay_out(room: Room, slot: int) -> None:
    """One slot's matrix in full."""
    full, rows = room.full, room.rows
    for x in range(full.shape[1]):
        for y in range(full.shape[2]):
            full[slot, x, y] = 0.0
        for j in range(rows.start[slot, x], rows.start[slot, x + 1]):
            full[slot, x, rows.column[j]] = rows.value[j]
    room.is_full[slot] = True


@inline
def _look_ahead(room: Room, slot: int, step: int, expanded: int, mistakes: int) -> None:
    """``w`` of the last one, ``C P e``, of a person with few places.

    But for the place of its guess, ``C[m]`` is the parent's ``w[m - 1]``, whose move all children share; a
    row of ``P`` adds the rest.
    """
    ahead, moved, full, evidence = room.ahead, room.moved, room.full, room.evidence
    _, rows, width = ahead.shape
    parent, guess = room.origin[expanded, 0], room.origin[expanded, 1]
    if not room.is_full[slot]:
        _lay_out(room, slot)
    matrix = slot * full.shape[1] * width
    if not room.is_moved[parent]:
        room.is_moved[parent] = True
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
def _look_far_ahead(room: Room, slot: int, step: int, expanded: int, mistakes: int) -> None:
    """:func:`_look_ahead` of a person with many places, along the entries of each row."""
    ahead, moved, rows, evidence = room.ahead, room.moved, room.rows, room.evidence
    parent, guess, width = room.origin[expanded, 0], room.origin[expanded, 1], ahead.shape[2]
    if not room.is_moved[parent]:
        room.is_moved[parent] = True
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
def _look_at_first(law: NDArray[np.float64], room: Room, mistakes: int) -> None:
    """``w`` of no guess: nobody has moved."""
    for m in range(mistakes + 1):
        for x in range(law.size):
            room.ahead[0, m, x] = law[x] * room.evidence[0, x]
        for x in range(law.size, room.ahead.shape[2]):
            room.ahead[0, m, x] = 0.0
    room.length[0] = 0
    room.is_moved[0] = False


@inline
def _complete(room: Room, expanded: int, gains: NDArray[np.float64], step: int, mistakes: int) -> float:
    """The completion of each child of the last one, 0 for a guess that is never right; the largest."""
    ahead, child = room.ahead, room.child
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
    return _find_best_child(room, expanded, -1)


@bare_jit
def search(
    person: LocalChain,
    weight: NDArray[np.float64],
    law: NDArray[np.float64],
    steps: tuple[int, int],
    gains: NDArray[np.float64],
    asked: Asked,
    room: Room,
) -> Found:
    """The best guess of the steps ``first..last`` of ``steps``, wrong in at most ``asked.mistakes`` of them.

    ``law`` (K,) is the mass at each place in the first of them before its evidence ``weight[first]``;
    ``gains`` (T, s + 1, W) those of :func:`completion_gains` for what is won after the last. The search
    begins with a dive to a whole guess, always to the child with the largest completion, unless even that
    completion is within the slack. :class:`ValueError` for gains of another width.
    """
    if gains.shape[2] != room.child.shape[1]:
        raise ValueError("gains must be those of new_gains, as wide as the room")
    first, last = steps
    _begin(weight, steps, room)
    _look_at_first(law, room, asked.mistakes)
    expanded, open_count, is_diving = 0, 0, True
    attained, best_parent, best_guess = 0.0, -1, -1
    while True:
        if expanded == 0 or not _is_dominated(room, expanded, asked.mistakes):
            step = room.length[expanded]
            if expanded > 0:
                slot = slot_of(person, first + step - 1)
                if room.full.shape[0] > 0:
                    _look_ahead(room, slot, step, expanded, asked.mistakes)
                else:
                    _look_far_ahead(room, slot, step, expanded, asked.mistakes)
            completion = _complete(room, expanded, gains, first + step, asked.mistakes)
            guess = room.best[expanded]
            if expanded == 0 and completion <= asked.slack:
                room.spent[0] += 1
                return Found(completion, 0.0, -1, -1)
            is_last = first + step == last
            if is_last and completion > attained:
                attained, best_parent, best_guess = completion, expanded, guess
            if is_last and is_diving:
                is_diving = False
                open_count = _open_passed(room, expanded, attained)
            elif not is_last and not is_diving and completion > attained:
                _open(room, open_count, completion, expanded)
                open_count += 1
            expanded += 1
        parent = expanded - 1
        if not is_diving:
            is_enough = open_count == 0 or room.completion[0] <= attained + asked.slack
            if is_enough or expanded >= asked.expansions:
                break
            parent = room.parent[0]
            guess, open_count = _take_child(room, open_count, attained)
        _lengthen(room, expanded, parent, guess, asked.mistakes)
    room.spent[0] += expanded
    bound = max(attained, room.completion[0]) if open_count > 0 else attained
    return Found(bound, attained, best_parent, best_guess)


@jit
def found_guess(room: Room, found: Found, guesses: NDArray[np.int64]) -> None:
    """Fill ``guesses`` (steps searched,) with the guess that attains what was found; 0s if nothing is won."""
    guesses[:] = 0
    expanded = found.parent
    if expanded >= 0:
        guesses[guesses.size - 1] = found.guess
        for t in range(guesses.size - 2, -1, -1):
            guesses[t] = room.origin[expanded, 1]
            expanded = room.origin[expanded, 0]


@jit
def affordable_vectors(chain: ChainView, steps: int, mistakes: int, most: int) -> int:
    """Expansions a step, up to ``most``, for a search of some milliseconds; 0 where one takes far longer."""
    slots, places = chain.start.shape
    entries = steps * (mistakes + 1) * places
    products = steps * (mistakes + 1) * (chain.value.size // slots + 2 * places)
    if products > _MOST_FOR_ONE or entries > _MOST_ENTRIES:
        return 0
    return int(max(1, min(most, _MOST_ENTRIES // entries, _MOST_PRODUCTS // products)))


@jit
def best_guess(
    person: LocalChain, weight: NDArray[np.float64], mistakes: int, vectors: int, guess: NDArray[np.int64]
) -> Found:
    """The search over a whole horizon with evidence ``weight`` (T, K); ``guess`` (T,) becomes the best one.

    ``vectors`` expansions for each step, at least 1.
    """
    steps, places = weight.shape
    gains = new_gains(steps, mistakes, places)
    completion_gains(person, weight, steps - 1, np.ones(places), new_recursion(mistakes, places), gains)
    room = new_room(person.chain, vectors * steps, mistakes)
    asked = Asked(mistakes, vectors * steps, 0.0)
    found = search(person, weight, person.start, (0, steps - 1), gains, asked, room)
    found_guess(room, found, guess)
    return found
