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

from accounting.hmm.frontier.completion_kernel import completion_gains, new_recursion
from accounting.hmm.local_chain_kernel import LocalChain
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView, Rows, rows_of

_0, _1 = np.uint64(0), np.uint64(1)
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
    """Memory of one search: the prefixes expanded, and a heap of those with children still open."""

    rows: Rows  # of the person's matrices
    prefix: NDArray[np.float64]  # (expansions, s + 1, K), C of those expanded
    ahead: NDArray[np.float64]  # (expansions, s + 1, K), w of the same
    moved: NDArray[np.float64]  # (expansions, s, K), w P e: what all children of one have in common
    is_moved: NDArray[np.bool_]  # (expansions,) whether that is there
    length: NDArray[np.int64]  # (expansions,) guesses made
    origin: NDArray[np.int64]  # (expansions, 2), the prefix that was lengthened, and by which guess
    alike: NDArray[np.int64]  # (expansions,) the one before of the same length and last guess; -1: none
    newest: NDArray[np.int64]  # (expansions + 1, K) the last one of each length and last guess; -1: none
    child: NDArray[np.float64]  # (expansions, K), completions of each one's children, 0 once taken
    completion: NDArray[np.float64]  # (expansions,) the largest of each parent's; a heap
    parent: NDArray[np.int64]  # (expansions,) by number of expansion
    spent: NDArray[np.int64]  # (1,), expansions of all searches so far


@jit
def new_room(chain: ChainView, expansions: int, mistakes: int) -> Room:
    """Memory for searches of up to so many expansions, of guesses at this chain's places."""
    places = chain.start.shape[1]
    return Room(
        rows_of(chain),
        np.empty((expansions, mistakes + 1, places)),
        np.empty((expansions, mistakes + 1, places)),
        np.empty((expansions, mistakes, places)),
        np.empty(expansions, np.bool_),
        np.empty(expansions, np.int64),
        np.empty((expansions, 2), np.int64),
        np.empty(expansions, np.int64),
        np.empty((expansions + 1, places), np.int64),
        np.empty((expansions, places)),
        np.empty(expansions),
        np.empty(expansions, np.int64),
        np.zeros(1, np.int64),
    )


@inline
def _best_child(room: Room, parent: int) -> int:
    """Which child may win most; ties at the lowest place."""
    child, best = room.child, 0
    for guess in range(child.shape[1]):
        if child[parent, guess] > child[parent, best]:
            best = guess
    return best


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
        room.child[above, room.origin[above + 1, 1]] = 0.0  # the dive went there
        completion = room.child[above, _best_child(room, above)]
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
    guess = _best_child(room, parent)
    room.child[parent, guess] = 0.0
    following = room.child[parent, _best_child(room, parent)]
    if following > attained:
        _replace_largest(room, open_count, following, parent)
    else:
        open_count -= 1
        if open_count > 0:
            _replace_largest(room, open_count, room.completion[open_count], room.parent[open_count])
    return guess, open_count


@inline
def _lengthen(room: Room, expanded: int, parent: int, guess: int, mistakes: int) -> None:
    """``C`` of the parent's guesses and this one more, as number ``expanded``."""
    prefix, ahead = room.prefix, room.ahead
    here, before, right = np.uint64(expanded), np.uint64(parent), np.uint64(guess)
    for x in range(np.uint64(prefix.shape[2])):
        prefix[here, _0, x] = 0.0
    for m in range(np.uint64(mistakes)):
        for x in range(np.uint64(prefix.shape[2])):
            prefix[here, m + _1, x] = ahead[before, m, x]
        prefix[here, m, right] = ahead[before, m, right]
    prefix[here, np.uint64(mistakes), right] = ahead[before, np.uint64(mistakes), right]
    room.length[here] = room.length[before] + 1
    room.origin[here, 0] = parent
    room.origin[here, 1] = guess


@inline
def _is_dominated(room: Room, expanded: int, mistakes: int) -> bool:
    """Whether the last one is nowhere above another of its length and last guess.

    If not, it is known as one of these. Behind another last guess somebody who makes no mistake is nowhere.
    """
    prefix, alike, newest = room.prefix, room.alike, room.newest
    here, length = np.uint64(expanded), np.uint64(room.length[expanded])
    guess = np.uint64(room.origin[expanded, 1])
    other, is_dominated = newest[length, guess], False
    while other >= 0 and not is_dominated:
        there, is_dominated = np.uint64(other), True
        for m in range(np.uint64(mistakes + 1)):
            is_above = prefix[here, m, guess] > prefix[there, m, guess]
            for x in range(np.uint64(prefix.shape[2])):
                is_above |= prefix[here, m, x] > prefix[there, m, x]
            if is_above:
                is_dominated = False
                break
        other = alike[there]
    if not is_dominated:
        alike[here] = newest[length, guess]
        newest[length, guess] = expanded
        room.is_moved[here] = False
    return is_dominated


