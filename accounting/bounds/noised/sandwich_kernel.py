"""The sandwich bound: what can be won behind noised counts, with as many of their values as it takes.

A count of a sensor multiplies the evidence of a path by a *ray*, ``2 (1 - theta)`` where the path is not
counted and ``2 theta`` where it is, ``theta = P1 / (P0 + P1)``; the value comes with weight ``w = (P0 + P1) /
2``. What can be won with evidence ``E`` and the sensors that are not resolved yet, ``V(E)``, is a maximum of
sums that are linear in ``E`` with coefficients of at least 0, so

    E <= sum_k l_k E_k, l_k >= 0   =>   V(E) <= sum_k l_k V(E_k),                                        (1)

and ``phi(theta) = V(E ray(theta))`` is convex. Of one sensor some values are *kept*, the outermost among
them; between two kept ones ``phi`` lies below the chord, and above what the best guess of either wins. So a
tree is grown. A node is a sequence of values of some sensors; resolving one more sensor gives it children,
one for each kept value. Behind a leaf the sensors left are bounded without a look at their values: with
``delta`` a sensor's total variation and ``b`` the indicator of the places that it counts, or of all others,

    V(E) <= V'(E) + delta V'(b E)                                                                        (2)

where ``V'`` has one sensor less, for ``ray(theta) <= min(1, ray(theta)) + b max(0, 2 theta - 1)``. All
sensors together: either nothing is shown, or somebody on the ``b`` side is, and a genie shows the place as
well, whence the person begins anew (:func:`_bound_by_showing`). What is gained by a closer look is known of
every leaf and of every chord; the largest gain, weighed with how often it comes, is looked at next. Beyond
Koga et al.

For example one step at place 0 or 1 with probability 1/2 each, and a sensor at 1 whose noise gives ``theta``
1/4 or 3/4, so ``delta`` is 1/2. The leaf: 1/2 is won without a look, and 1/2 * 1/2 more as the person is
shown at place 1: 3/4. Resolved, ``phi(1/4) = phi(3/4) = 3/4``, which is the bound and won. A third value at
1/2 would be put at 3/4 by the chord; its ``phi`` is 1/2, and the gap decides whether it is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.frontier.search_kernel import (
    Completions,
    SearchMemory,
    found_guess,
    gains_of,
    guess_and_be_shown,
    new_completions,
    new_gains,
    new_memory,
    search,
)
from accounting.hmm.propagation import predict, retreat
from models.numerics.jit import jit
from models.priors.chain import LocalChain, slot_of

_BEYOND, _BEYOND_FLAT = 0.05, 0.01  # weight beyond the first values that are kept; the same of much noise
_FLAT = 0.25  # total variation below which noise is much
_LIGHT = 0.01  # share of what a leaf may be off by that a place is charged in full for
_SLACK = 0.25  # share of a leaf's gap that its search may leave
_CLOSER = 0.6  # of its gap: how far one law's tree is grown before all laws are looked at again
_CORNER = 0.7  # won of what is bounded by completions, a guess
_SOON = 5.0  # how much rather one more law is bounded itself than a tree grown
_POINTS = 24  # laws that are bounded themselves, corners among them
_ROUNDING = 1e-12  # sums of thousands of products, each rounded
_FIRST_CHILDREN = 4  # of a node, at most


class OwnSignals(NamedTuple):
    """The sensor-steps that can count one person.

    Outputs of one are sorted by ``theta``, no two alike; beyond ``size`` there is nothing.
    """

    time: NDArray[np.int64]  # (G,)
    cover: NDArray[np.bool_]  # (G, K), the own places it counts at
    size: NDArray[np.int64]  # (G,), outputs
    weight: NDArray[np.float64]  # (G, O), their sum is at most 1
    theta: NDArray[np.float64]  # (G, O)
    distance: NDArray[np.float64]  # (G,), total variation between counted and not counted


class Window(NamedTuple):
    """What is asked: a person's steps, what comes behind them, and how hard to look."""

    person: LocalChain  # its start is not read
    steps: int
    end: NDArray[np.float64]  # (K,), likelihood of what is seen after the last step
    mistakes: int
    expansions: int  # of one search, at least one a step
    operations: float  # products after which no more is looked at


