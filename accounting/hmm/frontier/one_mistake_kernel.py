"""The frontier search where one guess may be wrong, and nothing but the prior is known.

It is that of :mod:`accounting.hmm.frontier.search_kernel` with two numbers a prefix instead of vectors. Let
``y`` be the last guess of a prefix, ``x`` the one before, ``a`` the chance that all guesses up to ``x`` are
right, and ``b`` that one up to ``x`` was wrong and ``y`` is right. After one more guess ``v`` these are

    a' = a P(x, y)      and      b' = b P(y, v) + a (P^2(x, v) - P(x, y) P(y, v)),

since who was wrong at ``y`` went from ``x`` to ``v`` by any other place. A whole guess succeeds with ``a' +
b'``. The completion is tighter, too: the genie shows a step late whether a guess was right, so the guess
behind a wrong one is made without knowing. With ``R(t, v)`` the largest chance of a path on from ``v``, what
``a`` and ``b`` can still win are ``U(t, x, y)`` and ``R(t, y)`` a unit:

    U(t, x, y) = max_v P(x, y) U(t + 1, y, v) + (P^2(x, v) - P(x, y) P(y, v)) R(t + 1, v).

No guess wins more behind the prefix than ``a U + b R``: whatever follows is one sequence of guesses, and
``U`` and ``R`` each take the one that is best for them. By induction on what is left: of ``a`` the part that
is right at ``y`` goes on as ``a'``, the part that is wrong there must be at ``v`` and then right for ever.

For example two places, each left with probability 1/4, from place 0, three steps. The guess 0, 0, 0 has
``a = 3/4`` and ``b = 0`` before its last step, whose mass is ``b' = 10/16 - 9/16 = 1/16`` at place 0: it
succeeds with 13/16. Of 0, 0, 1, ``b' = 6/16 - 3/16``: 15/16, the optimum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from accounting.hmm.eight import larger_of, largest, load, padded, spread_out, store
from accounting.hmm.frontier.few_exits_kernel import (
    FewExits,
    exits_counted,
    few_exits,
    fill_few,
    lay_out_few,
    unfold,
)
from accounting.hmm.frontier.late_genie_kernel import fill_row
from accounting.hmm.frontier.search_kernel import (
    Found,
    find_best_child,
    found_guess,
    open_one,
    open_passed,
    take_child,
)
from models.numerics.arrays import Floats, Integers
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView, LocalChain, slot_of

_MOST_ENTRIES = 1 << 21  # 16 MiB of completions
_MOST_PRODUCTS = 1 << 26  # some tens of milliseconds of one core
_EXPANSIONS = 64  # a step, at most, and
_LEAST_EXPANSIONS = 640  # of all steps, at least


class _Moves(NamedTuple):
    """Laws of the next place in rows of ``W``: K in whole eights, zero beyond the places.

    The row of place ``x`` in step ``t`` is number ``t mod C * K + x``, as a horizon needs them; the last of
    ``two`` is the law of the second place.
    """

    law: Floats  # (W,), of the first place
    one: Floats  # (rows, W), of the move out of each step
    two: Floats  # (rows + 1, W), of that and the next


class _Left(NamedTuple):
    """What can still be won a unit of ``b`` and of ``a``; row 0 of ``late`` is that of each first guess."""

    rest: Floats  # (T, W), R
    late: Floats  # (T K, W), U, in row ``t K + x``; with few exits only where looked at


class _Prefixes(NamedTuple):
    """The prefixes expanded; all but the first two as in ``SearchMemory``."""

    right: Floats  # (expansions, 2): a before the last guess, and with it
    wrong: Floats  # (expansions,) b
    length: Integers
    origin: Integers
    alike: Integers
    newest: Integers
    child: Floats
    best: Integers
    completion: Floats
    parent: Integers


@jit
def one_mistake_affordable(chain: ChainView, steps: int) -> bool:
    """Whether the search takes some tens of milliseconds at most."""
    slots, places = chain.start.shape
    width = padded(places)
    products = (steps + 1) * (chain.value.size // slots) * width
    return steps * places * width <= _MOST_ENTRIES and products <= _MOST_PRODUCTS


@inline
def _row(person: LocalChain, step: int, place: int) -> int:
    slots, places = person.chain.start.shape
    return step % slots * places + place


@inline
def _add_row(factor: float, rows: Floats, row: int, sums: Floats, to: int) -> None:
    """``sums[to] += factor rows[row]``."""
    width = rows.shape[1]
    for v in range(0, width, 8):
        more = spread_out(factor) * load(rows, row * width + v)
        store(load(sums, to * width + v) + more, sums, to * width + v)


@bare_jit
def _lay_out(person: LocalChain, steps: int, moves: _Moves) -> None:
    """Fill in the moves of the horizon, which are zero so far, but for two out of a step."""
    chain = person.chain
    slots, places = chain.start.shape
    for t in range(min(slots, steps)):
        slot = slot_of(person, t)
        for y in range(places):
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                moves.one[_row(person, t, chain.row[j]), y] = chain.value[j]
    for x in range(places):
        moves.law[x] = person.start[x]
        _add_row(person.start[x], moves.one, _row(person, 0, x), moves.two, moves.two.shape[0] - 1)


@bare_jit
def _lay_out_two(person: LocalChain, steps: int, moves: _Moves) -> None:
    """Fill in two moves out of each step."""
    chain = person.chain
    slots, places = chain.start.shape
    for t in range(min(slots, steps - 1)):
        slot = slot_of(person, t)
        for y in range(places):
            after = _row(person, t + 1, y)
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                _add_row(chain.value[j], moves.one, after, moves.two, _row(person, t, chain.row[j]))


@inline
def _largest_product(rows: Floats, row: int, left: _Left, t: int) -> float:
    """The largest product of ``rows[row]`` and ``R`` of step ``t``."""
    top, width = spread_out(0.0), rows.shape[1]
    for v in range(0, width, 8):
        top = larger_of(top, load(rows, row * width + v) * load(left.rest, t * width + v))
    return largest(top)


@inline
def _late(moves: _Moves, left: _Left, chance: float, two: int, one: int, t: int, y: int) -> float:
    """``U`` of step ``t - 1``, whose guess ``y`` is right by ``chance``; rows of the laws around it."""
    top, width, late = spread_out(0.0), moves.one.shape[1], left.late.shape[0] // left.rest.shape[0] * t + y
    for v in range(0, width, 8):
        wrong = load(moves.two, two * width + v) - spread_out(chance) * load(moves.one, one * width + v)
        right = spread_out(chance) * load(left.late, late * width + v)
        top = larger_of(top, right + wrong * load(left.rest, t * width + v))
    return largest(top)


@bare_jit
def _fill_left(person: LocalChain, moves: _Moves, left: _Left) -> None:
    """Fill in what can be won behind the first step, from the last back; ``left.rest`` is zero so far."""
    chain, places, steps = person.chain, person.start.size, left.rest.shape[0]
    for x in range(places):
        left.rest[steps - 1, x] = 1.0
        fill_row(left.late, (steps - 1) * places + x, places, 1.0)
    for t in range(steps - 1, 1, -1):
        slot = slot_of(person, t - 2)
        for x in range(places):
            left.rest[t - 1, x] = _largest_product(moves.one, _row(person, t - 1, x), left, t)
            never_right = _largest_product(moves.two, _row(person, t - 2, x), left, t)
            fill_row(left.late, (t - 1) * places + x, places, never_right)
        for y in range(places):
            one = _row(person, t - 1, y)
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                two = _row(person, t - 2, chain.row[j])
                value = _late(moves, left, chain.value[j], two, one, t, y)
                left.late[(t - 1) * places + chain.row[j], y] = value


@bare_jit
def _fill_first(person: LocalChain, moves: _Moves, left: _Left) -> None:
    """Fill in what each first guess can win."""
    fill_row(left.late, 0, person.start.size, 0.0)
    for y in range(person.start.size):
        last, one = moves.two.shape[0] - 1, _row(person, 0, y)
        left.late[0, y] = _late(moves, left, moves.law[y], last, one, 1, y)


@inline
def _two_moves(person: LocalChain, moves: _Moves, found: _Prefixes, number: int) -> int:
    """The row of ``moves.two`` for the place after the last guess, where the guess before that was right."""
    length = found.length[number]
    if length < 2:
        return moves.two.shape[0] - 1
    return _row(person, length - 2, found.origin[found.origin[number, 0], 1])


@inline
def _lengthen(
    person: LocalChain, moves: _Moves, found: _Prefixes, number: int, parent: int, guess: int
) -> None:
    """The parent's guesses and this one more, as number ``number``."""
    length, last = found.length[parent], found.origin[parent, 1]
    found.length[number] = length + 1
    found.origin[number, 0] = parent
    found.origin[number, 1] = guess
    if length == 0:
        found.right[number, 0] = 1.0
        found.right[number, 1] = moves.law[guess]
        found.wrong[number] = 0.0
    else:
        before, right = found.right[parent, 0], found.right[parent, 1]
        step = moves.one[_row(person, length - 1, last), guess]
        two = moves.two[_two_moves(person, moves, found, parent), guess]
        found.right[number, 0] = right
        found.right[number, 1] = right * step
        found.wrong[number] = max(0.0, found.wrong[parent] * step + (before * two - right * step))


