"""The frontier search: the best guess of places that may be wrong in ``s`` steps, by branch and bound.

For a prefix of guesses ``g_1..g_t`` let ``C_t[m, x]`` be the mass of the paths with ``X_t = x`` that at most
``m`` of them miss. With ``w[m] = (C_t[m] P) e``, ``e`` the evidence of the next step, the guess ``g`` makes

    C_(t+1)[m, x] = w[m, x] if x = g else w[m - 1, x]        (0 for m = 0),

and a whole guess succeeds with ``sum_x C_n[s, x]``. The *completion* of a prefix is what could still be won
behind it with a genie who shows the truth after every further guess (``completion_kernel``): never less than
any guess wins that begins so. The open prefix with the largest completion is expanded first, and each of its
children becomes open with its own completion. Whenever the search ends, the largest open completion, or the
best whole guess if that is more, bounds every guess; once no open one is above the best whole guess, that
is the optimum. A prefix whose ``C`` is nowhere above that of an expanded one of the same length is never
worth more, and is dropped. Best-first search (Hart, Nilsson and Raphael 1968) with that completion is
beyond Koga et al.

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
from models.priors.chain import ChainView

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
    """Memory of one search: the prefixes expanded, and a heap of the open ones."""

    prefix: NDArray[np.float64]  # (expansions, s + 1, K), C of those expanded
    ahead: NDArray[np.float64]  # (expansions, s + 1, K), w of the same
    length: NDArray[np.int64]  # (expansions,) guesses made
    origin: NDArray[np.int64]  # (expansions, 2), the prefix that was lengthened, and by which guess
    completion: NDArray[np.float64]  # (expansions * K,) of the open ones; a heap
    parent: NDArray[np.int64]  # (expansions * K,) by number of expansion
    guess: NDArray[np.int64]  # (expansions * K,) that follows the parent's
    child: NDArray[np.float64]  # (expansions, K), completions of each one's children
    spent: NDArray[np.int64]  # (1,), expansions of all searches so far


@jit
def new_room(expansions: int, mistakes: int, places: int) -> Room:
    """Memory for searches of up to so many expansions."""
    return Room(
        np.empty((expansions, mistakes + 1, places)),
        np.empty((expansions, mistakes + 1, places)),
        np.empty(expansions, np.int64),
        np.empty((expansions, 2), np.int64),
        np.empty(expansions * places),
        np.empty(expansions * places, np.int64),
        np.empty(expansions * places, np.int64),
        np.empty((expansions, places)),
        np.zeros(1, np.int64),
    )


@inline
def _open(room: Room, open_count: int, completion: float, parent: int, guess: int) -> None:
    """Put one more on the heap of ``open_count``."""
    i = open_count
    while i > 0 and room.completion[(i - 1) // 2] < completion:
        above = (i - 1) // 2
        room.completion[i], room.parent[i] = room.completion[above], room.parent[above]
        room.guess[i] = room.guess[above]
        i = above
    room.completion[i], room.parent[i], room.guess[i] = completion, parent, guess


@inline
def _open_children(room: Room, open_count: int, parent: int, attained: float) -> int:
    """Put the children that may win more than what is attained on the heap; how many it holds then."""
    child = room.child
    for guess in range(child.shape[1]):
        if child[parent, guess] > attained:
            _open(room, open_count, child[parent, guess], parent, guess)
            open_count += 1
    return open_count


@inline
def _take(room: Room, open_count: int) -> None:
    """Take the largest from the heap of ``open_count``."""
    last = open_count - 1
    completion, parent, guess = room.completion[last], room.parent[last], room.guess[last]
    i = 0
    while 2 * i + 1 < last:
        below = 2 * i + 1
        if below + 1 < last and room.completion[below + 1] > room.completion[below]:
            below += 1
        if room.completion[below] <= completion:
            break
        room.completion[i], room.parent[i] = room.completion[below], room.parent[below]
        room.guess[i] = room.guess[below]
        i = below
    room.completion[i], room.parent[i], room.guess[i] = completion, parent, guess


@inline
def _lengthen(room: Room, expanded: int, parent: int, guess: int, mistakes: int) -> None:
    """``C`` of the parent's guesses and this one more, as number ``expanded``."""
    prefix, ahead = room.prefix, room.ahead
    for m in range(mistakes + 1):
        for x in range(prefix.shape[2]):
            prefix[expanded, m, x] = ahead[parent, m - 1, x] if m > 0 else 0.0
        prefix[expanded, m, guess] = ahead[parent, m, guess]
    room.length[expanded] = room.length[parent] + 1
    room.origin[expanded, 0] = parent
    room.origin[expanded, 1] = guess