class _Tree(NamedTuple):
    """Nodes of the trees of all laws of the first place, in order of their creation, and memory."""

    parent: NDArray[np.int64]  # (N,), -1: a root
    root: NDArray[np.int64]  # (N,), number of the law
    output: NDArray[np.int64]  # (N,), of the parent's sensor
    sensor: NDArray[np.int64]  # (N,), that is resolved behind it; -1: a leaf
    next_sensor: NDArray[np.int64]  # (N,), which of those left costs a leaf most; -1: none
    chance: NDArray[np.float64]  # (N,), that this one counts the person
    child: NDArray[np.int64]  # (N,), the first; in order of theta
    sibling: NDArray[np.int64]  # (N,), the next one
    share: NDArray[np.float64]  # (N,), weight of the output and its part of those between
    bound: NDArray[np.float64]  # (N,)
    unshown: NDArray[np.float64]  # (N,), bound on what is won behind a leaf where nobody is shown
    charge: NDArray[np.float64]  # (N,), and on what is where somebody is
    won: NDArray[np.float64]  # (N,), an estimate of what is attained; it only steers
    part: NDArray[np.float64]  # (N, G + K), of that on paths that each sensor counts, and from each place on
    gain: NDArray[np.float64]  # (N,), the most that one more look behind it may gain
    excess: NDArray[np.float64]  # (N,), the same by one more output of its own sensor
    wanted: NDArray[np.int64]  # (N,), which
    is_searched: NDArray[np.bool_]  # (N,)
    guess: NDArray[np.int64]  # (N, T)
    nodes: NDArray[np.int64]  # (1,), how many there are
    newest: NDArray[np.int64]  # (1,), node with the guess of the last search
    spent: NDArray[np.float64]  # (1,), products
    law: NDArray[np.float64]  # (P, K), of the first place
    evidence: NDArray[np.float64]  # (T, K), of the leaf that is looked at
    is_resolved: NDArray[np.bool_]  # (G,)
    is_rare: NDArray[np.bool_]  # (G, K), the side of each sensor that is shown
    cost: NDArray[np.float64]  # (G,), of each sensor that is left
    shown: NDArray[np.float64]  # (T, K), how likely a place is shown
    success: NDArray[np.float64]  # (T, s + 1, K), what is won behind a place that is shown
    trail: NDArray[np.float64]  # (T, s + 1, K), completions where nobody is shown
    ahead: NDArray[np.float64]  # (T, K), mass that comes to a place, the step's evidence included
    behind: NDArray[np.float64]  # (T, K), mass behind it
    light: NDArray[np.float64]  # (s + 1, K)
    more_light: NDArray[np.float64]  # (s + 1, K)
    forward: NDArray[np.float64]  # (T, s + 1, K), of a guess
    backward: NDArray[np.float64]  # (T, s + 1, K)
    moved: NDArray[np.float64]  # (K,)
    gains: NDArray[np.float64]  # of the search
    completions: Completions
    memory: SearchMemory


@jit
def _new_tree(window: Window, signals: OwnSignals, nodes: int) -> _Tree:
    """Memory for so many nodes."""
    steps, places, mistakes, count = window.steps, window.end.size, window.mistakes, signals.time.size
    return _Tree(
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(nodes),
        np.empty((nodes, count + places)),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.bool_),
        np.empty((nodes, steps), np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1),
        np.zeros((_POINTS, places)),
        np.empty((steps, places)),
        np.empty(count, np.bool_),
        np.empty((count, places), np.bool_),
        np.empty(count),
        np.empty((steps, places)),
        np.empty((steps, mistakes + 1, places)),
        np.empty((steps, mistakes + 1, places)),
        np.empty((steps, places)),
        np.empty((steps, places)),
        np.empty((mistakes + 1, places)),
        np.empty((mistakes + 1, places)),
        np.empty((steps, mistakes + 1, places)),
        np.empty((steps, mistakes + 1, places)),
        np.empty(places),
        new_gains(steps, mistakes, places),
        new_completions(mistakes, places),
        new_memory(window.person.chain, window.expansions, mistakes),
    )


@jit
def _lay_out(signals: OwnSignals, node: int, tree: _Tree) -> None:
    """The evidence of a node, and which sensors it resolves."""
    evidence = tree.evidence
    evidence[:] = 1.0
    tree.is_resolved[:] = False
    while tree.parent[node] >= 0:
        above = tree.parent[node]
        g = tree.sensor[above]
        t, theta = signals.time[g], signals.theta[g, tree.output[node]]
        for x in range(evidence.shape[1]):
            evidence[t, x] *= 2.0 * theta if signals.cover[g, x] else 2.0 * (1.0 - theta)
        tree.is_resolved[g] = True
        node = above


@jit
def _choose_sides(  # noqa: PLR0912 - one recursion over places
    window: Window, signals: OwnSignals, law: NDArray[np.float64], tree: _Tree
) -> float:
    """Of each sensor left the side where the person rarely is, and how likely places are shown; the mass."""
    person, chain, evidence = window.person, window.person.chain, tree.evidence
    steps, places = evidence.shape
    ahead, behind, moved = tree.ahead, tree.behind, tree.moved
    for x in range(places):
        ahead[0, x] = law[x] * evidence[0, x]
        behind[steps - 1, x] = window.end[x]
    for t in range(1, steps):
        predict(chain, slot_of(person, t - 1), ahead[t - 1], ahead[t])
        for x in range(places):
            ahead[t, x] *= evidence[t, x]
    for t in range(steps - 1, 0, -1):
        for x in range(places):
            moved[x] = behind[t, x] * evidence[t, x]
        retreat(chain, slot_of(person, t - 1), moved, behind[t - 1])
    mass = 0.0
    for x in range(places):
        mass += ahead[steps - 1, x] * window.end[x]
    tree.shown[:] = 1.0
    for g in range(signals.time.size):
        if tree.is_resolved[g]:
            continue
        t, counted = signals.time[g], 0.0
        for x in range(places):
            if signals.cover[g, x]:
                counted += ahead[t, x] * behind[t, x]
        tree.cost[g] = counted
        is_rarer = counted <= 0.5 * mass
        for x in range(places):
            tree.is_rare[g, x] = signals.cover[g, x] == is_rarer
            if tree.is_rare[g, x]:
                tree.shown[t, x] *= 1.0 + signals.distance[g]
    for t in range(steps):
        for x in range(places):
            tree.shown[t, x] -= 1.0
    return mass


