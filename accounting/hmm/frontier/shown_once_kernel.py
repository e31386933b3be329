"""Tighter completions: what is left to win for an adversary who is shown the place once, and never again.

The genie of :mod:`~accounting.hmm.frontier.search_kernel` shows the place after every guess, which is worth a
lot where many guesses may be wrong. A genie who shows it once bounds every success too. Let ``V(t, m, x)``
bound what is won after step ``t`` from place ``x`` with ``m`` mistakes left, by guesses that see nothing
more. Then a law ``f`` of the place in step ``u`` wins, with fewer mistakes ``m`` than there are steps from
there on, at most

- ``sum_x f(x) V(u, m, x)``, if the place is shown now; or
- ``sum_t max_x f_t(x) V(t, m - (t - u), x)``, if it is shown at the first guess that is right: one has to be,
  the first is right in one step ``t`` only, after ``t - u`` wrong ones, and the place is then the guess.
  ``f_t`` is the law of step ``t`` with all evidence up to there.

From the last step to the first, each ``V(t, ., x)`` is the least of the genie's, the second line of the law
after a move from ``x``, and a search of that law whose completions are the ``V`` of later steps. Beyond Koga
et al.

For example two steps, each spent at place 0 with probability 1/4 and else elsewhere, one mistake allowed. The
first guess is the first right one with 1/4, and all is won; so is the second: 1/2 for a success of 7/16. Who
is at 0 in both steps is counted twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.hmm.frontier.search_kernel import SearchMemory, search
from accounting.hmm.propagation import predict
from models.numerics.arrays import Floats, Integers32
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import LocalChain, is_labelled, mistake_cost, slot_of

_SLACK = 5e-4  # of what is left to win: a search may end so early


class FirstRight(NamedTuple):
    """Scratch of :func:`first_right_bound`."""

    here: Floats  # (K,) law of a step
    ahead: Floats  # (K,) of the next one
    best: Floats  # (s + 1,) won if the first right guess is there
    total: Floats  # (s + 1,)


@jit
def new_first_right(places: int, mistakes: int) -> FirstRight:
    """Scratch for laws of so many places."""
    return FirstRight(np.empty(places), np.empty(places), np.empty(mistakes + 1), np.empty(mistakes + 1))


@inline
def _fill_best_label(
    label: Integers32, here: Floats, gains: Floats, t: int, wrong: int, best: Floats
) -> None:
    """Fill ``best`` with what is won if the first right guess is a label of step ``t``, after ``wrong``."""
    places = here.size
    for m in range(wrong, best.size if label[places] > 0 else 0):
        for g in range(places):
            won = 0.0
            for x in range(places):
                if label[x] == g and here[x] > 0.0:
                    value = 0.0
                    for j in range(m - wrong + 1):
                        value += gains[t, j, x]
                    won += here[x] * value
            best[m - wrong] = max(best[m - wrong], won)


@bare_jit
def first_right_bound(  # noqa: PLR0912 - one recursion over steps
    person: LocalChain,
    weight: Floats,
    law: Floats,
    first: int,
    last: int,
    gains: Floats,
    bound: Floats,
    work: FirstRight,
) -> None:
    """Lower ``bound[m]`` on what ``law`` wins with ``m`` mistakes: shown at the first guess that is right.

    ``law`` (K,) is that of step ``first`` before its evidence, ``last`` the last step guessed; ``gains`` (T,
    s + 1, W) what each mistake allowed adds to ``V``. Bounds for as many mistakes as there are steps stay.

    Of a chain with labels the first right guess is a label: ``sum_t max_g sum_(x: label(x) = g) f_t(x) V(t,
    m - what the steps u..t-1 cost, x)``, over the steps that are asked.
    """
    here, ahead, best, total = work
    by_label, cost = is_labelled(person.chain), 0
    places, rows = np.uint64(law.size), np.uint64(bound.size)  # unsigned: see propagation
    lowered = np.uint64(min(bound.size, mistake_cost(person, first, last)))
    for x in range(places):
        here[x] = law[x]
    for m in range(rows):
        total[m] = 0.0
    for t in range(first, last + 1):
        step, wrong, is_open = np.uint64(t), np.uint64(cost), False
        for m in range(rows):
            best[m] = 0.0
        if by_label:
            for x in range(places):
                here[x] *= weight[step, x]
            label = person.chain.label[slot_of(person, t)]
            _fill_best_label(label, here, gains, t, cost, best)
            cost += label[law.size]
        else:
            for x in range(places):
                here[x] *= weight[step, x]
                value = 0.0
                for m in range(rows):
                    value += gains[step, m, x]
                    best[m] = max(best[m], here[x] * value)
            cost += 1
        for m in range(wrong, rows):
            total[m] += best[m - wrong]
        for m in range(lowered):
            is_open |= total[m] < bound[m]
        if not is_open:  # totals only grow
            return
        if t < last:
            predict(person.chain, slot_of(person, t), here, ahead)
            here, ahead = ahead, here
    for m in range(lowered):
        bound[m] = min(bound[m], total[m])


class Lowering(NamedTuple):
    """Scratch of :func:`lower_completion`."""

    law: Floats  # (K,)
    here: Floats  # (K,), zeros
    value: Floats  # (s + 1,)
    first_right: FirstRight


@jit
def new_lowering(places: int, mistakes: int) -> Lowering:
    """Scratch for laws of so many places."""
    first_right = new_first_right(places, mistakes)
    return Lowering(np.empty(places), np.zeros(places), np.empty(mistakes + 1), first_right)


@bare_jit
def lower_completion(
    person: LocalChain,
    weight: Floats,
    possible: Floats,
    t: int,
    last: int,
    gains: Floats,
    expansions: int,
    memory: SearchMemory,
    work: Lowering,
) -> None:
    """Replace the genie's ``gains[t]`` (s + 1, W) by those of ``V``; later steps' are lowered already.

    ``weight`` (T, K) is the evidence behind ``t``; a place that is not ``possible`` (K,) in ``t`` has none
    to lower. ``expansions`` of each search, and at least one a step; 0 for none.
    """
    law, here, value = work.law, work.here, work.value
    mistakes, steps = value.size - 1, last - t
    # The genie's is the optimum where no mistake is left; not of labels, which may leave the state open.
    least = -1 if is_labelled(person.chain) else 0
    most_wrong = min(mistakes, mistake_cost(person, t + 1, last) - 1)
    for x in range(law.size):
        if possible[x] == 0.0:
            continue
        here[x] = 1.0
        predict(person.chain, slot_of(person, t), here, law)
        here[x] = 0.0
        won = 0.0
        for m in range(mistakes + 1):
            won += gains[t, m, x]
            value[m] = won
        if expansions == 0:
            first_right_bound(person, weight, law, t + 1, last, gains, value, work.first_right)
        for m in range(most_wrong, least, -1):
            if expansions > 0:
                most, slack = max(steps, expansions), _SLACK * value[m]
                found = search(person, weight, law, t + 1, last, gains, m, most, slack, memory)
                value[m] = min(value[m], found.bound)
            if m < mistakes:
                value[m] = min(value[m], value[m + 1])
        if expansions > 0:
            first_right_bound(person, weight, law, t + 1, last, gains, value, work.first_right)
        won = 0.0
        for m in range(mistakes + 1):
            gains[t, m, x] = max(0.0, value[m] - won)
            won = max(won, value[m])