@inline
def _is_dominated(room: Room, expanded: int, mistakes: int) -> bool:
    """Whether the last one is nowhere above another of its length."""
    prefix, length = room.prefix, room.length
    is_dominated = False
    for other in range(expanded):
        if length[other] == length[expanded]:
            is_above = False
            for m in range(mistakes, -1, -1):
                for x in range(prefix.shape[2]):
                    is_above |= prefix[expanded, m, x] > prefix[other, m, x]
                if is_above:
                    break
            if not is_above:
                is_dominated = True
                break
    return is_dominated


@inline
def _look_ahead(
    chain: ChainView, slot: int, evidence: NDArray[np.float64], room: Room, expanded: int, mistakes: int
) -> None:
    """``w`` of the last one; with slot -1 nobody moves."""
    prefix, ahead = room.prefix, room.ahead
    column_start, row, value = chain.column_start, chain.row, chain.value
    for y in range(prefix.shape[2]):
        for m in range(mistakes + 1):
            mass = 0.0
            if slot < 0:
                mass = prefix[expanded, m, y]
            elif evidence[y] > 0.0:
                for j in range(np.uint64(column_start[slot, y]), np.uint64(column_start[slot, y + 1])):
                    mass += prefix[expanded, m, np.uint64(row[j])] * value[j]
            ahead[expanded, m, y] = mass * evidence[y]


@inline
def _complete(room: Room, expanded: int, gains: NDArray[np.float64], step: int, mistakes: int) -> int:
    """The completion of each child of the last one, 0 for a guess that is never right; the best guess."""
    ahead, child = room.ahead, room.child
    missed = 0.0  # what is left if the guess is wrong wherever the person is
    for m in range(1, mistakes + 1):
        for x in range(child.shape[1]):
            missed += ahead[expanded, m - 1, x] * gains[step, mistakes - m, x]
    best = 0
    for guess in range(child.shape[1]):
        completion = 0.0
        if ahead[expanded, mistakes, guess] > 0.0:
            completion = missed
            before = 0.0
            for m in range(mistakes + 1):
                completion += (ahead[expanded, m, guess] - before) * gains[step, mistakes - m, guess]
                before = ahead[expanded, m, guess]
        child[expanded, guess] = completion
        if completion > child[expanded, best]:
            best = guess
    return best


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
    for m in range(asked.mistakes + 1):
        for x in range(law.size):
            room.prefix[0, m, x] = law[x]
    room.length[0] = 0
    expanded, open_count, is_diving = 0, 0, True
    attained, best_parent, best_guess = 0.0, -1, -1
    while True:
        if not _is_dominated(room, expanded, asked.mistakes):
            step = first + room.length[expanded]
            slot = (first_slot + step - 1) % slots if step > first else -1
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
                for above in range(expanded):
                    room.child[above, room.origin[above + 1, 1]] = 0.0  # the dive went there
                    open_count = _open_children(room, open_count, above, attained)
            elif step < last and not is_diving:
                open_count = _open_children(room, open_count, expanded, attained)
            expanded += 1
            if is_diving:
                _lengthen(room, expanded, expanded - 1, guess, asked.mistakes)
                continue
        if open_count == 0 or room.completion[0] <= attained + asked.slack or expanded >= asked.expansions:
            break
        parent, guess = room.parent[0], room.guess[0]
        _take(room, open_count)
        open_count -= 1
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
    room = new_room(vectors * steps, mistakes, places)
    asked = Asked(mistakes, vectors * steps, 0.0)
    found = search(person, weight, person.start, (0, steps - 1), gains, asked, room)
    found_guess(room, found, guess)
    return found