@jit
def _first_step(law: NDArray[np.float64], evidence: NDArray[np.float64], won: NDArray[np.float64]) -> float:
    """What is won from the first guess on, ``won`` (s + 1, K) behind it with a genie's help."""
    m = won.shape[0] - 1
    total, top = 0.0, 0.0
    for x in range(law.size):
        mass = law[x] * evidence[0, x]
        less = won[m - 1, x] if m > 0 else 0.0
        total += mass * less
        top = max(top, mass * (won[m, x] - less))
    return total + top


@jit
def _bound_by_showing(  # noqa: PLR0912 - one recursion over places
    window: Window, signals: OwnSignals, law: NDArray[np.float64], slack: float, tree: _Tree
) -> tuple[float, float]:
    """What is won with a leaf's evidence if nobody is shown, and by those who are; costs of the sensors left.

    Whoever is shown at place ``y`` in step ``b``, and known to be shown there from the beginning, wins in the
    steps before what completions to ``y`` leave, and behind it ``success[b, y]``, which is known when all
    later targets have been followed back. Without a mistake the completions are largest products and exact.
    A target that is worth less than ``slack`` is charged in full.
    """
    person, chain, evidence, trail = window.person, window.person.chain, tree.evidence, tree.trail
    steps, places = evidence.shape
    rows, walk, success, light = window.mistakes + 1, tree.completions, tree.success, tree.light
    for m in range(rows):
        for x in range(places):
            trail[steps - 1, m, x] = window.end[x]
            light[m, x] = 0.0
    for t in range(steps - 1, 0, -1):
        for m in range(rows):
            for x in range(places):
                walk.value[m, x] = trail[t, m, x] * evidence[t, x]
        guess_and_be_shown(chain, slot_of(person, t - 1), Completions(walk.value, trail[t - 1], walk.top))
    success[:] = trail
    unshown, shown, followed = _first_step(law, evidence, trail[0]), 0.0, steps
    tree.cost[:] = 0.0
    for b in range(steps - 1, -1, -1):
        tree.more_light[:] = 0.0
        for m in range(rows):
            for x in range(places):
                success[b, m, x] += light[m, x]
        for y in range(places):
            if tree.shown[b, y] <= 0.0 or tree.ahead[b, y] <= 0.0:
                continue
            here = evidence[b, y] * tree.shown[b, y]
            if b == 0:
                first = law[y] * here * success[0, rows - 1, y]
            else:
                column = chain.column_start[slot_of(person, b - 1)]
                is_light = tree.ahead[b, y] * tree.shown[b, y] * success[b, rows - 1, y] <= slack
                before = tree.more_light if is_light else walk.before
                if not is_light:
                    before[:] = 0.0
                for m in range(rows):
                    for j in range(column[y], column[y + 1]):
                        before[m, chain.row[j]] += chain.value[j] * here * success[b, m, y]
                if is_light:
                    continue
                for t in range(b - 1, -1, -1):
                    for m in range(rows):
                        for x in range(places):
                            success[t, m, x] += before[m, x]
                            walk.value[m, x] = before[m, x] * evidence[t, x]
                    if t > 0:
                        guess_and_be_shown(chain, slot_of(person, t - 1), walk)
                followed += b
                first = _first_step(law, evidence, before)
            shown += first
            together = 0.0
            for g in range(signals.time.size):
                if signals.time[g] == b and not tree.is_resolved[g] and tree.is_rare[g, y]:
                    together += signals.distance[g]
            for g in range(signals.time.size):
                if signals.time[g] == b and not tree.is_resolved[g] and tree.is_rare[g, y]:
                    tree.cost[g] += first * signals.distance[g] / together
        for m in range(rows):
            if b == 0:
                break
            for x in range(places):
                walk.top[x] = light[m, x] * evidence[b, x]
            retreat(chain, slot_of(person, b - 1), walk.top, light[m])
            for x in range(places):
                light[m, x] += tree.more_light[m, x]
    for x in range(places):
        shown += law[x] * evidence[0, x] * light[rows - 1, x]
    tree.spent[0] += (followed + 3.0) * rows * chain.value.size / chain.start.shape[0]
    return unshown, shown


@jit
def _greedy_guess(window: Window, law: NDArray[np.float64], tree: _Tree, guess: NDArray[np.int64]) -> None:
    """The best guess without a mistake: the likeliest path (Viterbi)."""
    chain, evidence, trail = window.person.chain, tree.evidence, tree.trail
    best = 0.0
    guess[0] = 0
    for x in range(law.size):
        value = law[x] * evidence[0, x] * trail[0, 0, x]
        if value > best:
            best, guess[0] = value, x
    for t in range(1, guess.size):
        column, best = chain.column_start[slot_of(window.person, t - 1)], 0.0
        guess[t] = 0
        for y in range(law.size):
            ahead = evidence[t, y] * trail[t, 0, y]
            if ahead > 0.0:
                for j in range(column[y], column[y + 1]):
                    if chain.row[j] == guess[t - 1] and chain.value[j] * ahead > best:
                        best, guess[t] = chain.value[j] * ahead, y


