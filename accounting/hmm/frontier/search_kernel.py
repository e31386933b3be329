"""The frontier search: the best guess of places that may be wrong in ``s`` steps, by branch and bound.

For a prefix of guesses ``g_1..g_t`` let ``C_t[m, x]`` be the mass of the paths with ``X_t = x`` that at most
``m`` of them miss. With ``w[m] = (C_t[m] P) e``, ``e`` the evidence of the next step, the guess ``g`` makes

    C_(t+1)[m, x] = w[m, x] if x = g else w[m - 1, x]        (0 for m = 0),

and a whole guess succeeds with ``sum_x C_n[s, x]``. The *completion* of a prefix is what could still be won
behind it with a genie who shows the truth after every further guess (:func:`guess_and_be_shown`): no guess
that begins with the prefix wins more. The open prefix with the largest completion is expanded first, and each
of its children becomes open with its own completion. Whenever the search ends, the largest open completion,
or the best whole guess if that is more, bounds every guess; once no open one is above the best whole guess,
that is the optimum. A prefix whose ``C`` is nowhere above that of an expanded one of the same length and last
guess is never worth more, and is dropped. Best-first search (Hart, Nilsson and Raphael 1968) with that
completion is beyond Koga et al.

A chain may have labels (:class:`~models.priors.chain.ChainView`): then labels are guessed and not places. In
a step whose mistakes cost ``c`` (0 where nothing is asked), ``C[m, x] = w[m, x] if label(x) = g else
w[m - c, x]``; the genie still shows the state, which is more than the label; and prefixes are compared by
``w``, whatever their last guess, since states of other labels may move alike.

For example two steps, each spent at place 0 with probability 2/3 and else at 1, no mistake allowed. Guess 0
leaves 2/3 * 2/3 = 4/9 to be won, guess 1 leaves 1/3 * 2/3 = 2/9. Behind 0, guess 0 wins 4/9: a whole guess,
and what is open, 2/9 behind 1, is less. It is the optimum after two expansions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
    total_of,
    where_positive,
)
from accounting.hmm.few_places import FullMatrices, lay_out, room_for_matrices
from models.numerics.arrays import Flags, Floats, Integers
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView, LocalChain, Rows, is_labelled, rows_of, slot_of

# Memory of a search, and which of its prefixes have children still open.

_0, _1 = np.uint64(0), np.uint64(1)


class SearchMemory(NamedTuple):
    """Memory of one search: the prefixes expanded, and a heap of those with children still open.

    ``W`` is K in whole eights; what is beyond the places is zero.
    """

    rows: Rows  # of the person's matrices
    full: FullMatrices  # the same laid out in full
    evidence: Floats  # (expansions, W), of each step searched
    prefix: Floats  # (expansions, s + 1, W), C of those expanded
    ahead: Floats  # (expansions, s + 1, W), w of the same
    moved: Floats  # (expansions, s, W), w P e: what all children of one have in common
    is_moved: Flags  # (expansions,) whether that is there
    length: Integers  # (expansions,) guesses made
    origin: Integers  # (expansions, 2), the prefix that was lengthened, and by which guess
    alike: Integers  # (expansions,) the one before of the same length and last guess; -1: none
    newest: Integers  # (expansions + 1, K) the last one of each length and last guess; -1: none
    child: Floats  # (expansions, W), completions of each one's children, 0 once taken
    best: Integers  # (expansions,) the child with the largest one
    completion: Floats  # (expansions,) the largest of each parent's; a heap
    parent: Integers  # (expansions,) by number of expansion
    spent: Integers  # (1,), expansions of all searches so far


@jit
def new_memory(chain: ChainView, expansions: int, mistakes: int) -> SearchMemory:
    """Memory for searches of up to so many expansions, of guesses at this chain's places."""
    places = chain.start.shape[1]
    width = padded(places)
    return SearchMemory(
        rows_of(chain),
        room_for_matrices(chain),
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


# What is left to win with a genie's help: the completion that a guess given up is charged.
#
# A genie shows, after each guess, where the person was. An adversary with a genie knows more than one
# without, so their success bounds every adversary's; and their best guesses need no search: after step ``t``
# only the place and the number of mistakes left matter (dynamic programming, beyond Koga et al.). With
# evidence ``w`` and ``V(m, y) = w(t + 1, y) W(t + 1, m, y)``,
#
#     W(t, m, x) = sum_y P(x, y) V(m - 1, y) + max_y P(x, y) (V(m, y) - V(m - 1, y)).
#
# For example two steps left, each spent at place 0 with probability 2/3 and else at 1, no evidence. Behind
# the last one ``W = 1``. With one left to guess, ``W(0) = 2/3`` without a mistake and ``W(1) = 1`` with
# one. With both left, ``W(0) = 2/3 * 2/3`` and ``W(1) = 2/3 + 2/3 * (1 - 2/3)``: a wrong guess leaves 2/3,
# a right 1.


class Completions(NamedTuple):
    """``W(t, m, x)``, a row for each number of mistakes left."""

    value: Floats  # (s + 1, K)
    before: Floats  # (s + 1, K), a step earlier
    top: Floats  # (K,)


@jit
def new_completions(mistakes: int, places: int) -> Completions:
    """Empty arrays for one recursion."""
    return Completions(np.empty((mistakes + 1, places)), np.empty((mistakes + 1, places)), np.empty(places))


@bare_jit
def _guess_label_and_be_shown(  # noqa: PLR0912 - one recursion over places
    chain: ChainView, slot: int, walk: Completions
) -> None:
    """:func:`guess_and_be_shown` where a label is guessed: what the right one gains is added up over it."""
    value, before, top = walk
    places, column = top.size, chain.column_start[slot]
    label = chain.label[(slot + 1) % chain.label.shape[0]]
    cost, labels = label[places], 0
    for y in range(places):
        labels = max(labels, label[y] + 1) if cost > 0 else 0
    for m in range(value.shape[0]):
        for x in range(places):
            top[x] = 0.0
        for g in range(labels):
            for x in range(places):
                before[m, x] = 0.0  # what this label gains
            for y in range(places):
                if label[y] == g:
                    gain = max(0.0, value[m, y] - (value[m - cost, y] if m >= cost else 0.0))
                    for j in range(column[y], column[y + 1]):
                        before[m, chain.row[j]] += chain.value[j] * gain
            for x in range(places):
                top[x] = max(top[x], before[m, x])
        for x in range(places):
            before[m, x] = top[x]
        for y in range(places):
            low = value[m - cost, y] if m >= cost else 0.0
            if low > 0.0:
                for j in range(column[y], column[y + 1]):
                    before[m, chain.row[j]] += chain.value[j] * low


@bare_jit
def guess_and_be_shown(chain: ChainView, slot: int, walk: Completions) -> None:
    """``walk.before`` from ``walk.value``: one guess, one answer of the genie.

    Of each place what a wrong guess leaves is added up, and what the right one gains is taken at its largest.
    """
    if is_labelled(chain):
        _guess_label_and_be_shown(chain, slot, walk)
        return
    size, column = np.uint64(walk.top.size), chain.column_start[slot]
    for m in range(walk.value.shape[0]):
        walk.before[m] = 0.0
        walk.top[:] = 0.0
        for y in range(size):
            low = walk.value[m - 1, y] if m > 0 else 0.0
            if walk.value[m, y] > 0.0:
                gain = max(0.0, walk.value[m, y] - low)
                first, last = np.uint64(column[y]), np.uint64(column[y + _1])
                if last - first == size:
                    for x in range(size):
                        walk.before[m, x] += chain.value[first + x] * low
                        walk.top[x] = max(walk.top[x], chain.value[first + x] * gain)
                else:
                    for j in range(first, last):
                        z = np.uint64(chain.row[j])
                        walk.before[m, z] += chain.value[j] * low
                        walk.top[z] = max(walk.top[z], chain.value[j] * gain)
        for x in range(size):
            walk.before[m, x] += walk.top[x]


@inline
def gains_of(won: Floats, gains: Floats) -> None:
    """Fill ``gains``, :func:`padded`, with what each mistake adds to ``won`` (s + 1, K), ``W`` of a step."""
    for m in range(won.shape[0]):
        for x in range(won.shape[1]):
            less = won[m - 1, x] if m > 0 else 0.0
            gains[m, x] = max(0.0, won[m, x] - less)
        for x in range(won.shape[1], gains.shape[1]):
            gains[m, x] = 0.0


@jit
def new_gains(steps: int, mistakes: int, places: int) -> Floats:
    """Empty gains of so many steps, (T, s + 1, W): K in whole eights."""
    return np.empty((steps, mistakes + 1, padded(places)))


@bare_jit
def completion_gains(
    person: LocalChain, weight: Floats, last: int, won: Floats, walk: Completions, gains: Floats
) -> None:
    """Fill ``gains[t, m, x]`` for ``t <= last``: what one more mistake allowed adds to ``W(t, m, x)``.

    ``gains`` is made by :func:`new_gains`; ``won[x]`` is won after step ``last`` at place ``x``; ``weight``
    (T, K) is the evidence of each step.
    """
    value, before = walk.value, walk.before
    chain, first_slot, slots = person.chain, person.first_slot, person.chain.start.shape[0]
    for m in range(before.shape[0]):
        for x in range(won.size):
            before[m, x] = won[x]
    for t in range(last, -1, -1):
        gains_of(before, gains[t])
        for m in range(before.shape[0]):
            for x in range(won.size):
                value[m, x] = before[m, x] * weight[t, x]
        if t > 0:
            guess_and_be_shown(chain, (first_slot + t - 1) % slots, walk)


# One prefix of a search: made of a shorter one, compared, moved on, its children completed.


@inline
def _begin_search(
    weight: Floats, law: Floats, first: int, last: int, mistakes: int, memory: SearchMemory
) -> None:
    """Lay out the evidence of each step searched; the empty prefix is known, and nobody has moved yet."""
    for length in range(last - first + 1):
        for x in range(memory.newest.shape[1]):
            memory.newest[length, x] = -1
        for x in range(weight.shape[1]):
            memory.evidence[length, x] = weight[first + length, x]
        for x in range(weight.shape[1], memory.evidence.shape[1]):
            memory.evidence[length, x] = 0.0
    for m in range(mistakes + 1):
        for x in range(law.size):
            memory.ahead[0, m, x] = law[x] * memory.evidence[0, x]
        for x in range(law.size, memory.ahead.shape[2]):
            memory.ahead[0, m, x] = 0.0
    memory.length[0] = 0
    memory.is_moved[0] = False


@inline
def _lengthen(
    person: LocalChain,
    memory: SearchMemory,
    first: int,
    expanded: int,
    parent: int,
    guess: int,
    mistakes: int,
) -> None:
    """``C`` of the parent's guesses and this place or label, as number ``expanded``."""
    prefix, ahead, nothing = memory.prefix, memory.ahead, spread_out(0.0)
    _, rows, width = prefix.shape
    if is_labelled(person.chain):
        places = person.start.size
        label = person.chain.label[slot_of(person, first + memory.length[parent])]
        cost = label[places]
        for m in range(mistakes + 1):
            for x in range(places):
                if cost == 0 or label[x] == guess:
                    prefix[expanded, m, x] = ahead[parent, m, x]
                else:
                    prefix[expanded, m, x] = ahead[parent, m - cost, x] if m >= cost else 0.0
    else:
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
def _is_dominated(memory: SearchMemory, table: Floats, kind: int, expanded: int, mistakes: int) -> bool:
    """Whether the last one's row of ``table`` is nowhere above that of another of its length and ``kind``.

    If not, it is kept as one of these. Of places only prefixes with the same last guess are compared: after
    another one the mass without a mistake is at another place, so neither is ever nowhere above the other.
    """
    alike, newest = memory.alike, memory.newest
    _, rows, width = table.shape
    here, length = expanded * rows * width, memory.length[expanded]
    other, is_dominated = newest[length, kind], False
    while other >= 0 and not is_dominated:
        there, is_dominated = other * rows * width, True
        for x in range(0, (mistakes + 1) * width, 8):
            if is_any_above(load(table, here + x), load(table, there + x)):
                is_dominated = False
                break
        other = alike[other]
    if not is_dominated:
        alike[expanded] = newest[length, kind]
        newest[length, kind] = expanded
        memory.is_moved[expanded] = False
    return is_dominated


@inline
def look_ahead(
    chain: ChainView, memory: SearchMemory, slot: int, step: int, expanded: int, mistakes: int
) -> None:
    """``w`` of the last one, ``C P e``, of a person with few places.

    But for the place of its guess, ``C[m]`` is the parent's ``w[m - 1]``, whose move all children share; a
    row of ``P`` adds the rest.
    """
    ahead, moved, full, evidence = memory.ahead, memory.moved, memory.full.rows, memory.evidence
    _, rows, width = ahead.shape
    parent, guess = memory.origin[expanded, 0], memory.origin[expanded, 1]
    if not memory.full.is_there[slot]:
        lay_out(chain, memory.full, slot)
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
def _look_ahead_of_label(memory: SearchMemory, slot: int, step: int, expanded: int, mistakes: int) -> None:
    """:func:`look_ahead` after a label, along the entries of each row."""
    prefix, ahead, rows, evidence = memory.prefix, memory.ahead, memory.rows, memory.evidence
    width = ahead.shape[2]
    for m in range(mistakes + 1):
        for y in range(width):
            ahead[expanded, m, y] = 0.0
        for x in range(rows.start.shape[1] - 1):
            mass = prefix[expanded, m, x]
            if mass > 0.0:
                for j in range(np.uint64(rows.start[slot, x]), np.uint64(rows.start[slot, x + 1])):
                    ahead[expanded, m, np.uint64(rows.column[j])] += mass * rows.value[j]
        for y in range(width):
            ahead[expanded, m, y] *= evidence[step, y]


@inline
def _complete_labels(
    person: LocalChain, memory: SearchMemory, expanded: int, gains: Floats, at: int, mistakes: int
) -> float:
    """:func:`complete` by labels; a step in which nothing is asked has one child, whatever is guessed."""
    ahead, child = memory.ahead, memory.child
    places = person.start.size
    label = person.chain.label[slot_of(person, at)]
    cost, missed = label[places], 0.0
    for m in range(mistakes - cost + 1):
        for x in range(places):
            missed += ahead[expanded, m, x] * gains[at, mistakes - cost - m, x]
    for g in range(child.shape[1]):
        child[expanded, g] = 0.0
    if cost == 0:
        child[expanded, 0] = missed
        return find_best_child(memory, expanded, -1)
    for x in range(places):
        if ahead[expanded, mistakes, x] > 0.0:
            more = 0.0
            for m in range(mistakes + 1):
                less = ahead[expanded, m - cost, x] if m >= cost else 0.0
                more += (ahead[expanded, m, x] - less) * gains[at, mistakes - m, x]
            if child[expanded, label[x]] == 0.0:
                child[expanded, label[x]] = missed
            child[expanded, label[x]] += max(0.0, more)
    return find_best_child(memory, expanded, -1)


@inline
def complete(memory: SearchMemory, expanded: int, gains: Floats, step: int, mistakes: int) -> float:
    """The completion of each child of the last one, 0 for a guess that is never right; the largest."""
    ahead, child = memory.ahead, memory.child
    _, rows, width = ahead.shape
    here, there = expanded * rows * width, step * gains.shape[1] * width
    total = spread_out(0.0)
    for m in range(mistakes):
        for x in range(0, width, 8):
            more = load(gains, there + (mistakes - m - 1) * width + x)
            total = total + load(ahead, here + m * width + x) * more
    missed = spread_out(total_of(total))  # what is left if the guess is wrong at every place
    for x in range(0, width, 8):
        less = load(ahead, here + x)
        value = missed + less * load(gains, there + mistakes * width + x)
        for m in range(1, mistakes + 1):
            more = load(ahead, here + m * width + x)
            value = value + (more - less) * load(gains, there + (mistakes - m) * width + x)
            less = more
        store(where_positive(value, less, spread_out(0.0)), child, expanded * width + x)
    return find_best_child(memory, expanded, -1)


@inline
def _is_new(person: LocalChain, memory: SearchMemory, at: int, expanded: int, mistakes: int) -> bool:
    """Whether the last one may be worth more than those expanded; ``w`` of step ``at`` is filled then."""
    step, slot = memory.length[expanded], slot_of(person, at - 1)
    if is_labelled(person.chain):
        _look_ahead_of_label(memory, slot, step, expanded, mistakes)
        return not _is_dominated(memory, memory.ahead, 0, expanded, mistakes)
    is_new = not _is_dominated(memory, memory.prefix, memory.origin[expanded, 1], expanded, mistakes)
    if is_new and memory.full.is_there.size > 0:
        look_ahead(person.chain, memory, slot, step, expanded, mistakes)
    elif is_new:
        look_far_ahead(memory, slot, step, expanded, mistakes)
    return is_new


_MOST_ENTRIES = 1 << 22  # 32 MiB a table
_MOST_PRODUCTS = 1 << 22  # some milliseconds of one core, where more than one expansion a step is asked for
_MOST_FOR_ONE = 1 << 28


class Found(NamedTuple):
    """``attained <= max over guesses <= bound``, of masses: at most that of the law searched."""

    bound: float
    attained: float  # by the guess of :func:`found_guess`
    parent: int  # that guess but for its last step, as a number of expansion; -1: nothing can be won
    guess: int  # its last step


@bare_jit
def search(
    person: LocalChain,
    weight: Floats,
    law: Floats,
    first: int,
    last: int,
    gains: Floats,
    mistakes: int,
    expansions: int,
    slack: float,
    memory: SearchMemory,
) -> Found:
    """The best guess of the steps ``first..last``, at most ``mistakes`` of them wrong.

    ``law`` (K,) is the mass at each place in the first of them before its evidence ``weight[first]``;
    ``gains`` (T, s + 1, W) those of :func:`completion_gains` for what is won after the last. At most
    ``expansions`` prefixes are expanded, and at least one a step; the search ends once no open prefix is
    above the best whole guess by more than ``slack``. It begins with a dive to a whole guess, always to the
    child with the largest completion, unless even that completion is within the slack: so there is a guess
    to compare with before anything is opened. Of a chain with labels these are guessed, and mistakes are what
    wrong guesses cost. :class:`ValueError` for gains of another width.
    """
    if gains.shape[2] != memory.child.shape[1]:
        raise ValueError("gains must be those of new_gains, as wide as the memory")
    _begin_search(weight, law, first, last, mistakes, memory)
    expanded, open_count, is_diving = 0, 0, True
    attained, best_parent, best_guess = 0.0, -1, -1
    while True:
        step = memory.length[expanded]
        if expanded == 0 or _is_new(person, memory, first + step, expanded, mistakes):
            if is_labelled(person.chain):
                completion = _complete_labels(person, memory, expanded, gains, first + step, mistakes)
            else:
                completion = complete(memory, expanded, gains, first + step, mistakes)
            guess = memory.best[expanded]
            if expanded == 0 and completion <= slack:
                memory.spent[0] += 1
                return Found(completion, 0.0, -1, -1)
            is_last = first + step == last
            if is_last and completion > attained:
                attained, best_parent, best_guess = completion, expanded, guess
            if is_last and is_diving:
                is_diving = False
                open_count = open_passed(memory, expanded, attained)
            elif not is_last and not is_diving and completion > attained:
                open_one(memory, open_count, completion, expanded)
                open_count += 1
            expanded += 1
        parent = expanded - 1
        if not is_diving:
            is_enough = open_count == 0 or memory.completion[0] <= attained + slack
            if is_enough or expanded >= expansions:
                break
            parent = memory.parent[0]
            guess, open_count = take_child(memory, open_count, attained)
        _lengthen(person, memory, first, expanded, parent, guess, mistakes)
    memory.spent[0] += expanded
    bound = max(attained, memory.completion[0]) if open_count > 0 else attained
    return Found(bound, attained, best_parent, best_guess)


@bare_jit
def found_guess(memory: SearchMemory, found: Found, guesses: Integers) -> None:
    """Fill ``guesses`` (steps searched,) with the guess that attains what was found; 0s if nothing is won."""
    guesses[:] = 0
    expanded = found.parent
    if expanded >= 0:
        guesses[guesses.size - 1] = found.guess
        for t in range(guesses.size - 2, -1, -1):
            guesses[t] = memory.origin[expanded, 1]
            expanded = memory.origin[expanded, 0]


@jit
def affordable_expansions(chain: ChainView, steps: int, mistakes: int, most: int) -> int:
    """Expansions a step, up to ``most``, for a search of some milliseconds; 0 where one takes far longer."""
    slots, places = chain.start.shape
    entries = steps * (mistakes + 1) * places
    products = steps * (mistakes + 1) * (chain.value.size // slots + 2 * places)
    if products > _MOST_FOR_ONE or entries > _MOST_ENTRIES:
        return 0
    return int(max(1, min(most, _MOST_ENTRIES // entries, _MOST_PRODUCTS // products)))


@jit
def best_guess(person: LocalChain, weight: Floats, mistakes: int, vectors: int, guess: Integers) -> Found:
    """The search over a whole horizon with evidence ``weight`` (T, K); ``guess`` (T,) becomes the best one.

    ``vectors`` expansions for each step, at least 1.
    """
    steps, places = weight.shape
    gains = new_gains(steps, mistakes, places)
    completion_gains(person, weight, steps - 1, np.ones(places), new_completions(mistakes, places), gains)
    memory = new_memory(person.chain, vectors * steps, mistakes)
    found = search(person, weight, person.start, 0, steps - 1, gains, mistakes, vectors * steps, 0.0, memory)
    found_guess(memory, found, guess)
    return found