@inline
def _look_ahead(
    chain: ChainView, slot: int, evidence: NDArray[np.float64], room: Room, expanded: int, mistakes: int
) -> None:
    """``w`` of the last one, ``C P e``.

    But for the place of its guess, ``C[m]`` is the parent's ``w[m - 1]``, whose move all children share; a
    row of ``P`` adds the rest.
    """
    ahead, moved, rows = room.ahead, room.moved, room.rows
    here, parent = np.uint64(expanded), np.uint64(room.origin[expanded, 0])
    guess, size, k = np.uint64(room.origin[expanded, 1]), np.uint64(ahead.shape[2]), np.uint64(slot)
    if not room.is_moved[parent]:
        room.is_moved[parent] = True
        column_start, row, value = chain.column_start, chain.row, chain.value
        for y in range(size):
            first, last = np.uint64(column_start[k, y]), np.uint64(column_start[k, y + _1])
            for m in range(np.uint64(mistakes)):
                mass = 0.0
                if evidence[y] > 0.0:
                    for j in range(first, last):
                        mass += ahead[parent, m, np.uint64(row[j])] * value[j]
                moved[parent, m, y] = mass * evidence[y]
    for x in range(size):
        ahead[here, _0, x] = 0.0
    for m in range(np.uint64(mistakes)):
        for x in range(size):
            ahead[here, m + _1, x] = moved[parent, m, x]
    less = 0.0
    for m in range(np.uint64(mistakes + 1)):
        more = ahead[parent, m, guess] - less
        less = ahead[parent, m, guess]
        for j in range(np.uint64(rows.start[k, guess]), np.uint64(rows.start[k, guess + _1])):
            z = np.uint64(rows.column[j])
            ahead[here, m, z] += more * rows.value[j] * evidence[z]


@inline
def _look_at_first(
    law: NDArray[np.float64], evidence: NDArray[np.float64], room: Room, mistakes: int
) -> None:
    """``w`` of no guess: nobody has moved."""
    for m in range(np.uint64(mistakes + 1)):
        for x in range(np.uint64(law.size)):
            room.ahead[_0, m, x] = law[x] * evidence[x]
    room.length[_0] = 0
    room.is_moved[_0] = False


@inline
def _complete(room: Room, expanded: int, gains: NDArray[np.float64], step: int, mistakes: int) -> int:
    """The completion of each child of the last one, 0 for a guess that is never right; the best guess."""
    ahead, child = room.ahead, room.child
    here, t, most = np.uint64(expanded), np.uint64(step), np.uint64(mistakes)
    size = np.uint64(child.shape[1])
    missed = 0.0  # what is left if the guess is wrong wherever the person is
    for m in range(most):
        for x in range(size):
            missed += ahead[here, m, x] * gains[t, most - m - _1, x]
    for guess in range(size):
        child[here, guess] = missed + ahead[here, _0, guess] * gains[t, most, guess]
    for m in range(_1, most + _1):
        for guess in range(size):
            more = ahead[here, m, guess] - ahead[here, m - _1, guess]
            child[here, guess] += more * gains[t, most - m, guess]
    for guess in range(size):
        if ahead[here, most, guess] == 0.0:
            child[here, guess] = 0.0
    return _best_child(room, expanded)


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
    ``gains`` (T, s + 1, K) those of :func:`completion_gains` for what is won after the last. The search
    begins with a dive to a whole guess, always to the child with the largest completion, unless even that
    completion is within the slack.
    """
    first, last = steps
    chain, first_slot, slots = person.chain, person.first_slot, person.chain.start.shape[0]
    for length in range(last - first + 1):
        for x in range(law.size):
            room.newest[length, x] = -1
    _look_at_first(law, weight[first], room, asked.mistakes)
    expanded, open_count, is_diving = 0, 0, True
    attained, best_parent, best_guess = 0.0, -1, -1
    while True:
        if expanded == 0 or not _is_dominated(room, expanded, asked.mistakes):
            step = first + room.length[expanded]
            if expanded > 0:
                slot = (first_slot + step - 1) % slots
                _look_ahead(chain, slot, weight[step], room, expanded, asked.mistakes)
            guess = _complete(room, expanded, gains, step, asked.mistakes)
            completion = room.child[expanded, guess]
            if expanded == 0 and completion <= asked.slack:
                room.spent[0] += 1
                return Found(completion, 0.0, -1, -1)
            if step == last and completion > attained:
                attained, best_parent, best_guess = completion, expanded, guess
            if step == last and is_diving:
                is_diving = False
                open_count = _open_passed(room, expanded, attained)
            elif step < last and not is_diving and completion > attained:
                _open(room, open_count, completion, expanded)
                open_count += 1
            expanded += 1
            if is_diving:
                _lengthen(room, expanded, expanded - 1, guess, asked.mistakes)
                continue
        if open_count == 0 or room.completion[0] <= attained + asked.slack or expanded >= asked.expansions:
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
    gains = np.empty((steps, mistakes + 1, places))
    completion_gains(person, weight, steps - 1, np.ones(places), new_recursion(mistakes, places), gains)
    room = new_room(person.chain, vectors * steps, mistakes)
    asked = Asked(mistakes, vectors * steps, 0.0)
    found = search(person, weight, person.start, (0, steps - 1), gains, asked, room)
    found_guess(room, found, guess)
    return found