@jit
def _won_by(window: Window, law: NDArray[np.float64], guess: NDArray[np.int64], tree: _Tree) -> float:
    """What a guess wins with a leaf's evidence; fills ``tree.forward``."""
    person, chain, mistakes = window.person, window.person.chain, window.mistakes
    evidence, forward, moved = tree.evidence, tree.forward, tree.moved
    steps, places = evidence.shape
    for m in range(mistakes + 1):
        for x in range(places):
            is_so = m == (0 if x == guess[0] else 1)
            forward[0, m, x] = law[x] * evidence[0, x] if is_so else 0.0
    for t in range(1, steps):
        slot = slot_of(person, t - 1)
        forward[t] = 0.0
        for m in range(mistakes + 1):
            predict(chain, slot, forward[t - 1, m], moved)
            for x in range(places):
                if x == guess[t]:
                    forward[t, m, x] += moved[x] * evidence[t, x]
                elif m < mistakes:
                    forward[t, m + 1, x] += moved[x] * evidence[t, x]
    won = 0.0
    for m in range(mistakes + 1):
        for x in range(places):
            won += forward[steps - 1, m, x] * window.end[x]
    tree.spent[0] += float(steps * (mistakes + 1)) * chain.value.size / chain.start.shape[0]
    return won


@jit
def _fill_parts(  # noqa: PLR0912 - one recursion over places
    window: Window, signals: OwnSignals, guess: NDArray[np.int64], part: NDArray[np.float64], tree: _Tree
) -> None:
    """``part`` (G + K,): of what the guess of :func:`_won_by` wins, that on counted paths; by first place."""
    person, chain, mistakes = window.person, window.person.chain, window.mistakes
    evidence, forward, backward, moved = tree.evidence, tree.forward, tree.backward, tree.moved
    steps, places = evidence.shape
    for m in range(mistakes + 1):
        for x in range(places):
            backward[steps - 1, m, x] = window.end[x]
    for t in range(steps - 1, 0, -1):
        for m in range(mistakes + 1):
            for x in range(places):
                if x == guess[t]:
                    moved[x] = backward[t, m, x] * evidence[t, x]
                else:
                    moved[x] = backward[t, m - 1, x] * evidence[t, x] if m > 0 else 0.0
            retreat(chain, slot_of(person, t - 1), moved, backward[t - 1, m])
    for g in range(signals.time.size):
        t, counted = signals.time[g], 0.0
        for x in range(places):
            if signals.cover[g, x]:
                for m in range(mistakes + 1):
                    counted += forward[t, m, x] * backward[t, mistakes - m, x]
        part[g] = counted
    for x in range(places):
        begun = 0.0
        for m in range(mistakes + 1):
            begun += forward[0, m, x] * backward[0, mistakes - m, x]
        part[signals.time.size + x] = begun
    tree.spent[0] += float(steps * (mistakes + 1)) * chain.value.size / chain.start.shape[0]


@jit
def _new_node(
    window: Window, signals: OwnSignals, root: int, parent: int, output: int, tolerance: float, tree: _Tree
) -> int:
    """A new leaf, bounded by what the sensors left may show at most."""
    n = tree.nodes[0]
    tree.nodes[0] = n + 1
    tree.parent[n], tree.root[n], tree.output[n] = parent, root, output
    tree.sensor[n] = tree.child[n] = tree.sibling[n] = tree.wanted[n] = tree.next_sensor[n] = -1
    tree.excess[n], tree.is_searched[n] = 0.0, window.mistakes == 0
    law, guess = tree.law[root], tree.guess[n]
    _lay_out(signals, n, tree)
    mass = _choose_sides(window, signals, law, tree)
    counted = tree.cost.copy()
    unshown, shown = _bound_by_showing(window, signals, law, _LIGHT * tolerance, tree)
    tree.unshown[n], tree.charge[n], tree.bound[n] = unshown, shown, min(mass, unshown + shown)
    most = 0.0
    for g in range(signals.time.size):
        if not tree.is_resolved[g] and tree.cost[g] > most:
            most, tree.next_sensor[n] = tree.cost[g], g
    if tree.next_sensor[n] >= 0 and mass > 0.0:
        tree.chance[n] = counted[tree.next_sensor[n]] / mass
    if window.mistakes == 0 or parent < 0:
        _greedy_guess(window, law, tree, guess)
        tree.won[n] = _won_by(window, law, guess, tree)
    else:
        guess[:] = tree.guess[parent]
        tree.won[n] = _won_by(window, law, guess, tree)
        if tree.newest[0] >= 0 and tree.newest[0] != parent:
            other = _won_by(window, law, tree.guess[tree.newest[0]], tree)
            if other > tree.won[n]:
                tree.won[n] = other
                guess[:] = tree.guess[tree.newest[0]]
            else:
                _won_by(window, law, guess, tree)
    _fill_parts(window, signals, guess, tree.part[n], tree)
    _find_leaf_gain(n, tree)
    return n


@jit
def _find_leaf_gain(n: int, tree: _Tree) -> None:
    """What a closer look at a leaf may gain; nothing if it has been searched and no sensor is left."""
    is_done = tree.is_searched[n] and tree.next_sensor[n] < 0
    gain = tree.bound[n] - tree.won[n]
    tree.gain[n] = 0.0 if is_done or gain <= _ROUNDING else gain


