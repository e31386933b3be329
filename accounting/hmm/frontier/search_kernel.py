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

from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from accounting.hmm.propagation import dot, predict
from models.numerics.jit import inline, jit


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
    child: NDArray[np.float64]  # (K,) completions of one's children


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
        np.empty(places),
    )


@jit
def room_for(room: Room, mistakes: int) -> Room:
    """The same memory for a search that allows fewer mistakes."""
    expansions, rows, places = room.prefix.shape
    if rows == mistakes + 1:
        return room
    shape = (expansions, mistakes + 1, places)
    size = expansions * (mistakes + 1) * places
    return Room(
        room.prefix.reshape(-1)[:size].reshape(shape),
        room.ahead.reshape(-1)[:size].reshape(shape),
        room.length,
        room.origin,
        room.completion,
        room.parent,
        room.guess,
        room.child,
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
def _lengthen(room: Room, expanded: int, parent: int, guess: int) -> None:
    """``C`` of the parent's guesses and this one more, as number ``expanded``."""
    prefix, ahead = room.prefix[expanded], room.ahead[parent]
    for m in range(prefix.shape[0]):
        for x in range(prefix.shape[1]):
            prefix[m, x] = ahead[m - 1, x] if m > 0 else 0.0
        prefix[m, guess] = ahead[m, guess]
    room.length[expanded] = room.length[parent] + 1
    room.origin[expanded, 0], room.origin[expanded, 1] = parent, guess


@inline
def _is_dominated(room: Room, expanded: int, mistakes: int) -> bool:
    """Whether the last one is nowhere above another of its length."""
    length, places = room.length[expanded], room.prefix.shape[2]
    for other in range(expanded - 1, -1, -1):
        if room.length[other] == length:
            is_above = False
            for m in range(mistakes, -1, -1):
                for x in range(places):
                    if room.prefix[expanded, m, x] > room.prefix[other, m, x]:
                        is_above = True
                        break
                if is_above:
                    break
            if not is_above:
                return True
    return False


@inline
def _look_ahead(
    person: LocalChain, weight: NDArray[np.float64], step: int, is_first: bool, room: Room, expanded: int
) -> None:
    """``w`` of the last one at ``step``; before the first step nobody moves."""
    prefix, ahead = room.prefix[expanded], room.ahead[expanded]
    for m in range(prefix.shape[0]):
        if is_first:
            for x in range(prefix.shape[1]):
                ahead[m, x] = prefix[m, x]
        else:
            predict(person.chain, slot_of(person, step - 1), prefix[m], ahead[m])
        for x in range(prefix.shape[1]):
            ahead[m, x] *= weight[step, x]


@inline
def _complete(room: Room, expanded: int, gains: NDArray[np.float64], mistakes: int) -> int:
    """The completion of each child of the last one, 0 for a guess that is never right; the best guess."""
    ahead = room.ahead[expanded]
    missed = 0.0  # what is left if the guess is wrong wherever the person is
    for m in range(1, mistakes + 1):
        missed += dot(ahead[m - 1], gains[mistakes - m])
    best = 0
    for guess in range(ahead.shape[1]):
        completion = 0.0
        if ahead[mistakes, guess] > 0.0:
            completion = missed + ahead[0, guess] * gains[mistakes, guess]
            for m in range(1, mistakes + 1):
                completion += (ahead[m, guess] - ahead[m - 1, guess]) * gains[mistakes - m, guess]
        room.child[guess] = completion
        if completion > room.child[best]:
            best = guess
    return best


@jit
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
    begins with a dive to a whole guess, always to the child with the largest completion.
    """
    first, last = steps
    room.prefix[0, :] = law
    room.length[0] = 0
    expanded, open_count, is_diving = 0, 0, True
    attained, best_parent, best_guess = 0.0, -1, -1
    while True:
        if not _is_dominated(room, expanded, asked.mistakes):
            step = first + room.length[expanded]
            _look_ahead(person, weight, step, step == first, room, expanded)
            guess = _complete(room, expanded, gains[step], asked.mistakes)
            if room.child[guess] == 0.0 and is_diving:
                break  # nothing can be won
            if step == last:
                is_diving = False
                if room.child[guess] > attained:
                    attained, best_parent, best_guess = room.child[guess], expanded, guess
            for child in range(law.size):
                is_followed = is_diving and child == guess
                if step < last and room.child[child] > attained and not is_followed:
                    _open(room, open_count, room.child[child], expanded, child)
                    open_count += 1
            expanded += 1
            if is_diving:
                _lengthen(room, expanded, expanded - 1, guess)
                continue
        if open_count == 0 or room.completion[0] <= attained + asked.slack or expanded >= asked.expansions:
            break
        parent, guess = room.parent[0], room.guess[0]
        _take(room, open_count)
        open_count -= 1
        _lengthen(room, expanded, parent, guess)
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