@inline
def _is_new(found: _Prefixes, number: int) -> bool:
    """Whether nothing with the same last two guesses was expanded that is worth as much or more."""
    length, guess = found.length[number], found.origin[number, 1]
    before, other = found.origin[found.origin[number, 0], 1], found.newest[length, guess]
    while other >= 0:
        is_alike = found.origin[found.origin[other, 0], 1] == before
        is_more = found.right[other, 0] >= found.right[number, 0]
        if is_alike and is_more and found.wrong[other] >= found.wrong[number]:
            return False
        other = found.alike[other]
    found.alike[number] = found.newest[length, guess]
    found.newest[length, guess] = number
    return True


@inline
def _complete(
    person: LocalChain, moves: _Moves, left: _Left, few: FewExits | None, found: Any, number: int
) -> float:
    """The completion of each child of the last one, and the largest."""
    length, last, width = found.length[number], found.origin[number, 1], moves.one.shape[1]
    late, child = length * person.start.size + last, number * width
    if length == 0:
        for v in range(0, width, 8):
            store(load(left.late, v), found.child, v)
        return find_best_child(found, number, -1)
    if few is not None:
        unfold(person, few, length, last, left.late)
    before, right = spread_out(found.right[number, 0]), spread_out(found.right[number, 1])
    one, two = _row(person, length - 1, last) * width, _two_moves(person, moves, found, number) * width
    wrong = spread_out(found.wrong[number])
    for v in range(0, width, 8):
        step = load(moves.one, one + v)
        more = larger_of(wrong * step + (before * load(moves.two, two + v) - right * step), spread_out(0.0))
        value = right * load(left.late, late * width + v) + more * load(left.rest, length * width + v)
        store(value, found.child, child + v)
    return find_best_child(found, number, -1)