@jit
def _search_leaf(window: Window, signals: OwnSignals, n: int, tolerance: float, tree: _Tree) -> None:
    """Bound what is won where nobody is shown by a search instead of completions."""
    law, trail = tree.law[tree.root[n]], tree.trail
    _lay_out(signals, n, tree)
    steps, places = tree.evidence.shape
    rows, walk, person = window.mistakes + 1, tree.completions, window.person
    for m in range(rows):
        for x in range(places):
            trail[steps - 1, m, x] = window.end[x]
    for t in range(steps - 1, -1, -1):
        gains_of(trail[t], tree.gains[t])
        if t > 0:
            for m in range(rows):
                for x in range(places):
                    walk.value[m, x] = trail[t, m, x] * tree.evidence[t, x]
            guess_and_be_shown(
                person.chain, slot_of(person, t - 1), Completions(walk.value, trail[t - 1], walk.top)
            )
    slack = max(_SLACK * tree.charge[n], _SLACK * (tree.unshown[n] - tree.won[n]), 0.2 * tolerance)
    before = tree.memory.spent[0]
    found = search(
        person,
        tree.evidence,
        law,
        0,
        steps - 1,
        tree.gains,
        window.mistakes,
        window.expansions,
        slack,
        tree.memory,
    )
    moves = person.chain.value.size / person.chain.start.shape[0]
    tree.spent[0] += (tree.memory.spent[0] - before + steps) * rows * moves
    tree.is_searched[n] = found.bound - found.attained > slack or slack <= 0.2 * tolerance
    if found.bound < tree.unshown[n]:
        tree.bound[n] = min(tree.bound[n], found.bound + tree.charge[n])
        tree.unshown[n] = found.bound
    if found.parent >= 0 and found.attained > tree.won[n]:
        found_guess(tree.memory, found, tree.guess[n])
        tree.won[n] = _won_by(window, law, tree.guess[n], tree)
        _fill_parts(window, signals, tree.guess[n], tree.part[n], tree)
    tree.newest[0] = n
    _find_leaf_gain(n, tree)


@jit
def _line(signals: OwnSignals, g: int, child: int, theta: float, tree: _Tree) -> float:
    """What the best guess of a kept output wins at another ``theta``."""
    own, won, part = signals.theta[g, tree.output[child]], tree.won[child], tree.part[child, g]
    total = 0.0
    if own < 1.0:
        total += (won - part) * (1.0 - theta) / (1.0 - own)
    if own > 0.0:
        total += part * theta / own
    return total


@jit
def _combine(signals: OwnSignals, n: int, tree: _Tree) -> None:
    """A node's bound, an estimate of what is won, and which output would be kept next, from its children."""
    g = tree.sensor[n]
    theta, weight = signals.theta[g], signals.weight[g]
    child = tree.child[n]
    while child >= 0:
        tree.share[child] = weight[tree.output[child]]
        child = tree.sibling[child]
    tree.excess[n], tree.wanted[n] = 0.0, -1
    excess, low = 0.0, tree.child[n]
    high = tree.sibling[low]
    while high >= 0:
        first, last = tree.output[low], tree.output[high]
        width, inside, worst, which = theta[last] - theta[first], 0.0, 0.0, -1
        for o in range(first + 1, last):
            above = (theta[o] - theta[first]) / width
            tree.share[high] += weight[o] * above
            tree.share[low] += weight[o] * (1.0 - above)
            chord = tree.won[low] * (1.0 - above) + tree.won[high] * above
            line = max(_line(signals, g, low, theta[o], tree), _line(signals, g, high, theta[o], tree))
            more = max(0.0, chord - line)
            inside += weight[o] * more
            if np.sqrt(weight[o]) * more > worst:
                worst, which = np.sqrt(weight[o]) * more, o
        excess += inside
        if which >= 0 and inside > tree.excess[n]:
            tree.excess[n], tree.wanted[n] = inside, which
        low, high = high, tree.sibling[high]
    bound = together = 0.0
    gain = tree.excess[n]
    tree.part[n] = 0.0
    child = tree.child[n]
    while child >= 0:
        share = tree.share[child]
        bound += share * tree.bound[child]
        together += share * tree.won[child]
        gain = max(gain, share * tree.gain[child])
        for j in range(tree.part.shape[1]):
            tree.part[n, j] += share * tree.part[child, j]
        child = tree.sibling[child]
    won = max(0.0, together - excess)
    if together > 0.0:
        for j in range(tree.part.shape[1]):
            tree.part[n, j] *= won / together
    tree.bound[n] = min(tree.bound[n], bound)
    tree.won[n], tree.gain[n] = won, gain


@jit
def _keep(window: Window, signals: OwnSignals, n: int, o: int, tolerance: float, tree: _Tree) -> None:
    """Keep one more output of a node's sensor; between two that are kept it is no more than their chord."""
    g = tree.sensor[n]
    before, after = -1, tree.child[n]
    while after >= 0 and tree.output[after] < o:
        before, after = after, tree.sibling[after]
    new = _new_node(window, signals, tree.root[n], n, o, tolerance, tree)
    if before >= 0 and after >= 0:
        theta = signals.theta[g]
        low, high = theta[tree.output[before]], theta[tree.output[after]]
        above = (theta[o] - low) / (high - low)
        chord = tree.bound[before] * (1.0 - above) + tree.bound[after] * above
        tree.bound[new] = min(tree.bound[new], chord)
        _find_leaf_gain(new, tree)
    tree.sibling[new] = after
    if before >= 0:
        tree.sibling[before] = new
    else:
        tree.child[n] = new


@jit
def _resolve(window: Window, signals: OwnSignals, n: int, tolerance: float, tree: _Tree) -> None:
    """Resolve one more sensor behind a leaf: its outermost outputs, and those beyond which is little."""
    g = tree.next_sensor[n]
    tree.sensor[n] = g
    size, weight, chance = signals.size[g], signals.weight[g], tree.chance[n]
    most = _BEYOND_FLAT if signals.distance[g] < _FLAT else _BEYOND
    lower, total = 0, weight[0]
    while lower < size - 1 and total < most:
        lower += 1
        total += weight[lower]
    upper, total = size - 1, weight[size - 1]
    while upper > 0 and total < most:
        upper -= 1
        total += weight[upper]
    for o in range(size):
        is_first = o == 0 or o == size - 1 or (o == lower and chance > 0.3) or (o == upper and chance < 0.7)
        if is_first:
            _keep(window, signals, n, o, tolerance, tree)


@jit
def _grow(window: Window, signals: OwnSignals, root: int, gap: float, tolerance: float, tree: _Tree) -> None:
    """Grow one law's tree until bound and won are within ``gap``, where a closer look gains most first."""
    while tree.bound[root] - tree.won[root] > gap and tree.gain[root] > 0.0:
        is_full = tree.nodes[0] + _FIRST_CHILDREN > tree.parent.size
        if is_full or tree.spent[0] > window.operations:
            break
        allowed = max(tolerance, 0.1 * (tree.bound[root] - tree.won[root]))
        n = root
        while tree.sensor[n] >= 0:
            most, chosen, child = tree.excess[n], -1, tree.child[n]
            while child >= 0:
                if tree.share[child] * tree.gain[child] > most:
                    most, chosen = tree.share[child] * tree.gain[child], child
                child = tree.sibling[child]
            if chosen < 0:
                break
            n = chosen
        if tree.sensor[n] >= 0:
            if tree.wanted[n] < 0:
                break
            _keep(window, signals, n, tree.wanted[n], allowed, tree)
            _combine(signals, n, tree)
        elif not tree.is_searched[n] and (
            tree.next_sensor[n] < 0 or tree.unshown[n] - tree.won[n] > tree.charge[n]
        ):
            _search_leaf(window, signals, n, allowed, tree)
        else:
            _resolve(window, signals, n, allowed, tree)
            _combine(signals, n, tree)
        n = tree.parent[n]
        while n >= 0:
            _combine(signals, n, tree)
            n = tree.parent[n]


# Several laws of the first place, as a history leaves them: what is won behind each is bounded by a few.
#
# ``f <= sum_j l_j c_j + sum_x r_x delta_x`` with ``l, r >= 0`` gives ``V(f) <= sum_j l_j V(c_j) + sum_x r_x
# V(delta_x)``: the least such sum is a linear programme of a row for each place.


@jit
def least_cover(  # noqa: PLR0912 - one recursion over places
    law: NDArray[np.float64],
    points: NDArray[np.float64],
    count: int,
    point_cost: NDArray[np.float64],
    corner_cost: NDArray[np.float64],
    tableau: NDArray[np.float64],
    basis: NDArray[np.int64],
    amount: NDArray[np.float64],
) -> None:
    """Cover ``law`` (K,) by the first ``count`` points and the corners at the least cost.

    ``amount`` (P + K,) becomes how much of each, the corners last. Whatever the pivots have come to, the
    corners make up what the points leave, so that the law is covered; what rounding covers twice is no harm.
    ``tableau`` (K, P + K + 1) and ``basis`` (K,) are memory. The simplex method, begun from the corners
    alone; the column with the largest gain enters (Dantzig).
    """
    places, most = law.size, points.shape[0]
    mass = law.sum()
    for x in range(places):
        for j in range(count):
            tableau[x, j] = points[j, x]
        for y in range(places):
            tableau[x, most + y] = 1.0 if x == y else 0.0
        tableau[x, most + places] = law[x] / mass
        basis[x] = most + x
    for _ in range(4 * places):
        enters, gain = -1, 1e-12
        for j in range(count + places):
            column = j if j < count else most + j - count
            saved = -(point_cost[j] if j < count else corner_cost[j - count])
            for x in range(places):
                if tableau[x, column] != 0.0:
                    cost = point_cost[basis[x]] if basis[x] < most else corner_cost[basis[x] - most]
                    saved += tableau[x, column] * cost
            if saved > gain:
                enters, gain = column, saved
        leaves, least = -1, np.inf
        if enters >= 0:
            for x in range(places):
                if tableau[x, enters] > 1e-9:
                    ratio = max(0.0, tableau[x, most + places]) / tableau[x, enters]
                    if ratio < least - 1e-12 or (
                        ratio < least + 1e-12 and tableau[x, enters] > tableau[leaves, enters]
                    ):
                        leaves, least = x, ratio
        if leaves < 0:
            break
        pivot = tableau[leaves, enters]
        for j in range(most + places + 1):
            if j < count or j >= most:
                tableau[leaves, j] /= pivot
        for x in range(places):
            factor = tableau[x, enters]
            if x != leaves and factor != 0.0:
                for j in range(most + places + 1):
                    if j < count or j >= most:
                        tableau[x, j] -= factor * tableau[leaves, j]
        basis[leaves] = enters
    amount[:] = 0.0
    for x in range(places):
        if basis[x] < most:
            amount[basis[x]] = max(0.0, tableau[x, most + places]) * mass
    fits = 1.0
    for x in range(places):
        covered = 0.0
        for j in range(count):
            covered += amount[j] * points[j, x]
        if covered > law[x] + 1e-9 * mass:
            fits = min(fits, law[x] / covered)
    for j in range(count):
        amount[j] *= fits
    for x in range(places):
        left = law[x]
        for j in range(count):
            left -= amount[j] * points[j, x]
        amount[most + x] = max(0.0, left)