@bare_jit
def _search(person: LocalChain, moves: _Moves, left: _Left, few: FewExits | None, found: Any) -> Found:
    """As :func:`accounting.hmm.frontier.search_kernel.search`: first a dive, then the largest completion."""
    expansions, steps = found.wrong.size, left.rest.shape[0]
    found.length[0] = 0
    found.origin[0, 0] = found.origin[0, 1] = 0
    expanded, open_count, is_diving = 0, 0, True
    attained, best_parent, best_guess = 0.0, -1, -1
    while True:
        if expanded == 0 or _is_new(found, expanded):
            completion = _complete(person, moves, left, few, found, expanded)
            guess = found.best[expanded]
            is_last = found.length[expanded] == steps - 1
            if is_last and completion > attained:
                attained, best_parent, best_guess = completion, expanded, guess
            if is_last and is_diving:
                is_diving = False
                open_count = open_passed(found, expanded, attained)
            elif not is_last and not is_diving and completion > attained:
                open_one(found, open_count, completion, expanded)
                open_count += 1
            expanded += 1
        parent = expanded - 1
        if not is_diving:
            is_proved = open_count == 0 or found.completion[0] <= attained
            if is_proved or expanded >= expansions:
                break
            parent = found.parent[0]
            guess, open_count = take_child(found, open_count, attained)
        _lengthen(person, moves, found, expanded, parent, guess)
    bound = max(attained, found.completion[0]) if open_count > 0 else attained
    return Found(bound, attained, best_parent, best_guess)


@jit
def best_but_for_one(person: LocalChain, guess: Integers) -> Found:
    """The best ``guess`` (T,), T > 1, of which at most one step may be wrong, by the prior of places alone.

    ``attained <= max over guesses <= bound``, up to rounding; they are equal unless the search ran too long.
    """
    steps, (slots, places) = guess.size, person.chain.start.shape
    width, rows = padded(places), min(slots, steps) * places
    expansions = max(_EXPANSIONS * steps, _LEAST_EXPANSIONS)
    # Two allocations: each takes as long as looking at several prefixes.
    numbers = np.empty((2 * rows + 2 + steps * (places + 1) + expansions) * width + 4 * expansions)
    whole = np.empty(6 * expansions + steps * places, np.int64)
    zeros = (2 * rows + 2 + steps) * width
    late, child = zeros + steps * places * width, zeros + (steps * places + expansions) * width
    numbers[:zeros] = 0.0
    whole[6 * expansions :] = -1
    moves = _Moves(
        numbers[:width],
        numbers[width : (rows + 1) * width].reshape(rows, width),
        numbers[(rows + 1) * width : (2 * rows + 2) * width].reshape(rows + 1, width),
    )
    left = _Left(
        numbers[(2 * rows + 2) * width : zeros].reshape(steps, width),
        numbers[zeros:late].reshape(steps * places, width),
    )
    found: Any = _Prefixes(
        numbers[child : child + 2 * expansions].reshape(expansions, 2),
        numbers[child + 2 * expansions : child + 3 * expansions],
        whole[:expansions],
        whole[expansions : 3 * expansions].reshape(expansions, 2),
        whole[3 * expansions : 4 * expansions],
        whole[6 * expansions :].reshape(steps, places),
        numbers[late:child].reshape(expansions, width),
        whole[4 * expansions : 5 * expansions],
        numbers[child + 3 * expansions :],
        whole[5 * expansions : 6 * expansions],
    )
    _lay_out(person, steps, moves)
    count = exits_counted(person.chain)
    if count.size > 0:
        few = few_exits(count, steps)
        lay_out_few(person, steps, moves.one, moves.two, few)
        fill_few(person, few, left.rest)
        for y in range(places):
            unfold(person, few, 1, y, left.late)
        _fill_first(person, moves, left)
        best = _search(person, moves, left, few, found)
    else:
        _lay_out_two(person, steps, moves)
        _fill_left(person, moves, left)
        _fill_first(person, moves, left)
        best = _search(person, moves, left, None, found)
    found_guess(found, best, guess)
    return best