class _Cover(NamedTuple):
    """Memory of covers."""

    tableau: NDArray[np.float64]  # (K, P + K + 1)
    basis: NDArray[np.int64]  # (K,)
    amount: NDArray[np.float64]  # (P + K,)
    point_cost: NDArray[np.float64]  # (P,)
    corner_cost: NDArray[np.float64]  # (K,)


@jit
def _new_cover(points: int, places: int) -> _Cover:
    return _Cover(
        np.zeros((places, points + places + 1)),
        np.zeros(places, np.int64),
        np.zeros(points + places),
        np.zeros(points),
        np.zeros(places),
    )


@jit
def _thinned(  # noqa: PLR0912 - one recursion over places
    laws: NDArray[np.float64], count: int, most: int, marginal: NDArray[np.float64], cover: _Cover
) -> int:
    """Keep ``most`` of the laws, the farthest from each other first; these and corners cover the others.

    How many there are then; a corner is a law of its own.
    """
    places = laws.shape[1]
    kept = 0
    for i in range(count):
        mass = laws[i].sum()
        if mass > 0.0:
            laws[kept] = laws[i]
            kept += 1
    count = kept
    if count <= most:
        return count
    away, mass = np.full(count, np.inf), np.empty(count)
    for i in range(count):
        mass[i] = laws[i].sum()
    # the heaviest, then always the one farthest from those kept, by mass times chi-square distance
    chosen = 0
    for i in range(count):
        if mass[i] > mass[chosen]:
            chosen = i
    for k in range(most):
        for x in range(places):
            laws[k, x], laws[chosen, x] = laws[chosen, x], laws[k, x]
        mass[k], mass[chosen] = mass[chosen], mass[k]
        away[k], away[chosen] = away[chosen], away[k]
        chosen = -1
        farthest = -1.0
        for i in range(k + 1, count):
            distance = 0.0
            for x in range(places):
                distance += (laws[i, x] / mass[i] - laws[k, x] / mass[k]) ** 2 / marginal[x]
            away[i] = min(away[i], mass[i] * distance)
            if away[i] > farthest:
                chosen, farthest = i, away[i]
        if chosen < 0:
            break
    points, left = np.empty((most, places)), np.zeros(places)
    more = np.zeros(most)
    for k in range(most):
        cover.point_cost[k] = 0.0
        for x in range(places):
            points[k, x] = laws[k, x] / mass[k]
            cover.point_cost[k] += points[k, x] ** 2 / marginal[x]
    for x in range(places):
        cover.corner_cost[x] = 1.0 / marginal[x]
    for i in range(most, count):
        least_cover(
            laws[i],
            points,
            most,
            cover.point_cost,
            cover.corner_cost,
            cover.tableau,
            cover.basis,
            cover.amount,
        )
        for k in range(most):
            more[k] += cover.amount[k]
        for x in range(places):
            left[x] += cover.amount[most + x]
    for k in range(most):
        for x in range(places):
            laws[k, x] += more[k] * points[k, x]
    count = most
    for x in range(places):
        if left[x] > 0.0:
            laws[count] = 0.0
            laws[count, x] = left[x]
            count += 1
    return count


@jit
def history_laws(
    person: LocalChain,
    signals: OwnSignals,
    laws: NDArray[np.float64],
    steps: int,
    marginal: NDArray[np.float64],
    most: int,
) -> NDArray[np.float64]:
    """Laws (R, K) of the place after ``steps`` steps; what is won behind all outcomes is at most their sum.

    ``laws`` are those before the first; ``signals`` in the order of time, with few outputs each; ``marginal``
    (T, K). At most ``most`` laws, and one for each place that they do not cover.
    """
    places = laws.shape[1]
    outputs = max(2, signals.theta.shape[1])
    space = np.zeros(((most + 2 * places) * outputs + places, places))
    count = laws.shape[0]
    space[:count] = laws
    moved, near = np.empty(places), np.empty(places)
    cover = _new_cover(most, places)
    g = 0
    for t in range(steps):
        for x in range(places):
            near[x] = max(marginal[t, x], 1e-3)
        while g < signals.time.size and signals.time[g] == t:
            for o in range(signals.size[g] - 1, -1, -1):
                for i in range(count):
                    for x in range(places):
                        theta = signals.theta[g, o] if signals.cover[g, x] else 1.0 - signals.theta[g, o]
                        space[o * count + i, x] = space[i, x] * (2.0 * signals.weight[g, o] * theta)
            count = _thinned(space, count * signals.size[g], most, near, cover)
            g += 1
        for i in range(count):
            predict(person.chain, slot_of(person, t), space[i], moved)
            space[i] = moved
    for x in range(places):
        near[x] = max(1e-3, space[:count, x].sum())
    count = _thinned(space, count, most, near, cover)
    return space[:count].copy()


@jit
def _cover_law(law: NDArray[np.float64], points: NDArray[np.float64], count: int, cover: _Cover) -> float:
    """Cost of the least cover of a law, which ``cover.amount`` becomes."""
    costs = cover.point_cost, cover.corner_cost
    least_cover(law, points, count, costs[0], costs[1], cover.tableau, cover.basis, cover.amount)
    total, most = 0.0, points.shape[0]
    for k in range(count):
        total += cover.amount[k] * cover.point_cost[k]
    for x in range(law.size):
        total += cover.amount[most + x] * cover.corner_cost[x]
    return total


@jit
def _new_root(
    window: Window, signals: OwnSignals, law: NDArray[np.float64], root: int, tolerance: float, tree: _Tree
) -> int:
    """The tree of one more law, whose mass becomes 1."""
    tree.law[root] = law / law.sum()
    tree.newest[0] = -1
    return _new_node(window, signals, root, -1, -1, tolerance, tree)


@jit
def sandwich_success(  # noqa: PLR0912, PLR0915 - one loop of bound and look again
    window: Window, signals: OwnSignals, laws: NDArray[np.float64], precision: float, close: float, nodes: int
) -> tuple[float, float, float]:
    """Bound on what anybody wins, an estimate of what is attained, and the products that it took.

    ``laws`` (R, K) are those of the first place. Refined until the bound is at most ``close`` above what is
    attained, or ``precision`` times what is attained beyond a guess without counts; or until operations or
    nodes are used up.
    """
    count, places = laws.shape
    tree = _new_tree(window, signals, nodes)
    most_points = places + _POINTS  # the first ones take away from a place what others cover in excess
    cover = _new_cover(most_points, places)  # the least by what is bounded
    hoped = _new_cover(most_points, places)  # by what is won: what will be used once all is looked at
    points = np.zeros((most_points, places))
    for x in range(places):
        points[x, x] = -1.0
    offset = signals.time.size
    roots = np.empty(_POINTS, np.int64)
    of_corner, is_point = np.full(places, -1), np.zeros(count, np.bool_)
    is_grown = np.zeros(_POINTS, np.bool_)
    used, corner_used = np.empty(_POINTS), np.empty(places)
    mean = np.empty(places)
    for x in range(places):
        mean[x] = laws[:, x].sum()
    roots[0] = _new_root(window, signals, mean, 0, close, tree)
    for x in range(places):  # whoever is known to be there at first: what was computed on the way
        cover.corner_cost[x] = min(1.0, tree.success[0, window.mistakes, x])
        hoped.corner_cost[x] = _CORNER * cover.corner_cost[x]
    trees, least, attained, tolerance, guess = 1, 1.0, 0.0, close, tree.won[roots[0]]
    _grow(window, signals, roots[0], 0.5 * (tree.bound[roots[0]] - tree.won[roots[0]]), tolerance, tree)
    while True:
        for k in range(trees):
            number = places + k
            points[number] = tree.law[k]
            cover.point_cost[number], hoped.point_cost[number] = tree.bound[roots[k]], tree.won[roots[k]]
        for x in range(places):
            if of_corner[x] >= 0:
                cover.corner_cost[x] = cover.point_cost[places + of_corner[x]]
                hoped.corner_cost[x] = hoped.point_cost[places + of_corner[x]]
        used[:], corner_used[:] = 0.0, 0.0
        total, most, law, law_gap, attained = 0.0, 0.0, -1, 0.0, 0.0
        for i in range(count):
            value = _cover_law(laws[i], points, places + trees, cover)
            known, lower = _cover_law(laws[i], points, places + trees, hoped), 0.0
            for k in range(trees):
                used[k] += hoped.amount[places + k]
                own = 0.0
                for x in range(places):
                    if tree.law[k, x] > 0.0:
                        own += laws[i, x] * tree.part[roots[k], offset + x] / tree.law[k, x]
                lower = max(lower, own)
            for x in range(places):
                corner_used[x] += hoped.amount[most_points + x]
                if of_corner[x] >= 0:
                    used[of_corner[x]] += hoped.amount[most_points + x]
            total += value
            attained += lower
            if not is_point[i] and known - lower > most:
                most, law, law_gap = known - lower, i, 0.5 * (value - lower) / laws[i].sum()
        least = min(least, total)
        wanted = max(precision * (attained - guess), close)
        is_full = tree.nodes[0] + _FIRST_CHILDREN > tree.parent.size
        if least - attained <= wanted or is_full or tree.spent[0] > window.operations:
            break
        tolerance = wanted
        chosen = corner = -1
        most *= _SOON
        for k in range(trees):
            gain = (
                used[k] * (tree.bound[roots[k]] - tree.won[roots[k]])
                if tree.gain[roots[k]] > 0.0 and not is_grown[k]
                else 0.0
            )
            if gain > most:
                most, chosen, law = gain, k, -1
        if trees < _POINTS:
            for x in range(places):
                gain = (1.0 - _CORNER) * corner_used[x] * cover.corner_cost[x]
                if of_corner[x] < 0 and gain > most:
                    most, corner, chosen, law = gain, x, -1, -1
        if chosen >= 0:
            gap = tree.bound[roots[chosen]] - tree.won[roots[chosen]]
            before = tree.spent[0]
            _grow(window, signals, roots[chosen], _CLOSER * gap, tolerance, tree)
            is_grown[chosen] = tree.spent[0] == before
        elif corner >= 0:
            mean[:] = 0.0
            mean[corner] = 1.0
            of_corner[corner] = trees
            roots[trees] = _new_root(window, signals, mean, trees, tolerance, tree)
            trees += 1
        elif law >= 0 and trees < _POINTS:
            is_point[law] = True
            roots[trees] = _new_root(window, signals, laws[law], trees, tolerance, tree)
            _grow(window, signals, roots[trees], law_gap, tolerance, tree)
            trees += 1
        else:
            break
    return min(1.0, least * (1.0 + _ROUNDING)), attained, tree.spent[0]
